"""weir-lab: a test bed with Mininet's prompt."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from controller.cli.arguments import Parser
from testbed import dashboard, dctcp, options, sandbox
from testbed.config import REGULATION_SCHEMES, BedConfig, HostSettings
from testbed.topologies import at_most, topology_of

_SENDERS = 8

_DESCRIPTION = """\
Opens a network of namespaces with the patched Open vSwitch and Weir's controller, and gives
you Mininet's prompt in it. Everything is in a sandbox of its own: when you leave, with 'exit',
Ctrl-D or kill -9, nothing of it stays on the machine. Needs root.
"""

_EPILOG = """\
at the prompt:
  net, dump                 what there is
  h1 ping -c 3 r1           run a command on a host
  iperf h1 r1               what TCP gets between two hosts (iperf3); iperfudp 50M h1 r1
  sh weir-controller top    the controller's commands; on hosts: fountain
  xterm h1                  (with X) a terminal on a host
  sh ovs-vsctl show         commands of the switch; also: sh ovs-appctl netdev-egress/show
  dpctl dump-flows          the switches' flow tables
  sh tail -f /run/weir/events.jsonl   what the controller sees and does
  exit

"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    args = _parser().parse_args(argv)
    try:
        config = _config(args)
        topology_of(config)
        forwards = [dashboard.forward(args.dashboard)] if args.dashboard else []
        asked = {"config": asdict(config), "dashboard": args.dashboard}
        module = [sys.executable, "-m", "testbed.prompt", json.dumps(asked)]
        return sandbox.run([*module, *args.commands], forwards=forwards)
    except ValueError as wrong:
        print(f"weir-lab: {wrong}", file=sys.stderr)
        return 2
    except sandbox.SandboxError as missing:
        print(f"weir-lab: {missing}", file=sys.stderr)
        return 1


def _config(args: argparse.Namespace) -> BedConfig:
    shape = dict(args.shape)
    control = args.congestion_control
    marks = control in dctcp.NAMES
    return BedConfig(
        topology=args.topology,
        shape=shape,
        ipv6=True,
        senders=at_most(_SENDERS, args.topology, shape) if args.senders is None else args.senders,
        scheme=args.scheme,
        rate_bps=options.rate_bps(args),
        bottleneck_limit_bytes=options.buffer_bytes(args),
        queue=dctcp.MARKING if marks else {},
        host=HostSettings(congestion_control=control, ecn=True if marks else None),
        ovs_prefix=args.ovs,
        controller=dashboard.sections() if args.dashboard else {},
    )


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "weir-lab",
        description=_DESCRIPTION,
        epilog=_EPILOG + options.TOPOLOGIES_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    options.add(parser)
    add(
        "--senders", type=int, default=None, metavar="N",
        help=f"hosts h1..hN (default {_SENDERS}, or as many as there is room for)",
    )  # fmt: skip
    add(
        "--scheme", choices=REGULATION_SCHEMES, default="weir",
        help="the controller's regulation scheme; none: it forwards and watches "
        "(default %(default)s)",
    )  # fmt: skip
    add(
        "--congestion-control", default=None, metavar="NAME",
        help="of the hosts' TCP (default: this machine's own); weir-dctcp is DCTCP, with ECN and "
        "queues that mark",
    )  # fmt: skip
    add(
        "--dashboard", nargs="?", const=dashboard.DEFAULT, default=None, metavar="ADDRESS:PORT",
        help="serve the operator's page there, to be looked at from outside of the sandbox "
        "(default %(const)s); its address and a token are printed",
    )  # fmt: skip
    add(
        "-c", dest="commands", action="append", default=[], metavar="COMMAND",
        help="what to type at the prompt; it ends after the last one. Lines of standard input are "
        "taken as well, where that is no terminal",
    )  # fmt: skip
    add(
        "--ovs", default=None, metavar="PREFIX",
        help="the switch (default: $WEIR_OVS_PREFIX, else the build asked for last)",
    )  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(main())
