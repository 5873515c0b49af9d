"""The overview: made of samples, with nothing old shown as new."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from controller import __version__
from controller.api.history.rates import Differences
from controller.api.overview import Overview
from controller.api.sampling import Sample
from controller.model.values import PortId
from fake_source import ACCOUNT
from test_api import ServedApi
from test_history import NOW_S, row
from test_notices import notice

UNKNOWN: dict[str, Any] = {
    "load": None,
    "loop_late_s": {"p99": None, "worst": None},
    "rank": None,
    "peers": [],
    "silent": [],
}


class Fabric:
    """Ports that are sampled each second of virtual time."""

    def __init__(self) -> None:
        self.overview = Overview()
        self.differences = Differences()
        self.now_s = 0.0

    def sample(self, *ports: dict[str, Any], not_ready: str | None = None, events: int = 0) -> None:
        self.now_s += 1
        switches = [{"ready": True}, {"ready": False}, {"ready": True}]
        sampled = self.differences.take(ports, self.now_s)
        at_s = NOW_S + self.now_s
        found = Sample(at_s, not_ready, switches, list(ports), sampled)
        self.overview.take(found, events, self.now_s)

    def fail(self, why: str = "nobody listens") -> None:
        self.now_s += 1
        self.overview.take(why, 0, self.now_s)

    def told(self, after_s: float = 0.0) -> dict[str, Any]:
        told: dict[str, Any] = self.overview.told(self.now_s + after_s).model_dump()
        return told


def test_before_the_first_sample_nothing_is_known() -> None:
    told = Fabric().told()
    assert told["at_s"] is None
    assert told["controller"] == {
        "ready": False,
        "detail": "no answer: it has not been asked yet",
        "version": __version__,
        "age_s": None,
        **UNKNOWN,
    }
    assert told["switches"] == {"ready": 0, "known": 0}
    assert told["ports"] == {"with_queue": 0, "congested": 0}
    assert told["congested"] == []
    assert set(told["totals"].values()) == {None}
    assert told["held_times"] == {"bounds_s": [], "counts": []}
    assert told["events_per_minute"] == 0
    assert set(told["lately"].values()) == {0}


def test_a_healthy_fabric() -> None:
    fabric = Fabric()
    for second in range(3):
        fabric.sample(row(second, 1, level=0), row(second, 2, level=0), events=second)
    told = fabric.told(0.25)
    assert told["at_s"] == NOW_S + 3
    assert told["controller"] == {
        "ready": True,
        "detail": None,
        "version": __version__,
        "age_s": 0.25,
        **UNKNOWN,
    }
    assert told["switches"] == {"ready": 2, "known": 3}
    assert told["ports"] == {"with_queue": 2, "congested": 0}
    assert told["totals"] == {
        "sent_bps": 16e6,
        "dropped_per_s": 4,
        "timeouts_per_s": 6,
        "requests_per_s": 20,
        "held_per_s": 8,
        "held_s_per_s": 1,
        "answer_s": pytest.approx(0.1),
    }
    assert told["held_times"]["bounds_s"] == ACCOUNT["held_bounds_s"]
    assert told["held_times"]["counts"] == [0, 0, 16, 0, 0, 0, 0, 0]
    assert told["events_per_minute"] == 3


def test_congested_ports_come_worst_first_and_twenty_at_most() -> None:
    fabric = Fabric()
    ports = [
        row(1, switch, port, level=level, queue_bytes=queue_bytes, limit_bytes=10_000)
        for switch, port, level, queue_bytes in (
            (1, 1, 1, 9000),
            (1, 2, 3, 5000),
            (1, 3, 0, 9999),
            (2, 1, 3, 6000),
            (2, 2, 2, 9500),
        )
    ]
    fabric.sample(*ports)
    told = fabric.told()
    assert told["ports"] == {"with_queue": 5, "congested": 4}
    found = [(port["switch"], port["port"], port["level"]) for port in told["congested"]]
    assert found == [(2, 1, "H"), (1, 2, "H"), (2, 2, "M"), (1, 1, "L")]
    assert told["congested"][0] == {
        "switch": 2,
        "datapath_id": "0000000000000002",
        "port": 1,
        "name": "s2-eth1",
        "level": "H",
        "queue_bytes": 6000,
        "limit_bytes": 10_000,
        "sent_bps": None,
        "rate_bps": 10**8,
    }
    fabric.sample(*(row(2, 1, port, level=1) for port in range(1, 100)))
    told = fabric.told()
    assert told["ports"]["congested"] == 99
    assert len(told["congested"]) == 20
    assert told["congested"][0]["sent_bps"] in (None, 8e6)


def test_an_episode_between_two_samples_is_there_at_once_and_for_a_second() -> None:
    fabric = Fabric()
    fabric.sample(row(1, 1, level=0, port=2), row(1, 1, level=0, port=3))
    assert fabric.told()["ports"] == {"with_queue": 2, "congested": 0}
    wall_s = NOW_S + fabric.now_s + 0.2
    episode = [notice("CN-H", wall_s, 4000), notice("CR", wall_s + 0.01, 0)]
    fabric.overview.hear(episode, fabric.now_s + 0.2)
    told = fabric.told(0.21)
    assert told["ports"]["congested"] == 1
    found = told["congested"][0]
    assert (found["port"], found["level"], found["queue_bytes"]) == (2, "H", 4000)
    # A sample does not end it before somebody has seen it.
    fabric.sample(row(2, 1, level=0, port=2), row(2, 1, level=0, port=3))
    assert fabric.told(0.1)["ports"]["congested"] == 1
    assert fabric.told(0.3)["congested"] == []


def test_a_port_that_was_sampled_as_congested_is_not_once_its_switch_says_so() -> None:
    fabric = Fabric()
    fabric.sample(row(1, 1, level=2, port=2))
    assert fabric.told()["ports"]["congested"] == 1
    heard = [notice("CR", NOW_S + fabric.now_s + 0.1), notice("CN-L", 0, port=PortId(9, 9))]
    fabric.overview.hear(heard, fabric.now_s + 0.1)
    assert fabric.told(0.2)["ports"] == {"with_queue": 1, "congested": 0}


def test_a_controller_that_is_not_ready_says_why() -> None:
    fabric = Fabric()
    fabric.sample(not_ready="the controller learns")
    told = fabric.told()["controller"]
    assert (told["ready"], told["detail"]) == (False, "the controller learns")
    fabric.sample()
    assert fabric.told()["controller"]["ready"]


def test_without_its_controller_it_shows_how_old_all_is_and_no_totals() -> None:
    fabric = Fabric()
    fabric.sample(row(1))
    fabric.sample(row(2))
    for _ in range(5):
        fabric.fail()
    told = fabric.told(0.5)
    assert told["at_s"] == NOW_S + 2
    assert told["controller"] == {
        "ready": False,
        "detail": "no answer: nobody listens",
        "version": __version__,
        "age_s": 5.5,
        **UNKNOWN,
    }
    assert set(told["totals"].values()) == {None}
    assert told["ports"]["with_queue"] == 1
    # When it is back, there is no spike of what has happened meanwhile.
    fabric.sample(row(300))
    assert fabric.told()["totals"]["sent_bps"] is None
    fabric.sample(row(301))
    assert fabric.told()["totals"]["sent_bps"] == 8e6


def test_what_came_is_counted_exactly_over_ten_minutes() -> None:
    fabric = Fabric()
    fabric.sample(row(1000), row(1000, port=2))
    fabric.sample(row(1001), row(1000.1, port=2))
    # The switch tells of the second port nothing new, which is no more of the same.
    fabric.sample(row(1002), row(1000.1, port=2))
    told = fabric.told()["lately"]
    assert told == {"over_s": 2, "dropped_packets": 4, "timeouts": 6, "held_requests": 8}
    # Counters that begin anew have counted nothing that is known.
    fabric.sample(row(3), row(1000.1, port=2))
    assert fabric.told()["lately"] == {**told, "over_s": 3}
    for second in range(4, 900):
        fabric.sample(row(second))
    assert fabric.told()["lately"] == {
        "over_s": 600,
        "dropped_packets": 1200,
        "timeouts": 1800,
        "held_requests": 2400,
    }


def test_holds_and_events_are_of_the_last_minute() -> None:
    fabric = Fabric()
    for second in range(200):
        fabric.sample(row(second), events=2)
    told = fabric.told()
    assert sum(told["held_times"]["counts"]) == 60 * 4
    assert told["events_per_minute"] == 120
    for _ in range(59):
        fabric.fail()
    assert fabric.told()["events_per_minute"] == 2
    fabric.fail()
    told = fabric.told()
    assert told["events_per_minute"] == 0
    assert told["held_times"] == {"bounds_s": [], "counts": []}


@pytest.fixture
def world(tmp_path: Path) -> ServedApi:
    return ServedApi(tmp_path)


def sample(world: ServedApi) -> None:
    asyncio.run(world.api._sampler.sample())


def test_it_is_made_of_samples_and_costs_the_controller_nothing(
    world: ServedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    ask = world.controller.ask

    async def counted(method: str, *more: Any) -> bytes:
        asked.append(method)
        return await ask(method, *more)

    monkeypatch.setattr(world.controller, "ask", counted)
    sample(world)
    assert sorted(asked) == ["controller", "ports", "ready", "switches"]
    for _ in range(5):
        told = world.ask("/v1/overview").json()
        assert world.ask("/v1/history?switch=1&port=1").status_code == 200
    assert len(asked) == 4
    assert told["ports"] == {"with_queue": 4, "congested": 4}
    assert told["switches"] == {"ready": 1, "known": 2}
    assert told["congested"][0]["level"] == "M"
    assert told["controller"]["ready"]


def test_events_are_counted_as_they_come_and_those_that_were_missed(world: ServedApi) -> None:
    # A notice says how many were lost before it, mostly none, and counts all the same.
    for message in (notice("CN-L", 1.0), {"event": "events_missed", "missed": 41}):
        world.api.events.tell(message)
    sample(world)
    assert world.ask("/v1/overview").json()["events_per_minute"] == 42
    sample(world)
    assert world.ask("/v1/overview").json()["events_per_minute"] == 42
    world.clock_s += 61
    sample(world)
    assert world.ask("/v1/overview").json()["events_per_minute"] == 0


def test_a_controller_that_is_away_is_a_gap_of_the_history(world: ServedApi) -> None:
    sample(world)
    world.controller.there = False
    sample(world)
    told = world.ask("/v1/overview").json()
    assert told["controller"]["detail"] == "no answer: nobody listens"
    assert json.dumps(told, allow_nan=False)


def test_what_is_no_answer_ends_the_process(
    world: ServedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is started again, and its log says why."""

    async def ask(*_: object) -> bytes:
        return b"[]"

    monkeypatch.setattr(world.controller, "ask", ask)
    with pytest.raises(TypeError):
        sample(world)
