"""weir-lab: a test bed to walk about in, with Mininet's prompt."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from testbed import isolation
from testbed.config import BedConfig, HostSettings
from testbed.topologies import TOPOLOGIES, at_most, described

_SENDERS = 8

_DESCRIPTION = """\
Opens a network of namespaces with the patched Open vSwitch and Weir's controller, and gives
you Mininet's prompt in it. Everything is in a world of its own: when you leave, with 'exit',
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

topologies and what --shape chooses of each:
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    args = _parser().parse_args(argv)
    shape = dict(args.shape)
    config = BedConfig(
        topology=args.topology,
        shape=shape,
        ipv6=True,
        senders=at_most(_SENDERS, args.topology, shape) if args.senders is None else args.senders,
        scheme=args.scheme,
        rate_bps=args.rate * 1_000_000,
        bottleneck_limit_bytes=args.buffer * 1024,
        host=HostSettings(congestion_control=args.congestion_control),
        ovs_prefix=args.ovs,
    )
    try:
        return isolation.run([sys.executable, "-m", "testbed.prompt", json.dumps(asdict(config))])
    except isolation.IsolationError as missing:
        print(f"weir-lab: {missing}", file=sys.stderr)
        return 1


def _choice(written: str) -> tuple[str, int]:
    name, _, number = written.partition("=")
    if not number.isdecimal():
        raise argparse.ArgumentTypeError(f"{written!r} is not NAME=NUMBER")
    return name, int(number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "weir-lab",
        description=_DESCRIPTION,
        epilog=_EPILOG + described(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--topology", choices=TOPOLOGIES, default="fig8", help="(default %(default)s)")
    add(
        "--shape", type=_choice, action="append", default=[], metavar="NAME=NUMBER",
        help="what the topology lets choose (below), as in k=4; may be given several times",
    )  # fmt: skip
    add(
        "--senders", type=int, default=None, metavar="N",
        help=f"hosts h1..hN (default {_SENDERS}, or as many as there is room for)",
    )  # fmt: skip
    add(
        "--scheme", choices=("weir", "sdtcp", "none"), default="weir",
        help="how the controller regulates; none: it forwards and watches (default %(default)s)",
    )  # fmt: skip
    add("--rate", type=int, default=100, metavar="MBPS", help="of every link (default %(default)s)")
    add(
        "--buffer", type=int, default=64, metavar="KIB",
        help="of the bottleneck port (default %(default)s)",
    )  # fmt: skip
    add(
        "--congestion-control", default=None, metavar="NAME",
        help="of the hosts' TCP (default: this machine's own)",
    )  # fmt: skip
    add(
        "--ovs", default=None, metavar="PREFIX",
        help="the switch (default: $WEIR_OVS_PREFIX, else the newest that was built)",
    )  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(main())
