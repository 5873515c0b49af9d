"""The RPC's listeners, in the green threads of the controller.

Requests never hold up regulation. The main loop accepts one connection a round, answers are
computed in slices, and a peer that does not read is dropped after a while. Failures here are logged
and never end the controller.
"""

import contextlib
import errno
import logging
import os
import stat
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import eventlet
from eventlet import hubs
from eventlet.green import socket

from controller.northbound.dispatcher import Dispatcher
from controller.northbound.handlers import Handlers
from controller.northbound.interfaces import Announcing, Bypassing, Changing, Source
from controller.northbound.scheduler import Scheduler
from controller.rpc import handover, messages
from controller.rpc.messages import CallError

LOG = logging.getLogger("weir.northbound")

_PEERS = 64
# So many more peers wait; others are turned away.
_WAITING = 512
_PEER_TIMEOUT_S = 30.0
_ACCEPT_AGAIN_S = 0.1
_READ_BYTES = 4096
_CREDENTIALS = struct.Struct("3i")
_PATH_BYTES = 107  # unix(7): sun_path, less its end.


class ListenError(OSError):
    """A listener cannot be opened; the message is for the operator."""


class Door(Protocol):
    """Where connections come from, one at a time. `accept` raises OSError."""

    def accept(self) -> socket.socket: ...


class _Listener:
    """Connections to a path."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening

    def accept(self) -> socket.socket:
        return self._listening.accept()[0]


class Hatch:
    """Connections that another process passes to this one (`rpc.handover`)."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def accept(self) -> socket.socket:
        while True:
            hubs.trampoline(self._end, read=True)
            descriptor = handover.accept(self._end)
            if descriptor is not None:
                return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=descriptor)


@contextlib.contextmanager
def serving(
    source: Source,
    announcing: Announcing,
    bypassing: Bypassing,
    changing: Changing,
    clock_ns: Callable[[], int],
    path: str | None,
    must: bool,
    hatch: Door | None = None,
) -> Iterator[None]:
    """Answer requests at a Unix socket and through a hatch, if they are given.

    A socket that cannot be opened is only logged, unless it `must` be opened. Raises ListenError.
    """
    scheduler = Scheduler(clock_ns, lambda: eventlet.sleep(0))
    handlers = Handlers(
        source, announcing, bypassing, changing, scheduler.checkpoint, eventlet.sleep
    )
    dispatcher = Dispatcher(handlers, scheduler)
    with contextlib.ExitStack() as opened:
        if hatch is not None:
            opened.enter_context(_serving(dispatcher, hatch))
        if path is not None:
            try:
                listening = opened.enter_context(_listen(Path(path)))
            except ListenError as error:
                if must:
                    raise
                LOG.warning("no commands like weir-controller top: %s", error)
            else:
                opened.enter_context(_serving(dispatcher, _Listener(listening)))
                LOG.info("commands ask at %s", path)
        yield


@contextlib.contextmanager
def _serving(dispatcher: Dispatcher, door: Door) -> Iterator[None]:
    peers = eventlet.GreenPool(_PEERS)
    letting_in = eventlet.spawn(_let_in, dispatcher, door, peers)
    try:
        yield
    finally:
        for green in (letting_in, *peers.coroutines_running):
            green.kill()


def _let_in(dispatcher: Dispatcher, door: Door, peers: eventlet.GreenPool) -> None:
    while True:
        eventlet.sleep(0)
        try:
            peer = door.accept()
        except OSError as error:
            # Such as too many open files. Open connections go on.
            LOG.error("cannot accept a reader: %s", error.strerror)
            eventlet.sleep(_ACCEPT_AGAIN_S)
        else:
            peers.spawn(_attend, dispatcher, peer)


def _attend(dispatcher: Dispatcher, peer: socket.socket) -> None:
    """Answer one request after the other, until the peer is gone or idle for too long."""
    try:
        with contextlib.closing(peer):
            who = _who(peer)
            for request in _requests(peer):
                with contextlib.closing(dispatcher.answer(request, who)) as answer:
                    for piece in answer:
                        _send(peer, piece)
    except (OSError, eventlet.Timeout) as error:
        LOG.debug("a peer is let go: %s", error)
    except Exception:
        LOG.exception("a peer could not be attended to")


def _who(peer: socket.socket) -> str:
    """The user of the peer's process, as the audit log is to have it (unix(7), SO_PEERCRED)."""
    told = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(told)
    return f"uid {user}"


def _requests(peer: socket.socket) -> Iterator[bytes]:
    lines, more = messages.Lines(), True
    while more:
        with eventlet.Timeout(_PEER_TIMEOUT_S):
            data = peer.recv(_READ_BYTES)
        more = bool(data)
        try:
            yield from lines.feed(data) if more else lines.end()
        except CallError as error:
            _send(peer, messages.error(error.kind, error.detail))
            return


def _send(peer: socket.socket, piece: bytes) -> None:
    with eventlet.Timeout(_PEER_TIMEOUT_S):
        peer.sendall(piece)


@contextlib.contextmanager
def _listen(path: Path) -> Iterator[socket.socket]:
    """Listen at a path that only this user may open. The socket is removed in the end.

    A directory /run/NAME is made, because /run is empty after every start of the machine.
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
        # So there is no moment in which others could open it.
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
    """Whether a process listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        trial.settimeout(1.0)
        try:
            trial.connect(str(path))
        except OSError:
            return False
        return True


def _remove(path: Path) -> None:
    """Remove the socket of a controller that was killed, and never anything but a socket."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
        path.unlink()
