"""What congested ports were like: their queues, how they were regulated, their largest flows.

A port is looked at every 2 s while it is congested, 8 ports at most in that time, the worst first.
It costs the controller no more than a twentieth of its time, as long as it answers within 0.5 s.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from pydantic import BaseModel
from pydantic_core import from_json

from controller.api.recording.blocks import Block, DamageError, Kind, row
from controller.api.recording.segments import Segments
from controller.api.sharing import Answer
from controller.api.upstream import UnavailableError
from controller.model.values import PortId
from controller.northbound import views
from controller.rpc.messages import CallError
from controller.rpc.spans import Row, queue_of

LOG = logging.getLogger("weir.api")

MOST_BYTES, MOST_MEMORY_BYTES = 64 * 1024 * 1024, 8 * 1024 * 1024
EVERY_S, MOST_PORTS, MOST_FLOWS = 2.0, 8, 20
# Congestion of a moment is told for a second.
_LOOK_S = 0.5
_COSTS = 20
# However long an answer took, or was waited for.
_MOST_PAUSE_S = 10.0
_FRESH_S = 0.5


class Snapshot(BaseModel):
    """A congested port at `at_s`, in seconds since 1970, with its largest flows, none if the
    controller knew of none. The queue is that of the second before. null: not known."""

    at_s: float
    switch: int
    datapath_id: str
    port: int
    name: str
    queue: views.QueueView | None
    regulation: views.RegulationView | None
    flows: list[views.FlowView] | None


class Asked(Protocol):
    """`sharing.Sharing`, as far as it is used here."""

    async def ask(
        self, method: str, params: Mapping[str, object] | None = None, fresh_s: float = 0.0
    ) -> Answer: ...


class Snapshots:
    """`congested` returns the congested ports with their rows, the worst first. `write` gets what
    is to be recorded. `clock` does not jump."""

    def __init__(
        self,
        controller: Asked,
        congested: Callable[[], Mapping[PortId, Row]],
        write: Callable[[list[dict[str, Any]]], Awaitable[None]],
        now_s: Callable[[], float],
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._controller = controller
        self._congested, self._write = congested, write
        self._now_s, self._clock, self._sleep = now_s, clock, sleep
        self._taken: dict[PortId, float] = {}

    async def run(self) -> None:
        """Take snapshots, for ever."""
        while True:
            asked_s = await self.take()
            await self._sleep(min(_MOST_PAUSE_S, max(_LOOK_S, _COSTS * asked_s)))

    async def take(self) -> float:
        """Take snapshots of the ports whose turn it is. Returns how long the controller took to
        answer, in seconds."""
        now_s = self._clock()
        self._taken = {
            port: taken_s for port, taken_s in self._taken.items() if now_s - taken_s < EVERY_S
        }
        rows = self._congested()
        due = [port for port in rows if port not in self._taken]
        due = due[: max(0, MOST_PORTS - len(self._taken))]
        if not due:
            return 0.0
        self._taken.update((port, now_s) for port in due)
        taken = await asyncio.gather(*(self._of(port, rows[port]) for port in due))
        # Writing may wait for a reader, which is no time of the controller.
        asked_s = self._clock() - now_s
        await self._write(taken)
        return asked_s

    async def _of(self, port: PortId, of: Row) -> dict[str, Any]:
        at_s = self._now_s()
        switch = {"switch": port.switch}
        regulations, flows = await asyncio.gather(
            self._rows("regulation", "ports", switch),
            self._rows("flows", "flows", {**switch, "port": port.port, "limit": MOST_FLOWS}),
        )
        regulation = [one for one in regulations or () if one["port"] == port.port]
        return {
            "at_s": at_s,
            **{name: of[name] for name in ("switch", "datapath_id", "port", "name")},
            "queue": queue_of(of),
            "regulation": regulation[0] if regulation else None,
            "flows": flows,
        }

    async def _rows(
        self, method: str, name: str, params: Mapping[str, object]
    ) -> list[dict[str, Any]] | None:
        """None if the controller does not answer."""
        try:
            answer = await self._controller.ask(method, params, _FRESH_S)
        except (UnavailableError, CallError):
            return None
        rows: list[dict[str, Any]] = from_json(answer.body)[name]
        return rows


class Album:
    """The snapshots that were taken. It is used by one thread at a time."""

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._is_failing = False

    def open(self) -> None:
        """Find those of earlier."""
        try:
            self._segments.open()
        except OSError as error:
            LOG.error("snapshots of earlier cannot be read: %s", error)

    def put(self, snapshots: Sequence[Mapping[str, Any]], now_s: float) -> None:
        """Keep snapshots that were taken together."""
        times_s = [one["at_s"] for one in snapshots]
        head = [_port_of(one) for one in snapshots]
        rows = map(row, [head, *snapshots])
        try:
            self._segments.append(Kind.SNAPSHOTS, min(times_s), max(times_s), rows, now_s)
        except (OSError, ValueError) as error:
            if not self._is_failing:
                LOG.error("snapshots of congested ports cannot be kept: %s", error)
            self._is_failing = True
        else:
            self._is_failing = False

    def told(
        self, begin_s: float, end_s: float, ports: Sequence[str], most: int
    ) -> list[dict[str, Any]]:
        """The snapshots of ports of between two times, `most` of them at even distances; the first
        port's before all others'. Ports are "datapath_id:port"."""
        blocks = [
            found for found in self._segments.read(begin_s, end_s) if isinstance(found, Block)
        ]
        first, others = [], []
        for number, names in enumerate(map(_names, blocks)):
            for place, name in enumerate(names):
                if name == ports[0]:
                    first.append((number, place))
                elif name in ports:
                    others.append((number, place))
        chosen = set(_thinned(first, most))
        chosen |= set(_thinned(others, most - len(chosen)))
        told = []
        for number in sorted({number for number, _ in chosen}):
            rows = _rows(blocks[number])
            told += [one for place, one in enumerate(rows) if (number, place) in chosen]
        return sorted(told, key=lambda one: float(one["at_s"]))


def _port_of(snapshot: Mapping[str, Any]) -> str:
    return f"{snapshot['datapath_id']}:{snapshot['port']}"


def _names(block: Block) -> list[str]:
    try:
        names: list[str] = block.first()
    except DamageError:
        return []
    return names


def _rows(block: Block) -> list[dict[str, Any]]:
    try:
        return block.rows()[1:]
    except DamageError:
        return []


def _thinned(all_of_them: Sequence[tuple[int, int]], most: int) -> Iterator[tuple[int, int]]:
    n = len(all_of_them)
    if n <= most:
        yield from all_of_them
    else:
        yield from (all_of_them[i * n // most] for i in range(most))
