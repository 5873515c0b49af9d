"""Command-line options that say what a network is to be: of ``weir-lab`` and of experiments."""

import argparse

from testbed.config import LEAST_BUFFER_BYTES
from testbed.topologies import TOPOLOGIES, described

TOPOLOGIES_HELP = f"topologies, and what --shape chooses of each:\n{described()}\n"

_KIB = 1024


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options: topology, shape, rate and buffer."""
    option = parser.add_argument
    option(
        "--topology", choices=TOPOLOGIES, default="fig8", metavar="NAME",
        help=f"{', '.join(TOPOLOGIES)} (default %(default)s)",
    )  # fmt: skip
    option(
        "--shape", type=_choice, nargs="+", action="extend", default=[], metavar="NAME=NUMBER",
        help="what the topology lets choose (below), as in k=4",
    )  # fmt: skip
    option(
        "--rate", type=float, default=100, metavar="MBPS",
        help="of every link (default %(default)s)",
    )  # fmt: skip
    option(
        "--buffer", type=int, default=64, metavar="KIB",
        help="of the bottleneck port (default %(default)s)",
    )  # fmt: skip


def rate_bps(args: argparse.Namespace) -> int:
    """Return the rate of every link. Raises ValueError if there is none."""
    if not args.rate > 0:
        raise ValueError(f"--rate must be more than 0 Mb/s, not {args.rate:g}")
    return round(args.rate * 1e6)


def buffer_bytes(args: argparse.Namespace) -> int:
    """Return the buffer of the bottleneck port. Raises ValueError if no frame fits in."""
    least_kib = -(-LEAST_BUFFER_BYTES // _KIB)
    if args.buffer < least_kib:
        raise ValueError(
            f"--buffer must be at least {least_kib} KiB, room for a full-size frame, "
            f"not {args.buffer}"
        )
    size: int = args.buffer * _KIB
    return size


def _choice(written: str) -> tuple[str, int]:
    name, _, number = written.partition("=")
    if not number.isdecimal():
        raise argparse.ArgumentTypeError(f"{written!r} is not NAME=NUMBER")
    return name, int(number)
