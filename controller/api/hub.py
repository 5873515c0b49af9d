"""One stream of the controller, for many listeners.

Each message is encoded once and sent to all, those that come together in one piece. A listener that
does not read in time is dropped: its connection ends, and when it connects again it starts with the
present state.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

from controller.api.upstream import UnavailableError

LOG = logging.getLogger("weir.api")

_WAITING = 256
_AGAIN_S = 0.5
_QUIET_S = 10.0
# Says that others were missed, and how many.
MISSED = "events_missed"
_COMMENT = b": still here\n\n"

Message = Mapping[str, Any]
Follow = Callable[[], AsyncIterator[list[dict[str, object]]]]


class FullError(Exception):
    """There are as many listeners as allowed."""


class _Listener:
    """`wants` is the key of the messages that it wants, None for all. `may` says whether it may
    still listen."""

    def __init__(self, wants: str | None, may: Callable[[], bool]) -> None:
        self.wants = wants
        self.may = may
        self.waiting: asyncio.Queue[bytes] = asyncio.Queue(_WAITING)
        self.task: asyncio.Task[Any] | None = None


class Hub:
    """`key` names the subject of a message. The last message of each subject is the state, until
    one for which `gone` is true. Without `key` there is no state. `most` limits the listeners.
    `hear` gets all messages before anybody else."""

    def __init__(
        self,
        name: str,
        follow: Follow,
        most: int,
        key: Callable[[Message], str] | None = None,
        gone: Callable[[Message], bool] = lambda _: False,
        hear: Callable[[Sequence[Message]], None] = lambda _: None,
    ) -> None:
        self._name = name
        self._follow = follow
        self._most = most
        self._key = key
        self._gone = gone
        self._hear = hear
        self._state: dict[str, bytes] = {}
        self._listeners: set[_Listener] = set()
        self.dropped = 0
        self.told = 0

    def __len__(self) -> int:
        """The number of listeners."""
        return len(self._listeners)

    async def run(self) -> None:
        """Pass on what the controller sends, for ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._hand_on())
            tasks.create_task(self._beat())

    async def _beat(self) -> None:
        """Send a comment on quiet streams, so that nobody takes them for broken."""
        while True:
            await asyncio.sleep(_QUIET_S)
            for listener in list(self._listeners):
                if listener.waiting.empty():
                    listener.waiting.put_nowait(_COMMENT)

    async def _hand_on(self) -> None:
        while True:
            self._state.clear()
            with contextlib.suppress(UnavailableError):
                async for messages in self._follow():
                    self.tell_all(messages)
            await asyncio.sleep(_AGAIN_S)

    def tell(self, message: Message) -> None:
        """Send a message to all who want it."""
        self.tell_all([message])

    def tell_all(self, messages: Sequence[Message]) -> None:
        """Send messages, in their order, to all who want them."""
        self._hear(messages)
        written = [self._noted(message) for message in messages]
        if not written:
            return
        of_all = b"".join(text for _, text in written)
        for listener in list(self._listeners):
            wants = listener.wants
            told = of_all if wants is None else b"".join(t for key, t in written if key == wants)
            if told:
                try:
                    listener.waiting.put_nowait(told)
                except asyncio.QueueFull:
                    self._drop(listener)

    def _noted(self, message: Message) -> tuple[str | None, bytes]:
        """Count a message, and keep it as the state of its subject. Returns both."""
        # An event of a queue, too, has "missed": notices that were lost before it.
        self.told += message["missed"] if message.get("event") == MISSED else 1
        text = self._written(message)
        if self._key is None:
            return None, text
        key = self._key(message)
        if self._gone(message):
            self._state.pop(key, None)
        else:
            self._state[key] = text
        return key, text

    @contextlib.contextmanager
    def listening(
        self, wants: str | None = None, may: Callable[[], bool] = lambda: True
    ) -> Iterator[AsyncIterator[bytes]]:
        """The present state, then all messages, as long as the block lasts, and `may` says so when
        `part` asks. Raises FullError."""
        if len(self._listeners) >= self._most:
            raise FullError(f"{self._most} listen already; try again later")
        listener = _Listener(wants, may)
        state = [text for key, text in self._state.items() if wants in (None, key)]
        self._listeners.add(listener)
        try:
            yield self._told(listener, state)
        finally:
            self._listeners.discard(listener)

    async def _told(self, listener: _Listener, state: list[bytes]) -> AsyncIterator[bytes]:
        listener.task = asyncio.current_task()
        # Something at once, so that the listener knows that it is connected.
        yield b"".join(state) or _COMMENT
        while listener in self._listeners:
            text = await listener.waiting.get()
            while not listener.waiting.empty():
                text += listener.waiting.get_nowait()
            yield text

    def part(self) -> None:
        """End the streams of those that may no longer listen."""
        for listener in list(self._listeners):
            if not listener.may():
                self._end(listener)
                LOG.info("a stream of %s has ended with its token or session", self._name)

    def _drop(self, listener: _Listener) -> None:
        self.dropped += 1
        self._end(listener)
        LOG.warning("a listener to %s did not read and was dropped", self._name)

    def _end(self, listener: _Listener) -> None:
        """Its task may wait for ever for its peer to read."""
        self._listeners.discard(listener)
        if listener.task is not None:
            listener.task.cancel()

    def _written(self, message: Message) -> bytes:
        """WHATWG HTML, section 9.2: server-sent events."""
        head = f"id: {message['serial']}\n" if "serial" in message else ""
        return f"{head}event: {self._name}\ndata: {json.dumps(message)}\n\n".encode()
