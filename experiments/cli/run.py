"""weir-experiment run"""

import argparse
import json
from dataclasses import replace
from functools import partial
from typing import Any

from rich.console import Console

from experiments import runner, schemes, workloads
from experiments.cli import figures, options
from experiments.figures.axes import AXES
from experiments.measure.captures import CONNECTIONS, PACKETS
from experiments.measure.record import Run
from experiments.report import summary, table
from experiments.workloads import WORKLOADS, Workload
from testbed import options as network
from testbed.config import HostSettings
from testbed.topologies import at_most

_DESCRIPTION = """\
With NAME: measures a figure ('weir-experiment list' shows all), or a sweep of one's own, which is a
file like a figure's (figure.toml; YAML will do, too). Prints the result and which claims hold. What
was measured and is valid is not measured again, so the same command goes on after an interrupt. A
void run is done once more; what is still void is counted and shown.

Without: runs one workload under one scheme, prints the result, and writes into --out what was
recorded: record.json (settings, versions, operations, counters, events, checks), queue.npz (every
packet that came to the bottleneck's queue) and logs. 'weir-experiment report DIR' draws it. Several
schemes, values (--senders 8,16 or --sweep) or repeats make it a sweep.

A scheme is what the hosts' TCP, the switches' queues and the controller are set to. The
regulation scheme (weir, sdtcp, none) is the controller's part of it.
"""

_END = f"""\
schemes:
{schemes.described(schemes.over_tcp())}

workloads, and what --set chooses of each:
{workloads.described()}

{network.TOPOLOGIES_HELP}
axes of --sweep:
  {", ".join(AXES)}, workload.FIELD, hosts.FIELD

examples:
  weir-experiment run sdtcp-fig9 --quick
  weir-experiment run sdtcp-fig9 --scheme reno,weir --senders 16,32 --repeat 5
  weir-experiment run my-sweep.toml --minutes 5
  weir-experiment run --scheme weir
  weir-experiment run --scheme reno,dctcp,weir --senders 8,16,32 --repeat 3 --no-background
  weir-experiment run --scheme weir --sweep buffer_kib=16,32,64,128
  weir-experiment run --scheme weir --workload fresh --senders 8 --rounds 50 --no-background
  weir-experiment run --scheme cubic --workload long-flows --set seconds=20 --senders 4
  weir-experiment run --scheme fair,weir --congestion-control cubic --senders 32 --repeat 3
  weir-experiment run --scheme dctcp --topology star --workload web-search --set load=0.8 seconds=60
  weir-experiment run --scheme sdtcp --topology leaf-spine --shape leaves=8 --rate 50 --buffer 32

exit status: 0 valid, 1 failed, 2 wrong usage, 3 not valid, 130 interrupted; of a sweep 0 all is
there, 1 some of it failed
"""

