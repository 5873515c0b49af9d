"""Incidents: picked on a chart, told on one page, taken away as a file."""

import itertools
import json
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import fake_fabric as fabric
import fake_incident
from accessibility import LOOKS, complaints
from fake_api import Served
from looking import Looking
from test_charts import drag, has_episode, open_port

pytestmark = pytest.mark.browser

PORT = fabric.port_id(*fabric.HOT)
N_PRINTED = 300
QUIET = fabric.port_id(0x12, 3)
SCRIPT = "<script>alert(3)</script>"


def address(from_s: float, to_s: float, port: str = "") -> str:
    return f"#/incident?from={from_s:.3f}&to={to_s:.3f}" + (f"&port={port}" if port else "")


def open_incident(looking: Looking, port: str = PORT, name: str = "operator") -> float:
    """Let an episode have happened a minute ago, and go to what happened then; when it began."""
    looking.served.api.events.clear()
    begin_s = has_episode(looking, 60)
    page = looking.sign_in(name)
    page.evaluate("hash => { location.hash = hash }", address(begin_s - 10, begin_s + 20, port))
    page.get_by_test_id("facts").wait_for()
    return begin_s


def test_what_is_picked_on_a_port_is_told_on_one_page(looking: Looking, expect: Any) -> None:
    looking.served.api.events.clear()
    has_episode(looking, 200)
    page = looking.sign_in()
    open_port(page)
    drag(page, 0.5, 0.75)
    page.get_by_test_id("picking").get_by_role("link", name="What happened then").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Incident at leaf1-eth3")
    assert re.search(r"#/incident\?from=\d+\.\d{3}&to=\d+\.\d{3}&port=0{14}11%3A3$", page.url)
    expect(page.get_by_test_id("incident-events").get_by_role("row")).to_have_count(5)


def test_what_is_picked_on_the_totals_is_of_the_whole_fabric(looking: Looking, expect: Any) -> None:
    page = looking.sign_in()
    picking = page.get_by_test_id("picking")
    picking.get_by_role("button", name="Pick a time range").click()
    expect(picking.get_by_role("button", name="Zoom")).to_have_count(0)
    picking.get_by_role("link", name="What happened then").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Incident in the fabric")


def test_the_navigation_leads_to_a_report_and_says_how_to_pick_its_time(
    looking: Looking, expect: Any
) -> None:
    page = looking.sign_in()
    entry = page.get_by_role("navigation").get_by_role("link", name="Incident")
    entry.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Incident")
    expect(entry).to_have_attribute("aria-current", "page")
    expect(page.get_by_text("drag over a chart of the overview or of a port")).to_be_visible()
    page.get_by_role("link", name="The last ten minutes").click()
    expect(page.get_by_test_id("facts")).to_contain_text("all ports")
    expect(entry).to_have_attribute("aria-current", "page")


def test_an_incident_tells_all_that_happened(looking: Looking, expect: Any) -> None:
    api = looking.served.api
    begin_s = api.now_s - 60
    api.incident_has = {
        "audit": [fake_incident.entry(begin_s)],
        "gaps": [{"from_s": begin_s, "to_s": begin_s + 5, "why": "the API was not running"}],
        "events_left_out": 1200,
        "events_from_s": begin_s,
    }
    open_incident(looking)
    page = looking.page
    facts = page.get_by_test_id("facts")
    for text in ("UTC+00:00", " UTC", "controller 0.1.0", "by operator", "0000000000000011"):
        expect(facts).to_contain_text(text)
    summary = page.get_by_test_id("summary")
    expect(summary).to_contain_text("4 notices, at worst CN-H (1 CN-H, 1 CN-M, 1 CN-L, 1 CR)")
    expect(summary).to_contain_text(re.compile(r"Weir held [\d.]+ k of [\d.]+ k requests \(\d"))
    expect(summary).to_contain_text("1.2 k events are left out")
    gaps = page.get_by_test_id("gaps")
    expect(gaps).to_contain_text("(5 s): the API was not running")
    expect(gaps).to_contain_text("events from before were not kept")
    queue = page.get_by_role("img", name=re.compile("^Queue: "))
    expect(queue).to_have_accessible_name(
        re.compile("limit 64 KiB, L 16 KiB, M 32 KiB, H 48 KiB; 1 CN-H, 1 CN-M, 1 CN-L, 1 CR")
    )
    expect(page.get_by_test_id("phases")).to_contain_text("background 14.3 KiB")
    first = page.get_by_test_id("large-flows").get_by_role("row").nth(1)
    expect(first).to_contain_text("10.0.0.1:80")
    expect(first).to_contain_text("8.39 Mb/s")
    expect(page.get_by_test_id("audit")).to_contain_text("settings")
    expect(page.get_by_test_id("audit")).to_contain_text("regulation.max_hold: 10ms → 20ms")
    events = page.get_by_test_id("incident-events")
    expect(events.get_by_role("row").nth(1)).to_contain_text("CN-L")
    page.get_by_label("With the words").fill("cn-h")
    expect(events.get_by_role("row")).to_have_count(2)


