"""Between the core's entries and the switches' flow tables, each way, and from the configuration.

The core does not know OpenFlow and the southbound does not know what entries mean; here they meet.
"""

from collections.abc import Iterable

from controller.config.schema import Config
from controller.core.congestion.egress_ports import Queue
from controller.core.flows.connections import Reading
from controller.model.effects import RegisterWindow
from controller.model.entries import (
    Account,
    Behind,
    Entry,
    Exempt,
    FlowWindow,
    Forward,
    Hop,
    HostWindow,
    Labelling,
    LinkPort,
    PortWindow,
    Relearn,
    Steer,
    Survivor,
)
from controller.model.flow import FlowKey, payload_bytes
from controller.model.values import FlowClass
from controller.southbound.codec.extension import QueueStats, Window
from controller.southbound.codec.openflow import FlowEntry
from controller.southbound.switch import pipeline
from controller.southbound.switch.budgets import Limits
from controller.southbound.switch.pipeline import Decoded, FiveTuple, Kind
from controller.southbound.switch.readback import Held


def limits(config: Config) -> Limits:
    """The budgets; that of discovery is never below what discovery itself needs: one frame an
    interval, and one more whenever a port comes up."""
    budgets = config.budgets
    needed_pps = -(-2 * 10**9 // config.fabric.lldp_interval)
    return Limits(
        unknown_pps=budgets.unknown,
        neighbour_pps=budgets.neighbour,
        discovery_pps=max(budgets.lldp, needed_pps),
        syn_pps=budgets.syn,
        end_pps=budgets.fin_rst,
        unmetered_pps=budgets.unmetered,
        switch_segments_pps=budgets.switch_segments,
        switch_ends_pps=budgets.switch_ends,
        switch_frames_pps=budgets.switch_frames,
    )


def flow_entries(entry: Entry) -> tuple[FlowEntry, ...]:
    """The flow entries that stand for an entry of the core."""
    match entry:
        case LinkPort(port):
            return pipeline.link(port)
        case Relearn(port):
            return pipeline.relearn(port)
        case Labelling():
            return pipeline.labelling()
        case Steer(src, dst, label):
            return pipeline.steer(src, dst, label)
        case Account(flow, forward, label):
            return pipeline.account(FiveTuple(*flow), forward, label)
        case HostWindow(port, address, register, window_scale):
            return pipeline.host_window(port, address, register, window_scale)
        case PortWindow(port, register):
            return pipeline.port_window(port, register)
        case FlowWindow(port, segments, register, window_scale):
            return pipeline.flow_window(port, FiveTuple(*segments), register, window_scale)
        case Forward(mac, port):
            return pipeline.forward(mac, port)
        case Behind(mac, switch):
            return pipeline.behind(mac, switch)
        case Hop(destination, label, port):
            return pipeline.hop(destination, label, port)
        case Exempt(network, prefix_bits, port):
            return pipeline.exempt(network, prefix_bits, port)


_CLASSES = {FlowClass.BURST: 0, FlowClass.BACKGROUND: 1}


def window(wanted: RegisterWindow, ttl_ms: int) -> Window:
    """A window register's new value as it is told to the switch."""
    window_bytes, credit = wanted.hold
    if credit is None:
        return Window(wanted.register, window_bytes, ttl_ms if window_bytes else 0)
    return Window(
        wanted.register,
        window_bytes,
        ttl_ms,
        port=wanted.port,
        bound_bytes=credit.bound_bytes,
        max_hold_ms=credit.max_hold_ms,
        flow_class=_CLASSES[wanted.cls],
        weight=credit.weight,
    )


def survivor(held: Held) -> Survivor:
    """What was read back from a switch, as an entry of the core."""
    entry = entry_of(held.decoded)
    volume_bytes = 0
    if isinstance(entry, Account):
        volume_bytes = payload_bytes(entry.flow.pack(), held.byte_count, held.packet_count)
    return Survivor(entry, volume_bytes, held.age_ns)


def reading(flow: FiveTuple, byte_count: int, packet_count: int) -> Reading:
    """An account's counters, by the packed key of its flow."""
    return packed(flow), byte_count, packet_count


def packed(flow: FiveTuple) -> bytes:
    """The packed key of a flow."""
    return FlowKey(*flow).pack()


def queues(told: Iterable[QueueStats]) -> dict[int, Queue]:
    """The egress queues of a switch by port number."""
    return {
        queue.port: Queue(
            queue.rate_bps,
            queue.limit_bytes,
            queue.level,
            queue.queue_bytes,
            queue.queue_pkts,
            queue.tx_bytes,
            queue.time_ns,
            queue.dropped_bytes,
            queue.can_have_account,
        )
        for queue in told
    }


def entry_of(decoded: Decoded) -> Entry:
    """What an entry that was read back is to the core."""
    match decoded:
        case (Kind.LINK, (int(port),)):
            return LinkPort(port)
        case (Kind.RELEARN, (int(port),)):
            return Relearn(port)
        case (Kind.LABELLING, ()):
            return Labelling()
        case (Kind.STEER, (bytes(src), bytes(dst), int(label))):
            return Steer(src, dst, label)
        case (Kind.ACCOUNT, (FiveTuple() as flow, bool(forward), int() | None as label)):
            return Account(FlowKey(*flow), forward, label)
        case (Kind.HOST_WINDOW, (int(port), bytes(address), int(register), int(scale))):
            return HostWindow(port, address, register, scale)
        case (Kind.PORT_WINDOW, (int(port), int(register))):
            return PortWindow(port, register)
        case (Kind.FLOW_WINDOW, (int(port), FiveTuple() as flow, int(register), int(scale))):
            return FlowWindow(port, FlowKey(*flow), register, scale)
        case (Kind.FORWARD, (bytes(mac), int(port))):
            return Forward(mac, port)
        case (Kind.BEHIND, (bytes(mac), int(switch))):
            return Behind(mac, switch)
        case (Kind.HOP, (int(destination), int() | None as label, int(port))):
            return Hop(destination, label, port)
        case (Kind.EXEMPT, (bytes(network), int(prefix_bits), int(port))):
            return Exempt(network, prefix_bits, port)
    raise AssertionError(f"no entry of the core for {decoded}")
