"""How large windows may be: SDTCP Eq. (2)-(8), and what scheme `weir` has instead: the terms of
accounts of credit and, for switches without accounts, standing windows.

Arithmetic on the counts and limits of one egress port. It never looks at a connection.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from controller.core.flows.port_counts import PortCounts
from controller.model import flow
from controller.model.values import Credit, FlowClass, Hold, Notice

DEFAULT_MSS_BYTES = 1460
HEADERS_BYTES = flow.HEADERS_BYTES[flow.IPV4_KEY_BYTES]
MAX_WINDOW_BYTES = 2**32 - 1  # What a register can hold.

# The RTTs of a data centre. A measurement beyond is due to a busy host or controller.
RTT_BOUNDS_NS = 50_000, 10_000_000
# A notice is repeated after so many round trips through the full queue: after the first, a changed
# window shows in what arrives, after the second in the queue.
_ROUND_TRIPS_A_NOTICE = 2
_SHORTEST_INTERVAL_US = 1000  # A controller that has to wake up takes half of that to answer.

_MU = {Notice.CN_L: (2, 3), Notice.CN_M: (1, 2)}  # Eq. (5) and (6): 2/3 and 1/2.
_NS_PER_S = 10**9
# Of standing windows only, and not to be configured: accounts have `regulation.background_share`.
_STANDING_IDLE_BURST_DIVISOR = 4  # A quarter is kept for bursts before the controller knows them.
_STANDING_BACKGROUND_DIVISOR = 4  # A quarter is what background flows keep beside a burst.
# Where connections come by the thousand a second, most ports have the same few counts again.
_REMEMBERED = 8192


class PortLimits(NamedTuple):
    """The limits of an egress port: C, RTT and the buffer of its queue."""

    capacity_bps: int
    rtt_ns: int
    buffer_bytes: int

    @property
    def bdp_bytes(self) -> int:
        """C x RTT of Eq. (2)."""
        return self.capacity_bps * self.rtt_ns // (8 * _NS_PER_S)


class WindowRules(NamedTuple):
    """The operator's settings of standing windows, for switches without accounts of credit.

    `buffer_share` is the part of a buffer that windows may fill, `floor_segments` the least window.
    """

    buffer_share: float
    floor_segments: int


class CreditRules(NamedTuple):
    """The operator's settings of accounts of credit: for how long a request may be held, and how
    the classes share a port."""

    max_hold_ms: int
    burst_weight: int
    background_weight: int


def measured_rtt_ns(took_ns: int) -> int:
    """The RTT by a measured round trip, within the bounds of a data centre."""
    return min(max(took_ns, RTT_BOUNDS_NS[0]), RTT_BOUNDS_NS[1])


def paper_windows(notice: Notice, counts: PortCounts, total_bytes: int) -> dict[FlowClass, int]:
    """The advertised windows of SDTCP Eq. (5)-(8), in bytes rounded down.

    `total_bytes` is C x RTT + Q(t), the sum of the send windows by Eq. (2). A class without flows
    gets no window: Eq. (8) is not defined for b = 0, nor Eq. (3) for N = 0.
    """
    a, b, mss_bytes = counts.background, counts.burst, counts.mss_bytes
    windows = {}
    if notice is Notice.CN_H:
        if a:
            windows[FlowClass.BACKGROUND] = mss_bytes
        if b:
            windows[FlowClass.BURST] = max((total_bytes - a * mss_bytes) // b, mss_bytes)
    elif a:
        times, of = _MU[notice]
        windows[FlowClass.BACKGROUND] = max(times * total_bytes // (of * (a + b)), mss_bytes)
    return windows


def notice_interval_us(limits: PortLimits) -> int:
    """How long after a notice a congested queue should be looked at again."""
    full_ns = limits.buffer_bytes * 8 * _NS_PER_S // limits.capacity_bps
    interval_us = _ROUND_TRIPS_A_NOTICE * (limits.rtt_ns + full_ns) // 1000
    return max(interval_us, _SHORTEST_INTERVAL_US)


def account_holds(rules: CreditRules) -> Mapping[FlowClass, Hold]:
    """What each class is held to if the switch keeps an account of credit for the port.

    It does not depend on the flows: the switch sees what they send. So there is no window beside
    the account, and the bound is left to the switch.
    """
    return {
        FlowClass.BURST: Hold(0, Credit(0, rules.max_hold_ms, rules.burst_weight)),
        FlowClass.BACKGROUND: Hold(0, Credit(0, rules.max_hold_ms, rules.background_weight)),
    }


@lru_cache(_REMEMBERED)
def standing_holds(
    counts: PortCounts, limits: PortLimits, rules: WindowRules
) -> Mapping[FlowClass, Hold]:
    """What each class is held to without a notice, by its active flows, if the switch keeps no
    account of credit.

    What all flows send at once then fits into buffer and path, unless even the least windows do
    not. No window is below the floor, nor above buffer and path except by the floor.
    """
    mss_bytes = counts.mss_bytes or DEFAULT_MSS_BYTES
    wire_bytes = mss_bytes + HEADERS_BYTES
    buffer_bytes = int(rules.buffer_share * limits.buffer_bytes)
    # Windows are of data without headers, but the buffer holds frames.
    data_bytes = max(2 * DEFAULT_MSS_BYTES, buffer_bytes * mss_bytes // wire_bytes)
    background_bytes = _background_bytes(counts, data_bytes, rules)
    path_bytes = buffer_bytes + limits.bdp_bytes

    def hold(flows: int, budget_bytes: int) -> Hold:
        segments = max(budget_bytes // (flows * wire_bytes), rules.floor_segments)
        return Hold(min(segments * mss_bytes, MAX_WINDOW_BYTES))

    return {
        FlowClass.BURST: hold(max(1, counts.active_flows), path_bytes),
        FlowClass.BACKGROUND: hold(
            max(1, counts.background), path_bytes * background_bytes // data_bytes
        ),
    }


def lowered_hold(hold: Hold, window_bytes: int, counts: PortCounts, rules: WindowRules) -> Hold:
    """A standing hold with the window of a notice, if that is lower, but not below the floor."""
    mss_bytes = counts.mss_bytes or DEFAULT_MSS_BYTES
    # A fraction of a segment would let out small segments only, so windows are whole segments.
    lowered_bytes = max(window_bytes // mss_bytes, rules.floor_segments) * mss_bytes
    return hold._replace(window_bytes=min(lowered_bytes, hold.window_bytes))


def _background_bytes(counts: PortCounts, data_bytes: int, rules: WindowRules) -> int:
    """The part of the buffer's data that standing windows leave to background flows; the rest is
    for burst flows."""
    if not counts.background:
        return DEFAULT_MSS_BYTES
    if not counts.active_burst:
        part_bytes = data_bytes - data_bytes // _STANDING_IDLE_BURST_DIVISOR
    else:
        floor_bytes = rules.floor_segments * counts.mss_bytes * min(counts.background, 4)
        part_bytes = max(data_bytes // _STANDING_BACKGROUND_DIVISOR, floor_bytes)
        part_bytes = min(part_bytes, data_bytes // 2)
    return min(max(part_bytes, DEFAULT_MSS_BYTES), data_bytes - DEFAULT_MSS_BYTES)