def test_what_is_not_known_is_not_told_as_nothing(
    looking: Looking, expect: Any, tmp_path: Path
) -> None:
    api = looking.served.api
    begin_s = api.now_s - 60
    api.incident_has = {
        "gaps": [{"from_s": begin_s, "to_s": begin_s + 5, "why": "the API was not running"}] * 2,
        "events": [],
    }
    page = looking.sign_in()
    page.evaluate("hash => { location.hash = hash }", address(begin_s, begin_s + 20, QUIET))
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_text(f"Incident at {fabric.name(0x12, 3)}")
    expect(page.locator(".title-row", has=heading).locator(".badge")).to_have_count(0)
    summary = page.get_by_test_id("summary")
    expect(summary).to_contain_text("No notice is known of.")
    expect(summary).to_contain_text("2 parts of the time are not known.")
    section = page.get_by_test_id("incident-port")
    expect(section.first).to_contain_text("no notice is known of; the one asked for")
    expect(page.get_by_text("No change is known of this time.")).to_be_visible()
    text = saved(page, "HTML", tmp_path).read_text()
    for sentence in ("No notice is known of.", "No change is known of this time.", "were held"):
        assert sentence in text
    assert "Nothing was changed" not in text


def test_times_of_another_day_have_their_day(looking: Looking, expect: Any) -> None:
    begin_s = looking.served.api.now_s - 2 * 86_400
    looking.served.api.incident_has = {"audit": [fake_incident.entry(begin_s + 1)]}
    page = looking.sign_in()
    page.evaluate("hash => { location.hash = hash }", address(begin_s, begin_s + 20))
    day = time.strftime("%Y-%m-%d ", time.localtime(begin_s + 1))
    expect(page.get_by_test_id("audit").locator("time")).to_contain_text(day)


def test_an_hour_of_a_busy_fabric_is_told(looking: Looking, expect: Any) -> None:
    to_s = int(looking.served.api.now_s) - 10
    from_s = to_s - 3600
    ports = [fabric.HOT, *((0x12, number) for number in range(1, 7)), (0x13, 1)]
    told = itertools.cycle(
        (switch, port, notice) for notice in ("CN-H", "CR") for switch, port in ports
    )
    looking.served.api.incident_has = {
        "ports": [
            fake_incident.place(*at)
            | {"worst": "H", "notices": 9, "history": fake_incident.history(from_s, to_s, True)}
            for at in ports
        ],
        "events": [
            {"serial": n, "event": "queue_event", "wall_s": from_s + n * 0.7, "time_ns": 1}
            | {"switch": switch, "port": port, "notice": notice, "bytes": 50_000, "packets": 40}
            | {"limit_bytes": fabric.LIMIT_BYTES, "burst": 32, "background": 2}
            for n, (switch, port, notice) in enumerate(itertools.islice(told, 5000))
        ],
        "events_left_out": 3_000_000,
    }
    page = looking.sign_in()
    page.evaluate("hash => { location.hash = hash }", address(from_s, to_s, PORT))
    sections = page.get_by_test_id("incident-port")
    expect(sections).to_have_count(len(ports))
    expect(sections.first).to_contain_text("leaf1-eth3")
    expect(page.get_by_test_id("summary")).to_contain_text("3 M events are left out")
    queue = sections.last.get_by_role("img", name=re.compile("^Queue: "))
    expect(queue).to_have_accessible_name(re.compile("313 CN-H, 312 CR"))
    events = page.get_by_test_id("incident-events")
    expect(events).to_have_attribute("aria-rowcount", "5001")
    assert events.get_by_role("row").count() < 100


