"""weir-experiment: the command."""

import argparse
import secrets
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments import demo, runner, soak
from experiments.bench import measuring
from experiments.bench.suites import SUITES
from experiments.schemes import over_tcp
from experiments.workloads.reads import Reads
from testbed.config import HostSettings
from testbed.dctcp import DctcpError
from testbed.isolation import IsolationError
from testbed.ovs import OvsError, find_prefix

_DESCRIPTION = """\
Emulates many-to-one (incast) traffic: real Linux TCP in network namespaces, the patched
Open vSwitch, and the real controller. Each run is a world of its own; however it ends,
nothing of it stays on the machine. Needs root.
"""

_DEMO = """\
Runs the same reads over plain Reno, over DCTCP and over Weir: a client reads blocks, each
divided over all senders, which all answer at once, through a 64 KiB buffer.
  n32     32 senders. A long background flow from the beginning; after a warm-up the reads;
          then the background flow alone again
  n120    120 connections, 3 to each of 40 senders, and nothing else
--senders N has one with N senders and the background flow instead.

Prints a table and whether the runs were valid, and writes into --out:
  demo.png        goodput over time, and the bottleneck's queue with its notices
  summary.json    the same as figures, flat
  n32/reno/, ...  what was recorded: record.json, queue.npz, logs

exit status: 0 valid, 1 failed, 2 wrong usage, 3 not valid, 130 interrupted
"""

_BENCH = """\
Measures a suite, group by group, each in a world of its own; prints a table, and writes a flat
JSON object of figures. 'bench SUITE --help' says what a suite has.
"""

_BENCH_END = """\
exit status: 0 measured, 1 a group or a part of it failed, 2 wrong usage, 130 interrupted
"""

