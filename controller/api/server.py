"""HTTP servers, several in one process: uvicorn, with time limits for its peers."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_WAITING = 1024
# A peer that acknowledges nothing for so long is taken for gone (RFC 5482).
_PEER_TIMEOUT_MS = 15_000
# The most that is buffered for a peer that does not read.
_SEND_BYTES = 32 * 1024
_REQUEST_S, _MOST_HEAD_BYTES = 30.0, 64 * 1024


class Server(uvicorn.Server):
    """Serves TLS if it has a key and a certificate. Raises OSError if they cannot be used.

    It ends when `should_exit` is set, not by a signal: a signal is for all servers of the process.
    """

    def __init__(
        self, app: FastAPI, most: int, key: Path | None = None, certificate: Path | None = None
    ) -> None:
        config = uvicorn.Config(
            app,
            http=_Hasty,
            log_config=None,
            access_log=False,
            server_header=False,
            ws="none",
            lifespan="on",
            limit_concurrency=most,
            timeout_graceful_shutdown=1,
            backlog=_WAITING,
            ssl_keyfile=key,
            ssl_certfile=certificate,
        )
        try:
            config.load()
        except (OSError, ValueError) as error:
            raise OSError(
                f"northbound.api.key and northbound.api.certificate cannot be used: {error}; "
                "weir-controller check says why"
            ) from error
        super().__init__(config)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Hasty(HttpToolsProtocol):
    """Closes connections whose requests do not arrive in time, or have too large a head."""

    _late: asyncio.TimerHandle | None = None
    _in_head = True
    _read_bytes = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        self._read_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._read_bytes > _MOST_HEAD_BYTES:
            self.transport.close()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        # A request can be answered before all of it is here; the timer is then for the next one.
        if not self.cycle.response_complete:
            self._go_on()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # Another request, or a part of it, may have come before this answer.
        if self.cycle.response_complete or self.cycle.more_body:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._go_on()
        super().connection_lost(exc)

    def _wait(self) -> None:
        """Wait for a request, but not for ever."""
        self._go_on()
        self._in_head = self.cycle is None or self.cycle.response_complete
        self._read_bytes = 0
        self._late = self.loop.call_later(_REQUEST_S, self.transport.close)

    def _go_on(self) -> None:
        """The request is here."""
        if self._late is not None:
            self._late.cancel()
            self._late = None


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError, with a text for people."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=_WAITING)
    except OSError as error:
        place = f"{host}:{port}"
        raise OSError(
            f"cannot listen on {place}: {error.strerror or error}; set northbound.api.listen to "
            "another HOST:PORT, or end what listens there"
        ) from error
    return listening


def prepare(listening: socket.socket) -> None:
    """Set what all accepted connections inherit: timeouts, small buffers, no delay."""
    # asyncio sets TCP_NODELAY only on sockets that were made with protocol TCP, and a listener's
    # was not. Without it an answer waits for 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _PEER_TIMEOUT_MS)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
