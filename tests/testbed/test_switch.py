"""What the switch says of itself is read field by field."""

import json

from testbed.switch import parse_interfaces, parse_qos, parse_queues


def test_queues() -> None:
    shown = (
        "s1-eth1 max_rate=100000000 limit_bytes=65536 limit_packets=none dropped_packets=3\n"
        "s1-eth2 max_rate=100000000 limit_bytes=1048576 limit_packets=none dropped_packets=0\n"
    )
    queues = parse_queues(shown)
    assert list(queues) == ["s1-eth1", "s1-eth2"]
    assert queues["s1-eth1"]["limit_bytes"] == "65536"
    assert queues["s1-eth1"]["dropped_packets"] == "3"


def test_qos_in_force() -> None:
    shown = "QoS: s1-eth1 weir\nmax-rate: 100000000\necn-threshold: 20p\n\n"
    in_force = parse_qos(shown)
    assert (in_force["max-rate"], in_force["ecn-threshold"]) == ("100000000", "20p")
    assert "release" not in in_force


def test_interfaces_with_and_without_number_and_error() -> None:
    table = {
        "headings": ["name", "ofport", "error"],
        "data": [
            ["s1-eth1", 1, ["set", []]],
            ["s1-eth2", ["set", []], ["set", []]],
            ["s1-eth3", -1, "could not open network device s1-eth3 (No such device)"],
        ],
    }
    assert parse_interfaces(json.dumps(table)) == {
        "s1-eth1": (1, ""),
        "s1-eth2": (None, ""),
        "s1-eth3": (-1, "could not open network device s1-eth3 (No such device)"),
    }
