"""The faults, each a plain value that describes itself and knows how to strike.

``hurts`` says whether packets may be lost by it: the hosts must not feel a fault of the controller
alone.
"""

import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar, Protocol, Self

from controller.model.values import switch_id
from experiments.chaos import hostile
from experiments.chaos.clock import SteppedClock
from experiments.chaos.stalls import Span
from testbed.bed import Bed
from testbed.command import run, wait_until
from testbed.controller import PORT

_ADDRESS = ("127.0.0.1", PORT)
_RECONNECTED_S = 30.0
# Of no switch of a test bed.
_FOREIGN_DATAPATHS = range(0xC0FFEE00, 0xC0FFEE10)


@dataclass
class Target:
    """What faults can strike. ``corpus`` are valid messages of switches, ``links`` the switches'
    ends of the links, ``left_open`` the connections that nobody closes. Windows outlive a
    controller by ``window_ttl_s``; ``unregulated`` is when there was no controller for longer."""

    bed: Bed
    clock: SteppedClock
    corpus: Sequence[bytes]
    links: list[str]
    window_ttl_s: float
    left_open: list[socket.socket] = field(default_factory=list)
    unregulated: list[Span] = field(default_factory=list)

    def start_controller(self, monotonic: bool) -> None:
        """Start a controller with the right time, on a clock that can be stepped."""
        controller = self.bed.controller
        assert controller is not None
        controller.env = self.clock.environment(monotonic)
        controller.start()

    @contextmanager
    def controller_away(self) -> Iterator[None]:
        """Context manager: the controller is killed in the block. Afterwards, wait until all
        switches are connected again, and note for how long nothing was regulated."""
        begin_s = time.monotonic()
        yield
        self.require_reconnected()
        end_s = time.monotonic()
        if end_s - begin_s > self.window_ttl_s:
            self.unregulated.append((begin_s + self.window_ttl_s, end_s))

    def require_reconnected(self) -> None:
        """Raises TimeoutError if a switch stays away."""
        wait_until(
            lambda: all(switch.connected() for switch in self.bed.switches),
            timeout_s=_RECONNECTED_S,
            what="all switches are connected again",
            poll_s=0.2,
        )


class Fault(Protocol):
    """One thing that goes wrong."""

    hurts: ClassVar[bool]

    @classmethod
    def draw(cls, rng: Random) -> Self:
        """Draw one at random."""

    def strike(self, target: Target) -> None:
        """Strike; returns when the fault is over, though its effects may not be."""


@dataclass(frozen=True)
class KillController:
    """The controller gets SIGKILL, and a successor starts after ``away_s``."""

    hurts: ClassVar[bool] = False
    away_s: float

    @classmethod
    def draw(cls, rng: Random) -> Self:
        """Draw how long the controller is away."""
        return cls(round(rng.uniform(0, 3), 1))

    def strike(self, target: Target) -> None:
        """Kill it and start it."""
        assert target.bed.controller is not None
        with target.controller_away():
            target.bed.controller.kill()
            time.sleep(self.away_s)
            target.start_controller(target.clock.monotonic)


@dataclass(frozen=True)
class RestartSwitch:
    """The switch process gets SIGKILL, and a successor starts with the same database, and no
    entries."""

    hurts: ClassVar[bool] = True
    away_s: float

    @classmethod
    def draw(cls, rng: Random) -> Self:
        """Draw how long the switch is away."""
        return cls(round(rng.uniform(0, 1), 1))

    def strike(self, target: Target) -> None:
        """Kill it, start it, and wait until its bridges are connected."""
        target.bed.ovs.kill_switch()
        time.sleep(self.away_s)
        target.bed.ovs.start_switch()
        target.require_reconnected()


@dataclass(frozen=True)
class FlapLink:
    """A link goes down and up several times."""

    hurts: ClassVar[bool] = True
    link: int
    times: int
    down_s: float
    up_s: float

    @classmethod
    def draw(cls, rng: Random) -> Self:
        """Draw the link, how often it flaps and for how long."""
        times = rng.choice((1, 1, 2, 8))
        longest_s = 1.5 / times
        down_s, up_s = (round(rng.uniform(0.02, longest_s), 2) for _ in range(2))
        return cls(rng.getrandbits(16), times, down_s, up_s)

    def strike(self, target: Target) -> None:
        """Take down the switch's end, so that both ends lose the carrier."""
        device = target.links[self.link % len(target.links)]
        for _ in range(self.times):
            run(["ip", "link", "set", device, "down"])
            time.sleep(self.down_s)
            run(["ip", "link", "set", device, "up"])
            time.sleep(self.up_s)


