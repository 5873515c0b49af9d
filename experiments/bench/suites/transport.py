"""The coded transports' own speed."""

from experiments.bench.suites import SUITES, Conclusion, Group, Suite
from experiments.bench.transport.speed import conclusion

_ABOUT = """\
how fast the coded transports are where no network limits them, and what they cost

LTTP (fountain fetch, from 1 and from 8 servers), DFCP (fountain send, at told rates of 6 Gb/s and
100 Mb/s, and at TFRC's) and ATP (one stream), encrypted, beside quinn (its default, and with a
large window from the first moment on) and, in clear, iperf3 -u. All take turns on the same two
ends, which share this machine's processors: over loopback, and over a pair of veth devices. Beside
the JSON: transport.png.

A figure is MEDIUM_CONTENDER_NAME: goodput_gbps with ..._least and ..._most, send_cpu_s_per_gb and
receive_cpu_s_per_gb, and the same as Gb/s for each core. idle_share is what idle connections take
of a core, requests_per_s how many requests of 64 B one connection of ATP carries. checks are what
these are to show."""


def _medium(name: str) -> Group:
    return Group(
        "experiments.bench.transport.speed.transfers",
        {"over": name, "size_mib": 1024, "turns": 5},
        quick={"size_mib": 256, "turns": 2},
        tabled=True,
    )


SUITES.add(
    Suite(
        "transport",
        _ABOUT,
        {
            **{name: _medium(name) for name in conclusion.MEDIA},
            "idle": Group(
                "experiments.bench.transport.speed.idle",
                {"connections": 10_000, "measured_s": 20.0, "size_mib": 256},
                quick={"connections": 1000, "measured_s": 5.0, "size_mib": 64},
            ),
            "requests": Group(
                "experiments.bench.transport.speed.requests",
                {"seconds": 5.0, "turns": 5},
                quick={"seconds": 2.0, "turns": 2},
            ),
        },
        Conclusion(conclusion.conclude, conclusion.show, conclusion.draw),
        has_switch=False,
    )
)
