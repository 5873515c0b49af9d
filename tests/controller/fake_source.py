"""A source for the northbound that tells of a small fabric: something of everything there is."""

from collections.abc import Callable, Iterator

from controller.config.schema import Config
from controller.model.values import PortId, datapath_id
from controller.northbound.interfaces import NotOwnerError, UnknownError
from controller.northbound.views import (
    AccountView,
    BypassView,
    ControllerView,
    EventView,
    ExcessView,
    ExpiryView,
    FlowDetailView,
    FlowPage,
    FlowView,
    GroupView,
    HistogramView,
    HoldView,
    LevelsView,
    LinkView,
    OffView,
    OnView,
    PacketLevelsView,
    PathView,
    PortView,
    RegulationView,
    ShareView,
    SnoopingView,
    SwitchView,
    TablesView,
    TcpView,
)
from controller.rpc.methods import FlowEnds, FlowQuery
from controller.runtime.audit_log import AuditLog
from controller.runtime.changing import Changing

HOLD: HoldView = {
    "window_bytes": 14_600,
    "credit": {"bound_bytes": 0, "max_hold_ms": 160, "weight": 7},
}

ACCOUNT: AccountView = {
    "connections": 32,
    "held": 4,
    "expected_bytes": 24_000,
    "requests": 1000,
    "held_requests": 120,
    "overdue_requests": 2,
    "full_requests": 1,
    "held_s": 0.5,
    "max_held_s": 0.16,
    "held_bounds_s": [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1],
    "held_counts": [10, 20, 30, 20, 20, 10, 6, 2],
    "window_updates": 9,
    "charged_bytes": 1_500_000,
    "given_back_bytes": 30_000,
    "expired_bytes": 3000,
}

LEVELS: LevelsView = {"low_bytes": 19_660, "mid_bytes": 39_321, "high_bytes": 52_428}
PACKET_LEVELS: PacketLevelsView = {"low_packets": 12, "mid_packets": 25, "high_packets": 34}

TCP: TcpView = {
    "switch_time_ns": 10**9,
    "connections": 40,
    "segments": 5000,
    "new_bytes": 7_000_000,
    "retransmitted": 12,
    "timeouts": 2,
    "timeouts_s": 0.41,
    "bounds_s": [0.0001, 0.0002],
    "answers": [
        {"below_bytes": 10_000, "answers": 7, "seconds": 0.0012, "counts": [4, 2, 1]},
        {"below_bytes": 100_000, "answers": 0, "seconds": 0.0, "counts": [0, 0, 0]},
        {"below_bytes": None, "answers": 1, "seconds": 0.2, "counts": [0, 0, 1]},
    ],
}


