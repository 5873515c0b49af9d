"""Which of several controllers of the same switches is the master.

Pure: heartbeats and the time in, the decision out. The master says so in its heartbeats, and claims
the switches with ever newer generations; when neither is seen for the timeout, the first of those
who are left takes over. So a master that peers cannot hear, but see at work, is left alone. Who is
right if two think that they are is for the switches to say, which heed the newest generation only.
"""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from controller.southbound.codec.roles import UNDEFINED, newer, next_generation, place_of

_STARTING_TIMEOUTS = 3
_FENCED_TIMEOUTS = 4
_LONGEST_HOLD_NS = 60 * 10**9


class Rank(Enum):
    """`leaving` is a master that wants another one to take over at once."""

    STANDBY = "standby"
    MASTER = "master"
    LEAVING = "leaving"


class Heartbeat(NamedTuple):
    """What a controller says of itself; `generation` is the newest that it knows."""

    name: str
    rank: Rank
    generation: int
    priority: int


class Election:
    """One controller's part in it. Times are of one monotonic clock, in nanoseconds."""

    def __init__(
        self, name: str, priority: int, peers: Iterable[str], timeout_ns: int, now_ns: int
    ) -> None:
        self.name = name
        self.rank = Rank.STANDBY
        self.generation = UNDEFINED
        self._priority = priority
        self._place = sorted({name, *peers}).index(name)
        self._timeout_ns = timeout_ns
        self._heard: dict[str, tuple[Heartbeat, int]] = {}
        # Until it is known whether there is one.
        self._master_seen_ns = now_ns + (_STARTING_TIMEOUTS - 1) * timeout_ns
        self._hold_ns = _FENCED_TIMEOUTS * timeout_ns

    @property
    def master(self) -> bool:
        return self.rank is not Rank.STANDBY

    @property
    def heartbeat(self) -> Heartbeat:
        return Heartbeat(self.name, self.rank, self.generation, self._priority)

    def live_peers(self, now_ns: int) -> list[Heartbeat]:
        """Those heard of within the timeout."""
        since_ns = now_ns - self._timeout_ns
        return [beat for beat, heard_ns in self._heard.values() if heard_ns >= since_ns]

    def heard(self, beat: Heartbeat, now_ns: int) -> bool:
        """A peer's heartbeat. Returns whether it shows that this master was replaced."""
        self._heard[beat.name] = beat, now_ns
        mine = self.generation
        self.seen(beat.generation)
        if beat.rank is Rank.STANDBY:
            return False
        if self.master:
            return newer(beat.generation, mine)
        if beat.rank is Rank.LEAVING:
            self._master_seen_ns = min(self._master_seen_ns, now_ns - self._timeout_ns)
        else:
            self.seen_at_work(now_ns)
        return False

    def seen_at_work(self, now_ns: int) -> None:
        """Another one is master now."""
        self._master_seen_ns = now_ns
        self._hold_ns = _FENCED_TIMEOUTS * self._timeout_ns

    def seen(self, generation: int) -> None:
        """A switch or a peer knows of this generation. A master's own stays what it is."""
        if self.master or generation == UNDEFINED:
            return
        if self.generation == UNDEFINED or newer(generation, self.generation):
            self.generation = generation

    def due(self, now_ns: int) -> bool:
        """Whether it is time to take over: there is no master, and nobody goes before."""
        if self.master:
            return False
        before = sum(
            (-peer.priority, peer.name) < (-self._priority, self.name)
            for peer in self.live_peers(now_ns)
            if peer.rank is Rank.STANDBY
        )
        return now_ns - self._master_seen_ns >= self._timeout_ns * (1 + before)

    def take_over(self, seen: int = UNDEFINED) -> None:
        """Be master, with a generation newer than any known, `seen` among them."""
        latest = self.generation
        if seen != UNDEFINED and (latest == UNDEFINED or newer(seen, latest)):
            latest = seen
        self.rank, self.generation = Rank.MASTER, next_generation(latest, self._place)

    def renew(self) -> None:
        """Go on being master, with a newer generation; one that leaves has no newer one."""
        if self.rank is Rank.MASTER:
            self.generation = next_generation(self.generation, self._place)

    def mine(self, generation: int) -> bool:
        """Whether this controller has made a generation."""
        return generation != UNDEFINED and place_of(generation) == self._place

    def leave(self) -> None:
        """Have another one take over."""
        self.rank = Rank.LEAVING

    def step_down(self, now_ns: int) -> None:
        """Somebody else is master. If nothing is heard of it, it is not challenged at once, and
        each time later: two that do not hear each other would take the switches in turn."""
        self.rank = Rank.STANDBY
        self._master_seen_ns = now_ns + self._hold_ns
        self._hold_ns = min(2 * self._hold_ns, _LONGEST_HOLD_NS)
