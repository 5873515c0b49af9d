"""Queue events and flow counts in, windows out: SDTCP Eq. (2)-(9), and Weir's anticipation.

Pure: the state of each egress port, no I/O, no clock. It never looks at a connection, only at the
counts of the port. Eq. (9), the minimum with the receiver's own window, is done by the switch.
"""

from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from typing import NamedTuple

from controller.core.port_flows import NO_FLOWS, PortCounts
from controller.core.values import FlowClass, Notice, PortId

HEADERS_BYTES = 66  # Ethernet 14, IPv4 20, TCP 20 and its timestamps 12.
_MU = {Notice.CN_L: Fraction(2, 3), Notice.CN_M: Fraction(1, 2)}  # Eq. (5) and (6).
_NS_PER_S = 10**9
_MAX_WINDOW_BYTES = 2**32 - 1
# Where connections come without end, a port is held for 10 holds, then left alone for 40.
_LONGEST_OPENING_HOLDS = 10
_REST_HOLDS = 40


class Scheme(Enum):
    """`none` only watches, `sdtcp` is the paper as printed, `weir` the paper with anticipation."""

    NONE = "none"
    SDTCP = "sdtcp"
    WEIR = "weir"


@dataclass(frozen=True, slots=True)
class PortLimits:
    """What an egress port can take: C, RTT and the buffer of its queue."""

    capacity_bps: int
    rtt_ns: int
    buffer_bytes: int

    @property
    def bdp_bytes(self) -> int:
        """C x RTT of Eq. (2)."""
        return self.capacity_bps * self.rtt_ns // (8 * _NS_PER_S)


@dataclass(frozen=True, slots=True)
class RegulatorSettings:
    scheme: Scheme
    window_ttl_ns: int
    initial_window_segments: int
    buffer_share: float
    opening_hold_ns: int


class WindowSet(NamedTuple):
    """The window that a class of flows of a port is held to from now on; 0 releases it."""

    port: PortId
    cls: FlowClass
    window_bytes: int
    refresh: bool


@dataclass(slots=True)
class _Port:
    limits: PortLimits
    counts: PortCounts = NO_FLOWS
    notified: dict[FlowClass, int] = field(default_factory=dict)
    sent: dict[FlowClass, tuple[int, int]] = field(default_factory=dict)
    opened_ns: int = 0
    rests_until_ns: int | None = None


