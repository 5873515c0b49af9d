"""Heartbeats between the controllers of the same switches.

Every controller connects to every other one and sends its heartbeats, one JSON object a line. The
side that accepts begins with a challenge. Each line is authenticated by a tag over the challenge
and the line, keyed with the shared secret if there is one. Over TLS, the certificate must also bear
the peer's name.

What controllers share beside the switches has a key and a tag of its own in the line, which older
releases pass over. They take lines of 1 KiB at most, as does everybody before a peer is known.
"""

import contextlib
import hmac
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b

import eventlet
from eventlet.green import socket, threading

from controller.config.fields import Endpoint
from controller.config.sections.standby import StandbySection
from controller.ha.election import Heartbeat, Rank
from controller.ops.failure import fatal
from controller.ops.refusals import Refusals
from controller.southbound.transport.tls import Credentials, HandshakeError, TlsConnection

LOG = logging.getLogger("weir.peers")

_LINE_BYTES = 1024
# Of a known peer, with what is shared.
_LONG_LINE_BYTES = 128 * 1024
_ACCEPT_AGAIN_S = 0.1
_FIRST_WORD_S = 5.0
_SILENT_S = 60.0
_STRANGERS = 64


class StrangerError(Exception):
    """What was received is not from a peer."""


class Line:
    """One direction of a connection: its lines are numbered and authenticated."""

    def __init__(self, challenge: str, secret: bytes) -> None:
        self._challenge = challenge.encode()
        self._secret = secret
        self._number = 0

    def write(self, beat: Heartbeat) -> bytes:
        self._number += 1
        said = json.dumps(
            [self._number, beat.name, beat.rank.value, beat.generation, beat.priority]
        )
        message = {"said": said, "tag": self._tag(said)}
        if beat.shared:
            message |= {"shared": beat.shared, "shared_tag": self._tag(said, beat.shared)}
        return json.dumps(message).encode() + b"\n"

    def read(self, line: bytes) -> Heartbeat:
        """Raises StrangerError."""
        try:
            message = json.loads(line)
            said, tag = message["said"], message["tag"]
            if not hmac.compare_digest(str(tag).encode(), self._tag(str(said)).encode()):
                raise StrangerError("it does not know the secret; give all the same standby.secret")
            number, name, rank, generation, priority = json.loads(said)
            if not isinstance(number, int) or number <= self._number:
                raise StrangerError("it repeats an earlier line")
            shared = str(message.get("shared", ""))
            tag = str(message.get("shared_tag", "")) if shared else ""
            if shared and not hmac.compare_digest(
                tag.encode(), self._tag(str(said), shared).encode()
            ):
                raise StrangerError("it does not know the secret")
            beat = Heartbeat(str(name), Rank(rank), int(generation), int(priority), shared)
        except (ValueError, TypeError, KeyError, RecursionError):
            raise StrangerError("it sends what no controller sends") from None
        if not 0 <= beat.generation < 2**64:
            raise StrangerError("its generation has more than 64 bits")
        self._number = number
        return beat

    def _tag(self, *said: str) -> str:
        keyed = blake2b(self._challenge, key=self._secret, digest_size=16)
        keyed.update("\n".join(said).encode())
        return keyed.hexdigest()


