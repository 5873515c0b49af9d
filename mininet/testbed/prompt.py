"""weir-lab from the inside: build the test bed, give Mininet's prompt.

    python -m testbed.prompt JSON

is what ``testbed.lab`` starts as the first process of a new world.
"""

import json
import os
import sys

from mininet.cli import CLI
from mininet.log import setLogLevel

from testbed import builds, iperf, isolation
from testbed.bed import Bed
from testbed.config import BedConfig


def main() -> int:
    """Entry point of the inner process; returns the exit status."""
    try:
        isolation.become_first_process()
        setLogLevel("info")
        bed = Bed(BedConfig.from_dict(json.loads(sys.argv[1])))
        iperf.install()
        # The prompt's own shell, and every node's, find our switch and its programs, and Weir's.
        os.environ.update(bed.ovs.env)
        builds.add_programs_to_path()
        with bed:
            bed.require_forwarding()
            CLI(bed.net)
    except (RuntimeError, TimeoutError, ValueError) as error:
        print(f"weir-lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