def test_a_time_that_is_too_long_is_not_asked_for(looking: Looking, expect: Any) -> None:
    page = looking.sign_in()
    page.evaluate("hash => { location.hash = hash }", address(1.7e9, 1.7e9 + 7200))
    expect(page.get_by_test_id("too-long")).to_contain_text("at most 1 h")
    assert ("GET", "/v1/incident") not in looking.served.api.asked
    page.get_by_role("link", name="Take the last hour of it").click()
    expect(page.get_by_test_id("facts")).to_contain_text("(1 h)")


def test_a_time_is_written_where_nothing_was_picked(looking: Looking, expect: Any) -> None:
    page = looking.sign_in()
    page.evaluate("hash => { location.hash = hash }", f"#/port/{PORT.replace(':', '/')}")
    page.get_by_role("link", name="Report on another time").click()
    expect(page.get_by_text(f"Of port {PORT}")).to_be_visible()
    page.get_by_label("From").fill("2026-11-24T10:00:00.500")
    page.get_by_label("To").fill("2026-11-24T09:00:00.000")
    page.get_by_label("To").blur()
    expect(page.get_by_role("alert")).to_have_text("The end has to be after the beginning.")
    page.get_by_label("To").fill("2026-11-24T10:10:00.500")
    page.get_by_label("To").blur()
    expect(page.get_by_role("alert")).to_have_count(0)
    assert complaints(page) == []
    page.get_by_role("button", name="Show what happened").click()
    expect(page.get_by_test_id("facts")).to_contain_text("2026-11-24 10:00:00 to 10:10:00 (10 min)")
    page.evaluate("location.hash = '#/incident?from=2&to=1'")
    page.get_by_role("link", name="The last hour").click()
    expect(page.get_by_test_id("facts")).to_contain_text("(1 h)")


def test_what_is_not_over_can_be_asked_for_again(looking: Looking, expect: Any) -> None:
    api = looking.served.api
    page = looking.sign_in()
    hash_ = address(api.now_s - 60, api.now_s + 60)
    page.evaluate("hash => { location.hash = hash }", hash_)
    events = page.get_by_test_id("incident-events")
    expect(events.get_by_role("row")).to_have_count(4)
    api.happens("switch_down", switch=0x13)
    whole, note = page.get_by_test_id("incident"), page.get_by_test_id("unfinished")
    api.broken.add("/v1/incident")
    page.get_by_role("button", name="Ask again").click()
    # What is there stays until there is something newer, and is not taken for it.
    expect(note).to_contain_text("it is broken for a while What follows is from then.")
    expect(whole).to_have_class(re.compile("stale"))
    expect(events.get_by_role("row")).to_have_count(4)
    api.broken.clear()
    expect(events.get_by_role("row")).to_have_count(5)
    expect(whole).not_to_have_class(re.compile("stale"))
    expect(note).not_to_contain_text("from then")


