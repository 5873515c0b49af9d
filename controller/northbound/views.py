"""The state of the controller as plain values that can be encoded as JSON.

Units are in the names. `switch` is a datapath id and `port` an OpenFlow port number, as in the
event log; `datapath_id` is the same id as Open vSwitch prints it, 16 hexadecimal digits. The name
of a port is "datapath_id:port".
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from typing_extensions import TypedDict  # typing.TypedDict does not do for Pydantic before 3.12


class CreditView(TypedDict):
    """The part of a class in a port's account of credit.

    Credit is given for at most `bound_bytes` of frames, queued and expected (0: the switch
    decides). A request is held for at most `max_hold_ms`. The classes share the port by `weight`.
    """

    bound_bytes: int
    max_hold_ms: int
    weight: int


class HoldView(TypedDict):
    """How a class is held: `window_bytes` is the largest window (0: no limit), `credit` is None
    without an account. Without either, the class is not held."""

    window_bytes: int
    credit: CreditView | None


class ControllerView(TypedDict):
    """`rank` is alone, master, leaving (a master that hands over) or standby. `generation` is
    the newest one that the controller knows, None without any. `peers` are the controllers that
    it hears, `silent` those of its configuration that it does not. `writes_events` is whether the
    event log is written, None without one. `cpu_s` is the processor time that it has used."""

    version: str
    python: str
    ryu: str
    scheme: str
    uptime_s: float
    cpu_s: float
    rank: str
    generation: int | None
    peers: list[str]
    silent: list[str]
    writes_events: bool | None


class BoundView(TypedDict):
    """A table that hosts can fill: how full it is, and how full it can be. If there is one for each
    port, host or switch, it is the fullest of them."""

    entries: int
    limit: int


class DisbeliefView(TypedDict):
    """How often hosts behind a port were not believed, and why (`Refusal`)."""

    datapath_id: str
    port: int
    reason: str
    refused: int


class TablesView(TypedDict):
    """The global-view flow table. `opened`, `adopted`, `closed` and `given_up` are counters.

    `given_up` are half-open connections. `multipath` says whether paths differ by connection,
    `without_path_id` counts the host pairs whose switches do not tell their path. Flows are counted
    by direction, so there are two to a connection. `idle_flows` are burst flows, too. Connections
    that are `dormant` are not among the others; `woken` counts those that are so no more.
    `window_entries_refused` counts entries for which their switch had no room.
    """

    connections: int
    dormant: int
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
    woken: int
    closed: dict[str, int]
    given_up: dict[str, int]
    bounds: dict[str, BoundView]
    disbelieved: list[DisbeliefView]
    window_entries_refused: int


class SwitchView(TypedDict):
    """`packet_ins`, `unusable` (messages, by kind), `notices_missed`, `windows_set`,
    `windows_refreshed` and `disconnections` are counters.

    `role` is the role of the controller at the switch: equal, master or slave. A wanted entry that
    is neither confirmed nor refused is on its way. The last audit ended `audited_s` ago and
    restored so many entries; None: there was none since the switch connected. `waiting_events` are
    kept until the switch is ready. The switch has not acknowledged `unacknowledged` changes yet.
    TCP to so many other switches (`protected_destinations`) goes over protected links now.
    """

    switch: int
    datapath_id: str
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
    protected_destinations: int
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
        "datapath_id": str,
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
    """The account of credit that a switch keeps for an egress queue, as last reported.

    `connections`, the segments `held` and `expected_bytes`, which senders have credit for, are as
    of then. `max_held_s` is the longest hold. All others are counters.

    Requests are segments that ask for data. `held_requests` of them were held, `overdue_requests`
    for as long as is allowed; `full_requests` could not be held for want of memory. `held_counts`
    has how many segments were held for less than each of `held_bounds_s` but not less than the
    bound before, and how many for longer than all; `held_s` is the sum. `window_updates` are
    segments that the switch made to give credit. Of `charged_bytes`, the frames expected of
    senders, `given_back_bytes` were not needed and `expired_bytes` did not come in time.
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


class LevelsView(TypedDict):
    """The thresholds L, M and H of an egress queue: the values of `queue_bytes` that cause CN-L,
    CN-M and CN-H."""

    low_bytes: int
    mid_bytes: int
    high_bytes: int


class PacketLevelsView(TypedDict):
    """The same for `queue_packets`."""

    low_packets: int
    mid_packets: int
    high_packets: int


