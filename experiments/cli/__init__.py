"""weir-experiment: the command, a module for each of its commands."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from controller.cli.arguments import Parser
from experiments.traffic.fountain import FountainError
from testbed.dctcp import DctcpError
from testbed.ovs import OvsError
from testbed.registry import EXTENSIONS
from testbed.sandbox import SandboxError

_DESCRIPTION = """\
Emulates many-to-one (incast) traffic: real Linux TCP in network namespaces, the patched
Open vSwitch, and the real controller. Each run is a sandbox of its own; however it ends,
nothing of it stays on the machine. Needs root.
"""

_EXAMPLES = """\
examples:
  weir-experiment demo                          the demonstration, about two minutes
  weir-experiment demo --senders 8 --rounds 20  a smaller one
  weir-experiment list                          the papers' figures, and whether their claims hold
  weir-experiment run sdtcp-fig9 --quick        a part of one of them, in minutes
  weir-experiment report                        the page of all, from what is kept beside them
  weir-experiment demo --json | jq '."n32.weir.goodput_mbps"'
  weir-experiment run --scheme sdtcp --out build/sdtcp   one run, its result, its record
  weir-experiment report build/sdtcp build/demo          tables and pictures of records
  weir-experiment compare build/figures/A build/figures/B   differences, with bands
  weir-experiment export build/figures/sdtcp-fig9        all values as CSV and Parquet
  weir-experiment bench incast --quick --help            what a benchmark measures
"""


_WITH = "--with"


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    try:
        _extend(sys.argv[1:] if argv is None else argv)
        args = _parser().parse_args(argv)
        status: int = args.handler(args)
    except ValueError as wrong:
        print(f"weir-experiment: {wrong}", file=sys.stderr)
        return 2
    except (DctcpError, FountainError, SandboxError, OvsError) as missing:
        print(f"weir-experiment: {missing}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        status = 130
    if status in (130, 143):
        print("weir-experiment: interrupted; nothing is left behind", file=sys.stderr)
    return status


def _extend(argv: Sequence[str]) -> None:
    """Have this process, and those that it starts, read the files of --with: what they add is part
    of what the parser knows, so they are looked for before there is one."""
    named = []
    words = iter(argv)
    for word in words:
        option, _, value = word.partition("=")
        if option != _WITH:
            break
        named.append(str(Path(value or next(words, "")).resolve()))
    if named:
        there = filter(None, [os.environ.get(EXTENSIONS)])
        os.environ[EXTENSIONS] = os.pathsep.join([*there, *named])


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "weir-experiment",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        _WITH, dest="extensions", type=Path, action="append", default=[], metavar="FILE",
        help="a scheme, workload, topology or benchmark of one's own, or a folder of them "
        "(docs/extending.md); may be given several times, before the command; the same as "
        f"{EXTENSIONS}",
    )  # fmt: skip
    # Their help has what is registered, from outside the tree, too: not before that is known.
    from experiments.cli import bench, dashboard, data, demo, figures, report, run, soak

    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (
        demo.add, figures.add_list, run.add, report.add, data.add_compare, data.add_export,
        data.add_plot, figures.add_keep, bench.add, dashboard.add, soak.add,
    ):  # fmt: skip
        add(commands)
    return parser
