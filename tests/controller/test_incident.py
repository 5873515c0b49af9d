"""An incident: everything that happened in a part of time, and what of it is not known."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from controller import __version__
from controller.api.recording import incident
from controller.api.recording.blocks import Block, Kind, row
from controller.api.recording.incident import Incident, find
from controller.api.recording.recording import Batch, Gap, Heard, Writer, tally
from controller.api.recording.segments import Hole, Memory, Segments
from controller.api.upstream import UnavailableError
from controller.model.values import PortId
from fake_source import HOLD
from test_api import NOW, ServedApi
from test_notices import notice

NOW_S = NOW.timestamp()
PORTS = {str(port): port for port in (PortId(1, 1), PortId(1, 2), PortId(2, 1))}
A, B, C = PORTS


class Recorded:
    """A recording of a minute, a block a second."""

    def __init__(self) -> None:
        self.segments = Segments(Memory(), 10**7)
        self.segments.open()
        self.serial = 0

    def second(self, number: int, *events: dict[str, Any], gaps: tuple[Gap, ...] = ()) -> None:
        told = []
        for event in events:
            self.serial += 1
            told.append({"wall_s": NOW_S + number, **event, "serial": self.serial})
        now_s = NOW_S + number
        entries: list[Heard | Gap] = [*gaps, *(Heard("run", event) for event in told)]
        Writer(self.segments).write(Batch(entries, "run", self.serial, now_s), now_s)

    def find(
        self, begin: float, end: float, port: str | None = None, most: int = 5000
    ) -> incident.Found:
        begin_s, end_s = NOW_S + begin, NOW_S + end
        once, again = (self.segments.read(begin_s, end_s) for _ in range(2))
        return find(once, again, begin_s, end_s, port, most)


def queue_event(label: str, port: str, wall_s: float) -> dict[str, Any]:
    told: dict[str, Any] = notice(label, wall_s, port=PORTS[port])
    return told


def link(port: str = C) -> dict[str, Any]:
    return {"event": "link_up", "a": port, "b": B}


def times(found: incident.Found) -> list[float]:
    return [event["wall_s"] - NOW_S for event in found.events]


def test_events_and_ports_of_the_time_that_was_asked_for() -> None:
    recorded = Recorded()
    for second in range(60):
        at_s = NOW_S + second
        notices = [queue_event("CN-L", A, at_s), queue_event("CR", A, at_s + 0.5)]
        recorded.second(second, *notices, *[queue_event("CN-H", B, at_s)] * (second == 30), link())
    found = recorded.find(10, 40)
    assert (times(found)[0], times(found)[-1]) == (10, 40)
    assert len(found.events) == 30 * 3 + 2 + 1
    assert found.n_left_out == 0
    # The links' ports have no notices.
    assert found.ports == {A: (61, "L"), B: (1, "H")}
    assert list(found.ports) == [A, B]
    # A part of a block is counted as a part.
    assert recorded.find(10.2, 10.7).ports == {A: (1, None)}
    assert recorded.find(100, 200).events == []


def test_events_of_the_asked_port_come_before_others() -> None:
    recorded = Recorded()
    for second in range(50):
        recorded.second(second, *[queue_event("CN-M", A, NOW_S + second)] * 10)
    windows = {"event": "window_set", "switch": 1, "windows": [{"port": 2}]}
    recorded.second(55, queue_event("CN-H", B, NOW_S + 55), windows, link(A))
    found = recorded.find(0, 60, B, most=20)
    assert times(found) == [0.0] * 10 + [1.0] * 7 + [55.0] * 3
    assert found.n_left_out == 503 - 20
    assert found.ports == {A: (500, "M"), B: (1, "H")}
    # Without a port, the first ones.
    assert times(recorded.find(0, 60, None, most=20))[-1] == 1
    assert len(recorded.find(0, 60, A, most=20).events) == 20


def test_of_a_port_no_more_lines_are_read_than_may_be_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded = Recorded()
    windows = {"event": "window_set", "switch": 1, "windows": [{"port": 2}]}
    for second in range(10):
        others = [queue_event("CN-M", C, NOW_S + second)] * 50
        recorded.second(second, *others, queue_event("CN-H", B, NOW_S + second), windows, link(B))
    n_read: list[int] = []
    loads = json.loads

    def counted(text: bytes) -> Any:
        n_read.append(1)
        return loads(text)

    monkeypatch.setattr(json, "loads", counted)
    found = recorded.find(0, 10, B, most=40)
    # Three of each block are of the port.
    assert len([one for one in found.events if one["event"] != "queue_event"]) == 20
    assert len(n_read) < 53 + 10 * 5


def test_gaps_are_told_and_damage_is_one() -> None:
    recorded = Recorded()
    gap = Gap(NOW_S - 5, NOW_S + 1, "the controller was started again")
    recorded.second(1, link(), gaps=(gap,))
    (block,) = (one for one in recorded.segments.read(0, 1e11) if one[0] == Kind.EVENTS)
    assert isinstance(block, Block)
    hole = Hole(NOW_S + 2, NOW_S + 3)
    damaged = block._replace(packed=b"damaged")
    cases: list[list[Block | Hole]] = [[hole, block], [hole, block, damaged]]
    for events in cases:
        found = find(events, events, NOW_S, NOW_S + 60, None)
        assert found.gaps == [(*hole, "a part of the recording is damaged or gone")]
        assert len(found.events) == 1
    assert recorded.find(0, 60).gaps == [gap]


def test_what_takes_long_to_read_is_not_read_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour of a thousand events a second: of most blocks the head is enough."""
    recorded = Recorded()
    for second in range(60):
        recorded.second(second, *[queue_event("CN-M", A, NOW_S + second)] * 100)
    read: list[float] = []
    rows = Block.rows

    def counted(block: Block) -> list[Any]:
        read.append(block.begin_s)
        return rows(block)

    monkeypatch.setattr(Block, "rows", counted)
    found = recorded.find(-1, 60, B, most=300)
    assert (len(found.events), found.n_left_out, found.ports[A].notices) == (300, 5700, 6000)
    assert len(read) == 3


