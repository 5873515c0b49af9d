"""Records the events of the controller, in a thread beside the loop, and passes them on."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from controller.api.recording.recording import Batch, Gap, Recording, Writer
from controller.api.recording.segments import Segments

LOG = logging.getLogger("weir.api")

MOST_BYTES, MOST_MEMORY_BYTES = 256 * 1024 * 1024, 16 * 1024 * 1024
_WRITE_S = 1.0

T = TypeVar("T")


class Followed(Protocol):
    """`upstream.Upstream`, as far as it is used here."""

    def follow(
        self,
        method: str,
        params: Mapping[str, object] | None = None,
        begin: Callable[[Mapping[str, Any]], None] = lambda _: None,
    ) -> AsyncIterator[list[dict[str, Any]]]: ...


class Recorder:
    """`lost` is told how many events could not be written. `now_s` is the time of day."""

    def __init__(
        self,
        controller: Followed,
        segments: Segments,
        lost: Callable[[int], None],
        now_s: Callable[[], float],
    ) -> None:
        self._controller = controller
        self._segments = segments
        self._lost, self._now_s = lost, now_s
        self._recording = Recording()
        self._writer = Writer(segments)
        # One thread, so that nobody reads what is being written.
        self._thread = ThreadPoolExecutor(1, "recorder")
        # What the thread writes before all that others want of it.
        self._waiting: deque[Batch] = deque()
        self._n_lost = 0
        self._is_open: asyncio.Future[None] | None = None
        self._told_lost = 0
        self._is_failing = self._is_slow = False

    async def follow(self) -> AsyncIterator[list[Any]]:
        """The events of the controller from now on, as they come. Raises UnavailableError."""
        await self._opened()
        recording = self._recording
        try:
            stream = self._controller.follow("follow_events", recording.wanted(), recording.begin)
            async for messages in stream:
                heard = recording.take(messages, self._now_s())
                self._tell()
                yield heard
        finally:
            recording.end()

    async def _opened(self) -> None:
        if self._is_open is None:
            self._is_open = asyncio.ensure_future(self._open())
        await asyncio.shield(self._is_open)

    async def _open(self) -> None:
        try:
            self._recording.resume(await self.in_thread(self._segments.open))
        except OSError as error:
            LOG.error("events of earlier cannot be read: %s", error)

    async def run(self) -> None:
        """Write what has come, once a second, for ever."""
        try:
            while True:
                await asyncio.sleep(_WRITE_S)
                await self.write()
        finally:
            # What has come since is on the disk, too, when the process ends.
            self._enqueue()
            self._thread.submit(self._write)

    async def write(self) -> None:
        """Write what has come."""
        await self._opened()
        self._enqueue()
        if self._waiting:
            await self.in_thread(lambda: None)
        self._tell()

    def _enqueue(self) -> None:
        batch = self._recording.batch()
        if batch is not None:
            self._waiting.append(batch)

    def _write(self) -> None:
        """Write what is waiting. The thread alone does so, and changes these two counts."""
        while self._waiting:
            batch = self._waiting.popleft()
            self._n_lost += self._writer.write(batch, self._now_s())
            self._recording.written_bytes += batch.n_bytes

    def _tell(self) -> None:
        """Tell of what was lost since."""
        n_lost = self._n_lost + self._recording.dropped
        if n_lost > self._told_lost:
            self._lost(n_lost - self._told_lost)
            self._told_lost = n_lost
        if self._recording.dropped and not self._is_slow:
            LOG.error("events are missed: they cannot be recorded as fast as they come")
            self._is_slow = True
        failure = self._writer.failure
        if failure is not None and not self._is_failing:
            LOG.error("events cannot be recorded: %s; those of this time will be missing", failure)
        elif failure is None and self._is_failing:
            LOG.info("events are recorded again")
        self._is_failing = failure is not None

    async def read(self, work: Callable[[Segments], T]) -> T:
        """What is made of all that was recorded until now."""
        await self.write()
        return await self.in_thread(lambda: work(self._segments))

    def gaps(self) -> list[Gap]:
        """The gaps that are not recorded yet."""
        present = self._recording.present_gap(self._now_s()), self._writer.lost
        return [gap for gap in present if gap is not None]

    async def in_thread(self, work: Callable[..., T], *more: Any) -> T:
        """What is made by the thread that reads and writes."""

        def after_writing() -> T:
            self._write()
            return work(*more)

        return await asyncio.get_running_loop().run_in_executor(self._thread, after_writing)