class Peers:
    """`beat` returns this controller's heartbeat for a peer; what it shares is short if the second
    argument says so."""

    def __init__(
        self,
        section: StandbySection,
        secret: bytes,
        credentials: Credentials | None,
        beat: Callable[[str, bool], Heartbeat],
        clock_ns: Callable[[], int],
        fail: Callable[[], object],
    ) -> None:
        self.fail = fail
        self._refusals = Refusals("controller", clock_ns)
        self._section = section
        self._secret = secret
        self._credentials = credentials
        self._beat = beat
        self._urgent = {name: threading.Event() for name in section.peers}
        self._strangers = 0
        self._said: dict[str, str] = {}

    def start(self, listening: socket.socket, heard: Callable[[Heartbeat], None]) -> None:
        """Exchange heartbeats from now on; those of peers are passed to `heard`."""
        eventlet.spawn(self._accept, listening, heard)
        for name, endpoint in self._section.peers.items():
            eventlet.spawn(self._call, name, endpoint)

    def beat_now(self) -> None:
        """Send a heartbeat at once."""
        for event in self._urgent.values():
            event.set()

    # Sending

    @fatal
    def _call(self, name: str, endpoint: Endpoint) -> None:
        pause_s = self._section.heartbeat / 1e9
        limit_s = self._section.timeout / 1e9
        while True:
            try:
                with contextlib.closing(socket.create_connection(endpoint, limit_s)) as sock:
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._tell(name, sock, pause_s)
            except (OSError, HandshakeError, StrangerError, ValueError) as error:
                self._say(name, f"cannot be reached: {_why(error)}")
            eventlet.sleep(pause_s)

    def _tell(self, name: str, sock: socket.socket, pause_s: float) -> None:
        secured = self._credentials.connect(sock) if self._credentials else None
        if secured is not None and name not in secured.names:
            raise StrangerError(
                f"its certificate names {_listed(secured.names)}; the name in standby.peers must "
                "be in it"
            )
        line = Line(_Reader(sock, secured).line().decode(errors="replace").strip(), self._secret)
        self._say(name, "")
        urgent, first = self._urgent[name], True
        while True:
            data = line.write(self._beat(name, first))
            first = False
            sock.sendall(secured.seal(data) if secured else data)
            urgent.wait(timeout=pause_s)
            urgent.clear()

    # Receiving

    @fatal
    def _accept(self, listening: socket.socket, heard: Callable[[Heartbeat], None]) -> None:
        while True:
            try:
                sock, address = listening.accept()
            except OSError as error:
                LOG.error("cannot accept a controller: %s", error)
                eventlet.sleep(_ACCEPT_AGAIN_S)
                continue
            if self._strangers >= _STRANGERS:
                sock.close()
                continue
            eventlet.spawn(self._listen, sock, address, heard)

    @fatal
    def _listen(
        self, sock: socket.socket, address: tuple[str, int], heard: Callable[[Heartbeat], None]
    ) -> None:
        """Read a peer's heartbeats until it closes the connection."""
        self._strangers += 1
        known = False
        try:
            sock.settimeout(_SILENT_S)
            with contextlib.closing(sock), _limit(_FIRST_WORD_S) as limit:
                secured = self._credentials.accept(sock) if self._credentials else None
                challenge = os.urandom(16).hex()
                data = challenge.encode() + b"\n"
                sock.sendall(secured.seal(data) if secured else data)
                reader, line = _Reader(sock, secured), Line(challenge, self._secret)
                while True:
                    beat = line.read(reader.line(_LONG_LINE_BYTES if known else _LINE_BYTES))
                    if beat.name == self._section.name:
                        raise StrangerError(
                            f"it calls itself {beat.name}, as this controller does; "
                            "give each a standby.name of its own"
                        )
                    if beat.name not in self._section.peers:
                        raise StrangerError(
                            f"it calls itself {beat.name}, which is no peer; name it in "
                            "standby.peers if it is to be one"
                        )
                    if secured is not None and beat.name not in secured.names:
                        raise StrangerError(
                            f"its certificate is not for {beat.name}, but for "
                            f"{_listed(secured.names)}; its CN must be its standby.name"
                        )
                    if not known:
                        limit.cancel()
                        known = True
                        self._strangers -= 1
                    heard(beat)
        except (OSError, HandshakeError, StrangerError, eventlet.Timeout) as error:
            if not known:
                self._strangers -= 1
                self._refusals.tell(address, str(error) or "it sends nothing; is it a controller?")

    def _say(self, who: str, what: str) -> None:
        """Log the state of a peer, unless it is the one that was logged last."""
        if self._said.get(who, "") != what:
            self._said[who] = what
            if what:
                LOG.warning("controller %s %s", who, what)
            else:
                LOG.info("controller %s is reached", who)


def _why(error: Exception) -> str:
    """Why a peer cannot be reached, and what to do."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    right = "does it run, and is its address in standby.peers right?"
    return f"{os.strerror(error.errno)}; {right}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "nobody"


class _Reader:
    """Reads the lines of a connection."""

    def __init__(self, sock: socket.socket, secured: TlsConnection | None) -> None:
        self._sock = sock
        self._secured = secured
        self._buffer = secured.open(b"") if secured else b""

    def line(self, most_bytes: int = _LINE_BYTES) -> bytes:
        """Raises OSError at the end of the connection, StrangerError if a line is too long."""
        while b"\n" not in self._buffer:
            if len(self._buffer) > most_bytes:
                raise StrangerError("its line is too long")
            data = self._sock.recv(_LINE_BYTES)
            if not data:
                raise ConnectionResetError("it has closed the connection")
            self._buffer += self._secured.open(data) if self._secured else data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line


@contextlib.contextmanager
def _limit(seconds: float) -> Iterator[eventlet.Timeout]:
    """A Timeout that ends with the block, or is cancelled earlier."""
    limit = eventlet.Timeout(seconds)
    try:
        yield limit
    finally:
        limit.cancel()
