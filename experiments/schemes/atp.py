"""ATP (Jiang et al.): objects are fetched by ``fountain``; the hosts' TCP carries nothing."""

from experiments.schemes import SCHEMES, Scheme
from experiments.traffic.fountain import AtpMode

SCHEMES.add(
    Scheme(
        "atp",
        "ATP",
        "ATP, with parity for what is lost; a connection to each server, a stream for each object",
        regulation=None,
        fetch=AtpMode(),
    )
)
SCHEMES.add(
    Scheme(
        "atp_bare",
        "ATP, no parity",
        "the same without parity: what is lost is asked for",
        regulation=None,
        fetch=AtpMode(parity=False),
    )
)
