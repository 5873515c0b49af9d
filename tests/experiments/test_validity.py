"""Every check holds for a good run, and fails for a run that is bad in its way."""

from typing import Any

import pytest

from experiments.measure.validity import busiest, checks
from recorded import MS, START_NS, data


def verdicts(**changes: Any) -> dict[str, bool]:
    return {check.name: check.holds for check in checks(data(**changes))}


def test_a_good_run() -> None:
    assert all(verdicts().values())
    assert len(verdicts()) == 11


def notices(*told: tuple[str, int]) -> list[dict[str, Any]]:
    return [
        {"event": "queue_event", "notice": kind, "missed": 0, "switch_time_ns": START_NS + ms * MS}
        for kind, ms in told
    ]


@pytest.mark.parametrize("scheme", ["sdtcp", "sdtcp_letter"])
def test_a_scheme_that_only_reacts_has_heard_something(scheme: str) -> None:
    assert verdicts(scheme=scheme)["notices heard during the workload"]
    # Before the reads, after them, or of the end of congestion.
    stuck = notices(("CN-H", -10), ("CR", 150), ("CN-L", 301))
    found = verdicts(scheme=scheme, events=stuck)
    assert [name for name, holds in found.items() if not holds] == [
        "notices heard during the workload"
    ]
    short = {"longest_bytes": 19_659}
    assert all(verdicts(scheme=scheme, events=stuck, **short).values()), "there was nothing to hear"
    assert "notices heard during the workload" not in verdicts(scheme="weir", events=stuck)


def far_end(mbps: float) -> dict[str, list[int]]:
    per_step = round(mbps * 1e6 / 8 / 10)
    return {
        "time_ns": [START_NS + k * 100 * MS for k in range(30)],
        "bytes": [k * per_step for k in range(30)],
    }


IDLE = {"idle_share": 0.4, "switch_run_share": 0.9, "switch_wait_share": 0.02}
SPACING: dict[str, Any] = {
    "gaps": 900, "p99_error_us": 60.0, "frame_us": 121.12, "sent": 1000, "timed": 1001,
    "not_recorded": 0,
}  # fmt: skip
# As where nothing has come to the socket that times what departs.
NO_GAPS = SPACING | {"gaps": 0, "p99_error_us": None}
RTT = {"min": 0.4, "avg": 0.5, "max": 0.6, "delay": 0.0, "links": 0.03, "ports": 2}


@pytest.mark.parametrize(
    ("check", "changes"),
    [
        ("shaped rate", {"far_end": far_end(97.9)}),
        ("shaped rate", {"far_end": far_end(102.1)}),
        ("shaped rate", {"far_end": {"time_ns": [], "bytes": []}}),
        ("drops only at the bottleneck", {"lost_elsewhere": {"devices": {"h1/h1-eth0": 1}}}),
        (
            "drops only at the bottleneck",
            {"lost_elsewhere": {"switch's packet sockets": {"all": 9}}},
        ),
        ("spacing of departures", {"spacing": SPACING | {"p99_error_us": 363.5}}),
        ("spacing of departures", {"spacing": SPACING | {"not_recorded": 1}}),
        ("spacing of departures", {"spacing": SPACING | {"timed": 989}}),
        ("spacing of departures", {"spacing": NO_GAPS | {"timed": 0}}),
        ("spacing of departures", {"spacing": NO_GAPS}),
        ("idle round trip", {"idle_rtt_ms": RTT | {"avg": 1.1}}),
        ("idle round trip", {"idle_rtt_ms": RTT | {"delay": 10.0}}),
        ("offloads off", {"offload_faults": ["h1-eth0: tso is on"]}),
        ("qdiscs as asked", {"qdisc_faults": ["h1-eth0: no HTB class"]}),
        ("processors", {"processors": IDLE | {"idle_share": 0.19}}),
        ("processors", {"processors": IDLE | {"switch_wait_share": 0.11}}),
        ("host settings as printed", {"settings_faults": ["h1: route's initcwnd is None"]}),
        ("complete queue trace", {"arrived": 8}),
        ("complete queue trace", {"arrived": 0, "arrived_in_trace": 0}),
        ("controller connected", {"events": [{"event": "switch_down", "switch": 1}]}),
        ("controller connected", {"events": [{"event": "queue_event", "missed": 2}]}),
        ("controller without errors", {"controller_errors": ["a switch refused a message"]}),
    ],
)
def test_a_bad_run_fails_its_check_and_no_other(check: str, changes: dict[str, Any]) -> None:
    found = verdicts(**changes)
    assert [name for name, holds in found.items() if not holds] == [check]


