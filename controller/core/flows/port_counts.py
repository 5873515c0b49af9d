"""The counts of the flows that leave through each egress port.

They are updated host pair by host pair, so a queue event needs no walk over connections.
"""

from collections import Counter
from typing import NamedTuple

from controller.core.flows.host_pairs import HostPair, Lane
from controller.model.values import FlowClass, PortId

HANDSHAKES_FOR_NS = 10 * 10**9


class PortCounts(NamedTuple):
    """a = |G| and b = |B| of a port (SDTCP section 3.4), and the largest MSS (0 without flows).

    `idle` and `idle_background` are how many burst and background flows are known to send nothing
    at present. `handshake_ns` is the least recent time from SYN to SYN-ACK through the port (0:
    unknown).
    """

    background: int
    burst: int
    mss_bytes: int
    idle: int = 0
    handshake_ns: int = 0
    idle_background: int = 0

    @property
    def flows(self) -> int:
        """N = a + b."""
        return self.background + self.burst

    @property
    def active_burst(self) -> int:
        return max(0, self.burst - self.idle)

    @property
    def active_background(self) -> int:
        return max(0, self.background - self.idle_background)

    @property
    def active_flows(self) -> int:
        return self.active_background + self.active_burst

    @property
    def active(self) -> "PortCounts":
        """The counts of the active flows only, without the handshake."""
        return PortCounts(self.active_background, self.active_burst, self.mss_bytes)


NO_FLOWS = PortCounts(0, 0, 0)


class _Largest:
    """The largest of some numbers, 0 without any."""

    __slots__ = ("_counts", "value")

    def __init__(self) -> None:
        self.value = 0
        self._counts: Counter[int] = Counter()

    def add(self, number: int) -> None:
        self._counts[number] += 1
        self.value = max(self.value, number)

    def remove(self, number: int) -> None:
        self._counts[number] -= 1
        if not self._counts[number]:
            del self._counts[number]
            if number == self.value:
                self.value = max(self._counts, default=0)


class _Port:
    """The counts of one port, and the largest MSS of its host pairs."""

    __slots__ = ("background", "flows", "handshakes_ns", "idle", "idle_background", "lanes", "mss")

    def __init__(self) -> None:
        self.flows = 0
        self.background = 0
        self.idle = 0
        self.idle_background = 0
        self.lanes: set[Lane] = set()
        self.mss = _Largest()
        self.handshakes_ns = [0, 0]


class PortFlows:
    """The counts of all ports. `background` and `idle` are sums over all flows."""

    def __init__(self) -> None:
        self.background = 0
        self.idle = 0
        self._ports: dict[PortId, _Port] = {}
        self._touched: dict[PortId, None] = {}
        self._handshakes_since_ns = 0

    def counts(self, port_id: PortId) -> PortCounts:
        port = self._ports.get(port_id)
        if port is None or not port.flows:
            return NO_FLOWS
        recent, before = port.handshakes_ns
        return PortCounts(
            port.background,
            port.flows - port.background,
            port.mss.value,
            port.idle,
            min(recent, before) if recent and before else recent or before,
            port.idle_background,
        )

    def lanes(self, port_id: PortId) -> frozenset[Lane]:
        """The lanes that lead out of a port."""
        port = self._ports.get(port_id)
        return frozenset(port.lanes) if port else frozenset()

    def take_touched(self) -> list[PortId]:
        """The ports whose counts may have changed since the last call, first come first."""
        touched, self._touched = list(self._touched), {}
        return touched

    def route(self, pair: HostPair, lane: Lane, ports: tuple[PortId, ...]) -> None:
        """The lane's data leaves through these ports from now on."""
        if lane.ports == ports:
            return
        self._unlist(pair, lane)
        lane.ports = ports
        self._list(pair, lane)

    def settle(self, pair: HostPair) -> None:
        """Update the counts to the pair's members."""
        added = len(pair.members) - pair.counted
        if added and not (pair.counted and pair.members):
            # It has its first members, or none any more: its MSS is added or removed.
            for lane in pair.lanes:
                self._unlist(pair, lane)
            pair.counted += added
            for lane in pair.lanes:
                self._list(pair, lane)
        elif added:
            pair.counted += added
            for lane in pair.lanes:
                for port_id in lane.ports:
                    self._ports[port_id].flows += added
                    self._touched[port_id] = None
        if added and pair.born is FlowClass.BACKGROUND:
            for lane in pair.lanes:
                self.change(lane, background=added)
        if pair.handshake_ns:
            for lane in pair.lanes:
                for port_id in lane.ports:
                    handshakes_ns = self._ports[port_id].handshakes_ns
                    if not 0 < handshakes_ns[0] <= pair.handshake_ns:
                        handshakes_ns[0] = pair.handshake_ns
            pair.handshake_ns = 0

    def change(
        self, lane: Lane, background: int = 0, idle: int = 0, idle_background: int = 0
    ) -> None:
        """Add to a lane's numbers of background flows and of idle flows of either class."""
        if background or idle or idle_background:
            lane.background += background
            lane.idle += idle
            lane.idle_background += idle_background
            self.background += background
            self.idle += idle
            for port_id in lane.ports:
                port = self._ports[port_id]
                port.background += background
                port.idle += idle
                port.idle_background += idle_background
                self._touched[port_id] = None

    def forget_handshakes(self, now_ns: int) -> None:
        """Forget, in two steps, the handshakes of HANDSHAKES_FOR_NS ago."""
        if now_ns - self._handshakes_since_ns >= HANDSHAKES_FOR_NS:
            self._handshakes_since_ns = now_ns
            for port_id, port in list(self._ports.items()):
                if any(port.handshakes_ns):
                    port.handshakes_ns = [0, port.handshakes_ns[0]]
                    self._touched[port_id] = None
                if not port.lanes and not any(port.handshakes_ns):
                    del self._ports[port_id]

    def _list(self, pair: HostPair, lane: Lane) -> None:
        for port_id in lane.ports:
            port = self._ports.get(port_id)
            if port is None:
                port = self._ports[port_id] = _Port()
            port.lanes.add(lane)
            port.background += lane.background
            port.idle += lane.idle
            port.idle_background += lane.idle_background
            if pair.counted:
                port.flows += pair.counted
                port.mss.add(pair.mss_bytes)
                self._touched[port_id] = None

    def _unlist(self, pair: HostPair, lane: Lane) -> None:
        for port_id in lane.ports:
            port = self._ports[port_id]
            port.lanes.discard(lane)
            port.background -= lane.background
            port.idle -= lane.idle
            port.idle_background -= lane.idle_background
            if pair.counted:
                port.flows -= pair.counted
                port.mss.remove(pair.mss_bytes)
                self._touched[port_id] = None
