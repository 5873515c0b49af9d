"""Decides what every egress port is held to, from queue notices and flow counts.

Scheme `sdtcp` is the paper: windows by Eq. (5)-(8) from a notice until CR. By the letter of the
paper, they are computed when a notice comes, and each level is notified once. With
`repeat_notices`, they are computed again when flows come, go or change their class, and switches
repeat notices while a port is congested.

Scheme `weir` holds every port with a queue at all times. If the switch keeps an account of credit
for the port, its flows are in that account, and nothing depends on flows and notices. Otherwise the
flows have standing windows, which notices lower as in the paper.

It looks at the counts of a port only, never at a connection. Eq. (9), the minimum with the
receiver's own window, is computed by the switch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from controller.core.congestion.windows import (
    MAX_WINDOW_BYTES,
    CreditRules,
    PortLimits,
    WindowRules,
    account_holds,
    lowered_hold,
    measured_rtt_ns,
    notice_interval_us,
    paper_windows,
    standing_holds,
)
from controller.core.flows.port_counts import HANDSHAKES_FOR_NS, NO_FLOWS, PortCounts
from controller.model.values import RELEASED, FlowClass, Hold, Notice, PortId

# Three times the longest `cr-hold` of a queue. By then CR has come, or was lost.
NOTICE_LIFE_NS = 15 * 10**9
# This long after congestion, all handshakes that may have waited in the queue are forgotten.
_CALM_NS = 2 * HANDSHAKES_FOR_NS
# Where connections come and go all the time, a wider window is not worth a message before the next
# connection needs a smaller one: for this long after a change, windows only fall.
KEPT_NS = 100 * 10**6

_CLASSES = tuple(FlowClass)


class Scheme(Enum):
    """`none` does not regulate, `sdtcp` is the paper, `weir` holds ports at all times."""

    NONE = "none"
    SDTCP = "sdtcp"
    WEIR = "weir"


@dataclass(frozen=True, slots=True)
class SchemeOverride:
    """The scheme of a port, by number or name, or without one of a whole switch."""

    scheme: Scheme
    switch: int
    port: int | str | None = None


@dataclass(frozen=True, slots=True)
class RegulatorSettings:
    """`scheme` is that of all ports without an override. `repeat_notices` is for scheme `sdtcp`,
    which without it is the letter of Algorithm 1. Without `accounts`, scheme `weir` has standing
    windows everywhere, as on switches that keep no accounts of credit."""

    scheme: Scheme
    window_ttl_ns: int
    rules: WindowRules
    credit: CreditRules
    repeat_notices: bool = True
    overrides: tuple[SchemeOverride, ...] = ()
    accounts: bool = True

    @property
    def regulates(self) -> bool:
        """Whether any port is regulated by them."""
        schemes = [self.scheme, *(override.scheme for override in self.overrides)]
        return any(scheme is not Scheme.NONE for scheme in schemes)

    def scheme_of(self, port_id: PortId, name: str) -> Scheme:
        """The scheme of a port: its own, its switch's, or that of all."""
        if not self.overrides:
            return self.scheme
        by_place = {(one.switch, one.port): one.scheme for one in self.overrides}
        switch, number = port_id
        for place in ((switch, number), (switch, name), (switch, None)):
            if place in by_place:
                return by_place[place]
        return self.scheme


class HoldUpdate(NamedTuple):
    """What a flow class of a port is held to from now on. A `refresh` only renews it."""

    port: PortId
    cls: FlowClass
    hold: Hold
    refresh: bool


@dataclass(slots=True)
class _Port:
    limits: PortLimits | None = None
    measured: PortLimits | None = None  # `limits` with the RTT of handshakes
    has_account: bool = False
    scheme: Scheme | None = None  # its own; None: that of the settings
    counts: PortCounts = NO_FLOWS
    # The last notice but CR. For each class, the last notice that sets its windows, with the length
    # of the queue then, and the window that follows.
    notice: Notice | None = None
    told: dict[FlowClass, tuple[Notice, int]] = field(default_factory=dict)
    notified: dict[FlowClass, int] = field(default_factory=dict)
    confirmed_ns: int = 0
    # The least handshake through the port that did not wait in its queue (0: none), and when the
    # port was last known to be congested.
    handshake_ns: int = 0
    congested_ns: int = -_CALM_NS
    wanted: Mapping[FlowClass, Hold] | None = None
    sent: dict[FlowClass, tuple[Hold, int]] = field(default_factory=dict)


