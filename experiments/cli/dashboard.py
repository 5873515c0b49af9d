"""weir-experiment dashboard"""

import argparse

from experiments import dashboard
from experiments.cli import options
from testbed.config import REGULATION_SCHEMES
from testbed.dashboard import DEFAULT
from testbed.topologies import at_most

_SENDERS = 24


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "dashboard", help="the operator's page, and an incast and requests in turns to look at"
    )
    option = command.add_argument
    option(
        "--address", default=DEFAULT, metavar="ADDRESS:PORT",
        help="where the page is served (default %(default)s)",
    )  # fmt: skip
    option("--topology", default="leaf-spine", help="(default %(default)s)")
    option(
        "--senders", type=int, default=None, metavar="N",
        help=f"(default {_SENDERS}, or as many as there is room for)",
    )  # fmt: skip
    option("--scheme", choices=REGULATION_SCHEMES, default="weir", help="(default %(default)s)")
    command.set_defaults(handler=_dashboard)


def _dashboard(args: argparse.Namespace) -> int:
    senders = at_most(_SENDERS, args.topology, {}) if args.senders is None else args.senders
    spec = dashboard.DashboardSpec(args.address, args.topology, senders, args.scheme)
    return dashboard.start(spec)