def test_a_tally_of_events_is_in_the_head_of_their_block() -> None:
    assert tally([queue_event("CN-L", A, 0), link(B)]) == {A: (1, 1), B: (0, 0)}
    assert row({"a": 1}) == b'{"a":1}'


# Through the API


@pytest.fixture
def world(tmp_path: Path) -> ServedApi:
    return ServedApi(tmp_path)


def happens(world: ServedApi, *events: dict[str, Any]) -> None:
    """The controller tells of events, and goes away."""

    async def follow(
        _method: str,
        _params: Mapping[str, object] | None = None,
        begin: Callable[[Mapping[str, Any]], None] = lambda _: None,
    ) -> AsyncIterator[list[dict[str, Any]]]:
        begin({"run": "first", "last": 0})
        yield [{**event, "serial": n + 1} for n, event in enumerate(events)]
        raise UnavailableError("it has gone")

    async def listen() -> None:
        with contextlib.suppress(UnavailableError):
            async for _ in world.api.recorder.follow():
                pass

    world.controller.follow = follow  # type: ignore[assignment]
    asyncio.run(listen())


def ask(world: ServedApi, query: str = "") -> dict[str, Any]:
    response = world.ask(f"/v1/incident?{query}")
    assert response.status_code == 200, response.text
    told: dict[str, Any] = response.json()
    assert Incident.model_validate(told).model_dump(mode="json") == told
    return told


def test_an_incident_has_everything(world: ServedApi) -> None:
    asyncio.run(world.api._sampler.sample())
    asyncio.run(world.api._snapshots.take())
    happens(
        world,
        *(queue_event("CN-M", A, NOW_S - 20 + n) for n in range(5)),
        queue_event("CN-L", C, NOW_S - 10),
    )
    told = ask(world, f"from={NOW_S - 60}&to={NOW_S}&switch=1&port=2")
    assert (told["from_s"], told["to_s"], told["asked_s"]) == (NOW_S - 60, NOW_S, NOW_S)
    assert told["version"] == __version__
    named = {"switch": 1, "datapath_id": "0000000000000001", "port": 2, "name": "s1-eth2"}
    assert told["port"] == named
    assert [(one["name"], one["worst"], one["notices"]) for one in told["ports"]] == [
        ("s1-eth2", None, 0),
        ("s1-eth1", "M", 5),
        ("s2-eth1", "L", 1),
    ]
    for history in (told["totals"], *(one["history"] for one in told["ports"])):
        assert (history["step_s"], history["begin_s"]) == (1, NOW_S - 60)
        assert {len(column) for column in history["series"].values()} == {60}
    assert len(told["events"]) == 6
    assert (told["events_left_out"], told["events_from_s"]) == (0, NOW_S - 20)
    # It does not answer now, and has not been heard since the sample.
    assert [gap["why"] for gap in told["gaps"]] == ["the controller does not answer"]
    snapshots = {one["name"]: one for one in told["snapshots"]}
    assert sorted(snapshots) == ["s1-eth1", "s1-eth2", "s2-eth1"]
    first = snapshots["s1-eth1"]
    assert first["at_s"] == NOW_S
    assert first["queue"]["queue_bytes"] == 1000
    assert first["regulation"]["holds"] == {"burst": HOLD, "background": HOLD}
    assert len(first["flows"]) == 20
    assert told["audit"] == []


