"""Serve the API until standard input ends, and with it the controller.

    echo JSON | python -m controller.api

The JSON is that of `settings.Settings`. Exit status: 0 at the end of standard input or on SIGTERM,
2 if it cannot serve as told.
"""

import asyncio
import gc
import logging
import os
import socket
import sys
import time

import uvicorn
import uvloop

from controller.api.app import Api, make
from controller.api.settings import Settings
from controller.api.tokens import TokenError
from controller.api.upstream import Upstream
from controller.ops import logs

LOG = logging.getLogger("weir.api")

_UNUSABLE = 2
_WAITING = 1024
# A peer that does not take what it is sent for so long is taken for gone (RFC 5482).
_PEER_TIMEOUT_MS = 15_000
# What is held for one that does not read.
_SEND_BYTES = 32 * 1024
_CONNECTIONS = 8192


def main() -> int:
    """Returns the exit status."""
    settings = Settings.model_validate_json(sys.stdin.readline())
    logs.configure(sys.stderr, settings.level, {}, settings.json_log, time.monotonic)
    try:
        api = Api(settings, Upstream(settings.socket))
        listening = _listen(settings.host, settings.port)
    except (TokenError, OSError) as error:
        LOG.error("the API is not served: %s", error)
        return _UNUSABLE
    config = uvicorn.Config(
        make(api),
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=1,
        ssl_keyfile=settings.key,
        ssl_certfile=settings.certificate,
    )
    try:
        config.load()
    except (OSError, ValueError) as error:
        LOG.error("the API is not served: its key and certificate cannot be used: %s", error)
        return _UNUSABLE
    scheme = "https" if settings.key else "http"
    LOG.info("API at %s://%s:%d/v1/, described in openapi.json there", scheme, *_place(listening))
    # What there is by now stays: to look through all of it keeps requests waiting for milliseconds.
    gc.collect()
    gc.freeze()
    uvloop.run(_serve(uvicorn.Server(config), listening))
    return 0


async def _serve(server: uvicorn.Server, listening: socket.socket) -> None:
    loop = asyncio.get_running_loop()

    def end() -> None:
        # Whoever has started it is gone; nothing is ever written there after the settings.
        if not os.read(sys.stdin.fileno(), 1):
            loop.remove_reader(sys.stdin)
            server.should_exit = True

    loop.add_reader(sys.stdin, end)
    await server.serve(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=_WAITING)
    except OSError as error:
        place = f"{host}:{port}"
        raise OSError(
            f"cannot listen on {place}: {error.strerror or error}; set northbound.api.listen to "
            "another HOST:PORT, or end what listens there"
        ) from error
    # Those that are accepted have the same. asyncio sees to TCP_NODELAY only where a socket's
    # protocol is said to be TCP, which a listener's is not; without it an answer waits for 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _PEER_TIMEOUT_MS)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
    return listening


def _place(listening: socket.socket) -> tuple[str, int]:
    host, port = listening.getsockname()[:2]
    return f"[{host}]" if ":" in host else host, port


if __name__ == "__main__":
    sys.exit(main())
