"""DFCP beside TCP."""

from experiments.bench.suites import SUITES, Group, Suite

SUITES.add(
    Suite(
        "dfcp",
        "DFCP beside CUBIC and BBR over long and lossy links",
        {
            "links": Group(
                "experiments.bench.transport.dfcp",
                quick={"losses_pct": (0.1, 1.0), "rtts_ms": (10, 50), "tcps": ("cubic",)},
                seeded=True,
            ),
            "codes": Group("experiments.bench.transport.dfcp_codes", quick={"losses_pct": (5.0,)}),
            "parameters": Group(
                "experiments.bench.transport.dfcp_parameters",
                quick={"redundancies_pct": (0, 5, 50), "windows": (1, 4, 16)},
            ),
            "updates": Group("experiments.bench.transport.dfcp_updates", quick={"joins": 20}),
            "sharing": Group(
                "experiments.bench.transport.dfcp_sharing",
                quick={"mixes": ("2", "1d8t"), "measured_s": 10},
            ),
        },
    )
)
