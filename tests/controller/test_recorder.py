"""The recorder beside the loop: from the controller's stream to the disk, and to those who read."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from controller.api.recording import recording
from controller.api.recording.blocks import Block, Kind
from controller.api.recording.recorder import Recorder
from controller.api.recording.segments import Files, Segments
from controller.api.upstream import UnavailableError

NOW_S = 1_790_000_000.0


class Controller:
    """Tells batches of events, and ends."""

    def __init__(self, *batches: int) -> None:
        self.batches = batches
        self.wanted: list[Mapping[str, object]] = []

    async def follow(
        self,
        _method: str,
        params: Mapping[str, object] | None = None,
        begin: Callable[[Mapping[str, Any]], None] = lambda _: None,
    ) -> AsyncIterator[list[dict[str, Any]]]:
        self.wanted.append(params or {})
        begin({"run": "first", "last": 0})
        serial = 0
        for n in self.batches:
            yield [
                {"serial": serial + one + 1, "event": "link_up", "wall_s": NOW_S}
                for one in range(n)
            ]
            serial += n
        raise UnavailableError("it has ended")


def recorder(controller: Controller, path: Path, lost: Callable[[int], None]) -> Recorder:
    return Recorder(controller, Segments(Files(path), 10**6), lost, lambda: NOW_S)


async def follow(one: Recorder) -> list[int]:
    told: list[int] = []
    with contextlib.suppress(UnavailableError):
        async for messages in one.follow():
            told += [message["serial"] for message in messages]
    return told


def serials(segments: Segments) -> list[int]:
    return [
        event["serial"]
        for block in segments.read(0, 1e11)
        if isinstance(block, Block) and block.kind == Kind.EVENTS
        for event in block.rows()[1:]
    ]


def test_what_is_passed_on_can_be_read_at_once(tmp_path: Path) -> None:
    async def work() -> None:
        controller = Controller(2, 0, 3)
        one = recorder(controller, tmp_path / "events", lambda _: None)
        assert await follow(one) == [1, 2, 3, 4, 5]
        assert await one.read(serials) == [1, 2, 3, 4, 5]
        (gap,) = one.gaps()
        assert gap.why == "the controller does not answer"
        await follow(one)
        assert controller.wanted == [{"after": 0}, {"after": 5, "run": "first"}]

    asyncio.run(work())


def test_it_goes_on_where_the_process_before_was(tmp_path: Path) -> None:
    async def work(controller: Controller) -> list[int]:
        one = recorder(controller, tmp_path / "events", lambda _: None)
        running = asyncio.create_task(one.run())
        await follow(one)
        running.cancel()
        await asyncio.wait([running])
        return await one.read(serials)

    assert asyncio.run(work(Controller(2))) == [1, 2]
    controller = Controller()
    assert asyncio.run(work(controller)) == [1, 2]
    assert controller.wanted == [{"after": 2, "run": "first"}]


def test_events_that_come_too_fast_are_counted_and_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recording, "_MOST_WAITING_BYTES", 2000)
    lost: list[int] = []

    async def work() -> None:
        one = recorder(Controller(3, 4), tmp_path / "events", lost.append)
        assert len(await follow(one)) == 7
        assert lost == [1, 4]
        assert await one.read(serials) == [1, 2]
        # Now there is room again.
        await follow(one)
        assert len(await one.read(serials)) == 4

    asyncio.run(work())
    (message,) = caplog.messages
    assert message == "events are missed: they cannot be recorded as fast as they come"


def test_events_are_written_before_readers_have_their_turn(tmp_path: Path) -> None:
    async def work() -> None:
        one = recorder(Controller(2), tmp_path / "events", lambda _: None)
        await one.write()
        order: list[tuple[str, int]] = []
        free = threading.Event()

        def reads(name: str, segments: Segments) -> None:
            free.wait()
            order.append((name, len(serials(segments))))

        first = asyncio.create_task(one.read(lambda segments: reads("first", segments)))
        second = asyncio.create_task(one.read(lambda segments: reads("second", segments)))
        await asyncio.sleep(0.01)
        await follow(one)
        writing = asyncio.create_task(one.write())
        await asyncio.sleep(0)
        # Nothing is lost with who has asked for it to be written.
        writing.cancel()
        free.set()
        await asyncio.gather(first, second)
        assert order == [("first", 0), ("second", 2)]

    asyncio.run(work())


def test_a_disk_that_cannot_be_written_ends_nothing_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="weir.api")
    lost: list[int] = []

    async def work() -> None:
        (tmp_path / "events").write_text("no directory")
        one = recorder(Controller(2, 3), tmp_path / "events", lost.append)
        stream: Any = one.follow()
        async with contextlib.aclosing(stream) as told:
            async for _ in told:
                await one.write()
                if sum(lost) == 5:
                    break
        assert await one.read(serials) == []
        assert one.gaps()
        (tmp_path / "events").unlink()
        (tmp_path / "events").mkdir()
        await follow(one)
        await one.write()

    asyncio.run(work())
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR", "INFO"]
    assert "events of earlier cannot be read" in caplog.messages[0]
    assert "events cannot be recorded: File exists" in caplog.messages[1]
    assert caplog.messages[2] == "events are recorded again"