class Regulator:
    """Keeps what is in force on every egress port, and returns what to send."""

    def __init__(self, settings: RegulatorSettings) -> None:
        self._settings = settings
        self._account_holds = account_holds(settings.credit)
        self._ports: dict[PortId, _Port] = {}
        self._postponed: dict[PortId, int] = {}
        self._widens_ns: int | None = None

    @property
    def ttl_ms(self) -> int:
        return self._settings.window_ttl_ns // 1_000_000

    def reconfigure(self, settings: RegulatorSettings, now_ns: int) -> list[HoldUpdate]:
        """Use these settings from now on. Windows that notices have set are released."""
        self._settings = settings
        self._account_holds = account_holds(settings.credit)
        windows = []
        for port, state in self._ports.items():
            _recover(state)
            windows += self._update(port, now_ns)
        return windows

    # Ports

    def configure(
        self,
        port: PortId,
        limits: PortLimits,
        has_account: bool,
        now_ns: int,
        scheme: Scheme | None = None,
    ) -> list[HoldUpdate]:
        """A port has a queue with these limits; `has_account` if its switch keeps one for it.

        `scheme` is the port's own, None that of the settings. If it had another one before, windows
        that notices have set are released.
        """
        state = self._port(port)
        if state.scheme is not scheme:
            state.scheme = scheme
            _recover(state)
            state.wanted = None
        if state.limits is not None and state.notice is not None:
            # An RTT that is measured now may include waiting in the queue.
            limits = limits._replace(rtt_ns=state.limits.rtt_ns)
        if state.wanted is not None and (state.limits, state.has_account) == (limits, has_account):
            return []
        state.limits, state.measured, state.has_account = limits, None, has_account
        return self._update(port, now_ns)

    def withdraw(self, port: PortId, now_ns: int) -> list[HoldUpdate]:
        """A port has no queue (any more): release it."""
        state = self._ports.get(port)
        if state is None:
            return []
        state.limits = state.measured = None
        _recover(state)
        windows = self._update(port, now_ns)
        if not state.counts.flows:
            self._drop(port)
        return windows

    def forget(self, switch: int) -> None:
        """A switch is gone for good."""
        for port in self._ports_of(switch):
            self._drop(port)

    def restart(self, switch: int, now_ns: int) -> list[HoldUpdate]:
        """A switch is back. Its earlier notices are void, and its windows are unknown."""
        windows = []
        for port in self._ports_of(switch):
            state = self._ports[port]
            _recover(state)
            state.wanted, state.sent = None, {}
            windows += self._update(port, now_ns)
        return windows

    # Events

    def flows_changed(self, port: PortId, counts: PortCounts, now_ns: int) -> list[HoldUpdate]:
        """The counts of the flows that leave through a port have changed."""
        state = self._port(port)
        # A larger MSS needs larger windows at once. Background flows last, so it is worth a message
        # if they, or others beside them, may have more.
        lazily = counts.mss_bytes == state.counts.mss_bytes and not (
            counts.background or state.counts.background
        )
        state.counts = counts
        self._measure(state, now_ns)
        if state.limits is None:
            if not counts.flows:
                self._drop(port)
            return []
        if self._scheme(state) is Scheme.WEIR or self._settings.repeat_notices:
            self._apply_notices(state)
        return self._update(port, now_ns, lazily)

    def queue_event(
        self, port: PortId, notice: Notice, queue_bytes: int, now_ns: int
    ) -> list[HoldUpdate]:
        """A notice: CN-L, CN-M and CN-H set windows by Eq. (5)-(8), CR releases them.

        `queue_bytes` is Q(t) of Eq. (2). The port must have been configured. The windows of burst
        flows that CN-H has set stand until CR: Eq. (5) and (6) do not set them, and a longer queue
        does not allow more. In scheme `weir` the last notice alone counts.
        """
        state = self._ports[port]
        state.congested_ns = now_ns
        if notice is Notice.CR:
            _recover(state)
        else:
            state.notice, state.confirmed_ns = notice, now_ns
            state.told[FlowClass.BACKGROUND] = notice, queue_bytes
            if self._scheme(state) is Scheme.WEIR:
                state.told[FlowClass.BURST] = notice, queue_bytes
            elif notice is Notice.CN_H:
                # In Algorithm 1, Q is the length as it passes H. With the length at a repetition,
                # Eq. (8) would share out all that is in flight, and so keep the queue that long.
                _, least_bytes = state.told.get(FlowClass.BURST, (notice, queue_bytes))
                state.told[FlowClass.BURST] = notice, min(queue_bytes, least_bytes)
            self._apply_notices(state)
        return self._update(port, now_ns)

    def congested(
        self, port: PortId, notice: Notice, queue_bytes: int, now_ns: int
    ) -> list[HoldUpdate]:
        """The queue of a port was read, and is at the level of this notice. It counts as the notice
        if that was lost."""
        state = self._ports.get(port)
        if state is None or state.limits is None:
            return []
        if state.notice is None:
            return self.queue_event(port, notice, queue_bytes, now_ns)
        state.confirmed_ns = state.congested_ns = now_ns
        return []

    def refresh(self, now_ns: int) -> list[HoldUpdate]:
        """Return what is in force and must be renewed before the switch releases it.

        Windows that a notice has set are released if nothing has confirmed it for NOTICE_LIFE_NS.
        """
        due_ns = now_ns - self._settings.window_ttl_ns // 3
        windows = self.widen(now_ns)
        for port, state in self._ports.items():
            if state.notice is not None and now_ns - state.confirmed_ns >= NOTICE_LIFE_NS:
                _recover(state)
                windows += self._update(port, now_ns)
            if self._measure(state, now_ns):
                windows += self._update(port, now_ns)
            for cls, (hold, sent_ns) in state.sent.items():
                if hold != RELEASED and sent_ns <= due_ns:
                    state.sent[cls] = (hold, now_ns)
                    windows.append(HoldUpdate(port, cls, hold, refresh=True))
        return windows

    @property
    def widens_ns(self) -> int | None:
        """When `widen` must be called next, if at all. There may be nothing to do then."""
        return self._widens_ns if self._postponed else None

    def widen(self, now_ns: int) -> list[HoldUpdate]:
        """Widen the windows whose time has come."""
        if self._widens_ns is None or now_ns < self._widens_ns:
            return []
        windows = []
        for port in [port for port, at_ns in self._postponed.items() if at_ns <= now_ns]:
            windows += self._update(port, now_ns)
        self._widens_ns = min(self._postponed.values(), default=None)
        return windows

    def _postpone(self, port: PortId, until_ns: int) -> None:
        self._postponed[port] = until_ns
        self._widens_ns = until_ns if self._widens_ns is None else min(self._widens_ns, until_ns)

    def in_force(self, port: PortId, cls: FlowClass) -> Hold:
        state = self._ports.get(port)
        return state.sent.get(cls, (RELEASED, 0))[0] if state else RELEASED

    def notice(self, port: PortId) -> Notice | None:
        """The notice that determines the windows of a port; None after CR or without any."""
        state = self._ports.get(port)
        return state.notice if state else None

    def limits(self, port: PortId) -> PortLimits | None:
        """The limits of a port, with the RTT as measured; None if it has no queue."""
        state = self._ports.get(port)
        return self._limits(state) if state else None

    def notice_interval_us(self, port: PortId) -> int:
        """At what interval the switch must repeat notices; 0 if it need not."""
        state = self._ports.get(port)
        if state is None or not self._settings.repeat_notices:
            return 0
        limits = self._limits(state) if self._scheme(state) is Scheme.SDTCP else None
        return notice_interval_us(limits) if limits else 0

    # What follows

    def _scheme(self, state: _Port) -> Scheme:
        return self._settings.scheme if state.scheme is None else state.scheme

    def _port(self, port: PortId) -> _Port:
        return self._ports.setdefault(port, _Port())

    def _drop(self, port: PortId) -> None:
        del self._ports[port]
        self._postponed.pop(port, None)

    def _ports_of(self, switch: int) -> list[PortId]:
        return [port for port in self._ports if port.switch == switch]

    def _apply_notices(self, state: _Port) -> None:
        """Compute the windows by the notices since CR, for the flows that the port has now."""
        limits = self._limits(state)
        if limits is None:
            return
        # a and b count active flows: the others cannot be slowed down, and take nothing.
        counts = state.counts.active
        state.notified = {}
        for cls, (notice, queue_bytes) in state.told.items():
            applied = min(notice, Notice.CN_M) if self._skips_eq_7(counts) else notice
            windows = paper_windows(applied, counts, limits.bdp_bytes + queue_bytes)
            if cls in windows:
                state.notified[cls] = windows[cls]
        if self._scheme(state) is Scheme.WEIR and not counts.burst:
            state.notified.pop(FlowClass.BACKGROUND, None)

    def _skips_eq_7(self, counts: PortCounts) -> bool:
        """Whether not to apply Eq. (7): it reserves bandwidth for burst flows, which nobody would
        use if there are none."""
        return self._settings.repeat_notices and not counts.burst

    def _measure(self, state: _Port, now_ns: int) -> bool:
        """Update the least handshake through the port, unless it may have waited in the queue: that
        time is Q(t) of Eq. (2), not RTT. Returns whether it has changed."""
        before_ns, took_ns = state.handshake_ns, state.counts.handshake_ns
        if 0 < took_ns < before_ns or now_ns - state.congested_ns >= _CALM_NS:
            state.handshake_ns = took_ns
        return state.handshake_ns != before_ns

    def _update(self, port: PortId, now_ns: int, lazily: bool = False) -> list[HoldUpdate]:
        """Return the changes to what the port is held to. If `lazily`, wider windows may wait."""
        state = self._ports[port]
        wanted = self._wanted(state)
        if wanted == state.wanted and port not in self._postponed:
            return []
        state.wanted = wanted
        self._postponed.pop(port, None)
        changed = []
        for cls in _CLASSES:
            hold = wanted.get(cls, RELEASED)
            former, sent_ns = state.sent.get(cls, (RELEASED, 0))
            if hold == former:
                continue
            is_wider = hold.window_bytes > former.window_bytes > 0
            if lazily and is_wider and now_ns < sent_ns + KEPT_NS:
                self._postpone(port, sent_ns + KEPT_NS)
                continue
            state.sent[cls] = (hold, now_ns)
            changed.append(HoldUpdate(port, cls, hold, refresh=False))
        return changed

    def _wanted(self, state: _Port) -> Mapping[FlowClass, Hold]:
        limits = self._limits(state)
        scheme = self._scheme(state)
        if limits is None or scheme is Scheme.NONE:
            return {}
        notified = state.notified
        if scheme is Scheme.SDTCP:
            return {cls: Hold(min(size, MAX_WINDOW_BYTES)) for cls, size in notified.items()}
        if state.has_account:
            return self._account_holds
        counts, rules = state.counts.active, self._settings.rules
        holds = standing_holds(counts, limits, rules)
        if not notified:
            return holds
        return {
            cls: lowered_hold(hold, notified[cls], counts, rules) if cls in notified else hold
            for cls, hold in holds.items()
        }

    def _limits(self, state: _Port) -> PortLimits | None:
        """The limits, with the RTT of handshakes through the port, if there were any."""
        if state.limits is None or not state.handshake_ns:
            return state.limits
        rtt_ns = measured_rtt_ns(state.handshake_ns)
        if state.measured is None or state.measured.rtt_ns != rtt_ns:
            state.measured = state.limits._replace(rtt_ns=rtt_ns)
        return state.measured


def _recover(state: _Port) -> None:
    """Forget notices: the queue of a port is short again, or nothing is known of it."""
    state.notice, state.told, state.notified = None, {}, {}
