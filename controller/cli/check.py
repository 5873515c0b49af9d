"""`weir-controller check`: finds everything that is wrong with a configuration before its use."""

import argparse
import json
import sys
from pathlib import Path

VALID, INVALID, UNREADABLE = 0, 1, 2


def check(options: argparse.Namespace) -> int:
    """Status 0: valid, 1: not, 2: the file cannot be read."""
    from controller.config import files
    from controller.config.schema import ConfigError, load

    file: Path = options.file
    problems: tuple[str, ...] = ()
    try:
        with file.open("rb") as opened:
            opened.read(1)
    except OSError as error:
        print(f"weir-controller: {file}: {error.strerror}", file=sys.stderr)
        return UNREADABLE
    try:
        files.check(load(file))
    except ConfigError as error:
        problems = tuple(problem.removeprefix(f"{file}: ") for problem in error.problems)
    if options.json:
        print(json.dumps({"file": str(file), "valid": not problems, "problems": problems}))
    elif problems:
        for problem in problems:
            print(f"{file}: {problem}")
    else:
        print(f"{file} is valid")
    return INVALID if problems else VALID
