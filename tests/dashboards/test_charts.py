"""Charts of the page: thresholds and notices, what is picked, and what is zoomed."""

import re
from typing import Any

import pytest

import fake_fabric as fabric
from looking import Looking

pytestmark = pytest.mark.browser

PORT = fabric.port_id(*fabric.HOT)
HASH = f"#/port/{PORT.replace(':', '/')}"
LEVELS = {"low_bytes": 16_384, "mid_bytes": 32_768, "high_bytes": 49_152}
# The steps of an episode: what is told, at which length, how many milliseconds after the first.
EPISODE = [("CN-L", 17_000, 0), ("CN-M", 33_000, 8), ("CN-H", 50_000, 16), ("CR", 9000, 60)]


def has_episode(looking: Looking, ago_s: float) -> float:
    """Let an episode have happened; when it began."""
    api = looking.served.api
    begin_s = api.now_s - ago_s
    for name, size, after_ms in EPISODE:
        told_ns = 10**12 + after_ms * 1_000_000
        # The controller hears of all of them 100 ms later, at once.
        wall_s = begin_s + (0 if after_ms == 0 else 0.1)
        api.happens("queue_event", **fabric.notice(fabric.HOT, name, size, told_ns))
        api.events[-1]["wall_s"] = wall_s
    return begin_s


def with_levels(looking: Looking, levels: object, packet_levels: object = None) -> None:
    """Let the hot queue tell of these thresholds."""
    both = {"levels": levels, "packet_levels": packet_levels}
    told = looking.served.api.ports_told

    def ports() -> list[Any]:
        return [
            dict(port) | {"queues": [dict(one) | both for one in port["queues"]]} for port in told()
        ]

    looking.served.api.ports_told = ports


@pytest.mark.parametrize(("span", "most"), [("10min", 5), ("1d", 1)])
def test_history_is_asked_for_no_more_often_than_it_can_be_seen(
    looking: Looking, span: str, most: int
) -> None:
    page = looking.sign_in()
    before = len(looking.requests)
    open_port(page, f"?span={span}")
    page.wait_for_timeout(4000)
    asked = [url for url in looking.requests[before:] if "/v1/history" in url and "port=" in url]
    assert 1 <= len(asked) <= most


def queue(page: Any, text: str) -> Any:
    return page.get_by_role("img", name=re.compile(f"^Queue: .*{text}"))


def open_port(page: Any, query: str = "") -> None:
    page.evaluate("hash => { location.hash = hash }", HASH + query)
    page.get_by_test_id("holds").wait_for()


def test_a_queue_has_its_thresholds_and_notices(looking: Looking, expect: Any) -> None:
    looking.served.api.events.clear()
    with_levels(looking, LEVELS)
    has_episode(looking, 30)
    page = looking.sign_in()
    open_port(page)
    expect(queue(page, "L 16 KiB, M 32 KiB, H 48 KiB")).to_be_visible()
    expect(page.get_by_test_id("port-figures")).to_contain_text("L 16 KiB, M 32 KiB, H 48 KiB")
    expect(queue(page, "1 CN-H, 1 CN-M, 1 CN-L, 1 CR")).to_be_visible()
    legend = page.get_by_test_id("legend")
    expect(legend).to_contain_text("1 CN-H")
    expect(page.get_by_test_id("levels")).to_have_text(re.compile("L 16 KiB *M 32 KiB *H 48 KiB"))
    expect(page.get_by_text("reaches L (16 KiB) has its switch send CN-L")).to_be_visible()
    has_episode(looking, 0)
    expect(legend).to_contain_text("2 CN-H")
    expect(page.get_by_text("Points are the lengths that notices told")).to_be_visible()


def test_thresholds_in_packets_are_told_but_not_drawn(looking: Looking, expect: Any) -> None:
    with_levels(looking, None, {"low_packets": 10, "mid_packets": 20, "high_packets": 30})
    page = looking.sign_in()
    open_port(page)
    expect(page.get_by_test_id("port-figures")).to_contain_text("L 10, M 20, H 30 packets")
    expect(queue(page, "limit 64 KiB; 1 CN-H")).to_be_visible()


def test_a_switch_that_tells_no_thresholds_has_no_lines(looking: Looking, expect: Any) -> None:
    with_levels(looking, None)
    page = looking.sign_in()
    open_port(page)
    expect(queue(page, "limit 64 KiB; 1 CN-H")).to_be_visible()
    expect(page.get_by_test_id("port-figures")).not_to_contain_text("Thresholds")


