"""LTTP beside TCP."""

from experiments.bench.suites import SUITES, Group, Suite
from experiments.schemes import over_lttp, without_regulation

_SERVERS = (1, 6, 16, 36, 40, 120)
_FAST_MBPS = (500, 1000)
_SCHEMES = (*over_lttp(), "reno", "dctcp")
# More servers that pace themselves send more than a switch on two processors forwards.
_MOST_UNPACED = 16


def _group(servers: int) -> Group:
    quick = {"sizes_kb": (64, 256)} if servers in (1, 6, 40) else None
    held_back = tuple(name for name in _SCHEMES if name != "lttp_tfrc")
    return Group(
        "experiments.bench.transport.lttp",
        {"servers": servers},
        _SCHEMES if servers <= _MOST_UNPACED else held_back,
        (*over_lttp(), *without_regulation()),
        quick,
        tabled=True,
    )


def _fast_group(rate_mbps: int) -> Group:
    return Group(
        "experiments.bench.transport.lttp",
        {"servers": 6, "rate_mbps": rate_mbps, "sizes_kb": (256, 1024)},
        _SCHEMES,
        (*over_lttp(), *without_regulation()),
    )


SUITES.add(
    Suite(
        "lttp",
        "LTTP, Reno and DCTCP from 1 to 120 servers, at three rates, and fairness",
        {
            **{f"n{n}": _group(n) for n in _SERVERS},
            **{f"n6_{rate}mbps": _fast_group(rate) for rate in _FAST_MBPS},
            "fairness": Group(
                "experiments.bench.transport.fairness",
                quick={"mixes": ("5l5t",), "measured_s": 10},
            ),
            "loopback": Group("experiments.bench.transport.loopback", quick={}),
        },
    )
)
