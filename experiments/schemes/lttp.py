"""LTTP (Jiang et al.): objects are fetched by ``fountain``; the hosts' TCP carries nothing."""

from experiments.schemes import SCHEMES, Scheme
from experiments.traffic.fountain import Mode

SCHEMES.add(
    Scheme(
        "lttp",
        "LTTP",
        "LTTP, symbols of 1 KiB as in the paper; the client grants rates to the servers",
        regulation=None,
        fetch=Mode("client", 1024),
    )
)
SCHEMES.add(
    Scheme(
        "lttp_mtu",
        "LTTP, MTU",
        "the same with the largest symbols that fit a frame",
        regulation=None,
        fetch=Mode("client", "mtu"),
    )
)
SCHEMES.add(
    Scheme(
        "lttp_tfrc",
        "LTTP, TFRC",
        "LTTP, symbols of 1 KiB; each server paces itself by TFRC, as in the paper",
        regulation=None,
        fetch=Mode("tfrc", 1024),
    )
)
