"""The switch by itself."""

from experiments.bench.suites import SUITES, Group, Suite

SUITES.add(
    Suite(
        "switch",
        "the switch: latency, shaping, forwarding, credit, marks",
        {
            name: Group(f"experiments.bench.switch.{name}")
            for name in ("latency", "shaping", "forwarding", "credit", "dctcp")
        },
    )
)
