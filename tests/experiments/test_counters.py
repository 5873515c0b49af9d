"""No loss may go unseen, wherever it happens."""

import dataclasses
import json
from typing import Any

import pytest

from experiments.measure.counters import (
    MeasurementError,
    Snapshot,
    by_kind_of_loss,
    parse_backlog_drops,
    parse_device_drops,
    parse_packet_socket_drops,
    parse_qdisc_drops,
)
from experiments.measure.sampling import parse_received

BEFORE = Snapshot(
    time_ns=0,
    tcp={"h1": {"TcpExt.TCPBacklogDrop": 1, "TcpExt.TCPTimeouts": 0}},
    qdisc_drops={"h1/h1-eth0": 0},
    device_drops={"switches/s1-eth1": 2},
    queues={"s1-eth1": {"dropped_packets": "5"}, "s1-eth2": {"dropped_packets": "0"}},
    packet_socket_drops=3,
    backlog_drops=4,
)


def test_a_run_that_loses_only_at_the_bottleneck() -> None:
    queues = BEFORE.queues | {"s1-eth1": {"dropped_packets": "500"}}
    tcp = {"h1": {"TcpExt.TCPBacklogDrop": 1, "TcpExt.TCPTimeouts": 70}}
    after = dataclasses.replace(BEFORE, queues=queues, tcp=tcp)
    assert not any(by_kind_of_loss(BEFORE, after, "s1-eth1").values())


@pytest.mark.parametrize(
    ("kind", "changed", "place"),
    [
        ("other egress queues", {"queues": {"s1-eth2": {"dropped_packets": "1"}}}, "s1-eth2"),
        ("kernel qdiscs", {"qdisc_drops": {"h1/h1-eth0": 1}}, "h1/h1-eth0"),
        ("devices", {"device_drops": {"switches/s1-eth1": 3}}, "switches/s1-eth1"),
        ("switch's packet sockets", {"packet_socket_drops": 4}, "all"),
        ("processor backlogs", {"backlog_drops": 5}, "all"),
        ("hosts", {"tcp": {"h1": {"TcpExt.TCPBacklogDrop": 2}}}, "h1 TcpExt.TCPBacklogDrop"),
    ],
)
def test_a_loss_elsewhere(kind: str, changed: dict[str, Any], place: str) -> None:
    after = dataclasses.replace(BEFORE, **{"queues": BEFORE.queues} | changed)
    losses = by_kind_of_loss(BEFORE, after, "s1-eth1")
    assert {k: places for k, places in losses.items() if places} == {kind: {place: 1}}


def test_every_port_may_be_a_bottleneck() -> None:
    queues = {name: {"dropped_packets": "9"} for name in BEFORE.queues}
    after = dataclasses.replace(BEFORE, queues=queues)
    assert not any(by_kind_of_loss(BEFORE, after, "s1-eth1", "s1-eth2").values())


def test_qdisc_drops_count_once_per_device() -> None:
    shown = [
        {"dev": "a", "kind": "htb", "drops": 7},
        {"dev": "a", "kind": "bfifo", "drops": 7},
        {"dev": "b", "kind": "noqueue"},
    ]
    assert parse_qdisc_drops(json.dumps(shown)) == {"a": 7, "b": 0}


def test_device_drops_are_those_of_the_sending_side() -> None:
    shown = (
        "Inter-|   Receive  |  Transmit\n"
        " face |bytes packets errs drop fifo frame compressed multicast"
        "|bytes packets errs drop fifo colls carrier compressed\n"
        "h1-eth0: 100 1 0 9 0 0 0 0 200 3 0 2 0 0 0 0\n"
    )
    assert parse_device_drops(shown) == {"h1-eth0": 2}


def test_packet_socket_drops() -> None:
    shown = (
        "Netid Recv-Q Send-Q Local Address:Port\n"
        "p_raw 0 0 *:s1-eth2 * skmem:(r0,rb212992,t0,tb212992,f0,w0,o176,bl0,d12)\n"
        "p_raw 0 0 *:s1-eth1 * skmem:(r0,rb212992,t0,tb212992,f0,w0,o176,bl0,d0)\n"
    )
    assert parse_packet_socket_drops(shown) == 12


def test_sockets_that_do_not_tell_are_not_taken_for_lossless() -> None:
    with pytest.raises(MeasurementError, match="PACKET_DIAG"):
        parse_packet_socket_drops("Netid Recv-Q\np_raw 0 0 *:s1-eth2 *\n")


def test_backlog_drops_are_hexadecimal_and_of_all_processors() -> None:
    assert parse_backlog_drops("0000000b 00000010 00000000\n00004055 00000001 00000000\n") == 17


def test_received_bytes_of_a_device() -> None:
    text = "Inter-| Receive\n face |bytes packets\n    lo: 5 1 0\ns2-eth1: 1514 1 0\n"
    assert parse_received(text, "s2-eth1") == 1514
    with pytest.raises(KeyError):
        parse_received(text, "s2-eth2")
