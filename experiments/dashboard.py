"""Traffic to look at with the operator's page: an incast and requests in turns, until interrupted.

    python -m experiments.dashboard JSON

is what ``start`` runs as the first process of a sandbox.
"""

import itertools
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from experiments.traffic.reader import IncastSpec
from experiments.workloads import reads
from testbed import dashboard, sandbox
from testbed.bed import Bed
from testbed.config import BedConfig

_ROUNDS = 150
_BLOCK_BYTES = 1_000_000
_REQUEST_BYTES = 3000
# So many requests take about as long as the incast.
_REQUESTS = 30_000


@dataclass(frozen=True)
class DashboardSpec:
    """``address`` is ADDRESS:PORT, where the page is served."""

    address: str
    topology: str
    senders: int
    scheme: str


def start(spec: DashboardSpec) -> int:
    """Serve the page until it is interrupted; return the exit status. Raises ValueError and
    SandboxError before anything starts."""
    return prepare(spec)()


def prepare(spec: DashboardSpec) -> Callable[[], int]:
    """Take the address, and return what ``start`` does then. Raises as it does."""
    forward = dashboard.forward(spec.address)
    _bed_config(spec)
    argv = [sys.executable, "-m", "experiments.dashboard", json.dumps(asdict(spec))]
    return lambda: sandbox.run(argv, forwards=[forward])


def _bed_config(spec: DashboardSpec) -> BedConfig:
    return BedConfig(
        topology=spec.topology,
        senders=spec.senders,
        scheme=spec.scheme,
        controller=dashboard.sections(),
    )


def _turns(senders: int) -> Iterator[tuple[str, IncastSpec]]:
    """What is played, and in words."""
    incast = IncastSpec(senders=senders, rounds=_ROUNDS, block_bytes=_BLOCK_BYTES)
    requests = IncastSpec(senders=1, rounds=_REQUESTS, block_bytes=_REQUEST_BYTES)
    return itertools.cycle(
        [
            (f"an incast: {senders} senders, {_BLOCK_BYTES / 1e6:g} MB a round", incast),
            (f"requests for {_REQUEST_BYTES / 1e3:g} kB each, one after the other", requests),
        ]
    )


def main() -> int:
    """Entry point of the first process; returns the exit status."""
    spec = DashboardSpec(**json.loads(sys.argv[1]))
    log = sandbox.RUN_DIR / "traffic.log"
    try:
        sandbox.become_first_process()
        bed = Bed(_bed_config(spec))
        token = dashboard.make_token()
        with bed, reads.responders(bed, log):
            bed.require_forwarding()
            dashboard.announce(spec.address, token)
            print("Ctrl-C ends it", flush=True)
            for words, turn in _turns(spec.senders):
                print(words, flush=True)
                with reads.reader(bed, turn, log) as reader:
                    for _ in reader.messages():
                        pass
    except (RuntimeError, TimeoutError) as error:
        print(f"weir-experiment: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
