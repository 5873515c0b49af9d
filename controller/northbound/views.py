"""What there is to see, as plain values that can be encoded as JSON.

Units are in the names. `switch` is a datapath id and `port` an OpenFlow port number, as in the
event log. The name of a port is "datapath id in hex:port".
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from typing_extensions import TypedDict  # typing.TypedDict does not do for Pydantic before 3.12

from controller.rpc.methods import FlowQuery


class CreditView(TypedDict):
    """A class's part in the account of credit of a port. `bound_bytes` is of frames, queued and
    expected, for which credit is given, 0 leaves it to the switch; `max_hold_ms` is for how long a
    request may be held; the classes share the port by `weight`."""

    bound_bytes: int
    max_hold_ms: int
    weight: int


class HoldView(TypedDict):
    """`window_bytes` is the largest window, 0 sets no limit; `credit` is None without an account.
    Without either, the class is not held."""

    window_bytes: int
    credit: CreditView | None


class ControllerView(TypedDict):
    """`rank` is alone, master, leaving (a master that hands over) or standby; `generation` is the
    newest that it knows, None without any; `peers` are the controllers that it hears, `silent`
    those of its configuration that it does not."""

    version: str
    python: str
    ryu: str
    scheme: str
    uptime_s: float
    rank: str
    generation: int | None
    peers: list[str]
    silent: list[str]


class TablesView(TypedDict):
    """The global-view flow table; `opened`, `adopted`, `closed` and `given_up` are counters.

    `given_up` are half-open connections. `multipath`: paths differ by connection; `without_path_id`
    counts the ends whose switches do not tell by which one. The flows of a table are counted by
    direction, so there are two to a connection; `idle_flows` are burst flows, too.
    """

    connections: int
    background_flows: int
    burst_flows: int
    idle_flows: int
    half_open: int
    host_pairs: int
    hosts: int
    links: int
    multipath: bool
    without_path_id: int
    opened: int
    adopted: int
    closed: dict[str, int]
    given_up: dict[str, int]


class SwitchView(TypedDict):
    """`packet_ins`, `unusable` (messages, by kind), `notices_missed`, `windows_set`,
    `windows_refreshed` and `disconnections` are counters.

    `role` is what the controller is to the switch: equal, master or slave. An entry that is wanted
    and neither confirmed nor refused is on its way. The last audit was `audited_s` ago and put so
    many entries right; None: there was none since the switch has connected. `waiting_events` wait
    for the switch to be ready, `unacknowledged` changes for it to take them.
    """

    switch: int
    connected: bool
    ready: bool
    role: str | None
    address: str | None
    capabilities: list[str]
    ports: int
    registers: int
    registers_used: int
    entries_wanted: int
    entries_confirmed: int
    entries_refused: int
    entries_restored: int
    entries_removed: int
    audited_s: float | None
    waiting_bytes: int
    waiting_messages: int
    waiting_events: int
    unacknowledged: int
    control_rtt_s: float | None
    packet_ins: dict[str, int]
    unusable: dict[str, int]
    notices_missed: int
    windows_set: int
    windows_refreshed: int
    disconnections: int


ExcessView = TypedDict(
    "ExcessView",
    {
        "switch": int,
        "port": int,
        "class": str,
        "dropped": int,
        "limited": bool,
        "dropped_per_s": float,
        "hosts": list[str],
    },
)
"""What a port (0: it is not known which) has sent to the controller over its budget of a class of
packet-ins. `dropped` is a counter; `hosts` are the Ethernet addresses behind the port now.
"""


class AccountView(TypedDict):
    """The account of credit that a switch keeps for an egress queue, as it last told it.

    `connections` in it, segments `held` and what is expected of senders (`expected_bytes`) are as
    of then, `max_held_s` is the longest of all, the others are counters. Requests are segments that
    ask for data: how many there were, how many of them were held, how many of these for as long as
    is allowed (`overdue_requests`), and how many could not be held for want of memory
    (`full_requests`). `held_counts` tells how many segments were held for less than each of
    `held_bounds_s` but not the one before, and for longer than all; `held_s` is the sum.
    `window_updates` are segments that the switch has made to give credit. Of what was expected of
    senders (`charged_bytes`, of frames), they did not need `given_back_bytes` and did not send
    `expired_bytes` in time.
    """

    connections: int
    held: int
    expected_bytes: int
    requests: int
    held_requests: int
    overdue_requests: int
    full_requests: int
    held_s: float
    max_held_s: float
    held_bounds_s: list[float]
    held_counts: list[int]
    window_updates: int
    charged_bytes: int
    given_back_bytes: int
    expired_bytes: int


class QueueView(TypedDict):
    """An egress queue as its switch last told it; counters start with the queue.

    `switch_time_ns` is CLOCK_MONOTONIC of the switch. `account` is None where there never was one,
    and without `can_have_account` there will not be.
    """

    queue: int
    switch_time_ns: int
    level: int
    queue_bytes: int
    queue_packets: int
    max_queue_bytes: int
    limit_bytes: int
    rate_bps: int
    sent_packets: int
    sent_bytes: int
    dropped_packets: int
    dropped_bytes: int
    marked_packets: int
    can_have_account: bool
    account: AccountView | None


class PortView(TypedDict):
    """`peer` is the port at the other end of a link, `hosts` how many are behind the port."""

    switch: int
    port: int
    name: str
    up: bool
    speed_bps: int
    peer: str | None
    link_rtt_s: float | None
    hosts: int
    queues: list[QueueView]


class RegulationView(TypedDict):
    """How a port is regulated: what it can take, what leaves by it, what that is held to.

    `scheme` is none where regulation is turned off. `notice` is the one that its windows go by,
    `notices` counts those that came, by label. A port without limits is not regulated.
    """

    switch: int
    port: int
    name: str
    scheme: str
    capacity_bps: int | None
    buffer_bytes: int | None
    rtt_s: float | None
    background_flows: int
    burst_flows: int
    idle_flows: int
    mss_bytes: int
    notice: str | None
    holds: dict[str, HoldView]
    notices: dict[str, int]


FlowView = TypedDict(
    "FlowView",
    {
        "src": str,
        "src_port": int,
        "dst": str,
        "dst_port": int,
        "class": str,
        "counted": bool,
        "idle": bool,
        "volume_bytes": int,
        "age_s": float,
        "mss_bytes": int,
        "window_scale": int | None,
        "treatment": str,
        "ports": list[str],
    },
)
"""One direction of a connection, by where its data goes. `ports` are those it leaves by.