def test_what_is_dragged_over_is_zoomed_and_back_goes_back(looking: Looking, expect: Any) -> None:
    page = looking.sign_in()
    open_port(page)
    drag(page, 0.5, 0.75)
    picking = page.get_by_test_id("picking")
    expect(picking.get_by_label("From")).to_have_value(re.compile(r"^\d{4}-\d\d-\d\dT"))
    picking.get_by_role("button", name="Zoom").click()
    expect(page.get_by_test_id("zoomed")).to_contain_text("(2 min 3")
    from_s, to_s = (float(one) for one in re.findall(r"=(\d+\.\d+)", page.url))
    assert 120 < to_s - from_s < 180
    drag(page, 0.2, 0.4)
    picking.get_by_role("button", name="Zoom").click()
    expect(page.get_by_test_id("zoomed")).to_contain_text(re.compile(r"\((2|3)\d(\.\d)? s\)"))
    page.go_back()
    expect(page.get_by_test_id("zoomed")).to_contain_text("(2 min 3")
    page.get_by_role("link", name="Show all").click()
    expect(page.get_by_test_id("zoomed")).to_have_count(0)


def drag(page: Any, begin: float, end: float) -> None:
    """Drag over these parts of the width of the queue's chart."""
    page.locator(".charts .u-over").first.scroll_into_view_if_needed()
    box = page.locator(".charts .u-over").first.bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + begin * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], y, steps=5)
    page.mouse.up()


def test_a_time_range_is_picked_without_a_mouse(looking: Looking, expect: Any) -> None:
    page = looking.sign_in()
    open_port(page)
    pick = page.get_by_role("button", name="Pick a time range")
    pick.focus()
    page.keyboard.press("Enter")
    picking = page.get_by_test_id("picking")
    picking.get_by_label("From").focus()
    page.keyboard.press("Escape")
    expect(picking.get_by_label("From")).to_have_count(0)
    pick.press("Enter")
    first = picking.get_by_label("From")
    first.fill(first.input_value()[: len("2026-11-25T04:20")] + ":00.250")
    picking.get_by_role("button", name="Zoom").press("Enter")
    expect(page.get_by_test_id("zoomed")).to_contain_text(" to ")
    assert re.search(r"from=\d+\.250&", page.url)


def test_a_zoomed_queue_shows_notices_at_the_times_of_the_switch(
    looking: Looking, expect: Any
) -> None:
    looking.served.api.events.clear()
    begin_s = has_episode(looking, 60)
    page = looking.sign_in()
    open_port(page, f"?from={begin_s - 0.01:.3f}&to={begin_s + 0.07:.3f}")
    # By the controller's clock, three of them were 100 ms late.
    expect(queue(page, "1 CN-H, 1 CN-M, 1 CN-L, 1 CR")).to_be_visible()
    expect(page.get_by_test_id("zoomed")).to_contain_text("(80 ms)")
    open_port(page, f"?from={begin_s + 0.01:.3f}&to={begin_s + 0.02:.3f}")
    expect(queue(page, "; 1 CN-H$")).to_be_visible()


def remembers_no_more(looking: Looking) -> float:
    """Let an episode have happened before the latest 1000 events; when it began."""
    api = looking.served.api
    api.events.clear()
    begin_s = has_episode(looking, 900)
    for _ in range(1100):
        api.happens("switch_up", switch=0x13)
    return begin_s


def test_notices_that_the_page_does_not_remember_are_asked_for(
    looking: Looking, expect: Any
) -> None:
    begin_s = remembers_no_more(looking)
    gap = {"from_s": begin_s - 3, "to_s": begin_s - 2, "why": "the API was not running"}
    looking.served.api.incident_has = {"gaps": [gap]}
    page = looking.sign_in()
    open_port(page, f"?from={begin_s - 5:.3f}&to={begin_s + 5:.3f}")
    expect(queue(page, "1 CN-H, 1 CN-M, 1 CN-L, 1 CR")).to_be_visible()
    expect(page.get_by_text("Not all notices are known")).to_contain_text("was not running")