@dataclass(frozen=True)
class StepClock:
    """The controller's clock jumps; with ``monotonic``, so does the clock by which it measures
    time."""

    hurts: ClassVar[bool] = False
    step_s: int
    monotonic: bool

    @classmethod
    def draw(cls, rng: Random) -> Self:
        """Draw the step. Only the wall clock can go back."""
        monotonic = rng.random() < 0.5
        step_s = rng.choice((2, 30, 300, 5000))
        return cls(step_s if monotonic or rng.random() < 0.5 else -step_s, monotonic)

    def strike(self, target: Target) -> None:
        """Step the clock. A controller whose clock is of the other kind is replaced first."""
        controller = target.bed.controller
        assert controller is not None
        if target.clock.monotonic != self.monotonic:
            with target.controller_away():
                controller.stop()
                target.start_controller(self.monotonic)
        target.clock.step(self.step_s)
        time.sleep(1.5)


@dataclass(frozen=True)
class ReconnectStorm:
    """Unknown switches come and go, while the real ones have to connect again."""

    hurts: ClassVar[bool] = False
    reconnects: int
    seed: int

    @classmethod
    def draw(cls, rng: Random) -> Self:
        """Draw a thousand connections."""
        return cls(1000, rng.getrandbits(32))

    def strike(self, target: Target) -> None:
        """Connect in ten waves."""
        rng = Random(self.seed)
        for wave in range(10):
            begin, end = (self.reconnects * n // 10 for n in (wave, wave + 1))
            for switch in target.bed.switches:
                target.bed.ovs.appctl("bridge/reconnect", switch.name)
            hostile.storm(_ADDRESS, _FOREIGN_DATAPATHS, end - begin, rng)


@dataclass(frozen=True)
class Nonsense:
    """Peers send broken OpenFlow."""

    hurts: ClassVar[bool] = False
    peers: int
    seed: int

    @classmethod
    def draw(cls, rng: Random) -> Self:
        """Draw the number of peers."""
        return cls(rng.randint(10, 60), rng.getrandbits(32))

    def strike(self, target: Target) -> None:
        """Let the peers talk one after the other."""
        hostile.nonsense(_ADDRESS, target.corpus, self.peers, Random(self.seed))


@dataclass(frozen=True)
class HalfHandshakes:
    """Connections stay open without completing the handshake of a switch."""

    hurts: ClassVar[bool] = False
    peers: int
    seed: int

    @classmethod
    def draw(cls, rng: Random) -> Self:
        """Draw the number of connections."""
        return cls(rng.randint(10, 300), rng.getrandbits(32))

    def strike(self, target: Target) -> None:
        """Open the connections and leave them open."""
        target.left_open += hostile.half_handshakes(_ADDRESS, self.peers, Random(self.seed))


@dataclass(frozen=True)
class Impostor:
    """A peer claims the datapath id of a switch that is connected."""

    hurts: ClassVar[bool] = False
    switch: int
    seconds: float
    seed: int

    @classmethod
    def draw(cls, rng: Random) -> Self:
        """Draw the switch and how long the impostor tries."""
        return cls(rng.getrandbits(16), round(rng.uniform(0.5, 3), 1), rng.getrandbits(32))

    def strike(self, target: Target) -> None:
        """Claim the id for that long."""
        switches = target.bed.switches
        datapath = switch_id(switches[self.switch % len(switches)].dpid)
        hostile.impostor(_ADDRESS, datapath, self.seconds, Random(self.seed))


KINDS: dict[type[Fault], int] = {
    KillController: 5,
    RestartSwitch: 2,
    FlapLink: 5,
    StepClock: 3,
    Nonsense: 3,
    HalfHandshakes: 1,
    Impostor: 2,
    ReconnectStorm: 0,
}


def draw(seed: int, n: int) -> list[Fault]:
    """Draw ``n`` faults in random order; every kind comes once before any comes twice."""
    rng = Random(f"{seed} faults")
    once = rng.sample(list(KINDS), min(n, len(KINDS)))
    kinds = once + rng.choices(list(KINDS), list(KINDS.values()), k=n - len(once))
    rng.shuffle(kinds)
    return [kind.draw(rng) for kind in kinds]


def told(faults: Sequence[Fault]) -> str:
    """The number of faults by kind, in words."""
    kinds = Counter(type(fault).__name__ for fault in faults)
    return ", ".join(f"{n} {name}" for name, n in sorted(kinds.items()))