A flow that is not counted (yet) has no volume. `class` is burst or background.
"""


class LinkView(TypedDict):
    """A link of a path: the egress port, or `uplink` and the port by which the host sends. What is
    not measured yet is None."""

    link: str
    capacity_bps: float
    used_bps: float | None
    error_bps: float | None


class PathView(TypedDict):
    """Between two addresses, in bit/s of whole frames: what is left on the narrowest link, within
    `error_bps` in 95 % of all cases, and what one more announced flow would get."""

    src: str
    dst: str
    available_bps: float
    error_bps: float | None
    share_bps: float
    links: list[LinkView]


class ShareView(TypedDict):
    """An announced flow and what it may send, in bit/s of whole frames; None if it has no path. It
    is not limited if `narrowest` is None. Its packets are to bear `dscp`, if that is not None: a
    part of each link is reserved for those. A flow that is gone has no `src`."""

    flow: str
    src: str | None
    dst: str | None
    most_bps: float | None
    rate_bps: float | None
    narrowest: str | None
    dscp: int | None


class BypassView(TypedDict):
    """Where regulation is turned off: at a port, by its name; without one at a switch; without a
    switch everywhere. It goes on again in `left_s`, or if that is None, when somebody turns it on.
    """

    switch: int | None
    port: str | None
    left_s: float | None
    by: str


class OffView(TypedDict):
    """What is off now; `kept` if it will be after a restart of the controller, too. Controllers of
    the same switches that are of an older release are `unaware` of it."""

    off: BypassView
    kept: bool
    unaware: list[str]


class OnView(TypedDict):
    """What is on again, and what still keeps the place off."""

    on: list[BypassView]
    still_off: list[BypassView]
    kept: bool
    unaware: list[str]


class ExpiryView(TypedDict):
    """Until when something is good: `kind` is certificate, crl or token; `expires_s` counts from
    1970."""

    kind: str
    name: str
    file: str
    expires_s: float


class UnknownError(LookupError):
    """There is no such host, path, flow, switch or port; the message says which."""


class HistogramView(NamedTuple):
    """How many were within each bound (seconds), how many there were, and their sum."""

    bounds_s: list[float]
    cumulative: list[int]
    sum_s: float


class FlowPage(NamedTuple):
    """Some of the flows that fit a query, and how many there are."""

    flows: Iterator[FlowView]
    total: int


class EventView(NamedTuple):
    """An event as it stands in the event log, and its serial number."""

    serial: int
    line: dict[str, object]


class Source(Protocol):
    """Who can tell. Iterators may be left and taken up again while the controller goes on."""

    def controller(self) -> ControllerView: ...

    def tables(self) -> TablesView: ...

    def switches(self) -> Iterator[SwitchView]:
        """Those that were ever connected."""

    def excesses(self, switch: int | None = None) -> Iterator[ExcessView]:
        """By port and class, those that were ever over budget."""

    def ports(self, switch: int | None = None) -> Iterator[PortView]:
        """All ports, or those of a switch."""

    def regulation(self, switch: int | None = None) -> Iterator[RegulationView]:
        """The same ports."""

    def flows(self, query: FlowQuery, checkpoint: Callable[[], None]) -> FlowPage:
        """Calls `checkpoint` often, so that the controller can go on."""

    def events_after(self, serial: int) -> list[EventView]:
        """The recent events after this one, oldest first; serial numbers have no gaps."""

    def last_event(self) -> int:
        """The serial number of the latest event, 0 without any."""

    def control_delay(self) -> HistogramView:
        """From a notice to the windows that it sets."""

    def loop_lag(self) -> HistogramView:
        """How late the main loop is."""

    def events(self) -> dict[str, int]:
        """How many events there were, by name."""

    def path_bandwidth(self, src: str, dst: str) -> PathView:
        """Raises UnknownError."""

    def shares(self) -> Iterator[ShareView]:
        """Of all announced flows."""

    def follow_shares(self) -> Iterator[list[ShareView]]:
        """All announced flows, then each change at once; an empty list now and then without one."""

    def expiries(self) -> list[ExpiryView]:
        """Of all certificates, revocation lists and tokens that the controller uses."""

    def not_ready(self) -> str | None:
        """Why the controller is not ready to be relied on; None if it is."""


class Bypassing(Protocol):
    """Who turns regulation off and on."""

    def off(self, switch: int | None, port: str | None, for_s: float | None, by: str) -> OffView:
        """Do not regulate a place for so many seconds, or until it is turned on. Raises
        UnknownError."""

    def on(self, switch: int | None, port: str | None, by: str) -> OnView:
        """Regulate a place, and all within it, again. Raises UnknownError."""

    def bypasses(self) -> Iterator[BypassView]:
        """What is off."""


class Announcing(Protocol):
    """Who takes announcements of fountain flows."""

    def announce(self, flow: str, src: str, dst: str, most_bps: float | None) -> ShareView:
        """A flow joins, or wants another rate at most. Raises UnknownError."""

    def renew(self, flow: str, sends_bps: float | None) -> ShareView:
        """A flow goes on, and sends no more than that. Raises UnknownError."""

    def withdraw(self, flow: str) -> None:
        """A flow has ended. Raises UnknownError."""
