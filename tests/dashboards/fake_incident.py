"""An incident of the fabric that is none, in the form that /v1/incident tells it."""

import math
from typing import Any

import fake_fabric as fabric
from controller.api.recording.recording import tally
from controller.model.values import datapath_id

LEVELS = {"low_bytes": 16_384, "mid_bytes": 32_768, "high_bytes": 49_152}
SNAPSHOT_S = 2
LARGEST = 20
COLD = (0x12, 4)


def place(switch: int, port: int) -> dict[str, object]:
    return {
        "switch": switch,
        "datapath_id": datapath_id(switch),
        "port": port,
        "name": fabric.name(switch, port),
    }


def history(from_s: float, to_s: float, hot: bool) -> dict[str, object]:
    begin, end = math.floor(from_s), math.ceil(to_s)
    return fabric.history(begin, 1, end - begin, hot)


def snapshot(at_s: float) -> dict[str, object]:
    """The incast's port, whose first flow sends 1 MiB/s."""
    rule = next(one for one in fabric.regulation() if (one["switch"], one["port"]) == fabric.HOT)
    flows: list[Any] = [fabric.flow(number) for number in range(LARGEST)]
    flows[0] = flows[0] | {"volume_bytes": 2**30 + int((at_s % 3600) * 2**20)}
    queue = fabric.queue(*fabric.HOT, 0)
    return {
        "at_s": at_s,
        **place(*fabric.HOT),
        "queue": queue | {"levels": LEVELS, "packet_levels": None},
        "regulation": rule,
        "flows": flows,
    }


def incident(
    from_s: float,
    to_s: float,
    asked_s: float,
    events: list[dict[str, Any]],
    asked: tuple[int, int] | None,
    more: dict[str, object],
) -> dict[str, object]:
    inside = [event for event in events if from_s <= event.get("wall_s", -1) <= to_s]
    of_hot, _ = tally(inside).get(fabric.port_id(*fabric.HOT), (0, 0))
    ports: list[tuple[tuple[int, int], str | None, int]] = (
        [(fabric.HOT, "H", of_hot)] if of_hot else []
    )
    if asked is not None and asked != fabric.HOT:
        ports = [(asked, None, 0), *ports]
    begin = math.ceil(from_s / SNAPSHOT_S) * SNAPSHOT_S
    moments = range(begin, math.floor(to_s) + 1, SNAPSHOT_S) if ports else []
    return {
        "from_s": from_s,
        "to_s": to_s,
        "asked_s": asked_s,
        "version": "0.1.0",
        "port": None if asked is None else place(*asked),
        "totals": history(from_s, to_s, False),
        "ports": [
            place(*at)
            | {"worst": worst, "notices": n, "history": history(from_s, to_s, at == fabric.HOT)}
            for at, worst, n in ports
        ],
        "events": inside,
        "events_left_out": 0,
        "events_from_s": from_s - 86_400,
        "gaps": [],
        "snapshots": [snapshot(at_s) for at_s in moments],
        "audit": [],
    } | more


def entry(at_s: float, **more: object) -> dict[str, object]:
    """A line of the audit log."""
    return {
        "id": "a1",
        "at_s": at_s,
        "by": "token operator",
        "what": "settings",
        "changes": [{"key": "regulation.max_hold", "from": "10ms", "to": "20ms"}],
        "detail": "",
    } | more
