"""A fabric of 1,000 switches that is none, as the API tells of it."""

from typing import Any

from controller.model.values import datapath_id

PODS, LEAVES, SPINES, UPLINKS = 24, 38, 40, 4
AWAY = SPINES + 3
"""The first leaf of the first pod."""
HOT = SPINES + 3 + 40
"""The first leaf of the second pod, by whose third port it is congested."""
RATE_BPS = 10**10


def told(at_s: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """The topology, and the use of all ports."""
    ports: dict[int, int] = dict.fromkeys(range(1, SPINES + 1), 0)
    links: list[dict[str, Any]] = []

    def end(switch: int) -> str:
        ports[switch] = ports.get(switch, 0) + 1
        return f"{datapath_id(switch)}:{ports[switch]}"

    def link(a: int, b: int) -> None:
        links.append({"a": end(a), "b": end(b), "rtt_s": None})

    leaves = set()
    for pod in range(PODS):
        first = SPINES + 1 + pod * (LEAVES + 2)
        for leaf in range(first + 2, first + 2 + LEAVES):
            leaves.add(leaf)
            link(leaf, first)
            link(leaf, first + 1)
        for n in range(2 * UPLINKS):
            link(first + n % 2, 1 + (pod * 2 * UPLINKS + n) % SPINES)
    for leaf in leaves:
        end(leaf)
    switches = [
        {
            "switch": number,
            "datapath_id": datapath_id(number),
            "connected": number != AWAY,
            "hosts": 4 if number in leaves else 0,
            "edge_ports": 1 if number in leaves else 0,
        }
        for number in sorted(ports)
    ]
    ids = [(number, port) for number in ports for port in range(1, ports[number] + 1)]
    use = {
        "at_s": at_s,
        "ids": [f"{datapath_id(number)}:{port}" for number, port in ids],
        "names": [f"sw{number}-eth{port}" for number, port in ids],
        "levels": [3 if one == (HOT, 3) else 0 for one in ids],
        "sent_bps": [RATE_BPS * ((7 * number + 13 * port) % 90) // 100 for number, port in ids],
        "rate_bps": [RATE_BPS for _ in ids],
    }
    return {"switches": switches, "links": links}, use