class Regulator:
    """Holds the windows in force on every egress port and says which of them to send."""

    def __init__(self, settings: RegulatorSettings, default_limits: PortLimits) -> None:
        self._settings = settings
        self._default_limits = default_limits
        self._ports: dict[PortId, _Port] = {}
        self._opening: dict[PortId, int] = {}  # when it ends, the earliest first

    @property
    def ttl_ms(self) -> int:
        return self._settings.window_ttl_ns // 1_000_000

    def configure(self, port: PortId, limits: PortLimits) -> None:
        """Give a port other limits than the fabric's."""
        self._port(port).limits = limits

    def flows_changed(self, port: PortId, counts: PortCounts, now_ns: int) -> list[WindowSet]:
        """The flows that leave through a port are now these.

        Scheme `weir` holds all of them to one segment while flows are being added. Of a window that
        is lower than the one before, TCP takes no notice in a segment that acknowledges nothing new
        and carries no later data (RFC 9293 section 3.10.7.4, SND.WL1), such as the first request on
        a new connection. So the flights that answer it obey the last acknowledgement of the
        handshake, which must have it right already for as many flows as there will be. A higher
        window is noticed at once.
        """
        state = self._port(port)
        if counts.flows > state.counts.flows:
            self._hold(port, state, now_ns)
        state.counts = counts
        return self._update(port, now_ns)

    def _hold(self, port: PortId, state: _Port, now_ns: int) -> None:
        if state.rests_until_ns is not None and now_ns < state.rests_until_ns:
            return
        hold_ns = self._settings.opening_hold_ns
        if self._opening.pop(port, None) is None:
            state.opened_ns = now_ns
        last_ns = state.opened_ns + _LONGEST_OPENING_HOLDS * hold_ns
        self._opening[port] = min(now_ns + hold_ns, last_ns)
        if self._opening[port] == last_ns:
            state.rests_until_ns = last_ns + _REST_HOLDS * hold_ns

    def end_openings(self, now_ns: int) -> list[WindowSet]:
        """Release the ports where no flow was added lately from the hold that comes with it."""
        windows = []
        while self._opening:
            port, end_ns = next(iter(self._opening.items()))
            if now_ns < end_ns:
                break
            del self._opening[port]
            windows += self._update(port, now_ns)
        return windows

    def queue_event(
        self, port: PortId, notice: Notice, queue_bytes: int, limit_bytes: int, now_ns: int
    ) -> list[WindowSet]:
        """A switch's notice: CN-L, CN-M and CN-H by Eq. (5)-(8), CR releases what they set.

        `queue_bytes` is Q(t) of Eq. (2); `limit_bytes`, if the switch tells it, is the port's true
        buffer.
        """
        state = self._port(port)
        if limit_bytes and limit_bytes != state.limits.buffer_bytes:
            state.limits = replace(state.limits, buffer_bytes=limit_bytes)
        if notice is Notice.CR:
            state.notified = {}
        else:
            state.notified |= paper_windows(
                notice, state.counts, state.limits.bdp_bytes + queue_bytes
            )
        return self._update(port, now_ns)

    def refresh(self, now_ns: int) -> list[WindowSet]:
        """The windows in force that have to be sent again, lest the switch releases them."""
        due_ns = now_ns - self._settings.window_ttl_ns // 3
        windows = []
        for port, state in self._ports.items():
            for cls, (window_bytes, sent_ns) in state.sent.items():
                if window_bytes and sent_ns <= due_ns:
                    state.sent[cls] = (window_bytes, now_ns)
                    windows.append(WindowSet(port, cls, window_bytes, refresh=True))
        return windows

    def restart(self, switch: int, now_ns: int) -> list[WindowSet]:
        """A switch is back: what it said before is void, what it holds is unknown."""
        windows = []
        for port in [port for port in self._ports if port.switch == switch]:
            self._ports[port].notified = {}
            self._ports[port].sent = {}
            windows += self._update(port, now_ns)
        return windows

    def in_force(self, port: PortId, cls: FlowClass) -> int:
        """The window of a class in bytes, 0 if it is not held to one."""
        state = self._ports.get(port)
        return state.sent.get(cls, (0, 0))[0] if state else 0

    def _port(self, port: PortId) -> _Port:
        state = self._ports.get(port)
        if state is None:
            state = self._ports[port] = _Port(self._default_limits)
        return state

    def _update(self, port: PortId, now_ns: int) -> list[WindowSet]:
        state = self._ports[port]
        wanted = self._wanted(state, opening=now_ns < self._opening.get(port, now_ns))
        changed = []
        for cls in FlowClass:
            window_bytes = min(wanted.get(cls, 0), _MAX_WINDOW_BYTES)
            if window_bytes != state.sent.get(cls, (0, 0))[0]:
                state.sent[cls] = (window_bytes, now_ns)
                changed.append(WindowSet(port, cls, window_bytes, refresh=False))
        return changed

    def _wanted(self, state: _Port, opening: bool) -> dict[FlowClass, int]:
        match self._settings.scheme:
            case Scheme.NONE:
                return {}
            case Scheme.SDTCP:
                return state.notified
            case Scheme.WEIR:
                mss_bytes = state.counts.mss_bytes
                if not mss_bytes:
                    return {}
                anticipated = (
                    dict.fromkeys(FlowClass, mss_bytes)
                    if opening
                    else anticipated_windows(
                        state.counts,
                        state.limits,
                        self._settings.buffer_share,
                        self._settings.initial_window_segments,
                    )
                )
                # A fraction of a segment lets out nothing but small ones, so whole segments only.
                return {
                    cls: max(1, window_bytes // mss_bytes) * mss_bytes
                    for cls, window_bytes in _least(state.notified, anticipated).items()
                }


def paper_windows(notice: Notice, counts: PortCounts, total_bytes: int) -> dict[FlowClass, int]:
    """The advertised windows of SDTCP Eq. (5)-(8), in bytes rounded down.

    `total_bytes` is C x RTT + Q(t), the sum of the send windows by Eq. (2). A class without flows
    gets no window: Eq. (8) is not defined for b = 0, nor Eq. (3) for N = 0.
    """
    a, b, mss_bytes = counts[:3]
    windows = {}
    if notice is Notice.CN_H:
        if a:
            windows[FlowClass.BACKGROUND] = mss_bytes
        if b:
            windows[FlowClass.BURST] = max((total_bytes - a * mss_bytes) // b, mss_bytes)
    elif a:
        fair_share = Fraction(total_bytes, a + b)
        windows[FlowClass.BACKGROUND] = max(int(_MU[notice] * fair_share), mss_bytes)
    return windows


def anticipated_windows(
    counts: PortCounts, limits: PortLimits, buffer_share: float, initial_window_segments: int
) -> dict[FlowClass, int]:
    """The windows in bytes with which all flows just fit buffer and path; none without need.

    A first flight of Linux's initial window overflows a shallow buffer before any notice can
    arrive. So once the fair share falls below the initial window, every flow is held to it
    beforehand, in whole segments. A background flow gets no more than a burst flow: what it kept in
    the queue would be missing for the first flights.
    """
    if not counts.flows:
        return {}
    wire_bytes = counts.mss_bytes + HEADERS_BYTES
    budget_bytes = int(buffer_share * limits.buffer_bytes) + limits.bdp_bytes
    share = budget_bytes // (counts.flows * wire_bytes)
    if share >= initial_window_segments:
        return {}
    return dict.fromkeys(FlowClass, max(1, share) * counts.mss_bytes)


def _least(*choices: dict[FlowClass, int]) -> dict[FlowClass, int]:
    least: dict[FlowClass, int] = {}
    for choice in choices:
        for cls, window_bytes in choice.items():
            least[cls] = min(window_bytes, least.get(cls, window_bytes))
    return least