class Told:
    """The northbound's `Source`, `Announcing` and `Bypassing`, and `changing`, which keeps nothing.
    What tests want otherwise, they set."""

    def __init__(self, n_switches: int = 2, n_ports: int = 2) -> None:
        self.n_switches, self.n_ports = n_switches, n_ports
        self.reason: str | None = None
        self.run_name = "first"
        self.log: list[EventView] = []
        self.queries: list[FlowQuery] = []
        self.announced: dict[str, ShareView] = {}
        self.renewed: list[tuple[str, float | None]] = []
        self.owners: dict[str, str | None] = {}
        self.turned_on_by = ""
        self.unaware: list[str] = []
        self.turned_off: dict[tuple[int | None, str | None], BypassView] = {}
        self.changing = Changing(
            Config(), AuditLog(None, lambda: 1e9), lambda: 1e9, None, lambda config: config
        )

    def controller(self) -> ControllerView:
        return {
            "version": "0.1.0",
            "python": "3.11.2",
            "ryu": "4.34",
            "scheme": "weir",
            "uptime_s": 12.5,
            "cpu_s": 1.5,
            "rank": "master",
            "generation": 17,
            "peers": ["b"],
            "silent": ["c"],
            "writes_events": True,
        }

    def tables(self) -> TablesView:
        return {
            "connections": 1000,
            "dormant": 40,
            "background_flows": 3,
            "burst_flows": 1997,
            "idle_flows": 7,
            "half_open": 5,
            "host_pairs": 200,
            "hosts": 16,
            "links": 4,
            "multipath": True,
            "without_path_id": 3,
            "opened": 1100,
            "adopted": 2,
            "woken": 9,
            "closed": {"finished": 90, "expired": 12},
            "given_up": {"flooded": 1},
            "bounds": {"hosts at one port": {"entries": 3, "limit": 1024}},
            "disbelieved": [
                {
                    "datapath_id": datapath_id(1),
                    "port": 2,
                    "reason": "host elsewhere",
                    "refused": 4,
                }
            ],
            "window_entries_refused": 0,
        }

    def known(self) -> set[int]:
        return set(range(1, self.n_switches + 1))

    def switches(self) -> Iterator[SwitchView]:
        for switch in range(1, self.n_switches + 1):
            yield {
                "switch": switch,
                "datapath_id": datapath_id(switch),
                "connected": switch != 2,
                "ready": switch != 2,
                "role": None if switch == 2 else "master",
                "address": None if switch == 2 else "127.0.0.1:5000",
                "capabilities": ["tcp_rwnd"],
                "ports": self.n_ports,
                "registers": 1024,
                "registers_used": 4,
                "entries_wanted": 12,
                "entries_confirmed": 10,
                "entries_refused": 1,
                "entries_restored": 0,
                "entries_removed": 0,
                "audited_s": None if switch == 2 else 30.0,
                "waiting_bytes": 0,
                "waiting_messages": 0,
                "waiting_events": 0,
                "unacknowledged": 1,
                "control_rtt_s": None if switch == 2 else 0.0004,
                "protected_destinations": 1 if switch == 1 else 0,
                "packet_ins": {"segment": 2000, "neighbour": 3},
                "unusable": {"malformed": 1},
                "notices_missed": 2,
                "windows_set": 10,
                "windows_refreshed": 20,
                "disconnections": 1,
            }

    def excesses(self, switch: int | None = None) -> Iterator[ExcessView]:
        if switch in (None, 1):
            yield {
                "switch": 1,
                "datapath_id": datapath_id(1),
                "port": 2,
                "class": "syn",
                "dropped": 30_000,
                "limited": True,
                "dropped_per_s": 10_000.0,
                "hosts": ["02:00:00:00:00:02"],
            }

    def ports(self, switch: int | None = None) -> Iterator[PortView]:
        for of in range(1, self.n_switches + 1):
            for port in range(1, self.n_ports + 1) if switch in (None, of) else ():
                yield {
                    "switch": of,
                    "datapath_id": datapath_id(of),
                    "port": port,
                    "name": f"s{of}-eth{port}",
                    "up": True,
                    "speed_bps": 10**8,
                    "peer": str(PortId(2, 1)) if (of, port) == (1, 1) else None,
                    "link_rtt_s": 0.0001 if (of, port) == (1, 1) else None,
                    "protected": False,
                    "loss": 0.002 if (of, port) == (1, 1) else None,
                    "loss_error": 0.0001 if (of, port) == (1, 1) else None,
                    "hosts": 1,
                    "bond": [],
                    "tunnel": False,
                    "tunnels": [],
                    "queues": [
                        {
                            "queue": 0,
                            "switch_time_ns": 10**9,
                            "level": 2,
                            "queue_bytes": 1000 * port,
                            "queue_packets": port,
                            "max_queue_bytes": 60_000,
                            "limit_bytes": 65_536,
                            "rate_bps": 10**8,
                            "sent_packets": 100,
                            "sent_bytes": 150_000,
                            "dropped_packets": 5,
                            "dropped_bytes": 7500,
                            "marked_packets": 6,
                            "can_have_account": port != 2,
                            "account": ACCOUNT if port % 2 else None,
                            "levels": LEVELS if port % 2 else None,
                            "packet_levels": None if port % 2 else PACKET_LEVELS,
                        }
                    ],
                    "tcp": TCP if port % 2 else None,
                }

    def regulation(self, switch: int | None = None) -> Iterator[RegulationView]:
        for view in self.ports(switch):
            yield {
                "switch": view["switch"],
                "datapath_id": view["datapath_id"],
                "port": view["port"],
                "name": view["name"],
                "scheme": "weir",
                "capacity_bps": 10**8,
                "buffer_bytes": 65_536,
                "rtt_s": 0.0005,
                "background_flows": 1,
                "burst_flows": 32,
                "idle_flows": 0,
                "mss_bytes": 1460,
                "notice": "CN-M" if view["port"] == 1 else None,
                "holds": {"burst": HOLD, "background": HOLD},
                "notices": {"CN-L": 3, "CR": 2},
            }

    def flows(self, query: FlowQuery, checkpoint: Callable[[], None]) -> FlowPage:
        self.queries.append(query)
        checkpoint()
        first = query.offset
        shown = range(first, min(first + query.limit, 150))
        return FlowPage((flow(number) for number in shown), 150)

    def flow(self, ends: FlowEnds) -> FlowDetailView:
        if ends.src_port < 1024:
            raise UnknownError(f"no flow from {ends.src}:{ends.src_port} is known")
        (queue,) = next(self.ports(1))["queues"]
        return {
            "flow": flow(ends.src_port - 1024),
            "enters": str(PortId(1, 2)),
            "quiet_s": 0.2,
            "hops": [
                {
                    "port": port,
                    "name": "eth1",
                    "up": True,
                    "scheme": "weir",
                    "notice": "CN-M",
                    "capacity_bps": 10**8,
                    "rtt_s": 0.0005,
                    "hold": HOLD,
                    "queue": queue,
                }
                for port in flow(0)["ports"]
            ],
        }

    def events_after(self, serial: int) -> list[EventView]:
        return [event for event in self.log if event.serial > serial]

    def last_event(self) -> int:
        return self.log[-1].serial if self.log else 0

    def run(self) -> str:
        return self.run_name

    def happens(self, n: int = 1) -> None:
        for _ in range(n):
            serial = self.last_event() + 1
            self.log.append(
                EventView(serial, {"event": "link_up", "wall_s": 1.0, "a": str(PortId(1, 1))})
            )

    def control_delay(self) -> HistogramView:
        return HistogramView([0.000025, 0.0001, 0.1], [1, 90, 100, 100], 0.02, 0.09)

    def loop_lag(self) -> HistogramView:
        return HistogramView([0.000025, 0.0001, 0.1], [0, 0, 9, 10], 1.0, 0.5)

    def loop_turns(self) -> HistogramView:
        return HistogramView([0.001, 0.02], [90, 99, 100], 0.5, 0.03)

    def events(self) -> dict[str, int]:
        return {"start": 1, "queue_event": 5}

    def expiries(self) -> list[ExpiryView]:
        return [
            {"kind": kind, "name": f"a {kind}", "file": f"/etc/weir/{kind}", "expires_s": 1.8e9}
            for kind in ("certificate", "crl", "token")
        ]

    def not_ready(self) -> str | None:
        return self.reason

    def path_bandwidth(self, src: str, dst: str) -> PathView:
        if dst == "10.0.0.9":
            raise UnknownError(f"no host of this address is known: {dst}")
        link: LinkView = {
            "link": str(PortId(1, 1)),
            "capacity_bps": 1e8,
            "used_bps": 4e7,
            "error_bps": 1e6,
            "loss": 0.002,
            "loss_error": 0.0001,
        }
        return {
            "src": src,
            "dst": dst,
            "available_bps": 6e7,
            "error_bps": 1e6,
            "share_bps": 5e7,
            "loss": 0.002,
            "loss_error": 0.0001,
            "links": [link],
        }

    def groups(self) -> Iterator[GroupView]:
        yield {"group": "239.1.2.3", "vlan": 7, "ports": [str(PortId(1, 2)), str(PortId(2, 3))]}
        yield {"group": "ff0e::7", "vlan": None, "ports": []}

    def snooping(self) -> SnoopingView:
        return {"snooping": True, "routers": [str(PortId(1, 1))], "unsure": []}

    def shares(self) -> Iterator[ShareView]:
        yield from self.announced.values()

    def follow_shares(self) -> Iterator[list[ShareView]]:
        yield list(self.announced.values())
        yield []
        yield list(self.announced.values())

    def announce(
        self, flow: str, src: str, dst: str, most_bps: float | None, owner: str | None = None
    ) -> ShareView:
        self.path_bandwidth(src, dst)
        self.owners.setdefault(flow, owner)
        self._require(flow, owner)
        self.announced[flow] = {
            "flow": flow,
            "src": src,
            "dst": dst,
            "most_bps": most_bps,
            "rate_bps": 5e7,
            "narrowest": str(PortId(1, 1)),
            "dscp": None,
        }
        return self.announced[flow]

    def renew(self, flow: str, sends_bps: float | None, owner: str | None = None) -> ShareView:
        if flow not in self.announced:
            raise UnknownError(f"no flow {flow} is announced")
        self._require(flow, owner)
        self.renewed.append((flow, sends_bps))
        return self.announced[flow]

    def withdraw(self, flow: str, owner: str | None = None) -> None:
        self.renew(flow, None, owner)
        del self.announced[flow], self.owners[flow]

    def _require(self, flow: str, owner: str | None) -> None:
        if owner not in (None, self.owners[flow]):
            raise NotOwnerError(f"flow {flow} is announced by {self.owners[flow]}")

    def off(self, switch: int | None, port: str | None, for_s: float | None, by: str) -> OffView:
        if switch is not None and switch > self.n_switches:
            raise UnknownError(f"no switch {switch} is known")
        view: BypassView = {
            "switch": switch,
            "datapath_id": None if switch is None else datapath_id(switch),
            "port": port,
            "left_s": for_s,
            "by": by,
        }
        self.turned_off[switch, port] = view
        return {"off": view, "kept": True, "unaware": self.unaware}

    def on(self, switch: int | None, port: str | None, by: str) -> OnView:
        ended = self.turned_off.pop((switch, port), None)
        self.turned_on_by = by
        return {
            "on": [ended] if ended else [],
            "still_off": [],
            "kept": True,
            "unaware": self.unaware,
        }

    def bypasses(self) -> Iterator[BypassView]:
        yield from self.turned_off.values()


def flow(number: int) -> FlowView:
    return {
        "src": "10.0.0.1",
        "src_port": 1024 + number,
        "dst": "fd00::2" if number % 2 else "10.0.0.2",
        "dst_port": 80,
        "vlan": None,
        "class": "burst",
        "counted": number < 100,
        "idle": False,
        "volume_bytes": max(0, 10**6 - number),
        "age_s": 1.5,
        "mss_bytes": 1460,
        "window_scale": 7,
        "treatment": "ordinary",
        "ports": [str(PortId(1, 1)), str(PortId(2, 2))],
    }
