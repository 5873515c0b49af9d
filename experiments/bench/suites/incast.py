"""Barrier reads, from one connection to a thousand."""

from experiments.bench.incast import checks, plan
from experiments.bench.suites import SUITES, Conclusion, Group, Suite
from experiments.schemes import over_tcp

_CONNECTIONS = (1, 2, 4, 8, 16, 32, 40, 120)
# What has to be compared with: TCP as it comes, and with the usual host-side fixes.
_SCHEMES = ("weir", "sdtcp", "reno", "reno_rto10", "dctcp", "dctcp_tuned")
_COUNTED = (*_SCHEMES, "fair")


def _reads(schemes: tuple[str, ...], **arguments: object) -> Group:
    return Group("experiments.bench.incast.reads", arguments, schemes, over_tcp())


def _cells(name: str) -> Group:
    schemes = plan.PAPER_SCHEMES if name == "paper" else ("weir", "reno")
    return Group("experiments.bench.incast.cells", {"cells": name}, schemes)


SUITES.add(
    Suite(
        "incast",
        "barrier reads from 1 to 1,000 connections under every scheme",
        {
            **{f"n{n}": _reads(_COUNTED, connections=n) for n in _CONNECTIONS},
            "n32_own_buffers": _reads(_SCHEMES, connections=32, own_buffers=True),
            "background": Group(
                "experiments.bench.incast.background", schemes=_SCHEMES, also=over_tcp()
            ),
            **{name: _cells(name) for name in plan.GROUPS},
            "idle": Group("experiments.bench.incast.idle"),
        },
        Conclusion(checks.conclude, checks.show),
        sets_hosts=True,
    )
)
