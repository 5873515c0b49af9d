"""What weir-lab runs in its sandbox: build the test bed, give Mininet's prompt.

    python -m testbed.prompt JSON [COMMAND...]

is what ``testbed.lab`` starts as the first process of a new sandbox.
"""

import json
import os
import sys
from collections.abc import Iterable

from mininet.cli import CLI
from mininet.log import setLogLevel
from mininet.net import Mininet

from testbed import builds, dashboard, iperf, sandbox
from testbed.bed import Bed
from testbed.config import BedConfig


class Commands(CLI):
    """Mininet's prompt, which takes ``lines`` from elsewhere than from a terminal.

    Mininet's own gives a command of a host what stands behind it in standard input.
    """

    def __init__(self, net: Mininet, lines: Iterable[str]) -> None:
        self._lines = lines
        never, self._kept = os.pipe()
        with os.fdopen(never) as silence:
            super().__init__(net, stdin=silence)

    def run(self) -> None:
        """Called by the constructor."""
        for line in self._lines:
            if self.onecmd(line.strip()):
                break

    def initReadline(self) -> None:  # noqa: N802  (Mininet's name)
        """Nobody types."""


def in_words(bed: Bed) -> str:
    """Return what there is: network, controller and hosts."""
    config, roles = bed.config, bed.roles
    control = bed.host(roles.receiver).congestion_control()
    own = ", this machine's own" if config.host.congestion_control is None else ""
    return (
        f"topology {config.topology}, {len(roles.senders)} senders, "
        f"{config.rate_bps / 1e6:g} Mb/s, {config.bottleneck_limit_bytes / 1024:g} KiB at the "
        f"bottleneck {roles.bottleneck}; regulation scheme {config.scheme}; "
        f"hosts' TCP: {control}{own}"
    )


def main() -> int:
    """Entry point of the first process in a sandbox; returns the exit status."""
    try:
        sandbox.become_first_process()
        setLogLevel("info")
        told, *commands = sys.argv[1:]
        asked = json.loads(told)
        bed = Bed(BedConfig.from_dict(asked["config"]))
        token = dashboard.make_token() if asked["dashboard"] else None
        iperf.install()
        # The prompt's own shell, and every node's, find our switch and its programs, and Weir's.
        os.environ.update(bed.ovs.env)
        builds.add_programs_to_path()
        with bed:
            bed.require_forwarding()
            print(in_words(bed), flush=True)
            if token:
                dashboard.announce(asked["dashboard"], token)
            if commands:
                Commands(bed.net, commands)
            elif sys.stdin.isatty():
                CLI(bed.net)
            else:
                Commands(bed.net, iter(sys.stdin.readline, ""))
    except (RuntimeError, TimeoutError, ValueError) as error:
        print(f"weir-lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