_EXAMPLES = """\
examples:
  weir-experiment demo                          the demonstration, about two minutes
  weir-experiment demo --senders 8 --rounds 20  a smaller one
  weir-experiment demo --json | jq '."n32.weir.goodput_mbps"'
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
    except (DctcpError, IsolationError, OvsError) as missing:
        print(f"weir-experiment: {missing}", file=sys.stderr)
        return 1
    if status in (130, 143):
        print("weir-experiment: interrupted; nothing is left behind", file=sys.stderr)
    return status


def _demo(args: argparse.Namespace) -> int:
    if args.senders is None:
        many = {"senders": 40, "connections_per_sender": 3}
        specs = {
            "n32": _spec(args, senders=32),
            "n120": replace(_spec(args, **many), topology="star", background=False),
        }
    else:
        specs = {f"n{args.senders}": _spec(args, senders=args.senders)}
    return demo.demo(specs, args.out, as_json=args.json)


def _run(args: argparse.Namespace) -> int:
    sizes = {"senders": args.senders, "connections_per_sender": args.connections_per_sender}
    spec = replace(_spec(args, **sizes), background=args.background)
    host = replace(spec.host, **_host_changes(args))
    return runner.run(replace(spec, host=host), args.out)


def _bench(args: argparse.Namespace) -> int:
    groups = SUITES[args.suite].groups
    unknown = [group for group in args.only if group not in groups]
    if unknown:
        raise ValueError(f"--only {unknown[0]}: {args.suite} has {', '.join(groups)}")
    host = _host_changes(args) if SUITES[args.suite].sets_hosts else {}
    comparison = measuring.Comparison(args.schemes and args.schemes.split(","), args.repeats, host)
    out = args.out or Path(f"build/bench/{args.suite}.json")
    return measuring.run(args.suite, args.only, out, comparison, quick=args.quick)


def _soak(args: argparse.Namespace) -> int:
    if args.minutes <= 0:
        raise ValueError(f"--minutes must be more than 0, not {args.minutes:g}")
    seed = secrets.randbits(32) if args.seed is None else args.seed
    if args.what == "controller":
        if args.rate <= 0:
            raise ValueError(f"--rate must be more than 0, not {args.rate:g}")
        out = args.out or Path("build/soak-controller")
        return soak.run_controller(soak.ControllerSpec(args.minutes, args.rate, seed), out)
    args.out = args.out or Path("build/soak")
    return soak.run(soak.SoakSpec(str(find_prefix(args.ovs)), args.minutes, seed), args.out)


def _parser() -> argparse.ArgumentParser:
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "weir-experiment", description=_DESCRIPTION, epilog=_EXAMPLES, formatter_class=style
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    shown = commands.add_parser(
        "demo", help="Reno, DCTCP and Weir side by side", description=_DEMO, formatter_class=style
    )
    shown.add_argument("--json", action="store_true", help="print summary.json and no table")
    shown.add_argument("--senders", type=int, help="hosts that answer (default 32, then 40)")
    shown.set_defaults(scheme="weir")
    single = commands.add_parser("run", help="one scheme alone, recorded in --out")
    single.add_argument("--scheme", choices=over_tcp(), required=True)
    single.add_argument(
        "--senders", type=int, default=32, help="hosts that answer (default %(default)s)"
    )
    single.add_argument(
        "--connections-per-sender", type=int, default=1, metavar="N", help="(default %(default)s)"
    )
    single.add_argument(
        "--no-background",
        dest="background",
        action="store_false",
        help="the reads and nothing else",
    )
    single.add_argument("--fresh", action="store_true", help="a new connection for every request")
    shown.set_defaults(handler=_demo)
    single.set_defaults(handler=_run)
    _add_options(shown, Path("build/demo"), rounds=15)
    _add_options(single, Path("build/run"), rounds=30)
    _add_host_options(single)
    _add_bench(
        commands.add_parser(
            "bench",
            help="figures of the switch, the controller, transports, ordinary programs: tables "
            "and flat JSON",
            description=_BENCH,
            formatter_class=style,
        )
    )
    _add_soak(
        commands.add_parser(
            "soak", help="a sanitized switch, or the controller, under everything at once"
        )
    )
    return parser


def _add_bench(command: argparse.ArgumentParser) -> None:
    parsers = command.add_subparsers(dest="suite", required=True, metavar="SUITE")
    for name, benchmark in SUITES.items():
        suite = parsers.add_parser(
            name,
            help=benchmark.about.partition("\n")[0],
            description=f"{benchmark.about}\n\ngroups: {', '.join(benchmark.groups)}",
            epilog=_BENCH_END,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        add = suite.add_argument
        add(
            "--group", "--only", dest="only", action="append", default=[], metavar="NAME",
            help="one group of the suite; may be given several times (default: all)",
        )  # fmt: skip
        add("--out", type=Path, metavar="FILE", help=f"(default build/bench/{name}.json)")
        usual = measuring.Comparison()
        add(
            "--schemes", metavar="NAME,...",
            help="what is compared, where schemes are (default: all that the suite knows)",
        )  # fmt: skip
        add(
            "--repeats", type=int, default=usual.repeats, metavar="N",
            help="runs of each, where schemes are compared (default %(default)s)",
        )  # fmt: skip
        add("--quick", action="store_true", help="less of it, where the suite says what")
        if benchmark.sets_hosts:
            _add_host_options(suite)
        suite.set_defaults(handler=_bench)


def _add_soak(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("what", choices=("switch", "controller"), nargs="?", default="switch")
    add("--minutes", type=float, default=30, help="(default %(default)g)")
    add("--seed", type=int, help="decides the order of changes (default: drawn, and printed)")
    add(
        "--rate", type=float, default=2000, metavar="N",
        help="new connections a second, for the controller (default %(default)g)",
    )  # fmt: skip
    add("--out", type=Path, metavar="DIR", help="(default build/soak, build/soak-controller)")
    add("--ovs", metavar="PREFIX", help="what ovs-patches/build --sanitize has built")
    command.set_defaults(handler=_soak)


def _add_options(command: argparse.ArgumentParser, out: Path, *, rounds: int) -> None:
    add = command.add_argument
    add("--rounds", type=int, default=rounds, help="blocks to be read (default %(default)s)")
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
        "--receive-buffer", type=int, default=runner.RECEIVE_BUFFER_BYTES, metavar="BYTES",
        help="largest receive buffer of the hosts, from which their window scale follows; "
        "0 leaves this kernel's own (default %(default)s: scale 7)",
    )  # fmt: skip
    add("--out", type=Path, default=out, metavar="DIR", help="where to write (default %(default)s)")
    add(
        "--ovs", metavar="PREFIX",
        help="the patched switch (default: $WEIR_OVS_PREFIX, else the newest that was built)",
    )  # fmt: skip


def _add_host_options(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group(
        "hosts", "Linux as it comes, unless one of these is given; the record of a run has them"
    )
    add = group.add_argument
    add("--quickack", action="store_true", help="acknowledge every segment at once")
    add("--initial-window", type=int, metavar="N", help="segments that a connection begins with")
    add("--least-rto", type=int, metavar="MS", help="least retransmission timeout")
    add("--mss", type=int, metavar="BYTES", help="largest segment to be announced")
    add("--no-timestamps", action="store_true", help="no TCP timestamps (RFC 7323)")
    add("--no-sack", action="store_true", help="no selective acknowledgements (RFC 2018)")
    scale = group.add_mutually_exclusive_group()
    scale.add_argument("--no-window-scaling", action="store_true", help="windows of 64 KiB at most")
    scale.add_argument(
        "--window-scale", type=int, metavar="N",
        help="0 to 14: has the receive buffer and the largest window that lead to it",
    )  # fmt: skip


_LEAST, _MOST = 1, 65_535
_MOST_SCALE = 14


def _host_changes(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of HostSettings that options ask for."""
    numbers = {
        "initcwnd": ("--initial-window", args.initial_window),
        "rto_min_ms": ("--least-rto", args.least_rto),
        "mss_bytes": ("--mss", args.mss),
    }
    for option, value in numbers.values():
        if value is not None and not _LEAST <= value <= _MOST:
            raise ValueError(f"{option} must be {_LEAST} to {_MOST}, not {value}")
    changes: dict[str, Any] = {
        name: value for name, (_, value) in numbers.items() if value is not None
    }
    if args.quickack:
        changes["quickack"] = True
    for name in ("timestamps", "sack", "window_scaling"):
        if getattr(args, f"no_{name}"):
            changes[name] = False
    if args.window_scale is not None:
        if not 0 <= args.window_scale <= _MOST_SCALE:
            raise ValueError(f"--window-scale must be 0 to {_MOST_SCALE}, not {args.window_scale}")
        # Linux takes the least scale that can tell of its largest window.
        changes["rmem_max_bytes"] = 65_536 << args.window_scale
        changes["window_clamp_bytes"] = 65_535 << args.window_scale
    return changes


def _spec(args: argparse.Namespace, **sizes: int) -> runner.RunSpec:
    reads = Reads(rounds=args.rounds, block_bytes=args.block, seed=args.seed, **sizes)
    if args.receive_buffer < 0:
        raise ValueError(f"--receive-buffer must be 0 or more bytes, not {args.receive_buffer}")
    return runner.RunSpec(
        scheme=args.scheme,
        workload=reads,
        topology=args.topology,
        host=HostSettings(rmem_max_bytes=args.receive_buffer or None),
        ovs_prefix=args.ovs,
    )


if __name__ == "__main__":
    sys.exit(main())
