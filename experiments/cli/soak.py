"""weir-experiment soak"""

import argparse
import secrets
from pathlib import Path

from experiments import soak
from experiments.cli import options
from testbed.ovs import find_prefix


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "soak", help="a sanitized switch, or the controller, under everything at once"
    )
    option = command.add_argument
    option("what", choices=("switch", "controller"), nargs="?", default="switch")
    option("--minutes", type=float, default=30, help="(default %(default)g)")
    option("--seed", type=int, help="decides the order of changes (default: drawn, and printed)")
    option(
        "--rate", type=float, default=2000, metavar="N",
        help="new connections a second, for the controller (default %(default)g)",
    )  # fmt: skip
    option("--out", type=Path, metavar="DIR", help="(default build/soak, build/soak-controller)")
    option("--ovs", metavar="PREFIX", help="what ovs-patches/build --sanitize has built")
    command.set_defaults(handler=_soak)


def _soak(args: argparse.Namespace) -> int:
    if args.minutes <= 0:
        raise ValueError(f"--minutes must be more than 0, not {args.minutes:g}")
    seed = secrets.randbits(32) if args.seed is None else args.seed
    if args.what == "controller":
        if args.rate <= 0:
            raise ValueError(f"--rate must be more than 0, not {args.rate:g}")
        out = options.folder(args.out or Path("build/soak-controller"))
        return soak.run_controller(soak.ControllerSpec(args.minutes, args.rate, seed), out)
    out = options.folder(args.out or Path("build/soak"))
    return soak.run(soak.SoakSpec(str(find_prefix(args.ovs)), args.minutes, seed), out)
