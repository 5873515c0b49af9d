"""An incident, as the page tells of it, beside what the event log and the switch have counted."""

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

INCAST = IncastSpec(senders=SENDERS, rounds=10**6)

pytestmark = [pytest.mark.browser, pytest.mark.netns, pytest.mark.switch, pytest.mark.slow]


def test_an_incident(expect: Any) -> None:
    with looked_at() as looking:
        page, served = looking.sign_in(), looking.served
        begun_s = time.time()
        with incast(served.bed, INCAST) as reads:
            reads.require_progress(200, 120, "in the incident")
        wait_until(
            lambda: served.notices()[-1]["notice"] == "CR", timeout_s=10, what="the queue is empty"
        )
        page.wait_for_timeout(3000)
        ended_s = time.time()
        datapath_id, number = served.port_hash().split("/")[2:]
        page.evaluate(
            "hash => { location.hash = hash }",
            f"#/incident?from={begun_s:.3f}&to={ended_s:.3f}&port={datapath_id}:{number}",
        )
        page.get_by_test_id("facts").wait_for()
        counts: dict[str, int] = {}
        for one in served.notices():
            assert begun_s < one["wall_s"] < ended_s
            counts[one["notice"]] = counts.get(one["notice"], 0) + 1
        summary = page.get_by_test_id("summary")
        expect(summary).to_contain_text(
            f"{served.bed.roles.bottleneck} had {sum(counts.values())} notices"
        )
        for name, n in counts.items():
            expect(summary).to_contain_text(f"{n} {name}")
        requests = next(
            numbers(sentence)
            for sentence in summary.inner_text().splitlines()
            if sentence.startswith("Weir held")
        )
        accounts = served.bed.bottleneck_switch.accounts().values()
        counted = [
            sum(account.get(f"requests.{name}", 0) for account in accounts)
            for name in ("held", "all")
        ]
        # The page adds up rates of seconds, and where it begins or ends none is a whole one.
        assert requests[:2] == pytest.approx(counted, rel=0.1)
        large = page.get_by_test_id("large-flows").first
        senders = {served.bed.host(name).IP() for name in served.bed.roles.senders}
        assert {one for one in senders if one in large.inner_text()}
        expect(page.get_by_test_id("gaps")).to_have_count(0)
        thresholds_are_those_of_the_switch(page, served)
        expect(page.get_by_test_id("phases").get_by_role("row").nth(1)).to_contain_text("weir")
        file = saved(page, "HTML").read_text()
        assert "<script" not in file
        assert served.bed.roles.bottleneck in file
        told = json.loads(saved(page, "JSON").read_text())["incident"]["events"]
        assert notices(told) == notices(served.notices())


def thresholds_are_those_of_the_switch(page: Any, served: Real) -> None:
    queue = served.queue()
    chart = page.get_by_role("img", name=re.compile("^Queue: ")).first
    told = numbers(chart.get_attribute("aria-label"))
    for name in ("limit_bytes", "low", "mid", "high"):
        # The page writes three digits.
        assert [one for one in told if one == pytest.approx(int(queue[name]), rel=0.01)], name


def saved(page: Any, name: str) -> Path:
    with page.expect_download() as saving:
        page.get_by_role("button", name=f"Save as {name}").click()
    path: Path = saving.value.path()
    return path


def notices(events: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    """What tells notices apart, in the order of their events."""
    fields = ("wall_s", "switch", "port", "notice", "bytes", "sequence")
    return [tuple(one[name] for name in fields) for one in events if one["event"] == "queue_event"]
