"""The fake switches of a large fabric, in a process of its own, until its standard input ends.

python -m experiments.page.feed SETTINGS

SETTINGS is JSON of ``Settings``. A line of JSON on standard output tells of each step:
{"step": "connected"}, and at last {"step": "feeding"}. From then on congestion comes and goes at
the ports: as many notices a second as are asked for. Reports of queues say the same.
"""

import functools
import json
import os
import resource
import select
import selectors
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass

from controller.model.flow import ACK, SYN
from controller.model.values import Notice
from controller.southbound.codec import extension
from experiments.bench.controller.fake_switch import extension_message
from experiments.page.shape import Shape
from experiments.soak.fake_switch import Switch
from experiments.soak.hosts import Call, Host, Place, packet_in
from experiments.soak.network import Line

_ADDRESS = ("127.0.0.1", 6653)
_LLDP = b"\x88\xcc"
_SERVICE, _FIRST_PORT = 80, 1024
_LIMIT_BYTES = 512 * 1024
_RATE_BPS = 10**10
_FRAME_BYTES = 1500
_TICK_S = 0.01
_CONNECTING = 50
_WAVE = 5000
# An episode of congestion: the queue grows over L, M and H, and falls below.
_EPISODE = (Notice.CN_L, Notice.CN_M, Notice.CN_H, Notice.CR)
_FILLED = {Notice.CN_L: 0.3, Notice.CN_M: 0.5, Notice.CN_H: 0.8, Notice.CR: 0.1}
_LOW, _MID, _HIGH = (
    int(_FILLED[n] * _LIMIT_BYTES) for n in (Notice.CN_L, Notice.CN_M, Notice.CN_H)
)
_THRESHOLDS = extension.Thresholds(_LOW, _MID, _HIGH)
_PATIENCE_S = 300.0


@dataclass(frozen=True)
class Settings:
    """``edges_of_pod`` leaves of each pod have ``hosts_behind`` hosts each."""

    shape: dict[str, int]
    connections: int
    notices_per_s: int
    edges_of_pod: int = 2
    hosts_behind: int = 4

    def written(self) -> str:
        return json.dumps(asdict(self))


