"""Tables of which only the rows in sight are in the document: flows and events."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

import fake_fabric as fabric
from accessibility import LOOKS, complaints
from fake_api import Served
from looking import Looking

pytestmark = pytest.mark.browser

MILLION = 1_000_000
MOST_ROWS = 80


def table(page: Any, name: str, query: str = "") -> Any:
    """Go to a table, and wait for its first row."""
    page.evaluate("hash => { location.hash = hash }", f"#/{name}{query}")
    found = page.get_by_test_id(name)
    found.get_by_role("cell").first.wait_for()
    return found


def scroll(page: Any, name: str, top: str) -> None:
    """Scroll a table to a place, in pixels."""
    page.evaluate(
        "([name, top]) => { const rows = document.querySelector(`.rows:has(.${name})`);"
        " rows.scrollTop = top === 'end' ? rows.scrollHeight : Number(top) }",
        [name, top],
    )


def at_rest(page: Any, region: Any) -> None:
    """Wait until a table does not scroll any more: the browser drops a key that comes within the
    scrolling of the one before."""
    before = None
    while (now := region.evaluate("region => region.scrollTop")) != before:
        before = now
        page.wait_for_timeout(200)


def named(table: Any, index: int) -> Any:
    """The row with this place; the header's is 1."""
    return table.locator(f"[role=row][aria-rowindex='{index}']")


def test_a_million_flows_are_scrolled_and_few_are_in_the_document(
    looking: Looking, expect: Any
) -> None:
    api = looking.served.api
    api.flows_known = MILLION
    page = looking.sign_in()
    flows = table(page, "flows")
    expect(page.get_by_test_id("total")).to_contain_text(" of 1,000,000, the largest first")
    expect(flows).to_have_attribute("aria-rowcount", str(MILLION + 1))
    expect(named(flows, 2)).to_contain_text("10.0.0.1:80")
    expect(named(flows, 2)).to_contain_text("15.6 MiB")
    scroll(page, "flows", "end")
    expect(named(flows, 100_001)).to_contain_text("10.1.243.200:80")
    expect(page.get_by_text("Rows beyond 100,000 come by a search")).to_be_visible()
    page.get_by_label("Row", exact=True).fill("50,000")
    page.get_by_role("button", name="Go", exact=True).click()
    expect(named(flows, 50_001)).to_contain_text(fabric.flow(49_999)["src"] + ":80")
    expect(page.get_by_test_id("total")).to_contain_text(re.compile(r"^\s*(49,99\d|50,000) to"))
    assert flows.get_by_role("row").count() < MOST_ROWS
    # However far one scrolls, the controller is asked for what is in sight and a little more.
    limits = [
        int(n) for url in looking.requests for n in re.findall(r"/v1/flows\?.*limit=(\d+)", url)
    ]
    assert max(limits) <= 300
    assert len(limits) < 30


def test_flows_are_searched_and_sorted_by_the_server(looking: Looking, expect: Any) -> None:
    page = looking.sign_in()
    flows = table(page, "flows")
    age = flows.get_by_role("columnheader", name="Age")
    volume = flows.get_by_role("columnheader", name="Volume")
    expect(volume).to_have_attribute("aria-sort", "descending")
    age.get_by_role("button").click()
    expect(page.get_by_test_id("total")).to_contain_text("the oldest first")
    expect(age).to_have_attribute("aria-sort", "descending")
    expect(named(flows, 2)).to_contain_text("4 min 11 s")
    age.get_by_role("button").press("Enter")
    expect(page.get_by_test_id("total")).to_contain_text("the newest first")
    expect(named(flows, 2)).to_contain_text("1.5 s")
    assert page.url.endswith("#/flows?sort=newest")
    page.go_back()
    expect(named(flows, 2)).to_contain_text("4 min 11 s")
    page.get_by_label("Class").select_option("background")
    expect(page.get_by_test_id("total")).to_contain_text("1 to 2 of 2, the oldest first")
    page.get_by_label("Host or subnet").fill("10.0.0.0/99")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("write e.g. 10.0.0.1")


def test_another_search_begins_at_the_top(looking: Looking, expect: Any) -> None:
    page = looking.sign_in()
    flows = table(page, "flows")
    scroll(page, "flows", "end")
    expect(named(flows, fabric.FLOWS + 1)).to_be_visible()
    page.get_by_label("Class").select_option("burst")
    expect(page.get_by_test_id("total")).to_contain_text(re.compile(r"^\s*1 to \d+\s+of 248"))


def test_flows_in_sight_are_renewed(looking: Looking, expect: Any) -> None:
    page = looking.sign_in()
    flows = table(page, "flows")
    expect(page.get_by_test_id("total")).to_contain_text("of 250")
    looking.served.api.flows_known = 7
    expect(page.get_by_test_id("total")).to_contain_text("1 to 7 of 7", timeout=5000)
    expect(flows.get_by_role("row")).to_have_count(8)


@pytest.mark.parametrize("name", ["flows", "events"])
def test_a_table_is_scrolled_by_keyboard(looking: Looking, expect: Any, name: str) -> None:
    for _ in range(300):
        looking.served.api.happens("switch_up", switch=0x13)
    page = looking.sign_in()
    rows = table(page, name)
    region = page.get_by_role("region", name=name.title())
    region.focus()
    page.keyboard.press("End")
    expect(named(rows, int(rows.get_attribute("aria-rowcount")))).to_be_in_viewport()
    at_rest(page, region)
    page.keyboard.press("Home")
    expect(named(rows, 2)).to_be_in_viewport()


def test_the_row_with_the_focus_stays(looking: Looking, expect: Any) -> None:
    page = looking.sign_in()
    flows = table(page, "flows")
    link = named(flows, 3).get_by_role("link").first
    link.focus()
    scroll(page, "flows", "end")
    expect(named(flows, fabric.FLOWS + 1)).to_be_visible()
    expect(link).to_be_focused()


