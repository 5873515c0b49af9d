"""What the switch says of itself is read field by field."""

import json

from testbed.switch import (
    parse_accounts,
    parse_interfaces,
    parse_qos,
    parse_queues,
    parse_registers,
)


def test_queues() -> None:
    shown = (
        "s1-eth1 max_rate=100000000 limit_bytes=65536 limit_packets=none dropped_packets=3\n"
        "s1-eth2 max_rate=100000000 limit_bytes=1048576 limit_packets=none dropped_packets=0\n"
    )
    queues = parse_queues(shown)
    assert list(queues) == ["s1-eth1", "s1-eth2"]
    assert queues["s1-eth1"]["limit_bytes"] == "65536"
    assert queues["s1-eth1"]["dropped_packets"] == "3"


def test_registers_with_and_without_an_account() -> None:
    shown = (
        "s1 register=0 window=0 ttl_ms=2980 interface=s1-eth1 class=0 packets=12 lowered=0\n"
        "s1 register=7 window=2920 ttl_ms=1000 packets=3 lowered=2\n"
        "s1 register=8 window=0 ttl_ms=0 packets=3 lowered=2\n"
    )
    registers = parse_registers(shown)
    assert list(registers) == [0, 7, 8]
    assert (registers[0]["interface"], registers[0]["class"]) == ("s1-eth1", "0")
    assert registers[7]["window"] == "2920"
    assert "interface" not in registers[7]


def test_accounts() -> None:
    shown = (
        "s1-eth1: active\n"
        "  now: connections=16 held=0 expected_bytes=1514\n"
        "  requests: all=160 held=3 overdue=1 full=0\n"
        "  held: total_us=1200 longest_us=700 <100us=1 <1000us=2 more=0\n"
        "  bytes: expected=900000 given_back=1400 expired=0\n"
        "  window_updates=12\n"
        "s1-eth2: not active\n"
        "  now: connections=0 held=0 expected_bytes=0\n"
    )
    accounts = parse_accounts(shown)
    assert list(accounts) == ["s1-eth1", "s1-eth2"]
    assert (accounts["s1-eth1"]["active"], accounts["s1-eth2"]["active"]) == (1, 0)
    assert (accounts["s1-eth1"]["now.held"], accounts["s1-eth1"]["requests.held"]) == (0, 3)
    assert accounts["s1-eth1"]["held.longest_us"] == 700
    assert accounts["s1-eth1"]["window_updates"] == 12


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