@pytest.mark.parametrize(("mbps", "holds"), [(60, True), (99, True), (102.1, False)])
def test_without_a_background_flow_the_link_need_not_be_full(mbps: float, holds: bool) -> None:
    spec = data()["spec"] | {"background": False}
    assert verdicts(spec=spec, far_end=far_end(mbps))["shaped rate"] is holds


def test_long_flows_fill_it_by_themselves() -> None:
    spec = data()["spec"] | {"background": False}
    spec["workload"] = {"name": "long-flows", "senders": 2, "seconds": 2.0}
    assert not verdicts(spec=spec, far_end=far_end(60))["shaped rate"]
    assert verdicts(spec=spec, far_end=far_end(99))["shaped rate"]


@pytest.mark.parametrize(
    ("sent", "timed", "holds"),
    [(0, 0, True), (5, 1, True), (5, 0, False), (5000, 4950, True), (5000, 4949, False)],
)
def test_what_never_waits_is_not_spaced(sent: int, timed: int, holds: bool) -> None:
    """If nothing had to fill the link. What was sent is to be timed all the same."""
    spec = data()["spec"] | {"background": False}
    found = verdicts(spec=spec, spacing=NO_GAPS | {"sent": sent, "timed": timed})
    assert found["spacing of departures"] is holds


def test_packets_that_were_not_timed_are_told() -> None:
    nothing = data(spacing=NO_GAPS | {"timed": 0})
    (check,) = [one for one in checks(nothing) if one.name == "spacing of departures"]
    assert check.measured == "none waited, 0 gaps, 1000 of 1000 packets not timed"


def test_a_delay_on_purpose_is_no_fault() -> None:
    far = {"min": 20.4, "avg": 20.5, "max": 20.6, "delay": 20.0, "links": 0.03, "ports": 2}
    assert verdicts(idle_rtt_ms=far)["idle round trip"]


def test_a_check_tells_what_and_where() -> None:
    lost = {"kernel qdiscs": {"h3/h3-eth0": 12}, "hosts": {}}
    (check,) = [c for c in checks(data(lost_elsewhere=lost)) if "drops" in c.name]
    assert check.measured == "12 at h3/h3-eth0 (kernel qdiscs)"
    assert check.bound == "none in: kernel qdiscs, hosts"


def test_more_switches_may_take_more_time() -> None:
    far = RTT | {"avg": 1.9}
    assert not verdicts(idle_rtt_ms=far | {"ports": 4})["idle round trip"]
    assert verdicts(idle_rtt_ms=far | {"ports": 6})["idle round trip"]


def test_it_says_what_a_hypervisor_took() -> None:
    busy = IDLE | {"stolen_share": 0.2}
    (check,) = [one for one in checks(data(processors=busy)) if one.name == "processors"]
    assert check.measured.endswith(", the hypervisor took 20%")


def test_the_busiest_second_is_found_among_slower_ones() -> None:
    steps = [5] * 10 + [10] * 10 + [5] * 10
    received = [sum(steps[:k]) for k in range(31)]
    times_ns = [k * 100 * MS for k in range(31)]
    assert busiest(times_ns, received) == pytest.approx(100 * 8)


def test_a_window_is_never_shorter_than_a_second() -> None:
    assert busiest([0, 999 * MS], [0, 10**9]) == 0
    assert busiest([0, 999 * MS, 1500 * MS], [0, 0, 1500]) == pytest.approx(8000)
