"""Lines of requests in, lines of answers out, without sockets.

Answers are computed in slices, and rows only when they are sent.
"""

import logging
from collections.abc import Generator, Iterator

from controller.northbound.handlers import Document, Handlers, Listing, Stream
from controller.northbound.interfaces import (
    ConflictError,
    FailedError,
    NotOwnerError,
    UnknownError,
    ValueRefusedError,
)
from controller.northbound.scheduler import Scheduler
from controller.rpc import messages
from controller.rpc.messages import CallError, Kind

LOG = logging.getLogger("weir.northbound")

_PIECE_ROWS, _PIECE_BYTES = 64, 32 * 1024
_FOLLOWERS = 32


class Dispatcher:
    """Answers the requests of all peers."""

    def __init__(self, handlers: Handlers, scheduler: Scheduler) -> None:
        self._handlers = handlers
        self._scheduler = scheduler
        self._followers = 0

    def answer(self, request: bytes, who: str | None = None) -> Generator[bytes, None, None]:
        """The lines of the answer; errors are answers, too. Close it if you do not take all. `who`
        asks, if the request does not say."""
        try:
            yield from self._answer(request, who)
        except CallError as error:
            yield messages.error(error.kind, error.detail)
        except UnknownError as error:
            yield messages.error(Kind.UNKNOWN, str(error))
        except NotOwnerError as error:
            yield messages.error(Kind.FORBIDDEN, str(error))
        except ConflictError as error:
            yield messages.error(Kind.CONFLICT, str(error))
        except ValueRefusedError as error:
            yield messages.error(Kind.VALUE, str(error))
        except FailedError as error:
            yield messages.error(Kind.INTERNAL, str(error))
        except Exception:
            LOG.exception("a request could not be answered: %.200r", request)
            yield messages.error(Kind.INTERNAL, "the log of the controller says why")

    def _answer(self, request: bytes, who: str | None) -> Iterator[bytes]:
        with self._scheduler.slice():
            answer = self._handlers.answer(*messages.parse(request), who)
        match answer:
            case Document(fields):
                yield messages.result(fields)
            case Listing(name, rows, head):
                yield messages.result(head, name)
                yield from self._pieces(rows)
                yield messages.END
            case Stream(name, batches, head):
                if self._followers >= _FOLLOWERS:
                    raise CallError(Kind.BUSY, f"{_FOLLOWERS} follow already; try again later")
                self._followers += 1
                try:
                    yield messages.result(head, name)
                    for batch in batches:
                        yield from self._pieces(iter(batch)) if batch else (messages.piece(()),)
                    text = "changes were not read in time and are lost; follow again"
                    raise CallError(Kind.BUSY, text)
                finally:
                    self._followers -= 1

    def _pieces(self, rows: Iterator[object]) -> Iterator[bytes]:
        """The rows in pieces. While a piece is sent, others compute."""
        while True:
            piece: list[bytes] = []
            n_bytes = 0
            with self._scheduler.slice():
                for row in rows:
                    piece.append(messages.row(row))
                    n_bytes += len(piece[-1])
                    if len(piece) == _PIECE_ROWS or n_bytes >= _PIECE_BYTES:
                        break
                    self._scheduler.checkpoint()
            if not piece:
                return
            yield messages.piece(piece)
