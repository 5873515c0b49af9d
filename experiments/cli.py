"""weir-experiment: the command."""

import argparse
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments import bench, demo, runner, soak
from experiments.schemes import SCHEMES
from experiments.workloads.reader import IncastSpec
from testbed.config import HostSettings
from testbed.isolation import IsolationError
from testbed.ovs import OvsError, find_prefix

# The window scale follows from it, and with it how finely a window can be set: 7 here; 10 with the
# 32 MiB that Linux 6.18 has by default, where a window of one segment rounds up to 2048 bytes.
_RECEIVE_BUFFER_BYTES = 6 * 2**20

_DESCRIPTION = """\
Emulates many-to-one (incast) traffic: real Linux TCP in network namespaces, the patched
Open vSwitch, and the real controller. Each run is a world of its own; however it ends,
nothing of it stays on the machine. Needs root.
"""

_DEMO = """\
Runs the same reads twice, over plain Reno and over Weir: a long background flow from the
beginning; after a warm-up a client reads blocks, each divided over all senders, which all
answer at once; then the background flow alone again. The bottleneck has a 64 KiB buffer.

Prints a table and whether the runs were valid, and writes into --out:
  demo.png        goodput over time, and the bottleneck's queue with its notices
  summary.json    the same as figures, flat
  reno/, weir/    what was recorded: record.json, queue.npz, logs

exit status: 0 valid, 1 failed, 2 wrong usage, 3 not valid, 130 interrupted
"""

_EXAMPLES = """\
examples:
  weir-experiment demo                          the demonstration, about a minute
  weir-experiment demo --senders 8 --rounds 20  a smaller one
  weir-experiment demo --json | jq '."weir.goodput_mbps"'
  weir-experiment run --scheme sdtcp --out build/sdtcp   one scheme alone
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    args = _parser().parse_args(argv)
    try:
        status = args.handler(args)
    except ValueError as wrong:
        print(f"weir-experiment: {wrong}", file=sys.stderr)
        return 2
    except (IsolationError, OvsError) as missing:
        print(f"weir-experiment: {missing}", file=sys.stderr)
        return 1
    if status in (130, 143):
        print("weir-experiment: interrupted; nothing is left behind", file=sys.stderr)
    return status


def _demo(args: argparse.Namespace) -> int:
    return demo.demo(_spec(args), args.out, as_json=args.json)


def _run(args: argparse.Namespace) -> int:
    return runner.run(_spec(args), args.out)


def _bench(args: argparse.Namespace) -> int:
    groups = bench.SUITES[args.suite]
    unknown = [group for group in args.only if group not in groups]
    if unknown:
        raise ValueError(f"--only {unknown[0]}: {args.suite} has {', '.join(groups)}")
    return bench.run(args.suite, args.only, args.out or Path(f"build/bench/{args.suite}.json"))


def _soak(args: argparse.Namespace) -> int:
    if args.minutes <= 0:
        raise ValueError(f"--minutes must be more than 0, not {args.minutes:g}")
    seed = secrets.randbits(32) if args.seed is None else args.seed
    return soak.run(soak.SoakSpec(str(find_prefix(args.ovs)), args.minutes, seed), args.out)


def _parser() -> argparse.ArgumentParser:
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "weir-experiment", description=_DESCRIPTION, epilog=_EXAMPLES, formatter_class=style
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    shown = commands.add_parser(
        "demo", help="Reno and Weir side by side", description=_DEMO, formatter_class=style
    )
    shown.add_argument("--json", action="store_true", help="print summary.json and no table")
    shown.set_defaults(scheme="weir")
    single = commands.add_parser("run", help="one scheme alone, recorded in --out")
    single.add_argument("--scheme", choices=SCHEMES, required=True)
    shown.set_defaults(handler=_demo)
    single.set_defaults(handler=_run)
    for command, out in ((shown, "build/demo"), (single, "build/run")):
        _add_options(command, Path(out))
    _add_bench(
        commands.add_parser(
            "bench", help="figures of the switch or the controller: a table and flat JSON"
        )
    )
    _add_soak(commands.add_parser("soak", help="a sanitized switch under random changes"))
    return parser


def _add_bench(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("suite", choices=bench.SUITES)
    add("--only", action="append", default=[], metavar="NAME", help="one group of the suite")
    add("--out", type=Path, metavar="FILE", help="(default build/bench/SUITE.json)")
    command.set_defaults(handler=_bench)


def _add_soak(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--minutes", type=float, default=30, help="(default %(default)g)")
    add("--seed", type=int, help="decides the order of changes (default: drawn, and printed)")
    add("--out", type=Path, default=Path("build/soak"), metavar="DIR", help="(default %(default)s)")
    add("--ovs", metavar="PREFIX", help="what ovs-patches/build --sanitize has built")
    command.set_defaults(handler=_soak)


def _add_options(command: argparse.ArgumentParser, out: Path) -> None:
    add = command.add_argument
    add("--senders", type=int, default=32, help="hosts that answer (default %(default)s)")
    add("--rounds", type=int, default=30, help="blocks to be read (default %(default)s)")
    add(
        "--block", type=int, default=1_000_000, metavar="BYTES",
        help="size of a block, divided over all senders (default %(default)s)",
    )  # fmt: skip
    add("--seed", type=int, default=1, help="draws the order of requests (default %(default)s)")
    add(
        "--topology", choices=("fig8", "star"), default="fig8",
        help="fig8: two switches as in the paper's Figure 8; star: one (default %(default)s)",
    )  # fmt: skip
    add(
        "--receive-buffer", type=int, default=_RECEIVE_BUFFER_BYTES, metavar="BYTES",
        help="largest receive buffer of the hosts, from which their window scale follows; "
        "0 leaves this kernel's own (default %(default)s: scale 7)",
    )  # fmt: skip
    add("--out", type=Path, default=out, metavar="DIR", help="where to write (default %(default)s)")
    add(
        "--ovs", metavar="PREFIX",
        help="the patched switch (default: $WEIR_OVS_PREFIX, else the newest that was built)",
    )  # fmt: skip


def _spec(args: argparse.Namespace) -> runner.RunSpec:
    incast = IncastSpec(
        senders=args.senders, rounds=args.rounds, block_bytes=args.block, seed=args.seed
    )
    if args.receive_buffer < 0:
        raise ValueError(f"--receive-buffer must be 0 or more bytes, not {args.receive_buffer}")
    return runner.RunSpec(
        scheme=args.scheme,
        incast=incast,
        topology=args.topology,
        host=HostSettings(rmem_max_bytes=args.receive_buffer or None),
        ovs_prefix=args.ovs,
    )


if __name__ == "__main__":
    sys.exit(main())