class QueueView(TypedDict):
    """An egress queue, as last reported by its switch. Counters start with the queue.

    `switch_time_ns` is CLOCK_MONOTONIC of the switch. `account` is None if there never was one.
    Without `can_have_account` there will be none. Thresholds are in bytes (`levels`) or in packets
    (`packet_levels`), as the queue is configured; both are None if the switch does not report them.
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
    levels: LevelsView | None
    packet_levels: PacketLevelsView | None


class AnswersView(TypedDict):
    """Answers of less than `below_bytes` but not less than the class before; None: all larger ones.
    They took `seconds` in all; `counts` are how many took less than each of the bounds but not less
    than the one before, and last those that took longer."""

    below_bytes: int | None
    answers: int
    seconds: float
    counts: list[int]


class TcpView(TypedDict):
    """What becomes of a sample of the TCP connections whose data leave through a port, as its
    switch last told it. `connections` are in the sample now, the others are counters.

    `segments` have payload, `new_bytes` is what was not sent before. A timeout is a retransmission
    after at least 100 ms without data, `timeouts_s` the time that these took. An answer takes from
    the arrival of its request at the switch to the departure of its last byte, `bounds_s` are the
    bounds of its times.
    """

    switch_time_ns: int
    connections: int
    segments: int
    new_bytes: int
    retransmitted: int
    timeouts: int
    timeouts_s: float
    bounds_s: list[float]
    answers: list[AnswersView]


class PortView(TypedDict):
    """`peer` is the port at the other end of a link, `hosts` how many are behind the port. `bond`
    are the numbers of all ports of its bond, if it is in one, whose hosts count at one of them.
    `tunnel` is whether the port is the end of a tunnel of Open vSwitch, `tunnels` which kinds of
    tunnels have come in by it lately: connections in these are regulated where the tunnels end, not
    here.
    `protected` is whether that link is a protected one. `loss` is the part of what the port sends
    that the link loses, within `loss_error` in 95 % of all cases; None if that is not known. `tcp`
    is None without an egress queue, or if the switch does not tell."""

    switch: int
    datapath_id: str
    port: int
    name: str
    up: bool
    speed_bps: int
    peer: str | None
    link_rtt_s: float | None
    protected: bool
    loss: float | None
    loss_error: float | None
    hosts: int
    bond: list[int]
    tunnel: bool
    tunnels: list[str]
    queues: list[QueueView]
    tcp: TcpView | None


class RegulationView(TypedDict):
    """How a port is regulated: its limits, the flows that leave by it, and how these are held.

    `scheme` is none where regulation is turned off. The windows follow `notice`; `notices` counts
    all notices by label. A port without limits is not regulated.
    """

    switch: int
    datapath_id: str
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
        "vlan": int | None,
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
"""One direction of a connection, by where its data goes. `ports` are those it leaves by. A
connection that a router passes on is one in each of its VLANs.