class Seen(HTMLParser):
    """What a file has: elements, attributes, text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def saved(page: Any, name: str, tmp_path: Path) -> Path:
    with page.expect_download() as saving:
        page.get_by_role("button", name=f"Save as {name}").click()
    path = tmp_path / saving.value.suggested_filename
    saving.value.save_as(path)
    return path


def test_a_file_has_it_all_and_runs_nothing(
    looking: Looking, expect: Any, tmp_path: Path, browser: Any
) -> None:
    api = looking.served.api
    script = {SCRIPT: SCRIPT, "notice": SCRIPT, "port": f"{SCRIPT}:1"}
    hostile = fabric.port_id(*fake_incident.COLD)
    begin_s = api.now_s - 60
    api.incident_has = {
        "audit": [fake_incident.entry(begin_s, by=SCRIPT, detail=SCRIPT)],
        "gaps": [{"from_s": begin_s, "to_s": begin_s + 5, "why": SCRIPT}],
        "version": SCRIPT,
    }
    open_incident(looking, hostile)
    page = looking.page
    expect(page.get_by_role("heading", level=1)).to_contain_text(fabric.HOSTILE)
    api.events.append({"serial": 99, "event": SCRIPT, "wall_s": begin_s, "time_ns": 1} | script)
    page.reload()
    expect(page.get_by_test_id("incident-events")).to_contain_text(SCRIPT)
    expect(page.get_by_test_id("gaps")).to_contain_text(SCRIPT)
    assert page.locator("main img, main b, main script").count() == 0

    path = saved(page, "HTML", tmp_path)
    assert re.fullmatch(r"weir-incident-[\dT-]+Z-0000000000000012-4\.html", path.name)
    seen = Seen(path.read_text())
    assert not seen.tags & {"script", "img", "iframe", "object", "link", "b", "form", "a"}
    assert not [name for name, _ in seen.attributes if name.startswith("on")]
    assert not [name for name, _ in seen.attributes if name in ("src", "href", "srcset", "style")]
    for text in (SCRIPT, fabric.HOSTILE, "CN-H at 48.8 KiB", "10.0.0.1:80", "leaf1-eth3"):
        assert text in seen.text, text

    offline = browser.new_context()
    alone = offline.new_page()
    asked: list[str] = []
    told: list[str] = []
    alone.on("request", lambda request: asked.append(request.url))
    alone.on("console", lambda message: told.append(message.text))
    alone.on("dialog", lambda dialog: told.append(dialog.message))
    alone.goto(path.as_uri())
    expect(alone.get_by_role("heading", level=1)).to_contain_text(fabric.HOSTILE)
    queue = alone.get_by_role("img", name="Queue").first
    assert queue.bounding_box()["height"] > 100
    assert asked == [path.as_uri()]
    assert told == []
    offline.close()


def test_the_same_can_be_had_as_json(looking: Looking, tmp_path: Path) -> None:
    open_incident(looking)
    told = json.loads(saved(looking.page, "JSON", tmp_path).read_text())
    assert told["made"]["by"] == "operator"
    assert [event["notice"] for event in told["incident"]["events"]] == [
        "CN-L",
        "CN-M",
        "CN-H",
        "CR",
    ]
    assert len(told["incident"]["snapshots"][0]["flows"]) == fake_incident.LARGEST


def test_times_are_those_of_who_makes_the_report(
    browser: Any, served: Served, tmp_path: Path
) -> None:
    looking = Looking(browser, served, timezone_id="America/St_Johns")
    page = looking.sign_in()
    # At noon UTC of a day in winter.
    page.evaluate("hash => { location.hash = hash }", address(1_795_608_000, 1_795_608_060))
    text = page.get_by_test_id("facts").inner_text()
    assert "2026-11-25 08:30:00 to 08:31:00 (1 min), UTC-03:30" in text
    assert "2026-11-25 12:00:00.000 to 12:01:00.000 UTC" in text
    assert "times are local, UTC-03:30" in " ".join(
        saved(page, "HTML", tmp_path).read_text().split()
    )
    looking.context.close()


def test_a_link_is_copied(looking: Looking, expect: Any) -> None:
    looking.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_incident(looking)
    page = looking.page
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_text("The link is copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == page.url


def test_paper_has_charts_of_its_own_and_no_buttons(looking: Looking, expect: Any) -> None:
    begin_s = looking.served.api.now_s - 60
    events = [
        {"serial": n, "event": "switch_up", "wall_s": begin_s, "time_ns": 1, "switch": 0x13}
        for n in range(N_PRINTED)
    ]
    looking.served.api.incident_has = {"events": events}
    open_incident(looking)
    page = looking.page
    assert page.get_by_test_id("incident-events").get_by_role("row").count() < N_PRINTED
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    expect(page.get_by_role("button", name="Print")).to_be_hidden()
    expect(page.locator(".plot").first).to_be_hidden()
    drawing = page.locator("figure.printed svg").first
    expect(drawing).to_be_visible()
    assert page.locator("figure.printed .line").first.get_attribute("d").startswith("M")
    # Rows that are out of sight are on paper, too.
    assert page.locator(".incident-events .line").count() == N_PRINTED
    flows = page.get_by_test_id("large-flows").get_by_role("row")
    assert flows.count() == fake_incident.LARGEST + 1
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    expect(page.get_by_test_id("incident-events")).to_be_visible()
    assert flows.count() == 11
    # Paper is white, whatever the screen is.
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(22, 32, 42)"


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_all_can_use_it(browser: Any, served: Served, scheme: str, width: int) -> None:
    size = {"width": width, "height": 844}
    looking = Looking(browser, served, color_scheme=scheme, viewport=size)
    served.api.incident_has = {"audit": [fake_incident.entry(served.api.now_s - 50)]}
    open_incident(looking)
    assert complaints(looking.page) == []
    assert looking.page.evaluate("document.documentElement.scrollWidth") <= width
    assert looking.errors == []
    looking.context.close()
