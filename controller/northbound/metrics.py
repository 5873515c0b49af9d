"""Metrics in Prometheus' exposition format, read from the source when somebody asks for them.

A label's values are switches, ports, or words out of the program; never what a host has thought up.
Ports without a queue, flows, notices or limits are left out.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import TypeVar

from prometheus_client import Metric, ProcessCollector
from prometheus_client.core import InfoMetricFamily

from controller.northbound import families
from controller.northbound.families import Distribution, Families, Labels, Row
from controller.northbound.interfaces import Source
from controller.northbound.views import (
    AccountView,
    ExcessView,
    HistogramView,
    PortView,
    QueueView,
    RegulationView,
    SwitchView,
    TcpView,
)

_SWITCH = ("switch",)
_PORT = ("switch", "port", "name")

# Switches without a value (None) are left out.
_SWITCH_GAUGES: tuple[tuple[str, str, Callable[[SwitchView], float | None]], ...] = (
    ("connected", "1 if the switch is connected.", lambda view: view["connected"]),
    ("ready", "1 if what the switch holds is known.", lambda view: view["ready"]),
    (
        "entries_wanted",
        "Flow entries that the switch is meant to hold.",
        lambda view: view["entries_wanted"],
    ),
    (
        "entries_confirmed",
        "Those of them that the switch has acknowledged, or was found to hold.",
        lambda view: view["entries_confirmed"],
    ),
    (
        "entries_refused",
        "Those of them that the switch does not take.",
        lambda view: view["entries_refused"],
    ),
    (
        "audit_age_seconds",
        "Since the switch last told what it holds, while it works.",
        lambda view: view["audited_s"],
    ),
    (
        "master",
        "1 if this controller may change the switch.",
        lambda view: None if view["role"] is None else view["role"] != "slave",
    ),
    (
        "outgoing_bytes",
        "Bytes that wait for the switch to read them.",
        lambda view: view["waiting_bytes"],
    ),
    (
        "waiting_events",
        "What the switch has told and cannot be used before it is ready.",
        lambda view: view["waiting_events"],
    ),
    (
        "unacknowledged",
        "Changes that the switch has not acknowledged yet.",
        lambda view: view["unacknowledged"],
    ),
    (
        "control_rtt_seconds",
        "Smoothed round trip of the control channel.",
        lambda view: view["control_rtt_s"],
    ),
    (
        "protected_destinations",
        "Switches to which its TCP goes over a protected link.",
        lambda view: view["protected_destinations"],
    ),
    ("registers", "Window registers that the switch has.", lambda view: view["registers"]),
    (
        "registers_used",
        "Window registers that belong to ports.",
        lambda view: view["registers_used"],
    ),
)
_QUEUE_GAUGES: tuple[tuple[str, str, Callable[[QueueView], int]], ...] = (
    ("bytes", "Length of the egress queue.", lambda queue: queue["queue_bytes"]),
    ("packets", "Packets in the egress queue.", lambda queue: queue["queue_packets"]),
    ("max_bytes", "The longest that it has been.", lambda queue: queue["max_queue_bytes"]),
    ("limit_bytes", "What the egress queue can hold.", lambda queue: queue["limit_bytes"]),
    ("rate_bits_per_second", "Rate that it is served at.", lambda queue: queue["rate_bps"]),
    ("level", "0: not congested; 1, 2, 3: after CN-L, CN-M, CN-H.", lambda queue: queue["level"]),
)
_QUEUE_COUNTERS: tuple[tuple[str, str, Callable[[QueueView], int]], ...] = (
    ("sent_bytes", "Bytes that went through the egress queue.", lambda queue: queue["sent_bytes"]),
    ("sent_packets", "Packets that went through it.", lambda queue: queue["sent_packets"]),
    ("dropped_packets", "Packets that found it full.", lambda queue: queue["dropped_packets"]),
    ("dropped_bytes", "Bytes that found it full.", lambda queue: queue["dropped_bytes"]),
    ("marked_packets", "Packets marked by ECN.", lambda queue: queue["marked_packets"]),
)
_ACCOUNT_GAUGES: tuple[tuple[str, str, Callable[[AccountView], float]], ...] = (
    ("connections", "Connections in the port's account of credit.", lambda of: of["connections"]),
    ("held_segments", "Segments that are held until the port has room.", lambda of: of["held"]),
    (
        "expected_bytes",
        "What senders have credit for and have not sent yet.",
        lambda of: of["expected_bytes"],
    ),
    ("longest_hold_seconds", "The longest that one was held.", lambda of: of["max_held_s"]),
)
_ACCOUNT_COUNTERS: tuple[tuple[str, str, Callable[[AccountView], int]], ...] = (
    ("requests", "Segments that asked for data to leave by the port.", lambda of: of["requests"]),
    ("held_requests", "Those that had to wait for room.", lambda of: of["held_requests"]),
    (
        "overdue_requests",
        "Those that waited for as long as is allowed.",
        lambda of: of["overdue_requests"],
    ),
    (
        "full_requests",
        "Requests that could not be held for want of memory.",
        lambda of: of["full_requests"],
    ),
    (
        "window_updates",
        "Segments that the switch has made to give credit.",
        lambda of: of["window_updates"],
    ),
    ("charged_bytes", "Bytes that were expected of senders.", lambda of: of["charged_bytes"]),
    (
        "given_back_bytes",
        "Bytes that were expected and not needed.",
        lambda of: of["given_back_bytes"],
    ),
    (
        "expired_bytes",
        "Bytes that were expected and did not come in time.",
        lambda of: of["expired_bytes"],
    ),
)

_TCP_COUNTERS: tuple[tuple[str, str, Callable[[TcpView], float]], ...] = (
    ("segments", "Segments with payload, of sampled connections.", lambda of: of["segments"]),
    (
        "retransmitted_segments",
        "Those that carried nothing that had not been sent before.",
        lambda of: of["retransmitted"],
    ),
    ("timeouts", "Those that came after 100 ms without data.", lambda of: of["timeouts"]),
    ("timeout_seconds", "For how long no data came then.", lambda of: of["timeouts_s"]),
)

V = TypeVar("V")


class Exposition:
    """All metrics. `checkpoint` is called between samples, to let the controller go on."""

    def __init__(self, source: Source, checkpoint: Callable[[], None]) -> None:
        self._source = source
        self._checkpoint = checkpoint
        self._families = Families(checkpoint)
        self._process = ProcessCollector(registry=None)

    def pieces(self) -> Iterator[str]:
        """The text: whole lines of one metric after the other, no piece much longer than others."""
        return families.pieces(self._all_families())

    def _all_families(self) -> Iterator[Metric]:
        yield from self._controller()
        yield from self._expiries()
        yield from self._tables()
        yield from self._switches(self._all(self._source.switches()))
        yield self._excesses(self._all(self._source.excesses()))
        yield from self._ports(self._all(self._source.ports()))
        yield from self._regulation(self._all(self._source.regulation()))
        yield self._histogram(
            "weir_control_delay_seconds",
            "From a queue notice to the window registers that it sets, within the controller.",
            self._source.control_delay(),
        )
        yield self._histogram(
            "weir_main_loop_lag_seconds",
            "How late the main loop gives a timer its turn.",
            self._source.loop_lag(),
        )
        yield self._histogram(
            "weir_main_loop_turn_seconds",
            "Processor time of a turn of the main loop, in which nobody else is answered.",
            self._source.loop_turns(),
        )
        yield from self._process.collect()

    def _all(self, views: Iterable[V]) -> list[V]:
        gathered = []
        for view in views:
            gathered.append(view)
            self._checkpoint()
        return gathered

    def _histogram(self, name: str, text: str, view: HistogramView) -> Metric:
        rows = [Distribution((), view.bounds_s, view.cumulative, view.sum_s)]
        return self._families.histogram(name, text, (), rows)

    # The controller

    def _controller(self) -> Iterator[Metric]:
        told = self._source.controller()
        family = InfoMetricFamily("weir_build", "What is running.")
        words = {key: told[key] for key in ("version", "python", "ryu", "scheme")}
        family.add_metric((), {key: str(word) for key, word in words.items()})
        yield family
        yield self._families.gauge(
            "weir_master",
            "1 if this controller is the one that has the switches; 0: a standby.",
            (),
            [((), told["rank"] != "standby")],
        )
        yield self._families.gauge(
            "weir_standby_peers",
            "Other controllers that are heard.",
            (),
            [((), len(told["peers"]))],
        )
        yield self._families.gauge(
            "weir_standby_heard",
            "1 if this other controller is heard.",
            ("peer",),
            [
                ((name,), heard)
                for names, heard in ((told["peers"], True), (told["silent"], False))
                for name in names
            ],
        )
        if told["writes_events"] is not None:
            yield self._families.gauge(
                "weir_event_log_written",
                "1 if events are written to the event log.",
                (),
                [((), told["writes_events"])],
            )

    def _expiries(self) -> Iterator[Metric]:
        expiries = self._source.expiries()
        for kind, name, text in (
            (
                "certificate",
                "weir_certificate_expires_timestamp_seconds",
                "Until when a certificate is good.",
            ),
            ("crl", "weir_crl_expires_timestamp_seconds", "Until when a revocation list is good."),
            (
                "token",
                "weir_token_expires_timestamp_seconds",
                "Until when a token of the HTTP API is good.",
            ),
        ):
            rows: list[Row] = [
                ((one["file"], one["name"]), one["expires_s"])
                for one in expiries
                if one["kind"] == kind
            ]
            yield self._families.gauge(name, text, ("file", "name"), rows)

    def _tables(self) -> Iterator[Metric]:
        told = self._source.tables()
        for name, text, value in (
            ("connections", "Established TCP connections (GVT).", told["connections"]),
            (
                "dormant_connections",
                "Connections that have moved nothing for long; not among the established ones.",
                told["dormant"],
            ),
            ("half_open_connections", "Connections not answered yet.", told["half_open"]),
            (
                "host_pairs",
                "Pairs of hosts with connections that share a path.",
                told["host_pairs"],
            ),
            ("idle_burst_flows", "Burst flows known to send nothing.", told["idle_flows"]),
            ("hosts", "Hosts whose place is known.", told["hosts"]),
            ("links", "Links between switches.", told["links"]),
            ("multipath", "1 if paths differ by connection.", told["multipath"]),
        ):
            yield self._families.gauge(f"weir_{name}", text, (), [((), value)])
        yield self._families.gauge(
            "weir_flows",
            "Flows by class, two to a connection: background (BGT) and burst (BRT).",
            ("class",),
            [
                (("background",), told["background_flows"]),
                (("burst",), told["burst_flows"]),
            ],
        )
        yield self._families.counter(
            "weir_host_pairs_without_path_id",
            "Host pairs whose switches do not tell which path they take.",
            (),
            [((), told["without_path_id"])],
        )
        yield self._families.counter(
            "weir_connections_opened",
            "Connections that came, by whether their handshake was seen.",
            ("how",),
            [(("handshake",), told["opened"]), (("adopted",), told["adopted"])],
        )
        yield self._families.counter(
            "weir_connections_woken",
            "How often a dormant connection moved something again.",
            (),
            [((), told["woken"])],
        )
        yield self._families.counter(
            "weir_connections_closed",
            "Connections that went.",
            ("reason",),
            _by_word(told["closed"]),
        )
        yield self._families.counter(
            "weir_half_open_given_up",
            "Half-open connections that were given up, or not believed.",
            ("reason",),
            _by_word(told["given_up"]),
        )
        bounds = told["bounds"].items()
        yield self._families.gauge(
            "weir_table_entries",
            "How full a table is that hosts can fill; of several, the fullest.",
            ("table",),
            [((name,), bound["entries"]) for name, bound in bounds],
        )
        yield self._families.gauge(
            "weir_table_limit",
            "How full a table can be that hosts can fill.",
            ("table",),
            [((name,), bound["limit"]) for name, bound in bounds],
        )
        yield self._families.counter(
            "weir_disbelieved",
            "How often hosts behind a port were not believed, by what they claimed.",
            ("switch", "port", "reason"),
            [
                ((one["datapath_id"], str(one["port"]), one["reason"]), one["refused"])
                for one in told["disbelieved"]
            ],
        )
        yield self._families.counter(
            "weir_window_entries_refused",
            "Window entries for which a switch had no room.",
            (),
            [((), told["window_entries_refused"])],
        )
        yield self._families.counter(
            "weir_events", "Events of the event log.", ("event",), _by_word(self._source.events())
        )

    # Switches

    def _switches(self, told: list[SwitchView]) -> Iterator[Metric]:
        def rows(value: Callable[[SwitchView], float | None]) -> list[Row]:
            named = ((view["datapath_id"], value(view)) for view in told)
            return [((switch,), number) for switch, number in named if number is not None]

        def worded(words: Callable[[SwitchView], dict[str, int]]) -> list[Row]:
            return [
                ((view["datapath_id"], word), n) for view in told for word, n in words(view).items()
            ]

        gauge, counter = self._families.gauge, self._families.counter
        for name, text, value in _SWITCH_GAUGES:
            yield gauge(f"weir_switch_{name}", text, _SWITCH, rows(value))
        yield counter(
            "weir_switch_disconnections",
            "Control connections that ended.",
            _SWITCH,
            rows(lambda view: view["disconnections"]),
        )
        yield counter(
            "weir_notices_missed",
            "Queue notices that were lost, by their sequence numbers.",
            _SWITCH,
            rows(lambda view: view["notices_missed"]),
        )
        yield counter(
            "weir_windows_set",
            "Window registers set, by whether that only renewed what was in force.",
            ("switch", "refresh"),
            [
                ((view["datapath_id"], refresh), number)
                for view in told
                for refresh, number in (
                    ("false", view["windows_set"]),
                    ("true", view["windows_refreshed"]),
                )
            ],
        )
        yield counter(
            "weir_packet_ins",
            "Packets that the switch copied to the controller.",
            ("switch", "class"),
            worded(lambda view: view["packet_ins"]),
        )
        yield counter(
            "weir_unusable_messages",
            "Messages of the switch that could not be used.",
            ("switch", "reason"),
            worded(lambda view: view["unusable"]),
        )

    def _excesses(self, told: list[ExcessView]) -> Metric:
        return self._families.counter(
            "weir_packet_ins_dropped",
            "Packets that were not copied to the controller, or not read, because of the budgets.",
            ("switch", "port", "class"),
            [((v["datapath_id"], str(v["port"]), v["class"]), v["dropped"]) for v in told],
        )

    # Ports

    def _ports(self, told: list[PortView]) -> Iterator[Metric]:
        labels = (*_PORT, "queue")
        queues = [
            ((*_named(view), str(queue["queue"])), queue)
            for view in told
            for queue in view["queues"]
        ]
        gauge, counter = self._families.gauge, self._families.counter
        for family, measures in ((gauge, _QUEUE_GAUGES), (counter, _QUEUE_COUNTERS)):
            for name, text, value in measures:
                rows: list[Row] = [(named, value(queue)) for named, queue in queues]
                yield family(f"weir_queue_{name}", text, labels, rows)
        yield gauge(
            "weir_port_has_queue",
            "1 if a port that leads to hosts or to a switch has a queue, 0 if not.",
            _PORT,
            [
                (_named(view), bool(view["queues"]))
                for view in told
                if view["up"] and (view["peer"] or view["hosts"]) and not view["protected"]
            ],
        )
        accounts = [
            (_named(view), queue["account"])
            for view in told
            for queue in view["queues"]
            if queue["account"] is not None
        ]
        for family, parts in ((gauge, _ACCOUNT_GAUGES), (counter, _ACCOUNT_COUNTERS)):
            for name, text, part in parts:
                rows = [(named, part(account)) for named, account in accounts]
                yield family(f"weir_port_{name}", text, _PORT, rows)
        yield self._holds(accounts)
        yield from self._connections(
            [(_named(view), view["tcp"]) for view in told if view["tcp"] is not None]
        )
        yield gauge(
            "weir_link_rtt_seconds",
            "Smoothed round trip over the link of a port.",
            _PORT,
            [(_named(view), view["link_rtt_s"]) for view in told if view["link_rtt_s"] is not None],
        )
        yield gauge(
            "weir_link_loss_ratio",
            "Part of the packets that a port sends to another switch and that do not come there.",
            _PORT,
            [(_named(view), view["loss"]) for view in told if view["loss"] is not None],
        )

    def _regulation(self, told: list[RegulationView]) -> Iterator[Metric]:
        told = [
            view
            for view in told
            if view["capacity_bps"] is not None
            or view["notices"]
            or view["burst_flows"]
            or view["background_flows"]
        ]
        yield self._families.counter(
            "weir_queue_events",
            "Notices of the port's egress queue.",
            (*_PORT, "level"),
            [((*_named(view), level), n) for view in told for level, n in view["notices"].items()],
        )
        yield self._families.gauge(
            "weir_port_flows",
            "Flows that leave by the port, by class.",
            (*_PORT, "class"),
            [
                ((*_named(view), word), n)
                for view in told
                for word, n in (
                    ("background", view["background_flows"]),
                    ("burst", view["burst_flows"]),
                )
            ],
        )
        yield self._families.gauge(
            "weir_port_regulated",
            "1 if the port is regulated, 0 where its scheme is none or it is turned off.",
            _PORT,
            [(_named(view), view["scheme"] != "none") for view in told],
        )
        yield self._families.gauge(
            "weir_port_congested",
            "1 while the port's windows go by a notice.",
            _PORT,
            [(_named(view), view["notice"] is not None) for view in told],
        )
        yield self._families.gauge(
            "weir_port_hold_window_bytes",
            "Window that the class is held to at the port; 0: no limit.",
            (*_PORT, "class"),
            [
                ((*_named(view), word), hold["window_bytes"])
                for view in told
                for word, hold in view["holds"].items()
            ],
        )

    def _holds(self, accounts: Iterable[tuple[Labels, AccountView]]) -> Metric:
        return self._families.histogram(
            "weir_port_held_seconds",
            "For how long segments that had to wait for room were held.",
            _PORT,
            [
                Distribution(
                    named,
                    account["held_bounds_s"],
                    accumulate(account["held_counts"]),
                    account["held_s"],
                )
                for named, account in accounts
            ],
        )

    def _connections(self, told: list[tuple[Labels, TcpView]]) -> Iterator[Metric]:
        yield self._families.gauge(
            "weir_tcp_sampled_connections",
            "TCP connections whose data leave by the port, and that its switch follows.",
            _PORT,
            [(named, tcp["connections"]) for named, tcp in told],
        )
        for name, text, part in _TCP_COUNTERS:
            rows: list[Row] = [(named, part(tcp)) for named, tcp in told]
            yield self._families.counter(f"weir_tcp_{name}", text, _PORT, rows)
        yield self._families.histogram(
            "weir_tcp_answer_seconds",
            "From the arrival of a request at the switch to its answer's last byte, by size.",
            (*_PORT, "below_bytes"),
            [
                Distribution(
                    (*named, str(size["below_bytes"] or "inf")),
                    tcp["bounds_s"],
                    accumulate(size["counts"]),
                    size["seconds"],
                )
                for named, tcp in told
                for size in tcp["answers"]
            ],
        )


def _named(view: PortView | RegulationView) -> tuple[str, str, str]:
    return view["datapath_id"], str(view["port"]), view["name"]


def _by_word(numbers: dict[str, int]) -> list[Row]:
    return [((word,), n) for word, n in numbers.items()]
