"""The northbound's listeners, in the green threads of the controller.

A request never holds up regulation: connections are let in one a round of the main loop, what is
computed for them is computed in slices, and whoever does not read is dropped after a while. What
fails here is logged; it never ends the controller.
"""

import contextlib
import errno
import logging
import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import eventlet
import eventlet.wsgi

from controller.northbound.metrics import Exposition
from controller.northbound.resources import Resources
from controller.northbound.scheduler import Scheduler
from controller.northbound.views import Announcing, Source
from controller.northbound.web import Api, Metrics, Site

LOG = logging.getLogger("weir.northbound")

_PEERS = 64
# Whoever comes while those are served waits; more than these are turned away.
_WAITING = 512
_PEER_TIMEOUT_S = 30.0
_ACCEPT_AGAIN_S = 0.1
_PATH_BYTES = 107  # unix(7): sun_path, less its end.


class ListenError(OSError):
    """A listener that cannot be opened, told for whoever configures it."""


class _Door:
    """A listening socket as `eventlet.wsgi` uses it, which lets in one peer at a time."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self.family = listening.family

    def accept(self) -> tuple[socket.socket, object]:
        while True:
            eventlet.sleep(0)
            try:
                peer, address = self._listening.accept()
                # Those of a Unix socket have no address, but are told apart by it.
                return peer, address or ("local", peer.fileno())
            except OSError as error:
                if error.errno in (errno.EBADF, errno.EINVAL):
                    raise
                # Such as too many open files: what is open already may go on.
                LOG.error("cannot accept a reader: %s", error.strerror)
                eventlet.sleep(_ACCEPT_AGAIN_S)

    def getsockname(self) -> object:
        return self._listening.getsockname()

    def close(self) -> None:
        self._listening.close()


class _Protocol(eventlet.wsgi.HttpProtocol):
    """HTTP that complains of its peers in the log, not beside it, and is done when it is done."""

    def finish(self) -> None:
        try:
            super().finish()
        finally:
            # If a peer has gone before its answer was written, they stay open, and with them the
            # socket: until the collector comes round to them, which takes an hour here.
            for file in (self.wfile, self.rfile):
                with contextlib.suppress(OSError):
                    file.close()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        LOG.debug(format, *args)


@contextlib.contextmanager
def serving(
    source: Source,
    announcing: Announcing,
    clock_ns: Callable[[], int],
    metrics: tuple[str, int] | None,
    api: str | None,
    api_must: bool,
) -> Iterator[None]:
    """Serve metrics at an endpoint and the API at a Unix socket, as far as they are wanted.

    Unless `api_must`, an API that cannot be served is only told. Raises ListenError.
    """
    scheduler = Scheduler(clock_ns, lambda: eventlet.sleep(0))
    with contextlib.ExitStack() as opened:
        if metrics is not None:
            listening = opened.enter_context(_listen_tcp(*metrics))
            site = Metrics(Exposition(source, scheduler.checkpoint), scheduler)
            opened.callback(_serve(site, listening).kill)
            LOG.info("metrics at http://%s:%d/metrics", *metrics)
        if api is not None:
            try:
                listening = opened.enter_context(_listen_unix(Path(api)))
            except ListenError as error:
                if api_must:
                    raise
                LOG.warning("no commands like weir-controller top: %s", error)
            else:
                resources = Resources(source, announcing, scheduler.checkpoint, eventlet.sleep)
                opened.callback(_serve(Api(resources, scheduler), listening).kill)
                LOG.info("local API at %s", api)
        yield


def _serve(site: Site, listening: socket.socket) -> eventlet.greenthread.GreenThread:
    return eventlet.spawn(
        eventlet.wsgi.server,
        _Door(listening),
        site,
        max_size=_PEERS,
        protocol=_Protocol,
        # Many open connections could all ask in the same round of the main loop.
        keepalive=False,
        log_output=False,
        debug=False,
        socket_timeout=_PEER_TIMEOUT_S,
    )


def _listen_tcp(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_WAITING)
    except OSError as error:
        raise ListenError(
            f"cannot serve metrics on {host}:{port}: {os.strerror(error.errno or 0)}; "
            "set northbound.metrics to another HOST:PORT, or to off"
        ) from error


@contextlib.contextmanager
def _listen_unix(path: Path) -> Iterator[socket.socket]:
    """Listen at a path that only this user may open; it is gone in the end.

    A directory /run/NAME is made, as that is gone with every start of the machine.
    """
    right = "set northbound.socket to another path, or to off"
    if len(os.fsencode(path)) > _PATH_BYTES:
        raise ListenError(f"{path} is longer than {_PATH_BYTES} bytes; {right}")
    if _answers(path):
        raise ListenError(f"another controller listens at {path}; {right}")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.parent.parent == Path("/run"):
            path.parent.mkdir(mode=0o755, exist_ok=True)
        _remove(path)
        # So that there is no moment in which others could open it.
        before = os.umask(0o177)
        try:
            listening.bind(str(path))
        finally:
            os.umask(before)
        listening.listen(_WAITING)
        made = path.stat().st_ino
    except OSError as error:
        listening.close()
        why = os.strerror(error.errno or 0)
        raise ListenError(f"cannot listen at {path}: {why}; {right}") from error
    try:
        yield listening
    finally:
        listening.close()
        with contextlib.suppress(OSError):
            if path.stat().st_ino == made:
                path.unlink()


def _answers(path: Path) -> bool:
    """Whether somebody listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        trial.settimeout(1.0)
        try:
            trial.connect(str(path))
        except OSError:
            return False
        return True


def _remove(path: Path) -> None:
    """Remove what a controller left behind that was killed; never anything but a socket."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
        path.unlink()