def test_earlier_notices_of_a_span_are_asked_for_by_a_button(looking: Looking, expect: Any) -> None:
    remembers_no_more(looking)
    page = looking.sign_in()
    open_port(page, "?span=1h")
    expect(page.get_by_text(re.compile(r"Notices are shown from [\d:]{8} on\.$"))).to_be_visible()
    expect(queue(page, "CN-H")).to_have_count(0)
    page.get_by_role("button", name="Show earlier notices").click()
    expect(queue(page, "1 CN-H, 1 CN-M, 1 CN-L, 1 CR")).to_be_visible()
    expect(page.get_by_text("Notices are shown from")).to_have_count(0)
    page.get_by_role("link", name="1 day").click()
    expect(page.get_by_text("Notices are shown from")).to_contain_text("a zoom of 1 h at most")
    expect(page.get_by_role("button", name="Show earlier notices")).to_have_count(0)


def test_notices_stay_however_much_happens_elsewhere(looking: Looking, expect: Any) -> None:
    looking.served.api.events.clear()
    page = looking.sign_in()
    open_port(page)
    has_episode(looking, 0)
    expect(queue(page, "1 CN-H, 1 CN-M, 1 CN-L, 1 CR")).to_be_visible()
    for _ in range(6000):
        looking.served.api.happens("switch_up", switch=0x13)
    has_episode(looking, 0)
    expect(queue(page, "2 CN-H, 2 CN-M, 2 CN-L, 2 CR")).to_be_visible()


def test_what_the_page_remembers_is_not_asked_for_again(looking: Looking, expect: Any) -> None:
    looking.served.api.events.clear()
    has_episode(looking, 90)
    begin_s = has_episode(looking, 60)
    page = looking.sign_in()
    open_port(page, f"?from={begin_s - 5:.3f}&to={begin_s + 5:.3f}")
    expect(queue(page, "; 1 CN-H")).to_be_visible()
    assert ("GET", "/v1/incident") not in looking.served.api.asked


def test_notices_that_cannot_be_had_are_missed_in_words(looking: Looking, expect: Any) -> None:
    begin_s = remembers_no_more(looking)
    looking.served.api.incident_has = {"refused": "no event is recorded: there is no directory"}
    page = looking.sign_in()
    open_port(page, f"?from={begin_s - 5:.3f}&to={begin_s + 5:.3f}")
    expect(page.get_by_text("Earlier notices cannot be shown")).to_contain_text("no directory")


def test_a_week_is_offered_where_history_goes_so_far(looking: Looking, expect: Any) -> None:
    page = looking.sign_in()
    open_port(page)
    expect(page.get_by_role("link", name="1 day")).to_be_visible()
    expect(page.get_by_role("link", name="1 week")).to_have_count(0)
    looking.served.api.longer_history = True
    page.get_by_role("link", name="1 week").click()
    expect(page.get_by_role("link", name="1 week")).to_have_attribute("aria-current", "true")
    expect(queue(page, "KiB")).to_be_visible()


STROKES = """
const strokes = new Set();
const stroke = CanvasRenderingContext2D.prototype.stroke;
CanvasRenderingContext2D.prototype.stroke = function (...path) {
  strokes.add(`${this.strokeStyle}${this.getLineDash().length > 0 ? ' dashed' : ''}`);
  return stroke.apply(this, path);
};
window.strokesSeen = () => [...strokes];
"""


def test_nobody_needs_colours_to_tell_lines_apart(looking: Looking, expect: Any) -> None:
    looking.context.add_init_script(STROKES)
    page = looking.sign_in()
    open_port(page)
    requests = page.locator("figure").filter(has_text="Requests").first
    keys = requests.locator("figcaption .key path")
    expect(keys).to_have_count(2)
    assert keys.nth(0).get_attribute("stroke-dasharray") is None
    assert keys.nth(1).get_attribute("stroke-dasharray")
    colours = page.evaluate(
        "['blue', 'violet', 'level-M'].map(name =>"
        " getComputedStyle(document.body).getPropertyValue(`--${name}`).trim())"
    )
    blue, violet, dropped = colours
    seen: set[str] = set()
    for _ in range(100):
        if (seen := set(page.evaluate("strokesSeen()"))) >= {blue, dropped, f"{violet} dashed"}:
            break
        page.wait_for_timeout(50)
    assert seen >= {blue, dropped, f"{violet} dashed"}
    assert f"{blue} dashed" not in seen
