"""Serve the API and the metrics until standard input ends, and with it the controller.

    (echo JSON; cat) | python -m controller.api

The JSON is that of `settings.Settings`; lines that follow say how to log from then on. Exit status:
0 at the end of standard input or on SIGTERM. If the API cannot be served as configured, the log
says why once, and the process tries again every second.
"""

import asyncio
import contextlib
import functools
import gc
import logging
import signal
import socket
import sys
import time

import uvloop

from controller.api import app, metrics
from controller.api.access.tokens import TokenError
from controller.api.history.history import Files
from controller.api.server import Server, listen, prepare
from controller.api.settings import ApiSettings, Lines, LogSettings, Settings
from controller.api.state import Api
from controller.api.upstream import Upstream
from controller.ops import directories, logs
from controller.rpc import handover

LOG = logging.getLogger("weir.api")

_API_PEERS, _METRICS_PEERS = 8192, 512
# An operator may have mended what was wrong.
_AGAIN_S = 1.0


class _Process:
    """All that is served."""

    def __init__(self, settings: Settings, upstream: Upstream, told: Lines) -> None:
        self._settings = settings
        self._upstream = upstream
        self._told = told
        self._servers: list[Server] = []
        self._api_up = False
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Serve until the process is told to end, or a server fails."""
        loop = asyncio.get_running_loop()
        self._follow()
        loop.add_reader(self._told.descriptor, self._read)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end)
        works = []
        if self._settings.metrics is not None:
            works.append(self._serve_metrics(self._settings.metrics))
        if self._settings.api is not None:
            works.append(self._serve_api(self._settings.api))
        await asyncio.gather(*works)

    def _read(self) -> None:
        if self._told.wait():
            self._follow()
        else:
            # The controller is gone.
            asyncio.get_running_loop().remove_reader(self._told.descriptor)
            self._end()

    def _follow(self) -> None:
        for line in self._told:
            _log_as(LogSettings.model_validate_json(line))

    def _end(self) -> None:
        self._ended.set()
        for server in self._servers:
            server.should_exit = True

    async def _serve_metrics(self, descriptor: int) -> None:
        api_up = None if self._settings.api is None else lambda: self._api_up
        server = Server(metrics.make(self._upstream, api_up), _METRICS_PEERS)
        await self._serve(server, socket.socket(fileno=descriptor))

    async def _serve_api(self, settings: ApiSettings) -> None:
        told = ""
        while not self._ended.is_set():
            try:
                api, server, listening = self._open(settings)
            except (TokenError, OSError) as error:
                if str(error) != told:
                    told = str(error)
                    LOG.error("the API is not served: %s", told)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._ended.wait(), _AGAIN_S)
            else:
                scheme = "https" if settings.key else "http"
                place = _place(listening)
                LOG.info("API at %s://%s/v1/, described in openapi.json there", scheme, place)
                # If the work in the background fails, the process ends and is started again.
                async with asyncio.TaskGroup() as tasks:
                    work = tasks.create_task(api.run())
                    self._api_up = True
                    await self._serve(server, listening)
                    self._api_up = False
                    work.cancel()
                return

    def _open(self, settings: ApiSettings) -> tuple[Api, Server, socket.socket]:
        """Raises TokenError or OSError, with a text for people."""
        state = directories.state()
        store = Files(state / "history") if state else None
        api = Api(settings, self._upstream, store=store, directory=state)
        listening = listen(settings.host, settings.port)
        try:
            server = Server(app.make(api), _API_PEERS, settings.key, settings.certificate)
        except OSError:
            listening.close()
            raise
        return api, server, listening

    async def _serve(self, server: Server, listening: socket.socket) -> None:
        prepare(listening)
        # What exists by now stays. To look through all of it delays requests by milliseconds.
        gc.collect()
        gc.freeze()
        self._servers.append(server)
        await server.serve(sockets=[listening])
        self._end()


def main() -> None:
    told = Lines(sys.stdin.fileno())
    while (first := next(iter(told), None)) is None:
        if not told.wait():
            return
    settings = Settings.model_validate_json(first)
    _log_as(settings.log)
    hatch = socket.socket(fileno=settings.hatch)
    hatch.setblocking(False)
    upstream = Upstream(functools.partial(handover.connect, hatch))

    async def run() -> None:
        await _Process(settings, upstream, told).run()

    uvloop.run(run())


def _log_as(log: LogSettings) -> None:
    logs.configure(sys.stderr, log.level, {}, log.as_json, time.monotonic)


def _place(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


if __name__ == "__main__":
    main()
