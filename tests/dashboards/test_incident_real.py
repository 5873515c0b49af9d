"""An incident of a real incast through a real switch: what the page tells is what the event log,
the API and the switch have."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from experiments.traffic.reader import IncastSpec
from real import SENDERS, Real, looked_at, numbers
from testbed.command import wait_until
from traffic import incast

LEVELS = ("low", "mid", "high")
INCAST = IncastSpec(senders=SENDERS, rounds=10**6)

pytestmark = [pytest.mark.browser, pytest.mark.netns, pytest.mark.switch, pytest.mark.slow]


def test_an_incident_is_told_as_it_was(expect: Any, tmp_path: Path) -> None:
    with looked_at() as looking:
        served = looking.served
        page = looking.sign_in()
        begin_s = time.time()
        with incast(served.bed, INCAST) as reads:
            reads.require_progress(20, 30, "under regulation")
            # Snapshots are taken every 2 s.
            time.sleep(6)
        # Queues empty, and the last second of the history is there.
        time.sleep(3)
        end_s = time.time()
        page.evaluate("hash => { location.hash = hash }", served.port_hash())
        page.get_by_test_id("holds").wait_for()
        port = "{datapath_id}:{port}".format(**served.bottleneck())
        hash_ = f"#/incident?from={begin_s:.3f}&to={end_s:.3f}&port={port}"
        recorded(served, begin_s, end_s, port)
        page.evaluate("hash => { location.hash = hash }", hash_)
        is_told_as_it_was(page, served, begin_s, end_s, expect, tmp_path)


def recorded(served: Real, begin_s: float, end_s: float, port: str) -> None:
    """Wait until all notices of the event log are told by the API."""
    switch, _, number = port.partition(":")
    asked = f"/v1/incident?from={begin_s:.3f}&to={end_s:.3f}&switch={switch}&port={number}"

    def all_there() -> bool:
        told = [one for one in served.ask(asked)["events"] if one["event"] == "queue_event"]
        return len(told) == len(within(served.notices(), begin_s, end_s))

    wait_until(all_there, timeout_s=10, what="the API has recorded all notices", poll_s=0.5)


def within(events: list[dict[str, Any]], begin_s: float, end_s: float) -> list[dict[str, Any]]:
    return [one for one in events if begin_s <= one["wall_s"] <= end_s]


def is_told_as_it_was(
    page: Any, served: Real, begin_s: float, end_s: float, expect: Any, tmp_path: Path
) -> None:
    bottleneck = served.bed.roles.bottleneck
    expect(page.get_by_role("heading", level=1)).to_contain_text(bottleneck)
    notices = within(served.notices(), begin_s, end_s)
    port = served.bottleneck()
    here = [
        one for one in notices if (one["switch"], one["port"]) == (port["switch"], port["port"])
    ]
    assert here
    kinds = {name: sum(one["notice"] == name for one in here) for name in ("CN-H", "CN-M", "CN-L")}
    worst = next(name for name, n in kinds.items() if n > 0)
    summary = page.get_by_test_id("summary")
    expect(summary).to_contain_text(f"{bottleneck} had {len(here)} notices, at worst {worst}")

    # Everything that the page tells of the queue is what the switch says.
    queue = served.queue()
    limit, low, mid, high = (int(queue[name]) for name in ("limit_bytes", *LEVELS))
    label = page.get_by_role("img", name=re.compile("^Queue: ")).first.get_attribute("aria-label")
    told = set(numbers(label))
    for size in (limit, low, mid, high):
        assert any(size == pytest.approx(one, rel=0.01) for one in told), (size, label)

    # Who was large: connections of all senders, in the class that the controller has put them in.
    flows = page.get_by_test_id("large-flows")
    expect(flows.get_by_role("row")).to_have_count(11)
    ends = {served.bed.host(name).IP() for name in served.bed.roles.senders}
    sources = {cell.split(":")[0] for cell in flows.locator("td:first-child").all_inner_texts()}
    assert sources <= ends | {served.bed.host(served.bed.roles.receiver).IP()}
    expect(page.get_by_test_id("phases").get_by_role("row").nth(1)).to_contain_text("weir")

    with page.expect_download() as saving:
        page.get_by_role("button", name="Save as JSON").click()
    saving.value.save_as(tmp_path / "incident.json")
    incident = json.loads((tmp_path / "incident.json").read_text())["incident"]
    log = [(one["wall_s"], one["notice"], one["bytes"]) for one in notices]
    assert log == [
        (one["wall_s"], one["notice"], one["bytes"])
        for one in incident["events"]
        if one["event"] == "queue_event"
    ]
    with page.expect_download() as saving:
        page.get_by_role("button", name="Save as HTML").click()
    saving.value.save_as(tmp_path / "incident.html")
    assert f"had {len(here)} notices" in (tmp_path / "incident.html").read_text()