def test_events_come_as_they_happen(looking: Looking, expect: Any) -> None:
    page = looking.sign_in()
    events = table(page, "events")
    expect(page.get_by_test_id("tail")).to_have_text("Live")
    looking.served.api.happens("switch_down", switch=0x13)
    expect(events.get_by_role("row").nth(1)).to_contain_text("switch_down", timeout=1000)
    page.get_by_role("button", name="Pause").click()
    looking.served.api.happens("switch_up", switch=0x13, registers=9)
    page.get_by_role("button", name="Go on (1 new)").click()
    expect(events.get_by_role("row").nth(1)).to_contain_text("registers: 9")
    page.get_by_label("With the words").fill("cn-h")
    expect(events.get_by_role("row")).to_have_count(2)


def test_events_stand_still_while_somebody_reads(looking: Looking, expect: Any) -> None:
    api = looking.served.api
    for n in range(400):
        api.happens("switch_up", switch=0x13, registers=n)
    page = looking.sign_in()
    events = table(page, "events")
    tail = page.get_by_test_id("tail")
    expect(tail).to_have_text("Live")
    scroll(page, "events", "5000")
    expect(tail).to_have_text("Paused while you read")
    before = named(events, 180).inner_text()
    api.happens("switch_down", switch=0x14)
    expect(page.get_by_role("button", name="Go on (1 new)")).to_be_visible()
    assert named(events, 180).inner_text() == before
    scroll(page, "events", "0")
    expect(tail).to_have_text("Live")
    expect(events.get_by_role("row").nth(1)).to_contain_text("switch_down")
    scroll(page, "events", "5000")
    page.get_by_role("button", name="Go on").click()
    expect(tail).to_have_text("Live")
    expect(named(events, 2)).to_be_in_viewport()


def test_a_thousand_events_a_second_are_kept_up_with(looking: Looking, expect: Any) -> None:
    api = looking.served.api
    page = looking.sign_in()
    events = table(page, "events")
    for n in range(4000):
        api.happens("switch_up", switch=0x13, registers=n)
    expect(events.get_by_role("row").nth(1)).to_contain_text("registers: 3999")
    assert events.get_by_role("row").count() < MOST_ROWS
    assert int(events.get_attribute("aria-rowcount")) > 3900


def test_events_have_no_hole_after_the_network_was_gone(looking: Looking, expect: Any) -> None:
    api = looking.served.api
    api.happens("switch_up", switch=0x13, registers=1)
    page = looking.sign_in()
    events = table(page, "events")
    expect(events).to_contain_text("registers: 1")
    looking.served.stop()
    for n in range(1500):
        api.happens("switch_down", switch=0x13, registers=n)
    looking.served.start()
    expect(events.get_by_role("row").nth(1)).to_contain_text("registers: 1499", timeout=15_000)
    # What came before the 1000 that are told is not told as if it had come right before them.
    expect(events).to_have_attribute("aria-rowcount", "1001")


def test_events_are_saved(looking: Looking, expect: Any, tmp_path: Path) -> None:
    page = looking.sign_in()
    looking.served.api.happens("=cmd|' /C calc'!A0", note='"quoted", twice')
    events = table(page, "events", "?text=quoted")
    expect(events.get_by_role("row")).to_have_count(2)
    for name, suffix in (("JSON lines", "jsonl"), ("CSV", "csv")):
        with page.expect_download() as saving:
            page.get_by_role("button", name=f"Save as {name}").click()
        saving.value.save_as(tmp_path / f"events.{suffix}")
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["note"] for line in lines] == ['"quoted", twice']
    with (tmp_path / "events.csv").open(newline="", encoding="utf-8-sig") as file:
        [row] = csv.DictReader(file)
    # A spreadsheet takes nothing of it for a formula.
    assert row["event"] == "'=cmd|' /C calc'!A0"
    assert json.loads(row["json"])["note"] == '"quoted", twice'
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", row["time"])


def test_what_others_have_chosen_is_text_in_tables(looking: Looking, expect: Any) -> None:
    page = looking.sign_in()
    looking.served.api.happens(fabric.HOSTILE, mac="<b>bold</b>")
    expect(table(page, "events")).to_contain_text(fabric.HOSTILE)
    expect(page.get_by_test_id("events")).to_contain_text("<b>bold</b>")
    assert page.locator("main img, main b, main script").count() == 0


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
@pytest.mark.parametrize("name", ["flows", "events"])
def test_all_can_use_it(browser: Any, served: Served, scheme: str, width: int, name: str) -> None:
    for _ in range(100):
        served.api.happens("switch_up", switch=0x13)
    size = {"width": width, "height": 844}
    looking = Looking(browser, served, color_scheme=scheme, viewport=size)
    page = looking.sign_in()
    table(page, name)
    assert complaints(page) == []
    scroll(page, name, "1000")
    page.get_by_test_id(name).get_by_role("cell").first.wait_for()
    assert complaints(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert looking.errors == []
    looking.context.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_no_cell_is_written_over_another(looking: Looking, width: int) -> None:
    """Though addresses are long."""
    page = looking.sign_in()
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("location.hash = '#/flows'")
    row = page.get_by_test_id("flows").get_by_role("row", name=re.compile("2001:db8"))
    row.wait_for()
    covered = row.evaluate(
        """row => [...row.children].filter(cell => {
            cell.scrollIntoView({ inline: "center", block: "nearest" });
            const { left, top, height } = cell.getBoundingClientRect();
            return !cell.contains(document.elementFromPoint(left + 2, top + height / 2));
        }).map(cell => cell.textContent.trim())"""
    )
    assert covered == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
