"""Controllers of every kind: busy, rude, silent, or gone again."""

import contextlib
import random
import select
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from experiments.soak import messages

PORT = 6653
_DIALLERS = 3
_HEADER = struct.Struct("!BBHI")
_ABORT = struct.pack("ii", 1, 0)
_LONGEST_S = 6.0
_PAUSE_S = 0.05


class Peers:
    """Controllers that the switch connects to (on loopback, ``PORT``), and controllers that connect
    to it.

    ``counts`` says how often each message was received from the switch, which shows a soak in which
    the controllers were never heard.
    """

    def __init__(self, seed: int, management_sockets: Callable[[], list[Path]]) -> None:
        self.counts: Counter[str] = Counter()
        self._seed = seed
        self._sockets = management_sockets
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("", PORT))
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads += [
            threading.Thread(target=self._dial, args=(n,), daemon=True) for n in range(_DIALLERS)
        ]

    def start(self) -> None:
        """Begin to answer and to call."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let all conversations end; those of the listener end with their connections."""
        self._ending.set()
        self._listener.close()
        for thread in self._threads[1:]:
            thread.join(_LONGEST_S + 5)

    def _accept(self) -> None:
        number = 0
        while not self._ending.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            number += 1
            rng = random.Random(f"{self._seed} called {number}")
            threading.Thread(target=self._converse, args=(connection, rng), daemon=True).start()

    def _dial(self, number: int) -> None:
        rng = random.Random(f"{self._seed} calling {number}")
        while not self._ending.is_set():
            paths = self._sockets()
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(2)
            try:
                if paths:
                    connection.connect(str(rng.choice(paths)))
                    self._converse(connection, rng)
            except OSError:
                # The bridge went while it was being called.
                connection.close()
            self._ending.wait(_PAUSE_S)

    def _converse(self, connection: socket.socket, rng: random.Random) -> None:
        with contextlib.suppress(OSError), connection:
            connection.settimeout(2)
            self._count("connections")
            kind = rng.choices(("busy", "rude", "silent", "deaf"), weights=(6, 4, 1, 1))[0]
            if kind != "silent":
                connection.sendall(messages.message(messages.HELLO))
                connection.sendall(messages.message(messages.FEATURES_REQUEST))
                connection.sendall(messages.forwarding())
                connection.sendall(messages.subscribe(rng))
            end = time.monotonic() + rng.uniform(0, _LONGEST_S)
            buffer = b""
            while time.monotonic() < end and not self._ending.is_set():
                if kind != "silent":
                    make = messages.spoilt if kind == "rude" else messages.sensible
                    connection.sendall(b"".join(make(rng) for _ in range(rng.randint(1, 10))))
                if kind != "deaf":
                    buffer = self._listen(connection, buffer)
                # There is to be time left for packets.
                self._ending.wait(rng.uniform(0, 2 * _PAUSE_S))
            if rng.random() < 0.3:
                connection.sendall(messages.sensible(rng)[:11])
            if connection.family == socket.AF_INET and rng.random() < 0.3:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)

    def _listen(self, connection: socket.socket, buffer: bytes) -> bytes:
        while select.select([connection], [], [], 0)[0]:
            data = connection.recv(65_536)
            if not data:
                raise ConnectionResetError
            buffer += data
        while len(buffer) >= _HEADER.size:
            _, kind, length, xid = _HEADER.unpack_from(buffer)
            if length < _HEADER.size:
                raise ConnectionResetError
            if len(buffer) < length:
                break
            message, buffer = buffer[:length], buffer[length:]
            if kind == messages.ECHO_REQUEST:
                connection.sendall(messages.message(messages.ECHO_REPLY, message[8:], xid))
            self._count(f"type_{kind}")
            if messages.events_in(message[:16]):
                self._count("queue_events")
        return buffer

    def _count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1
