"""Round trips of control channels and links."""

from controller.core.topology.rtt import RoundTrips
from controller.model.values import PortId

A, B = PortId(1, 9), PortId(2, 8)
US = 1000


def measured() -> RoundTrips:
    subject = RoundTrips()
    subject.control_timed(1, 200 * US)
    subject.control_timed(2, 400 * US)
    return subject


def test_a_link_is_what_the_control_channels_leave_of_a_probe() -> None:
    subject = measured()
    subject.probed([A, B], 0)
    assert subject.probe_seen(A, B, 370 * US)
    # 370 - 200 / 2 - 400 / 2 = 70, there and back; the same for both ends.
    assert subject.link_ns == {A: 140 * US, B: 140 * US}


def test_samples_are_smoothed() -> None:
    subject = measured()
    subject.control_timed(1, 1000 * US)
    assert subject.control_ns[1] == 300 * US


def test_a_probe_tells_once_and_only_between_known_switches() -> None:
    subject = measured()
    assert not subject.probe_seen(A, B, 1000 * US)
    subject.probed([A, PortId(3, 1)], 0)
    assert subject.probe_seen(A, B, 1000 * US)
    assert not subject.probe_seen(A, B, 9000 * US)
    assert not subject.probe_seen(PortId(3, 1), B, 1000 * US)


def test_an_overtaken_clock_is_no_time() -> None:
    subject = measured()
    subject.probed([A], 0)
    subject.probe_seen(A, B, 10 * US)
    assert subject.link_ns[A] == 0


def test_what_is_gone_is_forgotten() -> None:
    subject = measured()
    subject.probed([A], 0)
    subject.probe_seen(A, B, 370 * US)
    subject.forget_port(A)
    assert set(subject.link_ns) == {B}
    subject.forget(2)
    assert subject.link_ns == {}
    assert set(subject.control_ns) == {1}
