"""Tunnels: links through them, and ports that carry those of others."""

import pytest

from controller.core.congestion.egress_ports import EgressQueue
from controller.core.flows.tunnels import READ_EVERY_NS
from controller.model.effects import ReadTunnels
from controller.model.entries import TunnelCounter
from controller.model.values import Port, PortId, TunnelKind
from engine_bench import EngineBench, star

GENEVE, VXLAN = TunnelKind.GENEVE, TunnelKind.VXLAN
PORT = PortId(1, 3)


def counted(bench: EngineBench, *readings: tuple[int, TunnelKind, int]) -> None:
    """The switch tells these counters of datagrams over IPv4; there are none over IPv6."""
    told = [(port, kind, 4, packets) for port, kind, packets in readings]
    told += [(port, kind, 6, 0) for port, kind, _ in readings]
    bench.do(bench.engine.tunnels_counted(1, told, bench.now_ns))


def carried(bench: EngineBench, port_id: PortId = PORT) -> list[TunnelKind]:
    return bench.engine.tunnels.carried(port_id, bench.now_ns)


def test_every_port_has_counters_that_are_read_now_and_then() -> None:
    bench = star()
    assert {entry.port for entry in bench.entries(1, TunnelCounter)} == set(range(1, 41))
    asked = [e for e in bench.sleep(4 * READ_EVERY_NS) if isinstance(e, ReadTunnels)]
    assert 3 <= len(asked) <= 4
    bench.do(bench.engine.port_removed(PORT, bench.now_ns))
    assert TunnelCounter(3) not in bench.entries(1, TunnelCounter)
    bench.do(bench.engine.switch_down(1, bench.now_ns))
    asked = [e for e in bench.sleep(4 * READ_EVERY_NS) if isinstance(e, ReadTunnels)]
    assert asked == []


def test_a_port_carries_what_has_come_in_since_it_was_read_last() -> None:
    bench = star()
    counted(bench, (3, VXLAN, 1000), (3, GENEVE, 0))
    assert carried(bench) == []  # That may have been long ago.
    counted(bench, (3, VXLAN, 1001), (3, GENEVE, 0))
    assert carried(bench) == [VXLAN]
    assert carried(bench, PortId(1, 4)) == []
    for _ in range(3):
        bench.now_ns += READ_EVERY_NS
        counted(bench, (3, VXLAN, 1001), (3, GENEVE, 0))
    assert carried(bench) == []


def test_tunnels_over_ipv6_are_carried_too() -> None:
    bench = star()
    for packets in (0, 7):
        readings = [(3, GENEVE, 4, 50), (3, GENEVE, 6, packets)]
        bench.do(bench.engine.tunnels_counted(1, readings, bench.now_ns))
    assert carried(bench) == [GENEVE]


def test_a_switch_that_is_back_with_fewer_ports_counts_at_those() -> None:
    bench = star()
    bench.do(bench.engine.switch_down(1, bench.now_ns))
    bench.switch_up(1, ports=20)
    assert {entry.port for entry in bench.entries(1, TunnelCounter)} == set(range(1, 21))


def test_counters_that_begin_anew_tell_nothing() -> None:
    bench = star()
    counted(bench, (3, VXLAN, 1000))
    counted(bench, (3, VXLAN, 5))
    assert carried(bench) == []
    counted(bench, (3, VXLAN, 6))
    assert carried(bench) == [VXLAN]


@pytest.mark.parametrize("by_tunnel", [True, False])
def test_nobody_is_warned_that_the_end_of_a_tunnel_has_no_queue(by_tunnel: bool) -> None:
    bench = star(queue=None)
    bench.switch_up(2)
    far, times = PortId(2, 1), (bench.now_ns, bench.now_ns)
    bench.do(bench.engine.link_seen(far, PORT, *times, by_tunnel=by_tunnel))
    queues = {n: EgressQueue(10**8, 65_536) for n in range(1, 41) if n != PORT.port}
    bench.do(bench.engine.queues_read(1, queues, bench.now_ns))
    assert bench.complaints == ([] if by_tunnel else [1])
    assert not bench.engine.fabric.is_tunnel(far)
    assert bench.engine.fabric.is_tunnel(PORT) == by_tunnel
    # Another port may have its number now.
    bench.do(bench.engine.link_seen(far, PORT, *times, by_tunnel=False))
    assert not bench.engine.fabric.is_tunnel(PORT)
    bench.do(bench.engine.link_seen(far, PORT, *times, by_tunnel=by_tunnel))
    # It may be another port when it is back.
    bench.do(bench.engine.port_changed(1, Port(3, "vx", bytes(6), up=False), bench.now_ns))
    assert not bench.engine.fabric.is_tunnel(PORT)