# Options that set a field of a workload.
_FIELDS = {
    "rounds": "rounds",
    "block": "block_bytes",
    "connections_per_sender": "connections_per_sender",
    "seed": "seed",
}


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "run",
        help="a figure, a sweep, or one workload under one scheme: its result, and all raw data",
        description=_DESCRIPTION,
        epilog=_END,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    option = command.add_argument
    option("names", nargs="*", metavar="NAME", help="a figure, or the file of a sweep")
    option(
        "--scheme", type=options.words, action="extend", default=[], metavar="NAME,...",
        help=f"{', '.join(schemes.over_tcp())}; of a figure: these alone",
    )  # fmt: skip
    figures.add_measuring(command)
    option(
        "--workload", choices=WORKLOADS, default="reads", metavar="NAME",
        help=f"{', '.join(WORKLOADS)} (default %(default)s)",
    )  # fmt: skip
    option(
        "--set", type=_setting, nargs="+", action="extend", default=[], metavar="FIELD=VALUE",
        help="fields of the workload (below)",
    )  # fmt: skip
    option(
        "--senders", type=options.numbers, action="extend", default=[], metavar="N,...",
        help="hosts that send (default: the workload's, where there is room for them)",
    )  # fmt: skip
    for name, about in (
        ("rounds", "blocks to be read"),
        ("block", "size of a block in bytes, divided over all senders"),
        ("connections-per-sender", "connections to each sender"),
        ("seed", "draws what is random"),
    ):
        field = _FIELDS[name.replace("-", "_")]
        option(f"--{name}", type=int, metavar="N", help=f"{about}; the same as --set {field}=N")
    network.add(command)
    option(
        "--delay", type=float, default=0.0, metavar="MS",
        help="that the port of every switch adds to the way of a packet: a round trip passes two "
        "of them in star, four in fig8 (default %(default)s)",
    )  # fmt: skip
    option(
        "--background", action=argparse.BooleanOptionalAction, default=None,
        help="a long flow beside the workload, or none (default: none beside those that are at a "
        "load, staggered or all to all)",
    )  # fmt: skip
    option(
        "--follow", type=int, default=0, metavar="N",
        help=f"record congestion windows and round trips of N senders over time: {CONNECTIONS}, "
        "which 'weir-experiment plot' draws",
    )  # fmt: skip
    option(
        "--pcap", action="store_true",
        help=f"record the beginning of every packet on the bottleneck's link: {PACKETS}",
    )  # fmt: skip
    option("--json", action="store_true", help="print the result as JSON, flat")
    options.add_receive_buffer(command)
    options.add_where(command, "build/run", figures.OUT_HELP)
    hosts = options.add_hosts(command)
    hosts.add_argument(
        "--congestion-control", metavar="NAME",
        help="one that this kernel has, under a scheme that leaves it open: "
        f"{', '.join(schemes.over_any_control())} (default {schemes.USUAL_CONTROL})",
    )  # fmt: skip
    command.set_defaults(handler=partial(_run, command))


def _run(command: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    if args.names:
        return figures.run(args, command)
    if args.quick:
        raise ValueError("--quick is of figures: name one ('weir-experiment list' shows them)")
    if not args.scheme:
        raise ValueError("run what? name a figure ('weir-experiment list'), or give --scheme")
    spec = _spec(args)
    for name in args.scheme:
        schemes.carried_by_tcp(name).hosts(spec.host)
    if len(args.scheme) > 1 or len(args.senders) > 1 or args.sweep or (args.repeat or 1) > 1:
        return figures.run_adhoc(spec, args)
    status = runner.run(spec, options.folder(args.out))
    if status in (0, runner.VOID):
        _show(Run.load(args.out), args)
    return status


def _spec(args: argparse.Namespace) -> runner.RunSpec:
    workload = _workload(args)
    spec = runner.RunSpec(
        scheme=args.scheme[0],
        workload=workload,
        topology=args.topology,
        shape=dict(args.shape),
        rate_bps=network.rate_bps(args),
        buffer_bytes=network.buffer_bytes(args),
        delay_us=_delay_us(args),
        background=workload.has_background if args.background is None else args.background,
        host=HostSettings(rmem_max_bytes=options.receive_buffer(args)),
        ovs_prefix=args.ovs,
        followed=args.follow,
        captures=args.pcap,
    )
    changes = options.host_changes(args) | {"congestion_control": args.congestion_control}
    return replace(spec, host=replace(spec.host, **changes))


def _show(run: Run, args: argparse.Namespace) -> None:
    if args.json:
        print(json.dumps(summary.of_run(run) | {"folder": str(args.out)}, indent=2))
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(table.setting(run))
    console.print(table.hosts([run]))
    console.print(table.comparison([run]))
    console.print(table.verdict([run]))
    console.print(f"recorded in: {args.out}   again: weir-experiment report {args.out}")


def _workload(args: argparse.Namespace) -> Workload:
    given: dict[str, Any] = dict(args.set)
    for name, field in _FIELDS.items():
        value = getattr(args, name)
        if value is not None:
            given[field] = value
    if args.senders:
        given["senders"] = args.senders[0]
    usual = workloads.defaults(args.workload)["senders"]
    given.setdefault("senders", at_most(usual, args.topology, dict(args.shape)))
    return workloads.workload(args.workload, given)


def _delay_us(args: argparse.Namespace) -> int:
    if not 0 <= args.delay <= 1000:
        raise ValueError(f"--delay must be 0 to 1000 ms, not {args.delay:g}")
    return round(args.delay * 1000)


def _setting(written: str) -> tuple[str, str]:
    name, equals, value = written.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{written!r} is not FIELD=VALUE")
    return name, value
