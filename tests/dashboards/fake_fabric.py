"""A small fabric that is none, as the API tells it: 4 leaves, 2 spines, an incast at one port."""

import math
from collections.abc import Iterator

from controller.model.values import datapath_id
from controller.northbound.views import (
    AccountView,
    BypassView,
    FlowDetailView,
    FlowView,
    HoldView,
    HopView,
    LevelsView,
    LinkView,
    PathView,
    PortView,
    QueueView,
    RegulationView,
    ShareView,
    SwitchView,
    TcpView,
)

LEAVES = range(0x11, 0x15)
SPINES = range(0x21, 0x23)
AWAY = 0x14
HOSTS = 4
RATE_BPS = 100_000_000
LIMIT_BYTES = 65_536
# Where the incast is: a host behind the first leaf.
HOT = (0x11, 3)
BACKGROUND_FLOWS = 2
FLOWS = 250
# What a hostile host, or switch, might choose.
HOSTILE = "<img src=x onerror=alert(1)>"
# A port with a long name, and the flow with long addresses that leaves by it.
LONG = (0x13, 4)
LONG_NAME = "leaf3-" + "-".join(["a-name-of-a-port-that-nobody-would-write"] * 2)[:64]
LONG_FLOW = 7


def peers() -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """The links: the first ports of each leaf lead to the spines."""
    for leaf_number, leaf in enumerate(LEAVES, 1):
        for spine_number, spine in enumerate(SPINES, 1):
            yield (leaf, spine_number), (spine, leaf_number)


def name(switch: int, port: int) -> str:
    if (switch, port) == (0x12, 4):
        return HOSTILE
    if (switch, port) == LONG:
        return LONG_NAME
    return f"{'leaf' if switch in LEAVES else 'spine'}{switch & 0xF}-eth{port}"


def use(switch: int, port: int) -> float:
    """Which part of its rate a port sends."""
    if (switch, port) == HOT:
        return 0.953
    if switch == AWAY:
        return 0.0
    return (switch * 7 + port * 13) % 10 / 11


def port_id(switch: int, port: int) -> str:
    return f"{datapath_id(switch)}:{port}"


def switches() -> list[SwitchView]:
    return [switch(number) for number in (*LEAVES, *SPINES)]


def switch(number: int) -> SwitchView:
    there = number != AWAY
    return {
        "switch": number,
        "datapath_id": datapath_id(number),
        "connected": there,
        "ready": there,
        "role": "master" if there else None,
        "address": f"10.255.0.{number}:50000" if there else None,
        "capabilities": ["tcp_rwnd"],
        "ports": HOSTS + 2 if number in LEAVES else 4,
        "registers": 1024,
        "registers_used": 12,
        "entries_wanted": 40,
        "entries_confirmed": 40,
        "entries_refused": 0,
        "entries_restored": 0,
        "entries_removed": 0,
        "audited_s": 12.0,
        "waiting_bytes": 0,
        "waiting_messages": 0,
        "waiting_events": 0,
        "unacknowledged": 0,
        "control_rtt_s": 0.0004 if there else None,
        "protected_destinations": 0,
        "packet_ins": {"segment": 2000},
        "unusable": {},
        "notices_missed": 0,
        "windows_set": 10,
        "windows_refreshed": 20,
        "disconnections": 0,
    }


def ports(after_s: float) -> list[PortView]:
    """All ports, so many seconds after the switches have started."""
    links = {a: b for pair in peers() for a, b in (pair, pair[::-1])}
    return [
        port(number, at, links.get((number, at)), after_s)
        for number in (*LEAVES, *SPINES)
        for at in range(1, (HOSTS + 2 if number in LEAVES else 4) + 1)
    ]


def port_use(at_s: float) -> dict[str, object]:
    """The same in columns."""
    told = ports(0)
    return {
        "at_s": at_s,
        "ids": [port_id(one["switch"], one["port"]) for one in told],
        "names": [one["name"] for one in told],
        "levels": [one["queues"][0]["level"] for one in told],
        "sent_bps": [round(RATE_BPS * use(one["switch"], one["port"])) for one in told],
        "rate_bps": [RATE_BPS for _ in told],
    }


def port(number: int, at: int, peer: tuple[int, int] | None, after_s: float) -> PortView:
    return {
        "switch": number,
        "datapath_id": datapath_id(number),
        "port": at,
        "name": name(number, at),
        "up": True,
        "speed_bps": RATE_BPS,
        "peer": port_id(*peer) if peer else None,
        "link_rtt_s": 0.00021 if peer else None,
        "protected": False,
        "loss": 0.0 if peer else None,
        "loss_error": 0.0003 if peer else None,
        "hosts": 0 if peer else 1,
        "bond": [],
        "tunnel": False,
        "tunnels": [],
        "queues": [queue(number, at, after_s)],
        "tcp": TCP,
    }


