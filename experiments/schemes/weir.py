"""Weir's own."""

from experiments.schemes import QUEUE, SCHEMES, Scheme

SCHEMES.add(
    Scheme(
        "weir",
        "Weir",
        "the controller holds every port at all times (regulation scheme weir)",
        regulation="weir",
    )
)
SCHEMES.add(
    Scheme(
        "weir_fair",
        "Weir, fair queue",
        "as weir, over a fair queue for each connection (deficit round robin)",
        regulation="weir",
        queue=QUEUE | {"scheduler": "drr"},
    )
)
