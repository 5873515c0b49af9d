"""What SAB gives to connections (Zhang, Ren, Shu: Sharing Bandwidth by Allocating Switch Buffer in
Data Center Networks, INFOCOM 2014), as far as the controller's standing windows are that."""

from experiments.schemes import SCHEMES, Scheme

# The part of the buffer by which SDTCP's authors ran it (section 5.2: epsilon = 0.5).
_EPSILON = 0.5

SCHEMES.add(
    Scheme(
        "buffer_shares",
        "Buffer shares",
        "each connection has its share of path and half of the buffer as its window, after SAB",
        regulation="weir",
        controller={
            "regulation": {"accounts": False, "buffer_share": _EPSILON, "floor_segments": 1}
        },
    )
)
