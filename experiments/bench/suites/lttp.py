"""LTTP beside TCP."""

from experiments.bench.suites import SUITES, Group, Suite
from experiments.schemes import over_lttp, without_regulation

_SERVERS = (1, 6, 16, 36, 40, 120)
# Servers, client and switch keep two processors busy at 500 Mb/s: runs there are not valid.
_FAST_MBPS = 200
_SCHEMES = (*over_lttp(), "reno", "dctcp")
_HELD_BACK = tuple(name for name in _SCHEMES if name != "lttp_tfrc")
# More servers that pace themselves send more than a switch on two processors forwards.
_MOST_UNPACED = 16


def _group(servers: int) -> Group:
    quick = {"sizes_kb": (64, 256)} if servers in (1, 6, 40) else None
    return Group(
        "experiments.bench.transport.lttp",
        {"servers": servers},
        _SCHEMES if servers <= _MOST_UNPACED else _HELD_BACK,
        (*over_lttp(), *without_regulation()),
        quick,
        tabled=True,
        seeded=True,
    )


SUITES.add(
    Suite(
        "lttp",
        "LTTP, Reno and DCTCP from 1 to 120 servers, at two rates, and fairness",
        {
            **{f"n{n}": _group(n) for n in _SERVERS},
            f"n6_{_FAST_MBPS}mbps": Group(
                "experiments.bench.transport.lttp",
                {"servers": 6, "rate_mbps": _FAST_MBPS, "sizes_kb": (256, 1024)},
                _HELD_BACK,
                (*over_lttp(), *without_regulation()),
                seeded=True,
            ),
            "fairness": Group(
                "experiments.bench.transport.fairness",
                quick={"mixes": ("5l5t",), "measured_s": 10},
            ),
            "loopback": Group("experiments.bench.transport.loopback", quick={}),
        },
        sets_hosts=True,
    )
)
