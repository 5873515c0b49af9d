"""weir-experiment bench"""

import argparse
from pathlib import Path

from experiments.bench import measuring
from experiments.bench.suites import SUITES
from experiments.cli import options

_DESCRIPTION = """\
Measures a suite, group by group, each in a sandbox of its own; prints a table, and writes a flat
JSON object of figures. 'bench SUITE --help' says what a suite has.
"""

_END = """\
exit status: 0 measured, 1 a group or a part of it failed, 2 wrong usage, 130 interrupted
"""


def add(commands: options.Commands) -> None:
    """Add the command."""
    style = argparse.RawDescriptionHelpFormatter
    command = commands.add_parser(
        "bench",
        help=f"benchmarks, as tables and flat JSON: {', '.join(SUITES)}",
        description=_DESCRIPTION,
        formatter_class=style,
    )
    parsers = command.add_subparsers(dest="suite", required=True, metavar="SUITE")
    usual = measuring.Comparison()
    for name, benchmark in SUITES.items():
        suite = parsers.add_parser(
            name,
            help=benchmark.about.partition("\n")[0],
            description=f"{benchmark.about}\n\ngroups: {', '.join(benchmark.groups)}",
            epilog=_END,
            formatter_class=style,
        )
        option = suite.add_argument
        option(
            "--group", "--only", dest="groups", action="append", default=[], metavar="NAME",
            help="one group of the suite; may be given several times (default: all)",
        )  # fmt: skip
        option("--out", type=Path, metavar="FILE", help=f"(default build/bench/{name}.json)")
        option(
            "--schemes", metavar="NAME,...",
            help="what is compared, where schemes are (default: those of each group)",
        )  # fmt: skip
        option(
            "--repeats", type=int, default=usual.repeats, metavar="N",
            help="runs of each, where schemes are compared (default %(default)s)",
        )  # fmt: skip
        option("--quick", action="store_true", help="less of it, where the suite says what")
        if benchmark.sets_hosts:
            options.add_hosts(suite)
        suite.set_defaults(handler=_bench)


def _bench(args: argparse.Namespace) -> int:
    benchmark = SUITES[args.suite]
    for group in args.groups:
        if group not in benchmark.groups:
            raise ValueError(f"--group {group}: {args.suite} has {', '.join(benchmark.groups)}")
    host = options.host_changes(args) if benchmark.sets_hosts else {}
    names = args.schemes.split(",") if args.schemes else None
    comparison = measuring.Comparison(names, args.repeats, host)
    out = args.out or Path(f"build/bench/{args.suite}.json")
    options.folder(out.parent)
    return measuring.run(args.suite, args.groups, out, comparison, quick=args.quick)
