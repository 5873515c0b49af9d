"""weir-experiment soak"""

import argparse
import secrets
from pathlib import Path

from experiments import soak
from experiments.cli import options
from experiments.traffic.fountain import find_fountain
from testbed.ovs import find_prefix

_DESCRIPTION = """\
Soaks something for a long time, to find faults that show only then:

  switch      the patched switch under sanitizers, while queues, ports, controllers and traffic
              change at random; needs --ovs
  controller  the controller with five fake switches, and --rate new connections a second
  atp         fountain atp-proxy: curl and nginx, redis, and pgbench over pairs of proxies, where
              1 % of packets is lost both ways, at random and in bursts by turns. Every file and
              every value is compared with what it has to be, nothing that redis acknowledged may
              be gone, pgbench's balances must agree, and in the end no connection may be left
  acc         fountain acc up at two hosts: the same programs, ssh and iperf3 over the same losses,
              while the layers are killed, ended and begun again. Nothing may differ, and no
              connection may break or stand still

Progress goes to stderr. --out gets soak.json, the verdict with all figures, and the records that
it was made of. Ctrl-C ends a soak of atp or acc early, with the verdict so far.
"""

_END = """\
examples:
  weir-experiment soak atp --minutes 60             an hour; the verdict in build/soak-atp
  weir-experiment soak atp --minutes 2 --seed 7     what a seed draws, again
  weir-experiment soak acc --minutes 60             an hour; the verdict in build/soak-acc
  jq .faults build/soak-atp/soak.json               what was wrong

exit status: 0 nothing found, 1 something was wrong, 2 wrong usage
"""


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "soak",
        help="a sanitized switch, the controller, atp-proxy, or acc up, under everything at once",
        description=_DESCRIPTION,
        epilog=_END,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    option = command.add_argument
    option("what", choices=("switch", "controller", "atp", "acc"), nargs="?", default="switch")
    option("--minutes", type=float, default=30, help="(default %(default)g)")
    option("--seed", type=int, help="decides the order of changes (default: drawn, and printed)")
    option(
        "--rate", type=float, default=2000, metavar="N",
        help="new connections a second, for the controller (default %(default)g)",
    )  # fmt: skip
    option("--out", type=Path, metavar="DIR", help="(default build/soak, build/soak-WHAT)")
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
    if args.what == "atp":
        find_fountain()
        out = options.folder(args.out or Path("build/soak-atp"))
        return soak.run_atp(soak.AtpSpec(args.minutes, seed), out)
    if args.what == "acc":
        find_fountain()
        out = options.folder(args.out or Path("build/soak-acc"))
        return soak.run_acc(soak.AccSpec(args.minutes, seed), out)
    out = options.folder(args.out or Path("build/soak"))
    return soak.run(soak.SoakSpec(str(find_prefix(args.ovs)), args.minutes, seed), out)
