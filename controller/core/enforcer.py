"""From flows to the window entries of the switches that their ACKs come through.

With symmetric paths, the segments that enter a switch by port P carry the windows that govern the
data that leaves by P. So one entry per port and host puts all the host's burst flows under the
port's burst register, without any state per connection; only background flows and odd window scales
need their own.
"""

from controller.core.entries import EntryKey, FlowWindow, HostWindow
from controller.core.flow import Flow
from controller.core.registers import Registers
from controller.core.tables import Tables
from controller.core.values import FlowClass, PortId


class Enforcer:
    """Keeps window entries in step with flows. Flows of unknown window scale are left alone."""

    def __init__(self, tables: Tables, registers: Registers) -> None:
        self._tables = tables
        self._registers = registers
        self._scales: dict[bytes, int] = {}
        self._host_ports: dict[bytes, set[PortId]] = {}
        self._flows: dict[bytes, set[Flow]] = {}
        self._exceptions: dict[Flow, dict[PortId, EntryKey]] = {}

    def scale(self, address: bytes) -> int | None:
        """The window scale that a host is known to announce."""
        return self._scales.get(address)

    def adopt(self, switch: int, entry: HostWindow) -> None:
        """Take over an entry that survived on a switch."""
        port_id = PortId(switch, entry.port)
        self._registers.adopt(port_id, entry.register)
        self._scales.setdefault(entry.address, entry.window_scale)
        self._put_host_window(port_id, entry.address)

    def apply(self, flow: Flow) -> None:
        """Bring the entries in line with the flow's route, class and scale."""
        if flow.window_scale is None:
            return
        address = flow.key.dst
        peers = self._flows.setdefault(address, set())
        peers.add(flow)
        scale = self._scales.setdefault(address, flow.window_scale)
        if scale != flow.window_scale and not any(peer.window_scale == scale for peer in peers):
            self._rescale(address, flow.window_scale)
        else:
            self._apply(flow)

    def release(self, flow: Flow) -> None:
        """The flow is gone. What serves its whole host stays, for the next connection."""
        for port_id, key in self._exceptions.pop(flow, {}).items():
            self._tables.remove(port_id.switch, key)
        peers = self._flows.get(flow.key.dst)
        if peers is not None:
            peers.discard(flow)
            if not peers:
                del self._flows[flow.key.dst]

    def reroute(self, flow: Flow, previous: tuple[PortId, ...]) -> None:
        """The flow has left these ports for its present ones."""
        self.apply(flow)
        address = flow.key.dst
        left = set(previous).difference(flow.ports)
        if not left:
            return
        in_use = {port_id for peer in self._flows.get(address, ()) for port_id in peer.ports}
        for port_id in (left - in_use) & self._host_ports.get(address, set()):
            self._host_ports[address].discard(port_id)
            self._tables.remove(port_id.switch, HostWindow(port_id.port, address, 0, 0).key)

    def _rescale(self, address: bytes, scale: int) -> None:
        """No flow goes by the host's old scale any more, so the host has changed it."""
        self._scales[address] = scale
        for port_id in self._host_ports.get(address, set()):
            self._put_host_window(port_id, address)
        for flow in self._flows[address]:
            self._apply(flow)

    def _apply(self, flow: Flow) -> None:
        scale = flow.window_scale
        assert scale is not None
        address = flow.key.dst
        exceptions: dict[PortId, EntryKey] = {}
        for port_id in flow.ports:
            self._put_host_window(port_id, address)
            if flow.cls is FlowClass.BURST and scale == self._scales[address]:
                continue
            register = self._registers.register(port_id, flow.cls)
            if register is not None:
                entry = FlowWindow(port_id.port, flow.key.reverse, register, scale)
                self._tables.put(port_id.switch, entry)
                exceptions[port_id] = entry.key
        for port_id, key in self._exceptions.pop(flow, {}).items():
            if port_id not in exceptions:
                self._tables.remove(port_id.switch, key)
        if exceptions:
            self._exceptions[flow] = exceptions

    def _put_host_window(self, port_id: PortId, address: bytes) -> None:
        register = self._registers.register(port_id, FlowClass.BURST)
        if register is not None:
            entry = HostWindow(port_id.port, address, register, self._scales[address])
            self._tables.put(port_id.switch, entry)
            self._host_ports.setdefault(address, set()).add(port_id)