class Fabric:
    """All switches with their lines, as a whole."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._shape = Shape(**settings.shape)
        ports, cables = self._shape.layout()
        self._ends = {a: b for pair in cables for a, b in (pair, pair[::-1])}
        self._switches = {number: Switch(number, n) for number, n in ports.items()}
        self._lines = {n: Line(switch, _ADDRESS) for n, switch in self._switches.items()}
        self._selector = selectors.DefaultSelector()
        self._begun_s = time.monotonic()
        self._queues = {
            Place(number, port): _Queue(number, port) for number, n in ports.items()
            for port in range(1, n + 1)
        }  # fmt: skip
        self._places = list(self._queues)
        self._waiting: set[int] = set()
        self.discovered: set[tuple[Place, Place]] = set()
        for number, switch in self._switches.items():
            self._wire(number, switch)
        self.n_links = len(cables)
        places = self._shape.edges(settings.edges_of_pod)
        self._hosts = [
            Host(n + 1, place)
            for n, place in enumerate(p for p in places for _ in range(settings.hosts_behind))
        ]

    def _wire(self, number: int, switch: Switch) -> None:
        def on_frame(port: int, frame: bytes) -> None:
            end = self._ends.get(Place(number, port))
            if end is not None and frame[12:14] == _LLDP:
                self.discovered.add((Place(number, port), end))
                self._enter(end, frame)

        switch.on_frame = on_frame
        switch.queue = lambda port: self._queues[Place(number, port)].stats()

    def _enter(self, place: Place, frame: bytes) -> None:
        self._switches[place.switch].outgoing += packet_in(place.port, frame)
        self._waiting.add(place.switch)

    def exchange(self, until_s: float) -> None:
        """Send what waits, and read and answer until then."""
        while True:
            for number in self._waiting:
                self._lines[number].write()
            self._waiting = {n for n in self._waiting if self._switches[n].outgoing}
            left_s = until_s - time.monotonic()
            for key, _ in self._selector.select(max(0.0, min(left_s, _TICK_S))):
                key.data.read()
                key.data.write()
                if key.data.switch.outgoing:
                    self._waiting.add(key.data.switch.datapath)
            if left_s <= 0:
                return

    def connect(self) -> None:
        """Connect all switches, some at a time, until all are subscribed to."""
        numbers = list(self._lines)
        for first in range(0, len(numbers), _CONNECTING):
            piece = numbers[first : first + _CONNECTING]
            for number in piece:
                self._lines[number].open(self._selector)
                self._waiting.add(number)
            self._until(functools.partial(self._subscribed, piece))

    def _subscribed(self, numbers: Iterable[int]) -> bool:
        return all(self._switches[number].subscribed for number in numbers)

    def discover(self) -> None:
        """Wait until each link has been probed from either end."""
        self._until(lambda: len(self.discovered) == 2 * self.n_links)
        self.exchange(time.monotonic() + 2)

    def introduce(self) -> None:
        """Make all hosts known. A port that just came up could lead to a switch yet, so they say
        it three times."""
        for _ in range(3):
            for host in self._hosts:
                assert host.place is not None
                self._enter(host.place, host.introduction())
            self.exchange(time.monotonic() + 2)

    def open_connections(self) -> None:
        """In waves; the next one when what came before has been read."""
        waves = list(self._calls())
        for first in range(0, len(waves), _WAVE):
            wave = waves[first : first + _WAVE]
            for by_client, flags in ((True, SYN), (False, SYN | ACK)):
                for call in wave:
                    host = call.client if by_client else call.server
                    assert host.place is not None
                    self._enter(host.place, call.segment(by_client, flags))
                # Otherwise an answer could be read before what it answers, of another switch.
                self._settle()

    def _settle(self) -> None:
        """Wait until the controller has read everything from the switches of hosts."""
        edges = {host.place.switch for host in self._hosts if host.place is not None}
        asked = {number: self._switches[number].echoes + 1 for number in edges}
        for number in edges:
            self._switches[number].ask_echo()
        self._waiting |= edges
        self._until(lambda: all(self._switches[n].echoes == wanted for n, wanted in asked.items()))

    def _calls(self) -> Iterator[Call]:
        """Between hosts of different leaves."""
        n, apart = len(self._hosts), self._settings.hosts_behind
        others = n - 2 * apart
        for number in range(self._settings.connections):
            turn, at = divmod(number, n)
            server = (at + apart + turn % others) % n
            ports = _FIRST_PORT + turn // others, _SERVICE
            yield Call(self._hosts[at], self._hosts[server], ports, False, number + 1)

    def notify(self, number: int) -> None:
        """The next notice: episodes go from port to port."""
        # Some ports are in an episode at a time; neighbours in time are not neighbours in space.
        at = (number // len(_EPISODE) * 7919) % len(self._queues)
        place = self._places[at]
        notice = _EPISODE[number % len(_EPISODE)]
        queue = self._queues[place]
        self._switches[place.switch].outgoing += queue.notice(notice)
        self._waiting.add(place.switch)

    def _until(self, so: Callable[[], bool]) -> None:
        """Raises TimeoutError."""
        deadline = time.monotonic() + _PATIENCE_S
        while not so():
            if time.monotonic() > deadline:
                raise TimeoutError("the controller does not go on")
            self.exchange(time.monotonic() + _TICK_S)


class _Queue:
    """The egress queue of a port: always busy, now and then congested."""

    def __init__(self, switch: int, port: int) -> None:
        self._port = port
        # From idle to nearly full, so that all colours are there.
        self._use = (switch * 7 + port * 13) % 100 / 100
        self._level, self._sequence = 0, 0
        self._bytes = _FRAME_BYTES
        self._events = [0, 0, 0, 0]

    def notice(self, notice: Notice) -> bytes:
        self._level = 0 if notice == Notice.CR else int(notice) + 1
        self._bytes = int(_FILLED[notice] * _LIMIT_BYTES)
        self._sequence += 1
        self._events[int(notice)] += 1
        event = extension.QueueEvent(
            *(int(notice), self._port, 0, self._bytes // _FRAME_BYTES, self._bytes, _LIMIT_BYTES),
            *(time.monotonic_ns(), self._sequence),
        )
        return extension_message(extension.MessageType.QUEUE_EVENT, event.pack(), 0)

    def stats(self) -> extension.QueueStats:
        now_ns = time.monotonic_ns()
        sent = int(now_ns / 1e9 * self._use * _RATE_BPS / 8)
        lengths = self._bytes, self._bytes // _FRAME_BYTES, _LIMIT_BYTES
        return extension.QueueStats(
            *(self._port, 0, self._level, now_ns, _RATE_BPS, _LIMIT_BYTES, None, *lengths),
            *(sent // _FRAME_BYTES, sent, 0, 0, 0, tuple(self._events), self._sequence),
            thresholds=_THRESHOLDS,
        )


def _tell(step: str, **more: object) -> None:
    print(json.dumps({"step": step, **more}), flush=True)


def main() -> int:
    """Entry point."""
    settings = Settings(**json.loads(sys.argv[1]))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    begun_s = time.monotonic()

    def tell(step: str) -> None:
        _tell(step, after_s=round(time.monotonic() - begun_s, 1))

    fabric = Fabric(settings)
    fabric.connect()
    tell("connected")
    fabric.discover()
    tell("discovered")
    fabric.introduce()
    tell("introduced")
    fabric.open_connections()
    tell("feeding")
    number, due_s = 0, time.monotonic()
    while not _has_ended():
        now_s = time.monotonic()
        while due_s <= now_s:
            fabric.notify(number)
            number += 1
            due_s += 1 / settings.notices_per_s
        fabric.exchange(now_s + _TICK_S)
    return 0


def _has_ended() -> bool:
    """Whether standard input is at its end."""
    readable, _, _ = select.select([sys.stdin], [], [], 0)
    return bool(readable) and not os.read(sys.stdin.fileno(), 1)


if __name__ == "__main__":
    sys.exit(main())