def test_flows_of_a_controller_that_does_not_answer_are_not_known(world: ServedApi) -> None:
    asyncio.run(world.api._sampler.sample())
    world.controller.there = False
    asyncio.run(world.api._snapshots.take())
    happens(world, queue_event("CN-M", A, NOW_S - 20))
    told = ask(world, f"from={NOW_S - 60}&to={NOW_S}")
    assert [(one["regulation"], one["flows"]) for one in told["snapshots"]] == [(None, None)]


def test_who_has_changed_what_in_this_time_is_told(
    world: ServedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    def entry(number: int, at_s: float) -> dict[str, Any]:
        more = {"by": "token a", "what": "off", "changes": [], "detail": "port eth2"}
        return {"id": f"{number:04}", "at_s": at_s, **more}

    pages = {
        None: {"entries": [entry(9, NOW_S + 5), entry(8, NOW_S - 1)], "next_before": "0008"},
        "0008": {"entries": [entry(7, NOW_S - 9), entry(6, NOW_S - 999)], "next_before": "0006"},
    }
    whole = world.controller.ask

    async def answer(method: str, params: Mapping[str, Any] | None = None) -> bytes:
        if method == "audit":
            return row(pages[(params or {})["before"]])
        return await whole(method, params)

    monkeypatch.setattr(world.controller, "ask", answer)
    told = ask(world, f"from={NOW_S - 60}&to={NOW_S}")
    assert [one["id"] for one in told["audit"]] == ["0007", "0008"]
    assert told["port"] is None
    assert told["ports"] == []


def test_without_its_controller_all_else_is_told(world: ServedApi) -> None:
    happens(world, queue_event("CN-M", A, NOW_S - 5))
    world.controller.there = False
    told = ask(world)
    assert told["from_s"] == NOW_S - 600
    assert len(told["events"]) == 1
    # Its name is not known, nor its history.
    assert (told["ports"][0]["name"], told["ports"][0]["notices"]) == (A, 1)
    assert set(told["ports"][0]["history"]["series"]["sent_bps"]) == {None}
    whys = [gap["why"] for gap in told["gaps"]]
    assert "it is not known who has changed what: nobody listens" in whys


def test_more_changes_than_are_read_leave_a_gap(
    world: ServedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = world.controller.ask
    more = {"by": "token a", "what": "off", "changes": [], "detail": "port eth2"}

    async def answer(method: str, params: Mapping[str, Any] | None = None) -> bytes:
        if method == "audit":
            # Each page has an entry of a second earlier, without an end.
            number = int((params or {})["before"] or "100") - 1
            entry = {"id": f"{number:04}", "at_s": NOW_S - 100 + number, **more}
            return row({"entries": [entry], "next_before": f"{number:04}"})
        return await whole(method, params)

    monkeypatch.setattr(world.controller, "ask", answer)
    told = ask(world, f"from={NOW_S - 60}&to={NOW_S}")
    assert len(told["audit"]) == 10
    (gap,) = (one for one in told["gaps"] if "who has changed what" in one["why"])
    assert (gap["from_s"], gap["to_s"]) == (NOW_S - 60, NOW_S - 10)


def test_more_than_a_few_at_once_are_to_try_again(world: ServedApi) -> None:
    world.api._incidents._n = 4
    assert "4 incidents are put together already" in world.problem(503, "/v1/incident")
    world.api._incidents._n = 3
    ask(world)
    assert world.api._incidents._n == 3


def test_before_anything_was_recorded_it_is_told_that_nothing_is_known(world: ServedApi) -> None:
    told = ask(world)
    assert (told["events"], told["events_from_s"], told["ports"]) == ([], None, [])


@pytest.mark.parametrize(
    ("status", "query", "says"),
    [
        (422, f"from={NOW_S - 3601}&to={NOW_S}", "at most 3600 s, and this is of 3601 s"),
        (422, f"from={NOW_S}&to={NOW_S - 1}", "is after the end"),
        (422, "from=now", "from: Input should be a valid number"),
        (404, "switch=1&port=77", "no queue is known there"),
        (404, "switch=1", "port: is missing; name both"),
    ],
)
def test_what_cannot_be_told_is_refused(
    world: ServedApi, status: int, query: str, says: str
) -> None:
    assert says in world.problem(status, f"/v1/incident?{query}")
