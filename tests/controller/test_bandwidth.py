"""Announced flows get what is fair at once; what others use is learnt from counters."""

from math import inf

import pytest

from controller.core.bandwidth.announced import (
    Announced,
    Bandwidth,
    BandwidthSettings,
    PathLink,
    Share,
    UnknownPathError,
    Uplink,
)
from controller.core.topology.fabric import Fabric
from controller.model.values import Port, PortId

MS, S = 10**6, 10**9
MBPS = 10**6
HOSTS = 4


def address(n: int) -> bytes:
    return bytes([10, 0, 0, n])


class TwoSwitches:
    """Two switches: hosts 1 and 2 at the first, 3 and 4 at the second, 100 Mb/s everywhere but for
    the link between them, which has 60."""

    def __init__(self, reserved: float | None = None) -> None:
        self.fabric = Fabric(link_timeout_ns=10**12)
        self.capacities: dict[PortId, float | None] = {}
        for switch in (1, 2):
            ports = [Port(n, f"p{n}", bytes(6), up=True) for n in (1, 2, 9)]
            self.fabric.connect(switch, ports, 0)
        self.fabric.link_seen(PortId(1, 9), PortId(2, 9), 0)
        self.fabric.link_seen(PortId(2, 9), PortId(1, 9), 0)
        self.tcp_flows: dict[PortId, int] = {}
        self.between = PortId(1, 9)
        for n in range(1, HOSTS + 1):
            mac = bytes([2, 0, 0, 0, 0, n])
            self.fabric.learn(mac, PortId((n + 1) // 2, 2 - n % 2))
            self.fabric.bind(mac, address(n))
        self.now_ns = 0
        self.bandwidth = Bandwidth(
            BandwidthSettings(spare=0.0, reserved=reserved),
            self.fabric,
            lambda port: self.capacities.get(port, 60.0 * MBPS if port.port == 9 else 100.0 * MBPS),
            lambda port: self.tcp_flows.get(port, 0),
        )
        self.n_bytes = self.dropped_bytes = 0.0

    def idle(self, *links: PathLink) -> None:
        """Links have carried nothing for a second."""
        for link in links:
            self.carry(link, 0)

    def carry(self, link: PathLink, mbps: float) -> None:
        """A link has carried so much for a second."""
        for n in range(11):
            at_ns = self.now_ns + n * 100 * MS
            self.bandwidth.read(link, round(n * mbps * MBPS / 80), at_ns, at_ns)

    def announce(self, name: str, src: int, dst: int, most_bps: float = inf) -> None:
        self.bandwidth.announce(name, Announced(address(src), address(dst), most_bps), self.now_ns)

    def share(self, name: str) -> Share | None:
        known = self.bandwidth.announced(name)
        return known[1] if known else None

    def news(self) -> dict[str, float | None]:
        flows = self.bandwidth.take_news(self.now_ns)
        shares = {name: self.share(name) for name in flows}
        return {name: share and share.rate_bps / MBPS for name, share in shares.items()}

    def tell(self, tcp_mbps: float, seconds: float) -> dict[str, float | None]:
        """The link between the switches carries what announced flows send and so much TCP; what
        is more than it takes is dropped."""
        news: dict[str, float | None] = {}
        for _ in range(round(seconds * 10)):
            shares = [self.share(name) for name in self.bandwidth.flows]
            sent = sum(s.rate_bps for s in shares if s)
            self.now_ns += 100 * MS
            carried = min(60 * MBPS, sent + tcp_mbps * MBPS)
            self.n_bytes += carried / 80
            self.dropped_bytes += (sent + tcp_mbps * MBPS - carried) / 80
            counted = int(self.n_bytes), self.now_ns, self.now_ns, int(self.dropped_bytes)
            self.bandwidth.read(self.between, *counted)
            news |= self.news()
        return news


def test_flows_that_join_and_leave_change_the_shares_of_others_at_once() -> None:
    world = TwoSwitches()
    world.announce("a", 1, 3)
    assert world.news() == {"a": 60}
    world.announce("b", 2, 4)
    assert world.news() == {"a": 30, "b": 30}
    world.announce("c", 4, 3)
    assert world.news() == {"c": 70}
    assert world.news() == {}
    assert world.bandwidth.withdraw("a", world.now_ns)
    assert world.news() == {"a": None, "b": 60, "c": 100}
    assert not world.bandwidth.withdraw("a", world.now_ns)


def test_a_sender_that_begins_late_disturbs_the_shares_for_a_second() -> None:
    world = TwoSwitches()
    world.tcp_flows[world.between] = 1
    world.tell(5, 10)
    world.announce("a", 1, 3)
    world.news()
    # It opens its connection before it sends: for a moment there is TCP alone.
    world.now_ns += 100 * MS
    world.n_bytes += 5 * MBPS / 80
    world.bandwidth.read(world.between, int(world.n_bytes), world.now_ns, world.now_ns, 0)
    world.tell(5, 1.5)
    share = world.share("a")
    assert share is not None
    assert share.rate_bps / MBPS == pytest.approx(60 - 5 - 0.02 * 60, abs=0.1)


def test_addresses_of_different_families_have_no_path() -> None:
    world = TwoSwitches()
    address6 = bytes(15) + b"\1"
    world.fabric.bind(bytes([2, 0, 0, 0, 0, 3]), address6)
    with pytest.raises(UnknownPathError, match="different families"):
        world.bandwidth.announce("a", Announced(address(1), address6), 0)
    with pytest.raises(UnknownPathError, match="different families"):
        world.bandwidth.path(address(1), address6)
    assert list(world.bandwidth.flows) == []


def test_a_flow_whose_packets_are_dropped_is_told_less() -> None:
    world = TwoSwitches(reserved=0.3)
    world.announce("a", 1, 3)
    assert world.news() == {"a": 60}
    world.tell(0, 2)
    # The queue gives TCP what is its own, and drops of the flow what it is told too much.
    news = world.tell(42, 1.5)
    assert news["a"] == pytest.approx(18, rel=0.02)


def test_the_narrowest_link_is_named() -> None:
    world = TwoSwitches()
    world.announce("a", 1, 3)
    world.announce("b", 1, 2, 30 * MBPS)
    world.announce("c", 1, 2)
    assert sorted(world.bandwidth.take_news(0)) == ["a", "b", "c"]
    assert world.share("b") == Share("b", 30 * MBPS, None)
    assert world.share("a") == Share("a", 35 * MBPS, Uplink(PortId(1, 1)))


def test_what_tcp_uses_is_left_to_it_if_that_is_less_than_its_part() -> None:
    world = TwoSwitches()
    world.tcp_flows[world.between] = 2
    world.tell(20, 3)
    world.announce("a", 1, 3)
    (share,) = world.news().values()
    assert share == pytest.approx(60 - 20 - 0.02 * 60, abs=0.5)


def test_greedy_tcp_gets_as_much_for_each_connection() -> None:
    world = TwoSwitches()
    world.tcp_flows[world.between] = 2
    world.tell(60, 3)
    world.announce("a", 1, 3)
    assert world.news() == {"a": pytest.approx(20, abs=0.1)}
    # It shares from then on, and wants its part still.
    world.tell(40, 5)
    share = world.share("a")
    assert share is not None
    assert share.rate_bps / MBPS == pytest.approx(20, abs=1)


def test_what_a_flow_that_left_has_sent_is_not_taken_for_tcp() -> None:
    world = TwoSwitches()
    world.announce("a", 1, 3)
    world.announce("b", 2, 4)
    world.news()
    world.tell(0, 5)
    world.bandwidth.withdraw("b", world.now_ns)
    assert world.news() == {"b": None, "a": pytest.approx(60, abs=0.5)}
    assert world.tell(0, 3) == {}


def test_a_sender_that_has_less_to_send_leaves_the_rest_to_tcp() -> None:
    world = TwoSwitches()
    world.tcp_flows[world.between] = 1
    world.announce("a", 1, 3)
    world.news()
    world.bandwidth.renew("a", 0, sends_bps=5 * MBPS)
    for _ in range(30):
        world.now_ns += 100 * MS
        world.n_bytes += 25 * MBPS / 80
        world.bandwidth.read(world.between, int(world.n_bytes), world.now_ns, world.now_ns)
        world.news()
    share = world.share("a")
    assert share is not None
    assert share.rate_bps / MBPS == pytest.approx(40 - 1.2, abs=1)


def test_a_reservation_divides_the_link() -> None:
    world = TwoSwitches(reserved=0.3)
    world.tcp_flows[world.between] = 9
    world.tell(60, 3)
    world.announce("a", 1, 3)
    assert world.news() == {"a": pytest.approx(18, abs=0.1)}


def test_flows_that_are_not_renewed_are_forgotten() -> None:
    world = TwoSwitches()
    world.announce("a", 1, 3)
    world.announce("b", 2, 4)
    world.news()
    world.bandwidth.renew("b", 4 * S)
    assert world.bandwidth.expire(5 * S) == ["a"]
    assert world.news() == {"a": None, "b": 60}
    assert not world.bandwidth.renew("a", 5 * S)


def test_paths_that_are_not_known_are_told() -> None:
    world = TwoSwitches()
    with pytest.raises(UnknownPathError, match=r"no host of this address is known: 10\.0\.0\.9"):
        world.announce("a", 1, 9)
    with pytest.raises(UnknownPathError):
        world.bandwidth.path(address(9), address(1))
    world.announce("a", 1, 3)
    assert world.news() == {"a": 60}
    world.fabric.forget(bytes([2, 0, 0, 0, 0, 3]))
    assert world.news() == {"a": None}
    assert world.share("a") is None
    assert world.news() == {}


def test_a_flow_goes_on_when_its_host_comes_back_elsewhere() -> None:
    world = TwoSwitches()
    world.announce("a", 1, 3)
    world.news()
    mac = bytes([2, 0, 0, 0, 0, 3])
    world.fabric.forget(mac)
    world.news()
    world.fabric.learn(mac, PortId(1, 2))
    world.fabric.bind(mac, address(3))
    assert world.news() == {"a": 100}


def test_the_bandwidth_of_a_path_is_that_of_its_narrowest_link() -> None:
    world = TwoSwitches()
    path = world.bandwidth.path(address(1), address(3))
    assert (path.available_bps, path.error_bps, path.share_bps) == (60 * MBPS, None, 60 * MBPS)
    assert [state.link for state in path.links] == [
        Uplink(PortId(1, 1)),
        world.between,
        PortId(2, 1),
    ]
    world.tcp_flows[world.between] = 1
    world.tell(45, 20)
    world.idle(PortId(2, 1), Uplink(PortId(1, 1)))
    path = world.bandwidth.path(address(1), address(3))
    assert path.available_bps == pytest.approx(15 * MBPS, rel=0.01)
    assert path.error_bps is not None
    assert path.error_bps < 2 * MBPS
    # Fair queues would give one of two flows half of the link.
    assert path.share_bps == pytest.approx(30 * MBPS, rel=0.01)


def test_a_link_that_is_not_measured_does_not_count_as_free() -> None:
    world = TwoSwitches()
    last = PortId(2, 1)

    def told() -> tuple[float, bool]:
        """What is left, in Mbit/s, and whether it may be less."""
        path = world.bandwidth.path(address(1), address(3))
        return path.available_bps / MBPS, path.error_bps is None

    world.idle(last, Uplink(PortId(1, 1)))
    # The other link is the narrowest one, whatever it carries.
    assert told() == (60, True)
    world.bandwidth.forget_port(last)
    world.idle(world.between)
    # The last link may have less than 60 left.
    assert told() == (60, True)
    world.idle(last)
    assert told() == (60, False)
    world.bandwidth.forget_port(PortId(1, 1))
    assert told() == (60, True)


def test_what_a_host_sends_to_one_it_does_not_have_for_another() -> None:
    world = TwoSwitches()
    uplink = Uplink(PortId(1, 1))
    world.carry(uplink, 95)
    world.idle(PortId(1, 2))
    path = world.bandwidth.path(address(1), address(2))
    assert path.available_bps == pytest.approx(5 * MBPS, rel=0.01)
    assert path.error_bps is not None
    # Its own link is divided by itself: a flow that it announces may take half of it.
    assert path.share_bps == pytest.approx(50 * MBPS, rel=0.01)
    # What it announces is not taken for something else that it sends.
    world.bandwidth.forget_port(PortId(1, 1))
    world.announce("a", 1, 2)
    assert world.news() == {"a": 100}
    for n in range(1, 31):
        world.now_ns += 100 * MS
        world.bandwidth.read(uplink, n * 10 * MBPS // 8, world.now_ns, world.now_ns)
        assert world.news() == {}


def test_an_uplink_of_which_nothing_is_counted_may_limit_a_path() -> None:
    world = TwoSwitches()
    world.capacities[PortId(1, 1)] = 10.0 * MBPS
    world.idle(PortId(1, 2))
    path = world.bandwidth.path(address(1), address(2))
    assert (path.available_bps, path.error_bps) == (10 * MBPS, None)


def test_a_port_that_goes_takes_its_flows_along_and_leaves_the_others() -> None:
    world = TwoSwitches()
    world.announce("a", 1, 3)
    world.announce("b", 2, 3)
    world.announce("c", 1, 2)
    assert world.news() == {"a": 30, "b": 30, "c": 70}
    world.fabric.remove_port(world.between)
    world.capacities[world.between] = None
    # One flow ends before anybody looks: its link has no capacity any more, and another flow.
    world.bandwidth.withdraw("b", world.now_ns)
    assert world.news() == {"a": None, "b": None, "c": 100}


def test_a_switch_that_was_restarted_counts_from_nothing() -> None:
    world = TwoSwitches()
    world.tell(30, 3)
    world.bandwidth.read(world.between, 0, 1, world.now_ns)
    estimator = world.bandwidth.estimator(world.between)
    assert estimator is not None
    assert estimator.use is None
    world.bandwidth.forget_port(world.between)
    assert world.bandwidth.estimator(world.between) is None