def queue(number: int, at: int, after_s: float) -> QueueView:
    hot = (number, at) == HOT
    sent = int(after_s * use(number, at) * RATE_BPS / 8)
    return {
        "queue": 0,
        "switch_time_ns": int(after_s * 1e9),
        "level": 3 if hot else 0,
        "queue_bytes": 61_440 if hot else 1514,
        "queue_packets": 41 if hot else 1,
        "max_queue_bytes": 62_954 if hot else 9084,
        "limit_bytes": LIMIT_BYTES,
        "rate_bps": RATE_BPS,
        "sent_packets": sent // 1500,
        "sent_bytes": sent,
        "dropped_packets": 12 if hot else 0,
        "dropped_bytes": 18_168 if hot else 0,
        "marked_packets": 0,
        "can_have_account": True,
        "account": ACCOUNT if hot else None,
        "levels": LEVELS,
        "packet_levels": None,
    }


LEVELS: LevelsView = {
    "low_bytes": LIMIT_BYTES * 3 // 10,
    "mid_bytes": LIMIT_BYTES * 6 // 10,
    "high_bytes": LIMIT_BYTES * 8 // 10,
}
ACCOUNT: AccountView = {
    "connections": 32,
    "held": 27,
    "expected_bytes": 53_248,
    "requests": 120_000,
    "held_requests": 8000,
    "overdue_requests": 0,
    "full_requests": 0,
    "held_s": 310.0,
    "max_held_s": 0.0134,
    "held_bounds_s": [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1],
    "held_counts": [310, 540, 1210, 2900, 2400, 640, 0, 0],
    "window_updates": 12,
    "charged_bytes": 10**9,
    "given_back_bytes": 10**6,
    "expired_bytes": 0,
}
TCP: TcpView = {
    "switch_time_ns": 10**9,
    "connections": 8,
    "segments": 10_000,
    "new_bytes": 14_600_000,
    "retransmitted": 25,
    "timeouts": 3,
    "timeouts_s": 0.62,
    "bounds_s": [0.001],
    "answers": [],
}
BURST: HoldView = {
    "window_bytes": 0,
    "credit": {"bound_bytes": 0, "max_hold_ms": 160, "weight": 7},
}
BACKGROUND: HoldView = {
    "window_bytes": 14_600,
    "credit": {"bound_bytes": 8192, "max_hold_ms": 160, "weight": 1},
}


def regulation() -> list[RegulationView]:
    return [
        {
            "switch": view["switch"],
            "datapath_id": view["datapath_id"],
            "port": view["port"],
            "name": view["name"],
            "scheme": "weir",
            "capacity_bps": RATE_BPS,
            "buffer_bytes": LIMIT_BYTES,
            "rtt_s": 0.00052,
            "background_flows": BACKGROUND_FLOWS,
            "burst_flows": 32 if (view["switch"], view["port"]) == HOT else 0,
            "idle_flows": 1,
            "mss_bytes": 1460,
            "notice": "CN-H" if (view["switch"], view["port"]) == HOT else None,
            "holds": {"burst": BURST, "background": BACKGROUND},
            "notices": {"CN-L": 9, "CN-M": 8, "CN-H": 4, "CR": 9},
        }
        for view in ports(0)
    ]


def flow(number: int) -> FlowView:
    burst = number >= BACKGROUND_FLOWS
    long = number == LONG_FLOW
    src = f"10.{number // 51_200}.{number // 200 % 256}.{number % 200 + 1}"
    return {
        "src": "2001:db8:1234:5678:9abc:def0:1234:5678" if long else src,
        "src_port": 80,
        "dst": "2001:db8:1234:5678:9abc:def0:9876:5432" if long else "10.0.0.250",
        "dst_port": 40_000 + number % 20_000,
        "vlan": None,
        "class": "burst" if burst else "background",
        "counted": True,
        "idle": False,
        "volume_bytes": max(0, FLOWS - number) * 65_536,
        "age_s": 1.5 + number,
        "mss_bytes": 1460,
        "window_scale": 7,
        "treatment": "ordinary",
        "ports": [port_id(*at) for at in path_of(number)],
    }


def path_of(number: int) -> list[tuple[int, int]]:
    """The ports that a flow leaves by."""
    return [(0x12, 1), (0x21, 3), LONG] if number == LONG_FLOW else [(0x12, 1), (0x21, 1), HOT]


# What a flow sends.
FLOW_BPS = 8_000_000


