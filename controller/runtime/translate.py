"""Between the values of the core and the configuration and those of the southbound."""

from collections.abc import Iterable

from controller.config.schema import Config
from controller.core.congestion.egress_ports import EgressQueue
from controller.model.effects import RegisterWindow
from controller.model.values import FlowClass
from controller.southbound.codec.extension import QueueStats, Window
from controller.southbound.switch.budgets import Limits


def limits(config: Config) -> Limits:
    """The budgets of packet-ins.

    The budget of discovery is never below what discovery itself needs: one frame an interval, and
    one more whenever a port comes up.
    """
    budgets = config.budgets
    needed_pps = -(-2 * 10**9 // config.fabric.lldp_interval)
    return Limits(
        unknown_pps=budgets.unknown,
        neighbour_pps=budgets.neighbour,
        discovery_pps=max(budgets.lldp, needed_pps),
        syn_pps=budgets.syn,
        end_pps=budgets.fin_rst,
        flooded_pps=budgets.broadcast,
        unmetered_pps=budgets.unmetered,
        switch_segments_pps=budgets.switch_segments,
        switch_ends_pps=budgets.switch_ends,
        switch_frames_pps=budgets.switch_frames,
    )


_CLASSES = {FlowClass.BURST: 0, FlowClass.BACKGROUND: 1}


def window(wanted: RegisterWindow, ttl_ms: int) -> Window:
    """A register of a WINDOW_SET."""
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


def queues(told: Iterable[QueueStats]) -> dict[int, EgressQueue]:
    """The egress queues of a switch by port number."""
    return {
        queue.port: EgressQueue(
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
