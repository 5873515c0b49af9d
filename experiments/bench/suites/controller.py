"""The controller by itself, and what it says of paths."""

from experiments.bench.suites import SUITES, Group, Suite

SUITES.add(
    Suite(
        "controller",
        "the controller: connections a second, control delay, memory, idle pools, listeners, "
        "fair shares, link failures, cost of flows",
        {
            **{
                name: Group(f"experiments.bench.controller.{name}")
                for name in ("connections", "delay", "memory", "pool", "listeners", "shares")
            },
            "link_change": Group("experiments.bench.controller.link_change", quick={"failures": 3}),
            "cost": Group("experiments.bench.controller.cost", quick={"flows": (1, 600, 1500)}),
        },
        has_switch=False,
    )
)
SUITES.add(
    Suite(
        "bandwidth",
        "the controller's estimates of available bandwidth against the truth",
        {
            "bandwidth": Group(
                "experiments.bench.controller.bandwidth", quick={"loads": 3}, seeded=True
            )
        },
    )
)
