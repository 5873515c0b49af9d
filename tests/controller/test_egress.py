"""What a port can take, and who says so."""

from controller.core.congestion.egress_ports import EgressPorts, EgressQueue, PortOverride
from controller.core.congestion.windows import PortLimits
from controller.model.values import Port, PortId

P1, P2 = PortId(1, 1), PortId(1, 2)
DEFAULT = PortLimits(10**8, 500_000, 65_536)
MAC = bytes(6)


def ports(*overrides: PortOverride) -> EgressPorts:
    subject = EgressPorts(overrides, DEFAULT)
    subject.connect(1, [Port(1, "eth1", MAC, True, 10**10), Port(2, "eth2", MAC, True)])
    return subject


def test_a_port_without_a_queue_has_no_limits() -> None:
    subject = ports()
    assert subject.limits(P1, every_port=False) is None
    assert subject.limits(PortId(1, 3), every_port=True) is None


def test_where_queues_are_not_told_every_port_has_one() -> None:
    subject = ports()
    assert subject.limits(P1, every_port=True) == PortLimits(10**10, 500_000, 65_536)
    assert subject.limits(P2, every_port=True) == DEFAULT


def test_the_queues_own_record_comes_before_the_ports_speed() -> None:
    subject = ports()
    subject.set_queues(1, {1: EgressQueue(10**9, 10_000)})
    assert subject.limits(P1, every_port=False) == PortLimits(10**9, 500_000, 10_000)
    assert subject.limits(P2, every_port=False) is None
    subject.set_queues(1, {})
    assert subject.limits(P1, every_port=False) is None


def test_the_operator_comes_first() -> None:
    subject = ports(PortOverride(1, "eth1", 7, None, 8), PortOverride(1, 2, rtt_ns=9))
    subject.set_queues(1, {1: EgressQueue(10**9, 10_000)})
    assert subject.limits(P1, every_port=False) == PortLimits(7, 500_000, 8)
    assert subject.limits(P2, every_port=False) == PortLimits(10**8, 9, 65_536)


def test_nothing_is_known_before_a_switch_has_told_its_queues() -> None:
    subject = ports(PortOverride(1, 1, buffer_bytes=8))
    assert subject.limits(P1, every_port=False) is None
    subject.set_queues(1, {})
    assert subject.limits(P1, every_port=False) == PortLimits(10**10, 500_000, 8)


def test_an_override_by_name_follows_the_name() -> None:
    subject = ports(PortOverride(1, "eth1", 7))
    subject.set_port(1, Port(2, "eth1", MAC, True))
    subject.set_queues(1, {})
    subject.remove_port(P1)
    assert subject.limits(P1, every_port=True) is None
    assert subject.limits(P2, every_port=False) == PortLimits(7, 500_000, 65_536)


def test_a_link_that_was_measured_tells_the_rtt() -> None:
    subject = ports(PortOverride(1, 1, rtt_ns=9))
    subject.set_queues(1, {})
    for measured_ns, rtt_ns in ((2_000_000, 2_000_000), (0, 50_000), (10**9, 10_000_000)):
        limits = subject.limits(P1, every_port=False, link_rtt_ns=measured_ns)
        assert limits is not None
        assert limits.rtt_ns == rtt_ns


def test_a_notice_tells_of_a_queue_but_not_of_a_port() -> None:
    subject = ports()
    assert not subject.has_port(PortId(1, 3))
    assert subject.has_port(P2)
    assert subject.notice(P2, 10_000)
    assert subject.limits(P2, every_port=False) == PortLimits(10**8, 500_000, 10_000)
    assert not subject.notice(P2, 0)
    assert not subject.notice(P2, 10_000)
    assert subject.queue(P2) == EgressQueue(0, 10_000)
    assert subject.notice(P2, 20_000)
    assert subject.queue(P2) == EgressQueue(0, 20_000)