def flow_detail(number: int, after_s: float) -> FlowDetailView:
    """A flow hop by hop, so many seconds later."""
    told = flow(number)
    told["age_s"] += after_s
    told["volume_bytes"] += int(after_s * FLOW_BPS / 8)
    hops = [hop(*at, told["class"]) for at in path_of(number)]
    return {"flow": told, "enters": port_id(0x12, 4), "quiet_s": 0.2, "hops": hops}


def notice(
    at: tuple[int, int], name: str, queue_bytes: int, switch_time_ns: int
) -> dict[str, object]:
    """What the event queue_event of a port tells besides its time."""
    switch, number = at
    return {
        "switch": switch,
        "port": number,
        "notice": name,
        "packets": queue_bytes // 1500,
        "bytes": queue_bytes,
        "limit_bytes": LIMIT_BYTES,
        "switch_time_ns": switch_time_ns,
        "sequence": 1,
        "missed": 0,
        "background": BACKGROUND_FLOWS,
        "burst": 32,
    }


def hop(number: int, at: int, flow_class: str) -> HopView:
    holds: dict[tuple[int, int], HoldView] = {
        HOT: BURST if flow_class == "burst" else BACKGROUND,
        LONG: BACKGROUND,
    }
    elsewhere: HoldView = {"window_bytes": 29_200, "credit": None}
    return {
        "port": port_id(number, at),
        "name": name(number, at),
        "up": True,
        "scheme": "weir",
        "notice": "CN-H" if (number, at) == HOT else None,
        "capacity_bps": RATE_BPS,
        "rtt_s": 0.00052,
        "hold": holds.get((number, at), elsewhere),
        "queue": queue(number, at, 1.0),
    }


NAMES = {"web1": "10.0.0.1"}
ADDRESSES = ["10.0.0.1", "10.0.0.250", "fd00::1", "fd00::2"]


def path(src: str, dst: str) -> PathView:
    """As if the second link were measured, and the narrowest."""
    return {
        "src": src,
        "dst": dst,
        "available_bps": 38e6,
        "error_bps": 4.2e6,
        "share_bps": 47e6,
        "loss": None,
        "loss_error": None,
        "links": [
            link(f"uplink {port_id(0x12, 4)}", None, None),
            link(port_id(0x12, 1), 62e6, 4.2e6),
            link(port_id(*HOT), 1e6, 0.1e6),
        ],
    }


def link(name: str, used_bps: float | None, error_bps: float | None) -> LinkView:
    return {
        "link": name,
        "capacity_bps": RATE_BPS,
        "used_bps": used_bps,
        "error_bps": error_bps,
        "loss": None if used_bps is None else 0.0,
        "loss_error": None if used_bps is None else 0.0003,
    }


def share(flow: str, rate_bps: float | None, most_bps: float | None = None) -> ShareView:
    """An announced flow. Without a maximum, a link limits it."""
    return {
        "flow": flow,
        "src": "10.0.0.1",
        "dst": "10.0.0.250",
        "most_bps": most_bps,
        "rate_bps": rate_bps,
        "narrowest": port_id(*HOT) if most_bps is None and rate_bps is not None else None,
        "dscp": 10 if most_bps is None else None,
    }


def gone(flow: str) -> ShareView:
    return {
        "flow": flow,
        "src": None,
        "dst": None,
        "most_bps": None,
        "rate_bps": None,
        "narrowest": None,
        "dscp": None,
    }


def history(begin_s: int, step_s: int, length: int, hot: bool) -> dict[str, object]:
    """As if an incast came every half minute; nothing is known of the third minute."""
    known = [None if 120 <= (at * step_s) % 600 < 180 else at for at in range(length)]

    def series(most: float, idle: float) -> list[float | None]:
        return [
            None if at is None else round(most if at % 30 < 6 else idle * (1.2 + math.sin(at)), 6)
            for at in known
        ]

    scale = 1 if hot else 6
    return {
        "step_s": step_s,
        "begin_s": begin_s,
        "series": {
            "sent_bps": series(9.53e7 * scale, 2e7 * scale),
            "queue_bytes": series(61_440, 1514),
            "dropped_per_s": series(12, 0),
            "requests_per_s": series(1200 * scale, 80),
            "held_per_s": series(900 * scale, 0),
            "held_s_per_s": series(4.1, 0),
            "timeouts_per_s": series(0.5, 0),
            "answer_s": series(0.0134, 0.0004),
        },
    }


def bypass(switch: int | None, port: str | None, left_s: float | None, by: str) -> BypassView:
    id_ = None if switch is None else datapath_id(switch)
    return {"switch": switch, "datapath_id": id_, "port": port, "left_s": left_s, "by": by}
