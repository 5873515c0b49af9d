"""The window entries of switches, by the flows whose ACKs come through them.

Paths are symmetric: segments that enter a switch by port P carry the windows for the data that
leaves by P. So one entry for each port and host puts all burst flows of the host under the port's
burst register, without state for each connection. Only background flows and flows with odd window
scales need entries of their own. On switches that keep accounts of credit, `Regulation` puts all
other segments of the port under the same register.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Set

from controller.core.congestion.registers import Registers
from controller.core.desired.tables import Tables
from controller.core.flows.host_pairs import Connection, HostPair, Lane
from controller.model.entries import EntryKey, FlowWindow, HostWindow
from controller.model.flow import FlowKey, split_end
from controller.model.values import FlowClass, PortId

# Beyond a router there may be millions of hosts, and whoever wants to can pretend to be one.
OUTSIDE_PER_PORT = 1024
FLOW_WINDOWS_PER_SWITCH = 32_768


class Enforcer:
    """Keeps window entries in step with flows. Flows of unknown window scale have none.

    An end is the VLAN of a receiver, if any, and its address. `is_inside` tells whether it is of a
    host of the fabric. Of others, only so many have an entry at one port. Where there is none, the
    entry for the whole port remains, on switches that keep accounts of credit. `refused` counts the
    entries for which there was no room.
    """

    def __init__(
        self,
        tables: Tables,
        registers: Registers,
        is_inside: Callable[[bytes], bool],
        outside_per_port: int = OUTSIDE_PER_PORT,
        flow_windows_per_switch: int = FLOW_WINDOWS_PER_SWITCH,
    ) -> None:
        self._tables = tables
        self._registers = registers
        self._is_inside = is_inside
        self._outside_per_port = outside_per_port
        self._flow_windows_per_switch = flow_windows_per_switch
        self._outside_at: dict[PortId, set[bytes]] = {}
        self._n_flow_windows: Counter[int] = Counter()
        self.refused = 0
        self._scales: dict[bytes, int] = {}
        self._host_ports: dict[bytes, set[PortId]] = {}
        self._lanes: dict[bytes, set[Lane]] = {}
        self._ways: dict[Lane, tuple[PortId, ...]] = {}
        self._uses: dict[bytes, Counter[PortId]] = {}
        self._exceptions: dict[bytes, dict[PortId, EntryKey]] = {}
        self._unused: dict[bytes, int] = {}

    def fullness(self) -> dict[str, tuple[int, int]]:
        """How full the tables of window entries are, and how full they can be."""
        outside = max(map(len, self._outside_at.values()), default=0)
        flows = max(self._n_flow_windows.values(), default=0)
        return {
            "windows of outside hosts at one port": (outside, self._outside_per_port),
            "windows of single flows on one switch": (flows, self._flow_windows_per_switch),
        }

    def scale(self, end: bytes) -> int | None:
        """The window scale that an end is known to announce."""
        return self._scales.get(end)

    def adopt(self, switch: int, entry: HostWindow, now_ns: int) -> None:
        """Keep an entry that a switch held when it connected."""
        port_id = PortId(switch, entry.port)
        self._registers.adopt(port_id, entry.register)
        self._scales.setdefault(entry.end, entry.window_scale)
        if entry.end not in self._lanes:
            self._unused[entry.end] = now_ns
        # Whether its host is of the fabric may not be known yet: it has its place in any case.
        self._outside_at.setdefault(port_id, set()).add(entry.end)
        self._put_host_window(port_id, entry.end)

    def renew(self, pairs: Iterable[HostPair]) -> None:
        """Install the window entries of all pairs, because there are registers now."""
        for pair in pairs:
            if pair.forward.ports or pair.reverse.ports:
                self.reroute(pair)

    # Lanes

    def reroute(self, pair: HostPair) -> None:
        """The route of a pair is known, or has changed: update its receivers' entries."""
        needed_own_entries = pair.needs_own_entries
        for lane in pair.lanes:
            self._reroute(lane)
            if needed_own_entries or pair.needs_own_entries or lane.background:
                for connection in lane.members | lane.dormant:
                    self._apply_if_own(lane, connection)

    def _reroute(self, lane: Lane) -> None:
        if lane.window_scale is None:
            return
        end = lane.receiver
        self._lanes.setdefault(end, set()).add(lane)
        self._uses.setdefault(end, Counter())
        self._unused.pop(end, None)
        scale = self._scales.setdefault(end, lane.window_scale)
        lane.odd_scale = scale != lane.window_scale
        left = self._lead(lane, lane.ports)
        for port_id in lane.ports:
            self._put_host_window(port_id, end)
        for port_id in left & self._host_ports.get(end, set()):
            self._host_ports[end].discard(port_id)
            self._remove_host_window(port_id, end)

    def leave(self, lane: Lane, now_ns: int) -> None:
        """A lane is gone. The entries of its host stay, for the next connection."""
        lanes = self._lanes.get(lane.receiver)
        if lanes is not None and lane in lanes:
            self._lead(lane, ())
            lanes.discard(lane)
            if not lanes:
                del self._lanes[lane.receiver], self._uses[lane.receiver]
                self._unused[lane.receiver] = now_ns

    def _lead(self, lane: Lane, ports: tuple[PortId, ...]) -> set[PortId]:
        """Set the ports of a lane; returns those that no lane to its receiver uses any more."""
        uses = self._uses[lane.receiver]
        previous = self._ways.pop(lane, ())
        if ports:
            self._ways[lane] = ports
        uses.update(ports)
        uses.subtract(previous)
        left = {port_id for port_id in previous if not uses[port_id]}
        for port_id in left:
            del uses[port_id]
        return left

    def forget_unused(self, unused_since_ns: int, kept: Container[bytes]) -> None:
        """Withdraw the entries of hosts without a connection since then, but those to be `kept`."""
        for outside in self._outside_at.values():
            if len(outside) >= self._outside_per_port:
                # Some of them may have turned out to be hosts of the fabric.
                outside.difference_update([one for one in outside if self._is_inside(one)])
        for end, since_ns in list(self._unused.items()):
            if since_ns > unused_since_ns:
                break
            if end in kept:
                continue
            del self._unused[end]
            for port_id in self._host_ports.pop(end, ()):
                self._remove_host_window(port_id, end)
            del self._scales[end]

    def remove_port(self, port_id: PortId) -> None:
        """A port is gone: remove the entries that name its registers."""
        for end, ports in self._host_ports.items():
            if port_id in ports:
                ports.remove(port_id)
                self._remove_host_window(port_id, end)
        self._outside_at.pop(port_id, None)

    # Single flows

    def apply(self, lane: Lane, connection: Connection) -> None:
        """Give a flow entries of its own, if its class or its scale needs them."""
        if lane.odd_scale and not any(
            peer.members and not peer.odd_scale for peer in self._lanes.get(lane.receiver, ())
        ):
            self._rescale(lane)
        self._apply(lane, connection)

    def release(self, connection: Connection) -> None:
        """The connection is gone."""
        for key in (connection.key, connection.answer_key):
            self._withdraw(self._exceptions.pop(key, {}), frozenset())

    def _rescale(self, lane: Lane) -> None:
        """No flow has the host's old scale any more, so the host has changed it."""
        end, scale = lane.receiver, lane.window_scale
        assert scale is not None
        self._scales[end] = scale
        for port_id in self._host_ports.get(end, set()):
            self._put_host_window(port_id, end)
        for peer in self._lanes[end]:
            peer.odd_scale = peer.window_scale != scale
            for connection in peer.members | peer.dormant:
                self._apply_if_own(peer, connection)

    def _apply_if_own(self, lane: Lane, connection: Connection) -> None:
        wants_own = lane.odd_scale or lane.cls(connection) is FlowClass.BACKGROUND
        if wants_own or lane.key(connection) in self._exceptions:
            self._apply(lane, connection)

    def _apply(self, lane: Lane, connection: Connection) -> None:
        scale = lane.window_scale
        if scale is None:
            return
        key = lane.key(connection)
        cls = lane.cls(connection)
        exceptions: dict[PortId, EntryKey] = {}
        if lane.odd_scale or cls is FlowClass.BACKGROUND:
            segments = FlowKey.unpack(key).reverse
            for port_id in lane.ports:
                register = self._registers.register(port_id, cls)
                if register is not None and self._has_room_for_flow(key, port_id):
                    entry = FlowWindow(port_id.port, segments, register, scale)
                    self._tables.put(port_id.switch, entry)
                    exceptions[port_id] = entry.key
        self._withdraw(self._exceptions.pop(key, {}), exceptions.keys())
        if exceptions:
            self._exceptions[key] = exceptions

    def _withdraw(self, exceptions: dict[PortId, EntryKey], but: Set[PortId]) -> None:
        for port_id, key in exceptions.items():
            if port_id not in but:
                self._n_flow_windows[port_id.switch] -= 1
                self._tables.remove(port_id.switch, key)

    def _has_room_for_flow(self, key: bytes, port_id: PortId) -> bool:
        if port_id in self._exceptions.get(key, ()):
            return True
        if self._n_flow_windows[port_id.switch] >= self._flow_windows_per_switch:
            self.refused += 1
            return False
        self._n_flow_windows[port_id.switch] += 1
        return True

    def _has_room_for_host(self, end: bytes, port_id: PortId) -> bool:
        outside = self._outside_at.setdefault(port_id, set())
        if end in outside or self._is_inside(end):
            return True
        if len(outside) >= self._outside_per_port:
            self.refused += 1
            return False
        outside.add(end)
        return True

    def _put_host_window(self, port_id: PortId, end: bytes) -> None:
        register = self._registers.register(port_id, FlowClass.BURST)
        if register is not None and self._has_room_for_host(end, port_id):
            vlan, address = split_end(end)
            entry = HostWindow(port_id.port, address, register, self._scales[end], vlan)
            self._tables.put(port_id.switch, entry)
            self._host_ports.setdefault(end, set()).add(port_id)

    def _remove_host_window(self, port_id: PortId, end: bytes) -> None:
        self._outside_at.get(port_id, set()).discard(end)
        vlan, address = split_end(end)
        self._tables.remove(port_id.switch, HostWindow(port_id.port, address, 0, 0, vlan).key)
