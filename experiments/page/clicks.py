"""What an operator clicks, view by view, and what is there after it."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from experiments.page.browser import Looking


class Click(NamedTuple):
    """``where`` is looked for when its turn comes; ``then`` waits for what it leads to."""

    name: str
    where: Callable[[Any], Any]
    then: Callable[[Any], None]


def _view(page: Any, name: str) -> Any:
    return page.get_by_role("navigation", name="Views").get_by_role("link", name=name, exact=True)


def _heading(page: Any, name: str) -> Any:
    return page.get_by_role("columnheader", name=name)


def _there(test_id: str) -> Callable[[Any], None]:
    return lambda page: page.get_by_test_id(test_id).first.wait_for()


def _nothing(_page: Any) -> None:
    pass


CLICKS = (
    Click("flows", lambda page: _view(page, "Flows"), _there("flows")),
    Click("flows_sort", lambda page: _heading(page, "Age").get_by_role("button"), _there("flows")),
    Click("flows_search", lambda page: page.get_by_role("button", name="Search"), _nothing),
    Click(
        "flow",
        lambda page: page.get_by_test_id("flows").get_by_role("link").first,
        _there("flow-figures"),
    ),
    Click("bandwidth", lambda page: _view(page, "Bandwidth"), _there("shares-state")),
    Click("events", lambda page: _view(page, "Events"), _there("events")),
    Click("events_pause", lambda page: page.get_by_role("button", name="Pause"), _nothing),
    Click("fabric", lambda page: _view(page, "Fabric"), _there("pods")),
    Click("fabric_pod", lambda page: page.locator("[data-group]").nth(1), _there("map")),
    Click("fabric_switch", lambda page: page.locator("[data-switch]").first, _there("ports")),
    Click("port", lambda page: page.get_by_test_id("ports").locator("a").first, _there("holds")),
    Click("overview", lambda page: _view(page, "Overview"), _there("congested")),
)
"""One round through the page."""


def rounds(looking: Looking, n: int) -> Iterator[tuple[str, dict[str, list[float]]]]:
    """Each click of ``n`` rounds, and what it took."""
    page = looking.page
    for turn in range(n):
        for click in CLICKS:
            # At another moment of the second each time: the page renews itself once a second.
            page.wait_for_timeout(200 + 137 * turn % 1000)
            yield click.name, looking.clicked(click.where(page), lambda: click.then(page))  # noqa: B023
