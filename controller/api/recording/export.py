"""The recorded events of a part of time, as a file of any length: JSON, an event a line.

Where some may be missing, there is a line `events_missing`. One block after the other is read as
the peer takes it, so nothing is long in memory.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator

from fastapi.responses import StreamingResponse
from starlette import types

from controller.api.hub import FullError
from controller.api.recording.blocks import Block, DamageError, Kind, row
from controller.api.recording.incident import DAMAGED
from controller.api.recording.recorder import Recorder
from controller.api.recording.recording import Gap
from controller.api.recording.segments import Hole, Segments

LOG = logging.getLogger("weir.api")

_AT_ONCE = 2
# A peer that takes nothing for so long is in the way of others.
_SEND_S = 30.0
_ENDED = "the token is no longer good, and the file ends here"


def lines(found: Block | Hole, begin_s: float, end_s: float) -> bytes:
    """What is to be told of a block, or of one that is missing."""
    if isinstance(found, Hole):
        return _missing(Gap(*found, DAMAGED))
    try:
        if found.kind == Kind.GAPS:
            return b"".join(_missing(Gap(*one)) for one in found.rows())
        if found.kind != Kind.EVENTS:
            return b""
        if begin_s <= found.begin_s and found.end_s <= end_s:
            return found.raw().partition(b"\n")[2] + b"\n"
        events = (one for one in found.rows()[1:] if begin_s <= one["wall_s"] <= end_s)
        return b"".join(row(one) + b"\n" for one in events)
    except DamageError:
        return _missing(Gap(found.begin_s, found.end_s, DAMAGED))


def _missing(gap: Gap) -> bytes:
    return row({"event": "events_missing", "wall_s": gap.from_s, **gap._asdict()}) + b"\n"


class Exports:
    """Of at most two at once."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._n = 0

    def __len__(self) -> int:
        return self._n

    async def told(
        self, begin_s: float, end_s: float, may: Callable[[], bool]
    ) -> AsyncIterator[bytes]:
        """Pieces of the file, as long as `may` says so."""

        def begin(segments: Segments) -> Iterator[Block | Hole]:
            return segments.read(begin_s, end_s)

        blocks = await self._recorder.read(begin)
        told_s = begin_s
        while may():
            piece, until_s = await self._recorder.in_thread(_next, blocks, begin_s, end_s)
            if piece is None:
                break
            yield piece
            told_s = max(told_s, min(until_s, end_s))
        else:
            # Without it, it would look like all.
            yield _missing(Gap(told_s, end_s, _ENDED))
            return
        for gap in self._recorder.gaps():
            if gap.from_s <= end_s and gap.to_s >= begin_s:
                yield _missing(gap)

    def response(self, begin_s: float, end_s: float, may: Callable[[], bool]) -> "Export":
        return Export(self, begin_s, end_s, may)

    def begin(self) -> None:
        """Raises FullError."""
        if self._n >= _AT_ONCE:
            raise FullError(f"{_AT_ONCE} take the recorded events already; try again later")
        self._n += 1

    def end(self) -> None:
        self._n -= 1


def _next(
    blocks: Iterator[Block | Hole], begin_s: float, end_s: float
) -> tuple[bytes | None, float]:
    """The next lines and until when they tell; None at the end."""
    for found in blocks:
        if told := lines(found, begin_s, end_s):
            return told, found.end_s
    return None, end_s


class Export(StreamingResponse):
    """Takes part for as long as the response lasts, even if its peer leaves before the first
    byte."""

    media_type = "application/x-ndjson"

    def __init__(
        self,
        exports: Exports,
        begin_s: float,
        end_s: float,
        may: Callable[[], bool],
        status_code: int = 200,
    ) -> None:
        name = f"weir-events-{begin_s:.0f}-{end_s:.0f}.jsonl"
        headers = {
            "Cache-Control": "no-store",
            "Content-Disposition": f'attachment; filename="{name}"',
        }
        super().__init__(exports.told(begin_s, end_s, may), status_code, headers)
        self._exports = exports

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        """Raises FullError before anything is sent."""

        async def in_time(message: types.Message) -> None:
            async with asyncio.timeout(_SEND_S):
                await send(message)

        self._exports.begin()
        try:
            await super().__call__(scope, receive, in_time)
        except TimeoutError:
            LOG.warning("a listener to %s did not read and was dropped", "recorded events")
        finally:
            self._exports.end()
