"""Reads the counters of all links when they are due, and serves the shares of announced flows and
the losses of links."""

from collections.abc import Callable, Iterable, Mapping

from controller.core.bandwidth.announced import (
    Announced,
    Bandwidth,
    BandwidthSettings,
    PathBandwidth,
    Uplink,
)
from controller.core.bandwidth.losses import LinkLoss, Losses, PortPackets, of_path
from controller.core.bandwidth.usage import Pace
from controller.core.congestion.egress_ports import EgressQueue
from controller.core.congestion.regulation import Regulation
from controller.core.desired.tables import Tables
from controller.core.topology.fabric import Fabric
from controller.model.effects import Effect, ReadPorts, ReadQueues, Record, TellShare
from controller.model.entries import EntryKey
from controller.model.values import PortId

# For so long after a request for a path, counters that change are read often.
_READ_OFTEN_NS = 60 * 10**9

# A port, the bytes that have left by it, and the switch's time; the packets that have left by it,
# those that have come in, and their bytes.
PortReading = tuple[int, int, int, int | None, int | None, int | None]


class Estimation:
    """The available bandwidth that is served to senders of announced flows.

    Shares are not emitted before `send`. `tcp_flows` returns how many active TCP flows leave by a
    port.
    """

    def __init__(
        self,
        settings: BandwidthSettings,
        fabric: Fabric,
        regulation: Regulation,
        tcp_flows: Callable[[PortId], int],
        tables: Tables,
        emit: Callable[[Effect], None],
    ) -> None:
        delays_ns = regulation.round_trips.link_ns
        self.losses = Losses(
            fabric.peer, lambda port_id: delays_ns.get(port_id, 0) / 2, regulation.capacity_bps
        )
        self.bandwidth = Bandwidth(settings, fabric, regulation.capacity_bps, tcp_flows)
        self._fabric = fabric
        self._regulation = regulation
        self._tables = tables
        self._emit = emit
        self._steered: set[tuple[int, EntryKey]] = set()
        self._paces: dict[int, Pace] = {}
        self._often_until_ns = 0

    # Counters

    def look(self, now_ns: int) -> None:
        """Read the counters of the switches that are due."""
        for switch in self._fabric.connected():
            if self._paces.setdefault(switch, Pace()).due(now_ns):
                if self._regulation.tells_queues(switch):
                    self._emit(ReadQueues(switch))
                self._emit(ReadPorts(switch))

    def queues_read(self, switch: int, queues: Mapping[int, EgressQueue], now_ns: int) -> None:
        """The egress queues of a switch, whose counters are the best for their ports."""
        for number, queue in queues.items():
            if queue.at_ns is not None:
                port_id = PortId(switch, number)
                dropped_bytes = queue.dropped_bytes
                self.bandwidth.read(port_id, queue.tx_bytes, queue.at_ns, now_ns, dropped_bytes)

    def ports_counted(
        self, switch: int, counted: Iterable[PortReading], more: bool, now_ns: int
    ) -> None:
        """Counters of ports, the last unless `more` follow. Of those with a queue, the queue says
        what they use. What comes in by a port of hosts is what these use of their own link."""
        pace = self._paces.get(switch)
        asked_ns = now_ns if pace is None or pace.asked_ns is None else pace.asked_ns
        for number, n_bytes, at_ns, sent, received, received_bytes in counted:
            port_id = PortId(switch, number)
            queue = self._regulation.queue(port_id)
            if queue is None or queue.at_ns is None:
                self.bandwidth.read(port_id, n_bytes, at_ns, now_ns)
            if received_bytes is not None and not self._fabric.is_link(port_id):
                self.bandwidth.read(Uplink(port_id), received_bytes, at_ns, now_ns)
            if sent is not None and received is not None:
                times = at_ns, asked_ns, now_ns
                self.losses.read(port_id, PortPackets(sent, n_bytes, received, *times))
        if not more and pace is not None:
            changed = self.bandwidth.take_changed(switch)
            wanted = bool(self.bandwidth.flows) or now_ns < self._often_until_ns
            pace.answered(changed and wanted, now_ns)

    def loss(self, port_id: PortId, now_ns: int) -> LinkLoss | None:
        """What the link of a port loses of what the port sends; None if that is not known."""
        return self.losses.loss(port_id, now_ns)

    def forget_port(self, port_id: PortId) -> None:
        self.bandwidth.forget_port(port_id)
        self.losses.forget_port(port_id)

    def forget_switch(self, switch: int) -> None:
        """A switch is gone, or its control channel is lost."""
        self._paces.pop(switch, None)

    # Flows and paths

    def announce(self, name: str, announced: Announced, now_ns: int) -> None:
        """Raises UnknownPathError."""
        is_new = name not in self.bandwidth.flows
        self.bandwidth.announce(name, announced, now_ns)
        if is_new:
            self._emit(Record("flow_announced", {"flow": name}))
        self._read_often(now_ns)

    def withdraw(self, name: str, now_ns: int) -> bool:
        """Returns whether the flow was announced."""
        known = self.bandwidth.withdraw(name, now_ns)
        if known:
            self._emit(Record("flow_withdrawn", {"flow": name}))
        self._read_often(now_ns)
        return known

    def path(self, src: bytes, dst: bytes, now_ns: int) -> PathBandwidth:
        """Raises UnknownPathError."""
        self._read_often(now_ns)
        path = self.bandwidth.path(src, dst)
        states = [
            state
            if isinstance(state.link, Uplink)
            else state._replace(loss=self.loss(state.link, now_ns))
            for state in path.links
        ]
        # Hosts at the ends tell nobody what they have received.
        between = [
            state.loss
            for state in states
            if not isinstance(state.link, Uplink) and self._fabric.is_link(state.link)
        ]
        path = path._replace(links=tuple(states))
        losses = [loss for loss in between if loss is not None]
        if not losses or len(losses) < len(between):
            return path
        loss, error = of_path(one.loss for one in losses), sum(one.error for one in losses)
        return path._replace(loss=loss, loss_error=min(1.0, error))

    def tend(self, now_ns: int) -> None:
        """Remove flows that were not renewed."""
        for name in self.bandwidth.expire(now_ns):
            self._emit(Record("flow_expired", {"flow": name}))

    def send(self, now_ns: int) -> None:
        """Emit the shares that have changed, and steer new flows."""
        news = self.bandwidth.take_news(now_ns)
        self._steer()
        for flow in news:
            self._emit(TellShare(flow))

    def _steer(self) -> None:
        steering = self.bandwidth.take_steering()
        if steering is None:
            return
        for switch, entry in steering:
            self._tables.put(switch, entry)
        wanted = {(switch, entry.key) for switch, entry in steering}
        for switch, key in self._steered - wanted:
            self._tables.remove(switch, key)
        self._steered = wanted

    def _read_often(self, now_ns: int) -> None:
        self._often_until_ns = now_ns + _READ_OFTEN_NS
        for pace in self._paces.values():
            pace.hurry(now_ns)
