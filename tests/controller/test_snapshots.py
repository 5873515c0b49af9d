"""Snapshots of congested ports, in virtual time."""

import asyncio
import errno
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from controller.api.recording.segments import Memory, Segments
from controller.api.recording.snapshots import Album, Snapshots
from controller.api.sharing import Answer
from controller.api.upstream import UnavailableError
from controller.model.values import PortId
from test_history import row

NOW_S = 1_790_000_000.0


class Controller:
    def __init__(self) -> None:
        self.asked: list[tuple[str, Mapping[str, object]]] = []
        self.there = True
        self.takes: Callable[[], None] = lambda: None
        self.flows: list[dict[str, Any]] = [{"src": "10.0.0.1"}]

    async def ask(
        self, method: str, params: Mapping[str, object] | None = None, fresh_s: float = 0.0
    ) -> Answer:
        assert params is not None
        assert fresh_s < 2
        self.asked.append((method, params))
        self.takes()
        if not self.there:
            raise UnavailableError("nobody listens")
        rows = [{"port": 1, "notice": "CN-M"}] if method == "regulation" else self.flows
        name = "ports" if method == "regulation" else "flows"
        return Answer(json.dumps({name: rows}).encode(), 0.0)


class World:
    def __init__(self) -> None:
        self.controller = Controller()
        self.now_s = 0.0
        self.congested: dict[PortId, Any] = {}
        self.taken: list[list[dict[str, Any]]] = []
        self.snapshots = Snapshots(
            self.controller,
            lambda: self.congested,
            self.write,
            lambda: NOW_S + self.now_s,
            lambda: self.now_s,
        )

    async def write(self, taken: list[dict[str, Any]]) -> None:
        self.taken.append(taken)

    def congests(self, *ports: int) -> None:
        self.congested = {PortId(1, port): row(1, 1, port) for port in ports}

    def take(self) -> list[int]:
        self.taken.clear()
        asyncio.run(self.snapshots.take())
        return [one["port"] for taken in self.taken for one in taken]


def test_a_congested_port_is_looked_at_every_two_seconds() -> None:
    world = World()
    assert world.take() == []
    world.congests(1)
    seen = []
    for step in range(20):
        world.now_s = step / 2
        seen += [world.now_s for _ in world.take()]
    assert seen == [0, 2, 4, 6, 8]
    asked = dict(world.controller.asked)
    assert asked == {
        "regulation": {"switch": 1},
        "flows": {"switch": 1, "port": 1, "limit": 20},
    }


def test_a_snapshot_has_queue_regulation_and_flows() -> None:
    world = World()
    world.congests(1, 2)
    world.take()
    ((one, other),) = world.taken
    assert (one["at_s"], one["datapath_id"], one["name"]) == (
        *(NOW_S, "0000000000000001"),
        "s1-eth1",
    )
    assert one["queue"]["queue_bytes"] == 5000
    assert one["regulation"] == {"port": 1, "notice": "CN-M"}
    assert one["flows"] == [{"src": "10.0.0.1"}]
    # Nothing is told of how this one is regulated.
    assert other["regulation"] is None


def test_no_more_than_eight_ports_in_two_seconds_the_worst_first() -> None:
    world = World()
    world.congests(*range(1, 7))
    assert world.take() == [1, 2, 3, 4, 5, 6]
    world.now_s = 1.0
    world.congests(7, 8, 9, 1)
    assert world.take() == [7, 8]
    world.now_s = 2.0
    assert world.take() == [9, 1]


def test_a_controller_that_does_not_answer_leaves_the_queue() -> None:
    world = World()
    world.congests(1)
    world.controller.there = False
    assert world.take() == [1]
    ((one,),) = world.taken
    assert one["queue"]["queue_bytes"] == 5000
    # That there are no flows, nobody has said.
    assert (one["regulation"], one["flows"]) == (None, None)


def test_no_flows_are_not_unknown_flows() -> None:
    world = World()
    world.congests(1)
    world.controller.flows = []
    world.take()
    ((one,),) = world.taken
    assert one["flows"] == []


@pytest.mark.parametrize(
    ("asks_s", "writes_s", "pause_s"),
    [(0.1, 0.0, 4.0), (0.1, 3.0, 4.0), (0.0, 8.0, 0.5), (3.0, 0.0, 10.0)],
)
def test_a_slow_controller_is_asked_less_often(
    asks_s: float, writes_s: float, pause_s: float
) -> None:
    world = World()
    pauses: list[float] = []

    # Each of the two questions of a port.
    def takes() -> None:
        world.now_s += asks_s

    world.controller.takes = takes

    async def sleep(pause_s: float) -> None:
        pauses.append(pause_s)
        world.now_s += pause_s
        if len(pauses) == 3:
            raise asyncio.CancelledError

    async def write(_: object) -> None:
        world.now_s += writes_s

    async def run() -> None:
        await Snapshots(
            world.controller,
            lambda: world.congested,
            write,
            lambda: NOW_S,
            lambda: world.now_s,
            sleep,
        ).run()

    world.congests(1)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())
    assert pauses == pytest.approx([pause_s] * 3)


def snapshot(at_s: float, port: int) -> dict[str, Any]:
    return {"at_s": NOW_S + at_s, "datapath_id": "0000000000000001", "port": port, "flows": []}


A, B = "0000000000000001:1", "0000000000000001:2"


def album() -> Album:
    made = Album(Segments(Memory(), 10**6))
    made.open()
    return made


def test_snapshots_are_told_at_even_distances_and_the_first_port_before_others() -> None:
    made = album()
    for second in range(0, 100, 2):
        made.put([snapshot(second, 1), snapshot(second, 2), snapshot(second, 3)], NOW_S + second)
    told = made.told(NOW_S, NOW_S + 99, [A, B], 1000)
    assert [one["port"] for one in told] == [1, 2] * 50
    assert len(made.told(NOW_S + 10, NOW_S + 20, [A], 1000)) == 6
    told = made.told(NOW_S, NOW_S + 99, [A, B], 10)
    assert [(one["at_s"] - NOW_S, one["port"]) for one in told] == [
        (second, 1) for second in range(0, 100, 10)
    ]
    told = made.told(NOW_S, NOW_S + 99, [A, B], 60)
    assert sum(one["port"] == 2 for one in told) == 10
    assert made.told(NOW_S + 200, NOW_S + 300, [A], 10) == []


def test_a_full_disk_costs_snapshots_and_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = album()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Memory, "append", full)
        for second in range(3):
            made.put([snapshot(second, 1)], NOW_S)
    made.put([snapshot(9, 1)], NOW_S + 9)
    assert len(made.told(NOW_S, NOW_S + 99, [A], 10)) == 1
    (record,) = caplog.records
    assert "snapshots of congested ports cannot be kept" in record.message
