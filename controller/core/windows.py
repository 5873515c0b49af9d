"""How large windows may be: SDTCP Eq. (2)-(8), and the standing windows of scheme `weir`.

Pure arithmetic on the counts and the limits of one egress port. It never looks at a connection.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from controller.core import flow
from controller.core.port_flows import PortCounts
from controller.core.values import FlowClass, Hold, Notice

DEFAULT_MSS_BYTES = 1460
HEADERS_BYTES = flow.HEADERS_BYTES[flow.IPV4_KEY_BYTES]
PACED_FLIGHT_BYTES = 14_600  # RFC 6928 section 2: an initial window, but of large segments less.
# What the switch's pacer can keep; one segment within the longest time that it holds any.
PACED_BYTES_PER_S = range(14_600, 10**12 + 1)
# What a register can hold; the bound of what is in transit is as wide.
MAX_WINDOW_BYTES = 2**32 - 1
LEAST_TRANSIT_BYTES = 1460  # The pacer takes no bound below a segment.

# What a measurement can tell of a path within a data centre. The rest is a busy host or controller.
RTT_BOUNDS_NS = 50_000, 10_000_000

_MU = {Notice.CN_L: (2, 3), Notice.CN_M: (1, 2)}  # Eq. (5) and (6): 2/3 and 1/2.
_NS_PER_S = 10**9
# The pacer lets go of what it has held for 160 ms, and a first answer of unknown length takes up to
# twice its time. What is meant to wait must be out before.
_LONGEST_WAIT_NS = 80 * 10**6
# TCP takes no notice of a window that is lower than the handshake's in a segment that acknowledges
# nothing new and is the first to carry data, such as the first request on a new connection. So
# first flights obey the window that stood when their connection was opened, and that has to be
# right for as many as may be opened before any of them is asked.
_OPENED_TOGETHER = 128
_IDLE_BURST_SHARE = 4  # A quarter is kept for bursts that come before the controller knows.
_BACKGROUND_SHARE = 4  # A quarter is what background flows keep beside a burst...
_BACKGROUND_RATE_SHARE = 8  # ...of the buffer, and an eighth of the link.
# Where connections come by the thousand a second, most ports have the same few counts again.
_REMEMBERED = 8192


class PortLimits(NamedTuple):
    """What an egress port can take: C, RTT and the buffer of its queue."""

    capacity_bps: int
    rtt_ns: int
    buffer_bytes: int

    @property
    def bdp_bytes(self) -> int:
        """C x RTT of Eq. (2)."""
        return self.capacity_bps * self.rtt_ns // (8 * _NS_PER_S)


class WindowRules(NamedTuple):
    """The operator's say in the standing windows.

    `buffer_share` is how much of a buffer is planned for, `initial_window_segments` what a sender
    sends at once that knows no better, `floor_segments` what no window is ever below.
    """

    buffer_share: float
    initial_window_segments: int
    floor_segments: int


def measured_rtt_ns(took_ns: int) -> int:
    """The RTT to reckon with where something took this time to and fro."""
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


@lru_cache(_REMEMBERED)
def standing_holds(
    counts: PortCounts, limits: PortLimits, rules: WindowRules, paced: bool, settled: bool = True
) -> Mapping[FlowClass, Hold]:
    """What each class is held to while nothing is wrong, for the flows that are active.

    With it, what all flows send at once fits buffer and path, or, where even the least window of
    each does not, is let out by the pacer no faster than the link takes it. No window is below the
    floor, nor, but for the floor, above buffer and path; the transit bounds of both classes
    together keep to the share of the buffer.

    Unless the flows of a paced port have `settled`, burst flows get no more than the pacer has
    under control for as many flows as there may soon be.
    """
    mss_bytes = counts.mss_bytes or DEFAULT_MSS_BYTES
    wire_bytes = mss_bytes + HEADERS_BYTES
    rate = limits.capacity_bps // 8 * mss_bytes // wire_bytes
    rate = min(rate, PACED_BYTES_PER_S[-1])
    if not paced or rate < PACED_BYTES_PER_S[0]:
        rate = 0
    buffer_bytes = int(rules.buffer_share * limits.buffer_bytes)
    # What is in transit is counted without headers, but the buffer holds frames.
    data_bytes = max(2 * LEAST_TRANSIT_BYTES, buffer_bytes * mss_bytes // wire_bytes)
    background_bytes = _background_transit_bytes(counts, data_bytes, rules)
    path_bytes = buffer_bytes + limits.bdp_bytes

    def hold(flows: int, rate: int, budget_bytes: int, transit_bytes: int, may_grow: bool) -> Hold:
        segments = budget_bytes // (flows * wire_bytes)
        if rate:
            flight = _paced_flight_segments(flows, mss_bytes, limits, rules)
            if may_grow or flight >= _initial_flight_segments(mss_bytes, rules):
                flight = max(segments, flight)
            segments = min(flight, path_bytes // wire_bytes)
        window_bytes = min(max(segments, rules.floor_segments) * mss_bytes, MAX_WINDOW_BYTES)
        if not rate:
            return Hold(window_bytes)
        # The pacer lets go whatever is next as long as the bound is not reached, so what is in
        # transit may pass it by a flight; and that is as large as a window can be told.
        step_bytes = 1 << counts.window_scale
        flight_bytes = -(-min(window_bytes, PACED_FLIGHT_BYTES) // step_bytes) * step_bytes
        bound_bytes = transit_bytes - flight_bytes
        bound_bytes = max(bound_bytes, transit_bytes // 2, LEAST_TRANSIT_BYTES)
        return Hold(window_bytes, rate, min(bound_bytes, MAX_WINDOW_BYTES))

    # What background flows add would, byte by byte, fill a queue that the others leave no room.
    burst_rate = rate - rate // _BACKGROUND_RATE_SHARE if counts.background else rate
    return {
        FlowClass.BURST: hold(
            max(1, counts.active_flows),
            max(burst_rate, min(rate, PACED_BYTES_PER_S[0])),
            path_bytes,
            data_bytes - background_bytes,
            settled,
        ),
        FlowClass.BACKGROUND: hold(
            max(1, counts.background),
            rate,
            path_bytes * background_bytes // data_bytes,
            background_bytes,
            may_grow=True,
        ),
    }


def lowered_hold(
    hold: Hold,
    cls: FlowClass,
    window_bytes: int,
    counts: PortCounts,
    limits: PortLimits,
    rules: WindowRules,
) -> Hold:
    """A standing hold with the window of a notice, if that is lower; never below the floor.

    Where the pacer stands, burst flows keep the flight that it has under control: the smaller
    windows of Eq. (8) could not shorten the queue, but each would wait for delayed ACKs.
    """
    mss_bytes = counts.mss_bytes or DEFAULT_MSS_BYTES
    least_segments = rules.floor_segments
    if cls is FlowClass.BURST and hold.rate_bytes_per_s:
        flows = max(1, counts.active_flows)
        flight = _paced_flight_segments(flows, mss_bytes, limits, rules)
        least_segments = max(least_segments, flight)
    # A fraction of a segment lets out nothing but small ones, so whole segments only.
    lowered_bytes = max(window_bytes // mss_bytes, least_segments) * mss_bytes
    return hold._replace(window_bytes=min(lowered_bytes, hold.window_bytes))


def _paced_flight_segments(
    flows: int, mss_bytes: int, limits: PortLimits, rules: WindowRules
) -> int:
    """What each of so many flows may let out at once where a pacer has it wait for its turn."""
    waits_bytes = limits.capacity_bps * _LONGEST_WAIT_NS // (8 * _NS_PER_S)
    fits = waits_bytes // (max(flows, _OPENED_TOGETHER) * (mss_bytes + HEADERS_BYTES))
    return min(_initial_flight_segments(mss_bytes, rules), fits)


def _initial_flight_segments(mss_bytes: int, rules: WindowRules) -> int:
    """What a sender sends at once that knows no better (RFC 6928), whatever its window."""
    return min(rules.initial_window_segments, max(2 * mss_bytes, PACED_FLIGHT_BYTES) // mss_bytes)


def _background_transit_bytes(counts: PortCounts, data_bytes: int, rules: WindowRules) -> int:
    """The part of what the buffer holds for background flows; the rest is for burst flows."""
    if not counts.background:
        return LEAST_TRANSIT_BYTES
    if not counts.active_burst:
        part_bytes = data_bytes - data_bytes // _IDLE_BURST_SHARE
    else:
        floor_bytes = rules.floor_segments * counts.mss_bytes * min(counts.background, 4)
        part_bytes = max(data_bytes // _BACKGROUND_SHARE, floor_bytes)
        part_bytes = min(part_bytes, data_bytes // 2)
    return min(max(part_bytes, LEAST_TRANSIT_BYTES), data_bytes - LEAST_TRANSIT_BYTES)
