"""TCP alone, with the queues that go with it."""

from experiments.schemes import QUEUE, SCHEMES, Scheme
from testbed.config import HostSettings

SCHEMES.add(
    Scheme("reno", "Reno", "TCP Reno, drop-tail queues", HostSettings(congestion_control="reno"))
)
SCHEMES.add(
    Scheme(
        "reno_rto10",
        "Reno, 10 ms",
        "as reno, least timeout 10 ms and immediate ACKs: the usual host-side fix",
        # Vasudevan et al., SIGCOMM 2009; without immediate ACKs such timeouts would be spurious.
        HostSettings(congestion_control="reno", rto_min_ms=10, quickack=True),
    )
)
SCHEMES.add(
    Scheme(
        "cubic", "CUBIC", "TCP CUBIC, drop-tail queues", HostSettings(congestion_control="cubic")
    )
)
SCHEMES.add(
    Scheme("bbr", "BBR", "TCP BBR, drop-tail queues", HostSettings(congestion_control="bbr"))
)
SCHEMES.add(
    Scheme(
        "fair",
        "Fair queue",
        "a fair queue for each connection (DRR, which drops from the longest)",
        queue=QUEUE | {"scheduler": "drr"},
    )
)
SCHEMES.add(
    Scheme(
        "kernel",
        "Kernel's shaper",
        "drop-tail queues, which the kernel's shaper releases, as by default",
        queue={},
    )
)
SCHEMES.add(Scheme("fifo", "FIFO", "drop-tail queues, without a controller", regulation=None))
