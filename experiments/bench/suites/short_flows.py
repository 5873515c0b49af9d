"""Short flows over ATP, TCP and QUIC, and what they wait for."""

from experiments.bench.short_flows import conclusion
from experiments.bench.suites import SUITES, Conclusion, Group, Suite
from experiments.schemes import over_atp, over_lttp, over_tcp

_ABOUT = """\
how long short flows take, and the slowest of them, over ATP, TCP and QUIC

Connections of 8.5 kB follow one another over one link of 100 Mb/s with RED, as in the ATP paper
(section III): alone, beside an endless TCP stream, with 1 % of all frames lost, and beside an
overload of UDP. Then sweeps of loss, at random and in bursts; 20 MB beside 20 MB of TCP; 32 servers
that answer one client at once over ATP, LTTP and TCP; and programs over fountain atp-proxy and
without it, with 1 % of all frames lost both ways, and with none. TCP is CUBIC as Linux has it,
without RACK and tail loss probes, and with TLS; QUIC is quinn. Beside the JSON: a picture.

A figure is SETTING_LINE_TIME_QUANTILE_ms: TIME is whole, from before the connection is opened, or
transfer, once data may be sent, both until the sender knows that all has arrived.
SETTING_LINE_lost_pct is what was lost of the flows' frames. A flow of more than 30 s counts as
30 s, and as failed.
atp_p99_ratio_SETTING_TIME is TCP's over ATP's, atp_median_ratio_SETTING_TIME ATP's over TCP's;
with _tls at the end, the same of TLS over TCP."""

_FLOWS = "experiments.bench.short_flows.flows"
_LOSSES_PCT = (0.1, 0.5, 1, 2, 5)

SUITES.add(
    Suite(
        "short-flows",
        _ABOUT,
        {
            "settings": Group(_FLOWS, {"flows": 1000}, quick={"flows": 100}, tabled=True),
            **{
                kind: Group(
                    _FLOWS, {"flows": 500, "kind": kind, "losses_pct": _LOSSES_PCT}, tabled=True
                )
                for kind in ("random", "bursts")
            },
            "fairness": Group(
                "experiments.bench.short_flows.fairness",
                {"turns": 3},
                quick={"turns": 1},
                tabled=True,
            ),
            "fanin": Group(
                "experiments.bench.short_flows.fan_in",
                {"rounds": 100},
                ("reno", "dctcp", "weir", "lttp", "atp"),
                (*over_tcp(), *over_lttp(), *over_atp()),
                quick={"rounds": 20},
                tabled=True,
                seeded=True,
            ),
            **{
                group: Group(
                    "experiments.bench.short_flows.programs",
                    {"turns": 3, "loss_pct": loss_pct, "group": group},
                    quick={"turns": 1},
                    tabled=True,
                )
                for group, loss_pct in (("programs", 1.0), ("undisturbed", 0.0))
            },
        },
        Conclusion(conclusion.conclude, conclusion.show, conclusion.draw),
        sets_hosts=True,
    )
)
