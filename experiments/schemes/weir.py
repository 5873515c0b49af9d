"""Weir's own."""

from experiments.schemes import SCHEMES, Scheme

SCHEMES.add(
    Scheme(
        "weir",
        "Weir",
        "TCP Reno; the controller holds every port at all times (regulation scheme weir)",
        regulation="weir",
    )
)
