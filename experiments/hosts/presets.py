"""The three kinds that the benchmarks have."""

from experiments.hosts import HOSTS, USUAL, Hosts
from testbed.config import HostSettings

HOSTS.add(
    Hosts(
        USUAL,
        "Linux's own: delayed ACKs, initial window of 10, least timeout 200 ms",
        HostSettings(),
    )
)
HOSTS.add(
    Hosts("immediate-acks", "every segment acknowledged at once", HostSettings(quickack=True))
)
HOSTS.add(
    Hosts(
        "paper",
        "the SDTCP paper's (section 5.1): immediate ACKs, initial window of 1, least timeout 30 ms",
        HostSettings(quickack=True, initcwnd=1, rto_min_ms=30),
    )
)
