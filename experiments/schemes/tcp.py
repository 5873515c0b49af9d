"""TCP alone, with the queues that go with it."""

from experiments.schemes import QUEUE, SCHEMES, Scheme
from testbed import dctcp
from testbed.config import HostSettings

SCHEMES.add(Scheme("reno", "Reno", "TCP Reno, drop-tail queues"))
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
        "dctcp",
        "DCTCP",
        "DCTCP (RFC 8257), queues that mark from 20 full-size frames on",
        HostSettings(congestion_control=dctcp.NAME, ecn=True),
        QUEUE | dctcp.MARKING,
    )
)
SCHEMES.add(
    Scheme(
        "fair",
        "Fair queue",
        "TCP Reno, a fair queue for each connection (deficit round robin)",
        queue=QUEUE | {"scheduler": "drr"},
    )
)
SCHEMES.add(
    Scheme(
        "kernel",
        "Kernel's shaper",
        "as reno, but the kernel's shaper releases the queues, as by default",
        queue={},
    )
)
SCHEMES.add(Scheme("fifo", "FIFO", "as reno, without a controller", regulation=None))
