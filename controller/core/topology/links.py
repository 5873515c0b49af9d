"""The links between switches: found by discovery, and kept while both directions are seen.

A link that keeps failing is on trial whenever it is back, longer each time, because it may fail
again. A link that worked in one direction only must be seen in both before it is used again.
"""

from collections.abc import Collection

from controller.model.values import PortId

Link = tuple[PortId, PortId]

# A link from before the controller's start is presumed until its other switch is back: Open vSwitch
# tries to reconnect after at most 8 s.
PRESUMED_FOR_NS = 12 * 10**9
# A port whose link expired while it is up most likely still leads to a switch, whose hosts must not
# be learnt at this port.
QUARANTINE_TIMEOUTS = 10
_FLAPS_WITHIN_NS = 60 * 10**9
_LONGEST_TRIAL_NS = 60 * 10**9


class Links:
    """All links, by their ends. `version` rises when paths may have changed."""

    def __init__(self, timeout_ns: int) -> None:
        self._timeout_ns = timeout_ns
        # By egress port: the other end, and when a discovery frame last arrived there.
        self._seen: dict[PortId, tuple[PortId, int]] = {}
        self._presumed: dict[PortId, int] = {}
        self._quarantine: dict[PortId, int] = {}
        self._lost: dict[PortId, tuple[int, int]] = {}
        self._trials: dict[PortId, int] = {}
        self._one_way: dict[Link, dict[PortId, int]] = {}
        self._looked_ns = 0
        self.version = 0

    def __contains__(self, port_id: PortId) -> bool:
        return port_id in self._seen or port_id in self._presumed

    def is_quarantined(self, port_id: PortId, now_ns: int) -> bool:
        """Whether this port led to a switch until recently."""
        return now_ns < self._quarantine.get(port_id, now_ns)

    def is_seen(self, port_id: PortId) -> bool:
        """Whether this port has a link that discovery has found."""
        return port_id in self._seen

    def is_presumed(self, port_id: PortId) -> bool:
        return port_id in self._presumed

    def far_end(self, port_id: PortId) -> PortId:
        return self._seen[port_id][0]

    @property
    def n_seen(self) -> int:
        """How many ends of links discovery has found."""
        return len(self._seen)

    @property
    def ports(self) -> list[PortId]:
        """The ports that lead, or are presumed to lead, to another switch."""
        return [*self._seen, *self._presumed]

    @property
    def all(self) -> list[Link]:
        return [(a, b) for a, (b, _) in self._seen.items() if a < b]

    @property
    def doubtful(self) -> set[Link]:
        """The links that are on trial."""
        return {link for link in self.all if self._trials.keys() & set(link)}

    def presume(self, port_id: PortId, now_ns: int) -> None:
        """This port was a link before the controller started; discovery has time to confirm it."""
        if port_id not in self._seen:
            self._presumed[port_id] = now_ns + max(self._timeout_ns, PRESUMED_FOR_NS)
            self.version += 1

    def knows(self, a: PortId, b: PortId) -> bool:
        return a in self._seen and self._seen[a][0] == b

    def seen(self, a: PortId, b: PortId, now_ns: int) -> bool:
        """A discovery frame went from `a` to `b`. Returns whether there is a link between them.

        If it is new, the other direction must be seen within the timeout.
        """
        if self.knows(a, b):
            self._seen[a] = b, now_ns
            return True
        halves = self._one_way.get(_link(a, b))
        if halves is not None:
            halves[a] = now_ns
            if now_ns - halves.get(b, 0) > self._timeout_ns:
                return False
            del self._one_way[_link(a, b)]
        for port_id in (a, b):
            self.lose(port_id)
            self._begin_trial(port_id, now_ns)
        self._seen[a], self._seen[b] = (b, now_ns), (a, now_ns)
        self.version += 1
        return True

    def failed(self, port_id: PortId, now_ns: int) -> None:
        """A port went down. If it was a link, the failure is remembered."""
        if port_id in self._seen:
            for end in (port_id, self.far_end(port_id)):
                times, last_ns = self._lost.get(end, (0, 0))
                self._lost[end] = (times + 1 if now_ns - last_ns < _FLAPS_WITHIN_NS else 1), now_ns
        self.lose(port_id)

    def lose(self, port_id: PortId) -> None:
        """Remove the link of this port, if it has one."""
        self._quarantine.pop(port_id, None)
        if self._presumed.pop(port_id, None) is not None:
            self.version += 1
        entry = self._seen.pop(port_id, None)
        if entry is not None:
            del self._seen[entry[0]]
            self._trials.pop(port_id, None)
            self._trials.pop(entry[0], None)
            self.version += 1

    def renew(self, switch: int, now_ns: int) -> None:
        """A switch was disconnected and its links could not be seen: restart their timeout."""
        for a, (b, _) in self._seen.items():
            if switch in (a.switch, b.switch):
                self._seen[a] = b, now_ns

    def expire(self, now_ns: int, reachable: Collection[int]) -> list[Link]:
        """Drop the links of which a direction was not seen within the timeout, unless a switch at
        an end is not `reachable`.

        To be called more often than the timeout. After a longer pause, the controller itself was
        stopped, and the timeout of all links starts again.
        """
        if now_ns - self._looked_ns > self._timeout_ns:
            self._seen = {a: (b, now_ns) for a, (b, _) in self._seen.items()}
        self._looked_ns = now_ns
        silent = [
            _link(a, b)
            for a, (b, seen_ns) in self._seen.items()
            if now_ns - seen_ns > self._timeout_ns and {a.switch, b.switch} <= set(reachable)
        ]
        expired = list(dict.fromkeys(silent))
        for a, b in expired:
            if silent.count((a, b)) == 1:
                self._one_way[a, b] = {}
            self.failed(a, now_ns)
            for port_id in (a, b):
                self._quarantine[port_id] = now_ns + QUARANTINE_TIMEOUTS * self._timeout_ns
        for deadlines in (self._presumed, self._trials):
            for port_id in [port for port, end_ns in deadlines.items() if now_ns > end_ns]:
                del deadlines[port_id]
                self.version += 1
        return expired

    def remove_port(self, port_id: PortId) -> None:
        """The port does not exist any more."""
        self.lose(port_id)
        self._lost.pop(port_id, None)
        for link in [link for link in self._one_way if port_id in link]:
            del self._one_way[link]

    def _begin_trial(self, port_id: PortId, now_ns: int) -> None:
        times, last_ns = self._lost.get(port_id, (0, 0))
        if now_ns - last_ns >= _FLAPS_WITHIN_NS:
            self._lost.pop(port_id, None)
        elif times > 1:
            self._trials[port_id] = now_ns + min(10**9 << times - 1, _LONGEST_TRIAL_NS)


def _link(a: PortId, b: PortId) -> Link:
    return (a, b) if a < b else (b, a)
