"""TCP-ACC's layer beneath Linux's TCP."""

from experiments.bench.acc import conclusion, edges
from experiments.bench.acc.layer import TCPS
from experiments.bench.suites import SUITES, Conclusion, Group, Suite

_ABOUT = """\
what TCP-ACC's layer (fountain acc up) does for TCP that loses packets, and what it costs

Connections of 100 kB, 300 kB and 1 MB follow one another over one link of 100 Mb/s that loses
frames both ways, at random and in bursts; 32 servers answer one client at once through a buffer of
64 KiB; a long flow goes on while the loss changes; two switches have a protected link beside one
that loses frames, and the controller decides which one TCP takes (edges); and TCP goes over a pair
of veth devices, where nothing limits it but the processors. Lines are TCP alone (plain), the layer
with nothing coded (off), TCP-ACC (acc), GIP (gip) and corrective coding (ccr), each beneath Linux's
TCP as it is (linux: CUBIC, SACK, RACK, TLP) and beneath NewReno, as in the paper (newreno: no SACK,
RACK or TLP). Group timeouts counts how many windows of TCP alone end in a timeout, beside the
paper's probability of that and Weir's. Beside the JSON: acc.png, acc_following.png,
acc_timeouts.png.

A figure is TCP_SETTING_SIZE_LINE_NAME, as newreno_random1_100k_acc_mean_ms: 1 % lost at random.
checks are what these are to show."""

_INCAST = {
    f"incast_{tcp}": Group(
        "experiments.bench.acc.incast",
        {"tcp": tcp, "rounds": 30, "repeats": 2},
        quick={"rounds": 20, "repeats": 1},
        tabled=True,
    )
    for tcp in TCPS
}

_EDGES = {
    f"{edges.PREFIX}_{regulation}": Group(
        "experiments.bench.acc.edges",
        {
            "regulation": regulation,
            "losses_pct": (0, 1),
            "rounds": {"incast": 40, "single": 100},
            "repeats": 3,
        },
        quick={"rounds": {"incast": 20, "single": 40}, "repeats": 1},
        tabled=True,
    )
    for regulation in edges.REGULATIONS
}

SUITES.add(
    Suite(
        "acc",
        _ABOUT,
        {
            "loss": Group(
                "experiments.bench.acc.loss",
                {
                    "losses_pct": (0, 0.5, 1, 2, 5),
                    "sizes_kb": (100, 300, 1000),
                    "seconds": (3.0, 1.5, 1.5),
                    "turns": 2,
                },
                quick={
                    "losses_pct": (0, 1, 2),
                    "sizes_kb": (100,),
                    "seconds": (4.0,),
                    "turns": 1,
                    "kinds": ("random",),
                },
                tabled=True,
            ),
            **_INCAST,
            "following": Group(
                "experiments.bench.acc.following",
                {"losses_pct": (0, 1, 3, 0.5, 0), "step_s": 6.0},
                quick={},
                tabled=True,
            ),
            **_EDGES,
            "speed": Group(
                "experiments.bench.acc.speed",
                {"turns": 5, "seconds": 4},
                quick={"turns": 2},
                tabled=True,
            ),
            "timeouts": Group(
                "experiments.bench.acc.timeouts",
                {
                    "losses_pct": (0.5, 1, 2, 5, 10),
                    "windows": (2, 3, 4, 6, 8, 10, 16, 32),
                    "count": 1500,
                    "parallel": 200,
                },
                quick={"losses_pct": (1, 5), "windows": (2, 3, 6, 16), "count": 1000},
                tabled=True,
            ),
        },
        Conclusion(conclusion.conclude, conclusion.show, conclusion.draw),
    )
)
