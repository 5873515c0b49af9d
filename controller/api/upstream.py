"""A client of the controller, over connections that are passed to it."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

from controller.rpc import messages
from controller.rpc.messages import CallError, NonsenseError

_ASKED_AT_ONCE = 32
_TIMEOUT_S = 10.0
# A stream sends something at least that often.
_SILENCE_S = 30.0
_MOST_LINE_BYTES = 16 * 1024 * 1024


class UnavailableError(Exception):
    """The controller does not answer."""


class NoAnswerError(UnavailableError):
    """The controller has been asked, and may have done what it was asked for."""


class UnsureError(Exception):
    """Whether something was changed is not known."""


class Upstream:
    """The controller. `connect` makes a connection to it."""

    def __init__(self, connect: Callable[[], socket.socket]) -> None:
        self._connect = connect
        self._free = asyncio.Semaphore(_ASKED_AT_ONCE)

    async def ask(self, method: str, params: Mapping[str, object] | None = None) -> bytes:
        """The answer as one JSON object. Raises CallError and UnavailableError, which is a
        NoAnswerError once the request is on its way."""
        answer = messages.Assembly()
        kind = UnavailableError
        with _unavailable(lambda: kind):
            async with (
                asyncio.timeout(_TIMEOUT_S),
                self._free,
                self._asked(method, params) as lines,
            ):
                kind = NoAnswerError
                while not answer.take(await _line(lines)):
                    pass
        return answer.body

    async def follow(
        self,
        method: str,
        params: Mapping[str, object] | None = None,
        begin: Callable[[Mapping[str, Any]], None] = lambda _: None,
    ) -> AsyncIterator[list[dict[str, Any]]]:
        """The rows of a stream as they come together, and none from time to time. `begin` gets the
        stream's head first. Raises UnavailableError."""
        with _unavailable():
            async with self._asked(method, params) as lines:
                try:
                    head, _ = messages.head(await _line_in_time(lines))
                    begin(head)
                    while True:
                        yield messages.rows(await _line_in_time(lines))
                except CallError as error:
                    raise UnavailableError(error.detail) from None

    @contextlib.asynccontextmanager
    async def _asked(
        self, method: str, params: Mapping[str, object] | None
    ) -> AsyncIterator[asyncio.StreamReader]:
        """The lines of an answer."""
        connection = self._connect()
        connection.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=connection, limit=_MOST_LINE_BYTES)
        try:
            writer.write(messages.request(method, params))
            yield reader
        finally:
            writer.close()


async def _line(lines: asyncio.StreamReader) -> bytes:
    """The next line. Raises OSError at the end."""
    line = await lines.readline()
    if not line.endswith(b"\n"):
        raise ConnectionResetError("it has ended")
    return line


async def _line_in_time(lines: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(_SILENCE_S):
        return await _line(lines)


@contextlib.contextmanager
def _unavailable(
    kind: Callable[[], type[UnavailableError]] = lambda: UnavailableError,
) -> Iterator[None]:
    """Turn failures into UnavailableError, or the present kind of it."""
    try:
        yield
    except TimeoutError:
        raise kind()("the controller does not answer in time") from None
    except (OSError, NonsenseError, ValueError) as error:
        raise kind()(str(error)) from error
