"""Hostile peers of a controller: what they send is wrong, incomplete, or in another's name."""

import contextlib
import select
import socket
import struct
import time
from collections.abc import Sequence
from random import Random

from experiments.soak.fake_switch import Switch

_PATIENCE_S = 5.0
_HEADER = struct.Struct("!BBHI")
_ANY_BYTES = 4096
_HELLO = _HEADER.pack(4, 0, 8, 0)


class Peer:
    """Context manager: a connection to the controller that can behave like a switch's."""

    def __init__(self, address: tuple[str, int], switch: Switch) -> None:
        self.switch = switch
        self._socket = socket.create_connection(address, timeout=_PATIENCE_S)
        switch.connect()

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_exc: object) -> None:
        self._socket.close()

    def converse(self, seconds: float, until_subscribed: bool = False) -> bool:
        """Answer requests; returns whether the controller is still there."""
        deadline = time.monotonic() + seconds
        try:
            while True:
                if self.switch.outgoing:
                    self._socket.sendall(self.switch.outgoing)
                    self.switch.outgoing.clear()
                if until_subscribed and self.switch.subscribed:
                    return True
                left_s = deadline - time.monotonic()
                if left_s <= 0 or not select.select([self._socket], [], [], left_s)[0]:
                    return True
                data = self._socket.recv(65_536)
                if not data:
                    return False
                self.switch.receive(data)
        except OSError:
            return False

    def say(self, data: bytes) -> bool:
        """Send bytes; returns whether the controller is still there."""
        try:
            self._socket.sendall(data)
        except OSError:
            return False
        return True

    def reset(self) -> None:
        """Close without a word: the other side gets an RST."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()


def storm(address: tuple[str, int], datapaths: Sequence[int], n: int, rng: Random) -> None:
    """Make ``n`` connections of switches that come, become ready or not, and leave in order or
    not."""
    for number in range(n):
        switch = Switch(datapaths[number % len(datapaths)], rng.randint(0, 4))
        with contextlib.suppress(OSError), Peer(address, switch) as peer:
            stays = rng.random()
            if stays < 0.1:
                continue
            peer.converse(_PATIENCE_S, until_subscribed=True)
            if stays < 0.5:
                peer.converse(0.01)
            if rng.random() < 0.5:
                peer.reset()


def nonsense(address: tuple[str, int], corpus: Sequence[bytes], peers: int, rng: Random) -> None:
    """Send random and spoilt messages, before the handshake and after it."""
    for _ in range(peers):
        switch = Switch(rng.getrandbits(48) | 1 << 48, 2)
        with contextlib.suppress(OSError), Peer(address, switch) as peer:
            kind = rng.random()
            if kind < 0.2:
                peer.say(rng.randbytes(rng.randrange(1, _ANY_BYTES)))
                peer.converse(0.02)
                continue
            if kind < 0.8:
                peer.converse(_PATIENCE_S, until_subscribed=True)
                peer.converse(0.02)
            for _ in range(rng.randint(1, 50)):
                if not peer.say(spoilt(rng.choice(corpus), rng)):
                    break
            peer.converse(0.02)


def half_handshakes(address: tuple[str, int], n: int, rng: Random) -> list[socket.socket]:
    """Open connections that go no further and stay open; some send a part of a HELLO."""
    opened = []
    for _ in range(n):
        sock = socket.create_connection(address, timeout=_PATIENCE_S)
        sock.sendall(_HELLO[: rng.randrange(len(_HELLO) + 1)])
        opened.append(sock)
    return opened


def impostor(address: tuple[str, int], datapath: int, seconds: float, rng: Random) -> None:
    """Claim to be a switch that is connected, with other ports, as often as one is let in."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        switch = Switch(datapath, rng.randint(1, 8))
        with contextlib.suppress(OSError), Peer(address, switch) as peer:
            peer.converse(min(0.5, max(0.0, deadline - time.monotonic())))


def spoilt(stream: bytes, rng: Random) -> bytes:
    """Messages with an error in them; most have the right length themselves."""
    data = bytearray(stream)
    fault = rng.randrange(4)
    if fault == 0 and len(data) > _HEADER.size:
        del data[rng.randrange(_HEADER.size, len(data)) :]
        if rng.random() < 0.8:
            struct.pack_into("!H", data, 2, len(data))
    elif fault == 1:
        data[_HEADER.size :] = rng.randbytes(len(data) - _HEADER.size)
    else:
        for _ in range(1 if fault == 2 else 8):
            data[rng.randrange(len(data))] = rng.getrandbits(8)
        if rng.random() < 0.8:
            struct.pack_into("!BxH", data, 0, 4, min(len(data), 0xFFFF))
    return bytes(data)
