"""The election of a master among several controllers of the same switches.

Pure: heartbeats and the time in, the decision out. The master announces itself in its heartbeats,
and claims the switches with ever newer generations. If standbys see neither for the timeout, the
first of them takes over. So a master that cannot be heard, but whose claims are seen at the
switches, stays master. If two controllers both claim to be master, the switches decide: they obey
the newest generation only.
"""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from controller.southbound.codec.roles import UNDEFINED, newer, next_generation, place_of

_STARTING_TIMEOUTS = 3
_FENCED_TIMEOUTS = 4
_LONGEST_HOLD_NS = 60 * 10**9


class Rank(Enum):
    """`leaving` is a master that wants a standby to take over at once."""

    STANDBY = "standby"
    MASTER = "master"
    LEAVING = "leaving"


class Heartbeat(NamedTuple):
    """What a controller says about itself; `generation` is the newest that it knows. `shared` is
    what the controllers share beside the switches: a text that is none of the election's; a
    controller of an older release has none."""

    name: str
    rank: Rank
    generation: int
    priority: int
    shared: str = ""


class Election:
    """One controller's part in the election."""

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
        # A controller that starts waits longer, to learn whether there is a master.
        self._master_seen_ns = now_ns + (_STARTING_TIMEOUTS - 1) * timeout_ns
        self._hold_ns = _FENCED_TIMEOUTS * timeout_ns

    @property
    def master(self) -> bool:
        return self.rank is not Rank.STANDBY

    @property
    def heartbeat(self) -> Heartbeat:
        return Heartbeat(self.name, self.rank, self.generation, self._priority)

    def live_peers(self, now_ns: int) -> list[Heartbeat]:
        """The latest heartbeats of the peers that were heard within the timeout."""
        since_ns = now_ns - self._timeout_ns
        return [beat for beat, heard_ns in self._heard.values() if heard_ns >= since_ns]

    def heard(self, beat: Heartbeat, now_ns: int) -> bool:
        """A peer's heartbeat. Returns whether it shows that this master has been replaced."""
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
        """Another controller is master, as its claims or heartbeats show."""
        self._master_seen_ns = now_ns
        self._hold_ns = _FENCED_TIMEOUTS * self._timeout_ns

    def seen(self, generation: int) -> None:
        """A switch or a peer knows this generation. A master keeps its own."""
        if self.master or generation == UNDEFINED:
            return
        if self.generation == UNDEFINED or newer(generation, self.generation):
            self.generation = generation

    def due(self, now_ns: int) -> bool:
        """Whether it is time to take over: there is no master, and no peer comes first."""
        if self.master:
            return False
        before = sum(
            (-peer.priority, peer.name) < (-self._priority, self.name)
            for peer in self.live_peers(now_ns)
            if peer.rank is Rank.STANDBY
        )
        return now_ns - self._master_seen_ns >= self._timeout_ns * (1 + before)

    def take_over(self, seen: int = UNDEFINED) -> None:
        """Become master, with a generation newer than `seen` and than all that are known."""
        latest = self.generation
        if seen != UNDEFINED and (latest == UNDEFINED or newer(seen, latest)):
            latest = seen
        self.rank, self.generation = Rank.MASTER, next_generation(latest, self._place)

    def renew(self) -> None:
        """Go on as master, with a newer generation. A master that leaves keeps its generation."""
        if self.rank is Rank.MASTER:
            self.generation = next_generation(self.generation, self._place)

    def mine(self, generation: int) -> bool:
        """Whether this controller has created a generation."""
        return generation != UNDEFINED and place_of(generation) == self._place

    def leave(self) -> None:
        """Let a standby take over."""
        self.rank = Rank.LEAVING

    def step_down(self, now_ns: int) -> None:
        """Another controller is master. If it is not heard, wait before challenging it, longer each
        time: two masters that do not hear each other would take the switches in turn."""
        self.rank = Rank.STANDBY
        self._master_seen_ns = now_ns + self._hold_ns
        self._hold_ns = min(2 * self._hold_ns, _LONGEST_HOLD_NS)
