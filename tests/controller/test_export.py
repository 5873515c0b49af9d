"""The recorded events of a part of time as a file."""

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message

from controller.api.recording import export
from controller.api.recording.blocks import Block, Kind
from controller.api.recording.export import Export, lines
from controller.api.recording.recording import Gap
from controller.api.recording.segments import Hole
from test_api import ServedApi
from test_incident import NOW_S, A, Recorded, happens, queue_event


def told(recorded: Recorded, begin: float, end: float) -> list[dict[str, Any]]:
    begin_s, end_s = NOW_S + begin, NOW_S + end
    found = recorded.segments.read(begin_s, end_s)
    text = b"".join(lines(one, begin_s, end_s) for one in found)
    return [json.loads(line) for line in text.splitlines()]


def test_it_has_the_events_of_the_time_and_where_some_may_be_missing() -> None:
    recorded = Recorded()
    for second in range(10):
        at_s = NOW_S + second
        gaps = (Gap(at_s, at_s + 1, "the controller was started again"),) * (second == 7)
        recorded.second(
            second, queue_event("CN-L", A, at_s), queue_event("CR", A, at_s + 0.5), gaps=gaps
        )
    whole = told(recorded, -5, 60)
    assert [one["serial"] for one in whole if "serial" in one] == [*range(1, 21)]
    assert [one for one in whole if one["event"] == "events_missing"] == [
        {
            "event": "events_missing",
            "wall_s": NOW_S + 7,
            "from_s": NOW_S + 7,
            "to_s": NOW_S + 8,
            "why": "the controller was started again",
        }
    ]
    # Parts of blocks are parts.
    assert [one["serial"] for one in told(recorded, 2.2, 4.2)] == [6, 7, 8, 9]
    assert told(recorded, 20, 30) == []


def test_what_is_damaged_is_told() -> None:
    damaged = Block(Kind.EVENTS, NOW_S, NOW_S + 1, 100, b"damaged")
    for found in (Hole(NOW_S, NOW_S + 1), damaged, damaged._replace(kind=Kind.GAPS)):
        line = json.loads(lines(found, 0, 1e11))
        assert (line["event"], line["from_s"], line["to_s"]) == (
            *("events_missing", NOW_S),
            NOW_S + 1,
        )
    assert lines(damaged._replace(kind=Kind.ALIVE), 0, 1e11) == b""


@pytest.fixture
def world(tmp_path: Path) -> ServedApi:
    world = ServedApi(tmp_path)
    happens(world, *(queue_event("CN-M", A, NOW_S - 20 + n) for n in range(5)))
    return world


def test_it_is_a_file_of_lines(world: ServedApi) -> None:
    response = world.ask(f"/v1/events/recorded?from={NOW_S - 60}&to={NOW_S}")
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/x-ndjson"
    name = f"weir-events-{NOW_S - 60:.0f}-{NOW_S:.0f}.jsonl"
    assert response.headers["content-disposition"] == f'attachment; filename="{name}"'
    *events, missing = map(json.loads, response.text.splitlines())
    assert [one["serial"] for one in events] == [1, 2, 3, 4, 5]
    assert missing["why"] == "the controller does not answer"
    assert world.ask(f"/v1/events/recorded?from={NOW_S - 600}&to={NOW_S - 300}").text == ""


def test_a_time_that_ends_before_it_begins_is_refused(world: ServedApi) -> None:
    path = f"/v1/events/recorded?from={NOW_S}&to={NOW_S - 1}"
    assert "is after the end" in world.problem(422, path)


def test_two_take_it_at_once(world: ServedApi) -> None:
    exports = world.api.exports
    exports.begin()
    exports.begin()
    assert "2 take the recorded events already" in world.problem(503, "/v1/events/recorded")
    exports.end()
    assert world.ask("/v1/events/recorded").status_code == 200
    assert len(exports) == 1


def test_it_ends_with_the_token(world: ServedApi) -> None:
    async def take(n_pieces: int) -> list[dict[str, Any]]:
        may = itertools.chain([True] * n_pieces, itertools.repeat(False))
        told = world.api.exports.told(NOW_S - 60, NOW_S, lambda: next(may))
        return [
            json.loads(line) for piece in [one async for one in told] for line in piece.splitlines()
        ]

    for n_pieces, from_s in ((0, NOW_S - 60), (1, NOW_S - 16)):
        *events, missing = asyncio.run(take(n_pieces))
        assert len(events) == 5 * n_pieces
        assert missing == {
            "event": "events_missing",
            "wall_s": from_s,
            "from_s": from_s,
            "to_s": NOW_S,
            "why": "the token is no longer good, and the file ends here",
        }


def test_who_does_not_read_is_dropped(
    world: ServedApi, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(export, "_SEND_S", 0.02)

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    response = Export(world.api.exports, 0, NOW_S, lambda: True)
    asyncio.run(response({"type": "http"}, receive, send))
    assert "a listener to recorded events did not read and was dropped" in caplog.text
    assert len(world.api.exports) == 0
