"""weir-experiment demo"""

import argparse
from collections.abc import Callable
from dataclasses import replace

from experiments import dashboard, demo, runner
from experiments.cli import options
from experiments.workloads.reads import Reads
from testbed.config import HostSettings
from testbed.dashboard import DEFAULT
from testbed.topologies import at_most

_PAGE_SENDERS = 24

_DESCRIPTION = """\
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

With --stay, the operator's page is up afterwards, at an address and with a token that are
printed, over an incast and requests in turns, until Ctrl-C.

exit status: 0 valid, 1 failed, 2 wrong usage, 3 not valid, 130 interrupted
"""


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "demo",
        help="Reno, DCTCP and Weir side by side",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    option = command.add_argument
    option("--json", action="store_true", help="print summary.json and no table")
    option("--senders", type=int, metavar="N", help="hosts that answer (default 32, then 40)")
    option("--rounds", type=int, default=15, metavar="N", help="blocks (default %(default)s)")
    option(
        "--block", type=int, default=1_000_000, metavar="BYTES",
        help="size of a block, divided over all senders (default %(default)s)",
    )  # fmt: skip
    option("--seed", type=int, default=1, help="draws the order of requests (default %(default)s)")
    option(
        "--topology", choices=("fig8", "star"), default="fig8",
        help="fig8: two switches as in the paper's Figure 8; star: one (default %(default)s)",
    )  # fmt: skip
    option("--stay", action="store_true", help="keep up the operator's page afterwards")
    option(
        "--address", default=DEFAULT, metavar="ADDRESS:PORT",
        help="where --stay serves it (default %(default)s)",
    )  # fmt: skip
    options.add_receive_buffer(command)
    options.add_where(command, "build/demo")
    options.add_hosts(command)
    command.set_defaults(handler=_demo)


def _demo(args: argparse.Namespace) -> int:
    if args.senders is None:
        few, many = _spec(args, senders=32), _spec(args, senders=40, connections_per_sender=3)
        specs = {"n32": few, "n120": replace(many, topology="star", background=False)}
    else:
        specs = {f"n{args.senders}": _spec(args, senders=args.senders)}
    # Whatever is wrong with it is said before the runs, not after them.
    page = _page(args) if args.stay else None
    status = demo.demo(specs, options.folder(args.out), as_json=args.json)
    if page is None:
        if not args.json:
            print(f"page: --stay (make demo STAY=1) keeps it up at http://{args.address}/")
    elif status in (0, runner.VOID):
        page()
    return status


def _page(args: argparse.Namespace) -> Callable[[], int]:
    """What serves the page. Raises ValueError and SandboxError."""
    senders = at_most(args.senders or _PAGE_SENDERS, args.topology, {})
    return dashboard.prepare(
        dashboard.DashboardSpec(args.address, args.topology, senders, demo.SCHEMES[-1])
    )


def _spec(args: argparse.Namespace, **sizes: int) -> runner.RunSpec:
    return runner.RunSpec(
        scheme=demo.SCHEMES[0],
        workload=Reads(rounds=args.rounds, block_bytes=args.block, seed=args.seed, **sizes),
        topology=args.topology,
        host=replace(
            HostSettings(rmem_max_bytes=options.receive_buffer(args)), **options.host_changes(args)
        ),
        ovs_prefix=args.ovs,
    )