A flow that is not counted (yet) has no volume. `class` is burst or background.
"""


class HopView(TypedDict):
    """A port that a flow leaves by. `hold` is what holds its class there: None at a port without
    limits, which is not regulated. `queue` is the longest queue of the port, None without one."""

    port: str
    name: str
    up: bool
    scheme: str
    notice: str | None
    capacity_bps: int | None
    rtt_s: float | None
    hold: HoldView | None
    queue: QueueView | None


class FlowDetailView(TypedDict):
    """One direction of a connection, hop by hop. `enters` is the port by which its data comes into
    the fabric. It has had no payload for `quiet_s`; None: it is not counted (yet), so that is not
    known."""

    flow: FlowView
    enters: str | None
    quiet_s: float | None
    hops: list[HopView]


class LinkView(TypedDict):
    """A link of a path: the egress port, or `uplink` and the port by which the host sends.

    `loss` is the part of the packets that it loses, within `loss_error` in 95 % of all cases.
    Values that are not measured, or not yet, are None.
    """

    link: str
    capacity_bps: float
    used_bps: float | None
    error_bps: float | None
    loss: float | None
    loss_error: float | None


class PathView(TypedDict):
    """The bandwidth between two addresses, in bit/s of whole frames: what is left on the
    narrowest link, within `error_bps` in 95 % of all cases, and what one more announced flow
    would get. If `error_bps` is None, a link is not measured, and both are at most that. `loss` is
    the part of the packets that the links between switches lose, within `loss_error`; both are None
    if that is not known."""

    src: str
    dst: str
    available_bps: float
    error_bps: float | None
    share_bps: float
    loss: float | None
    loss_error: float | None
    links: list[LinkView]


class GroupView(TypedDict):
    """A multicast group in a VLAN (None: none), and the ports where it has members; those of a bond
    by one of them."""

    group: str
    vlan: int | None
    ports: list[str]


class SnoopingView(TypedDict):
    """Whether what is sent to groups follows their members, and the ports that get all of it: those
    of `routers`, and others of which it is not known what their hosts want, or too much."""

    snooping: bool
    routers: list[str]
    unsure: list[str]


class ShareView(TypedDict):
    """An announced flow and its rate, in bit/s of whole frames; the rate is None without a path.

    The flow is not limited if `narrowest` is None. `dscp`, if not None, belongs in its packets: a
    part of each link is reserved for them. A flow that is gone has no `src`.
    """

    flow: str
    src: str | None
    dst: str | None
    most_bps: float | None
    rate_bps: float | None
    narrowest: str | None
    dscp: int | None


class BypassView(TypedDict):
    """Where regulation is turned off: at a port, by its name; without one at a switch; without a
    switch everywhere. It resumes in `left_s`, or, if that is None, when somebody turns it on."""

    switch: int | None
    datapath_id: str | None
    port: str | None
    left_s: float | None
    by: str


class OffView(TypedDict):
    """What is off now. `kept` says whether it stays off over a restart of the controller. Other
    controllers of the same switches that are of an older release are `unaware` of it."""

    off: BypassView
    kept: bool
    unaware: list[str]


class OnView(TypedDict):
    """What is on again, and which bypasses still keep the place off."""

    on: list[BypassView]
    still_off: list[BypassView]
    kept: bool
    unaware: list[str]


StepView = TypedDict("StepView", {"key": str, "from": str, "to": str})
StepView.__doc__ = """A setting, or another key of the configuration, before and after."""


class ChangedByView(TypedDict):
    """Who has changed a setting at work, and when."""

    by: str
    at_s: float


class SettingView(TypedDict):
    """A setting. Values are text, as in the configuration file, which says `configured`. Those with
    the scope `restart` can be changed there alone. `changed` is None if the file's is in force."""

    key: str
    section: str
    value: str
    configured: str
    default: str
    kind: Literal["duration", "size", "rate", "number", "boolean", "choice", "text", "list"]
    choices: list[str] | None
    description: str
    scope: Literal["live", "restart"]
    changed: ChangedByView | None


class UndoableView(TypedDict):
    """The latest change of settings, which may be taken back."""

    id: str
    at_s: float
    by: str
    changes: list[StepView]


class SettingsView(TypedDict):
    """All settings. `version` is another one after each change, and after each reload."""

    version: int
    settings: list[SettingView]
    undoable: UndoableView | None


class ChangeView(TypedDict):
    """What has changed, or would: then it is not `in_force`, and has no `id`. `kept` says whether
    it stays over a restart of the controller."""

    version: int
    changes: list[StepView]
    in_force: bool
    id: str | None
    kept: bool


class AuditEntryView(TypedDict):
    """Somebody has changed `settings`, has taken a change back (`undo`), has turned regulation
    `off` or `on`, or has had the configuration file read again (`reload`)."""

    id: str
    at_s: float
    by: str
    what: Literal["settings", "undo", "off", "on", "reload"]
    changes: list[StepView]
    detail: str


class AuditPage(NamedTuple):
    """Entries of the audit log, newest first; `next_before` is the `before` of the next page."""

    entries: Iterator[AuditEntryView]
    next_before: str | None


class ExpiryView(TypedDict):
    """When something expires: `kind` is certificate, crl or token, `expires_s` counts from 1970."""

    kind: str
    name: str
    file: str
    expires_s: float


class HistogramView(NamedTuple):
    """How many values were within each bound (in seconds), how many there were, their sum, and the
    largest."""

    bounds_s: list[float]
    cumulative: list[int]
    sum_s: float
    longest_s: float


class FlowPage(NamedTuple):
    """A page of the flows that match a query, and how many there are in all."""

    flows: Iterator[FlowView]
    total: int


class EventView(NamedTuple):
    """An event, as in the event log, with its serial number."""

    serial: int
    line: dict[str, object]
