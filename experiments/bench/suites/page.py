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
            "crowd": Group(
                "experiments.page.crowd",
                {"windows": 7, "window_s": 10, "recorded_s": 20, "count": 50, "small": False},
                quick={"windows": 3, "recorded_s": 10},
            ),
            "staying": Group(
                "experiments.page.staying", {"minutes": 30, "small": False}, quick={"minutes": 5}
            ),
        },
        has_switch=False,
    )
)
