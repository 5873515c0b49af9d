"""What all soaks do as the first process of their sandbox: read the command line, report."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from experiments.soak import SUMMARY
from testbed import sandbox

_Spec = TypeVar("_Spec")


def say(line: str) -> None:
    """Report progress."""
    print(f"soak: {line}", file=sys.stderr, flush=True)


def run(kind: Callable[..., _Spec], soak: Callable[[_Spec, Path], list[str]]) -> int:
    """Soak as the command line says, where ``soak`` returns what it has found; the exit status."""
    sandbox.become_first_process()
    parser = argparse.ArgumentParser()
    parser.add_argument("--spec", type=json.loads, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    faults = soak(kind(**args.spec), args.out)
    for fault in faults:
        say(f"FAULT: {fault}")
    say(f"{'failed' if faults else 'nothing found'}; {args.out / SUMMARY}")
    return 1 if faults else 0
