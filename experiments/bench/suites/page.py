"""The operator's page over a large fabric."""

from experiments.bench.suites import SUITES, Group, Suite

SUITES.add(
    Suite(
        "page",
        "the operator's page, its API and the controller over 1,000 switches and a million flows",
        {
            "looks": Group(
                "experiments.page.looks",
                {"first_views": 7, "turns": 8, "small": False},
                quick={"first_views": 5, "turns": 2},
            ),
        },
        has_switch=False,
    )
)
