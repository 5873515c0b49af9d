"""Hundreds of thousands of connections, as the messages of a switch."""

from collections.abc import Iterator

from controller.model.flow import ACK, FIN, PSH, SYN
from experiments.bench.controller.fake_switch import HOSTS, Host, segment

_SERVICE = 80
_FIRST_PORT = 1024
_PORTS = 64_000
_WAVE = 256


class Call:
    """A connection by its number: its hosts and its port."""

    def __init__(self, number: int) -> None:
        turn, client = divmod(number, HOSTS)
        server = (client + 1 + turn // _PORTS) % HOSTS
        self.client, self.server = Host(client + 1), Host(server + 1)
        self.ports = _FIRST_PORT + turn % _PORTS, _SERVICE
        self.sequence = number + 1

    def _say(self, flags: int, payload: bytes = b"") -> bytes:
        return segment(self.client, self.server, self.ports, flags, self.sequence, payload)

    def _reply(self, flags: int) -> bytes:
        return segment(self.server, self.client, self.ports[::-1], flags, self.sequence)

    def request(self) -> bytes:
        """What the client asks for."""
        return self._say(ACK | PSH, bytes(64))

    def parts(self) -> tuple[bytes, bytes, bytes, bytes]:
        """SYN, SYN-ACK, FIN and FIN."""
        return (
            self._say(SYN),
            self._reply(SYN | ACK),
            self._say(FIN | ACK),
            self._reply(FIN | ACK),
        )


class CallTo(Call):
    """A connection to the last host: all their data leaves by that host's port."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        turn, client = divmod(number, HOSTS - 1)
        self.client, self.server = Host(client + 1), Host(HOSTS)
        self.ports = _FIRST_PORT + turn, _SERVICE


def openings(first: int, n: int, kind: type[Call] = Call) -> Iterator[bytes]:
    """``n`` connections are opened, in waves: so many SYNs, and then their answers."""
    for start in range(first, first + n, _WAVE):
        wave = [kind(number).parts() for number in range(start, min(start + _WAVE, first + n))]
        yield b"".join(parts[0] for parts in wave) + b"".join(parts[1] for parts in wave)


def lives(first: int, n: int) -> tuple[bytes, bytes]:
    """``n`` connections are opened and closed in waves, each one while others are being opened.

    In two parts: when the first is over, the connections of the last wave are open yet.
    """
    pieces = []
    finishing: tuple[bytes, bytes] = b"", b""
    for start in range(first, first + n, _WAVE):
        wave = [Call(number).parts() for number in range(start, min(start + _WAVE, first + n))]
        columns = [b"".join(column) for column in zip(*wave, strict=True)]
        pieces += [columns[0], finishing[0], columns[1], finishing[1]]
        finishing = columns[2], columns[3]
    return b"".join(pieces), b"".join(finishing)


def left_open(n: int) -> int:
    """How many of ``n`` connections are open between the parts of their ``lives``."""
    return n % _WAVE or min(n, _WAVE)
