"""Links, hosts and paths."""

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.topology.fabric import PORT_GRACE_NS, Fabric
from controller.core.topology.links import PRESUMED_FOR_NS
from controller.model.values import Port, PortId

TIMEOUT_NS = 4 * 10**9
H1, H2 = b"\2\0\0\0\0\1", b"\2\0\0\0\0\2"
A1, A2 = b"\x0a\0\0\1", b"\x0a\0\0\2"
NOW = 10**10


def port(number: int, up: bool = True) -> Port:
    return Port(number, f"eth{number}", bytes([2, 1, 0, 0, 0, number]), up)


def fabric(*switches: int, ports: int = 4, now_ns: int = NOW - PORT_GRACE_NS) -> Fabric:
    subject = Fabric(TIMEOUT_NS)
    for switch in switches:
        subject.connect(switch, [port(number) for number in range(1, ports + 1)], now_ns)
    return subject


def look(subject: Fabric, until_ns: int, since_ns: int = NOW) -> list[tuple[PortId, PortId]]:
    """Expire links as it is done, every second; returns what has expired by the end."""
    expired = []
    for now_ns in (*range(since_ns, until_ns, 10**9), until_ns):
        expired += subject.expire_links(now_ns)
    return expired


class TestPorts:
    def test_a_fresh_port_is_no_edge_until_discovery_had_a_chance(self) -> None:
        subject = fabric(1, now_ns=NOW)
        assert not subject.is_edge(PortId(1, 1), NOW + PORT_GRACE_NS - 1)
        assert subject.is_edge(PortId(1, 1), NOW + PORT_GRACE_NS)

    def test_a_port_that_goes_down_loses_its_hosts_and_its_link(self) -> None:
        subject = fabric(1, 2)
        subject.learn(H1, PortId(1, 1))
        subject.link_seen(PortId(1, 4), PortId(2, 4), NOW)
        subject.set_port(1, port(1, up=False), NOW)
        subject.set_port(1, port(4, up=False), NOW)
        assert subject.hosts == {}
        assert subject.links() == []
        assert PortId(1, 1) not in subject.edge_ports(NOW)

    def test_ports_that_are_gone_at_a_reconnect_are_forgotten(self) -> None:
        subject = fabric(1)
        subject.learn(H1, PortId(1, 3))
        subject.connect(1, [port(1)], NOW)
        assert subject.ports_of(1) == [PortId(1, 1)]
        assert subject.hosts == {}


class TestLinks:
    def test_a_link_is_seen_once_for_both_directions(self) -> None:
        subject = fabric(1, 2)
        assert subject.link_seen(PortId(1, 4), PortId(2, 4), NOW)
        assert not subject.link_seen(PortId(2, 4), PortId(1, 4), NOW)
        assert subject.links() == [(PortId(1, 4), PortId(2, 4))]
        assert not subject.is_edge(PortId(2, 4), NOW)

    def test_hosts_learnt_on_a_port_that_turns_out_a_link_are_forgotten(self) -> None:
        subject = fabric(1, 2)
        subject.learn(H1, PortId(1, 4))
        subject.link_seen(PortId(1, 4), PortId(2, 4), NOW)
        assert H1 not in subject.hosts

    def test_a_port_has_one_link(self) -> None:
        subject = fabric(1, 2, 3)
        subject.link_seen(PortId(1, 4), PortId(2, 4), NOW)
        assert subject.link_seen(PortId(1, 4), PortId(3, 4), NOW)
        assert subject.links() == [(PortId(1, 4), PortId(3, 4))]

    def test_links_age_out(self) -> None:
        subject = fabric(1, 2)
        subject.link_seen(PortId(1, 4), PortId(2, 4), NOW)
        assert look(subject, NOW + TIMEOUT_NS) == []
        assert subject.expire_links(NOW + TIMEOUT_NS + 1) == [(PortId(1, 4), PortId(2, 4))]
        assert subject.links() == []

    def test_links_outlive_a_pause_of_the_controller(self) -> None:
        subject = fabric(1, 2)
        subject.link_seen(PortId(1, 4), PortId(2, 4), NOW)
        look(subject, NOW + 10**9)
        back = NOW + 100 * TIMEOUT_NS
        assert look(subject, back + TIMEOUT_NS, since_ns=back) == []
        assert subject.expire_links(back + TIMEOUT_NS + 1)

    def test_links_of_an_unreachable_switch_do_not(self) -> None:
        subject = fabric(1, 2)
        subject.link_seen(PortId(1, 4), PortId(2, 4), NOW)
        subject.disconnect(2, NOW)
        later = NOW + 10 * TIMEOUT_NS
        assert look(subject, later) == []
        subject.connect(2, [port(number) for number in range(1, 5)], later)
        assert look(subject, later + TIMEOUT_NS, since_ns=later) == []
        assert subject.expire_links(later + TIMEOUT_NS + 1)

    def test_a_presumed_link_is_no_edge_until_its_time_is_over(self) -> None:
        subject = fabric(1)
        subject.presume_link(PortId(1, 4), NOW)
        assert not subject.is_edge(PortId(1, 4), NOW)
        subject.expire_links(NOW + PRESUMED_FOR_NS + 1)
        assert subject.is_edge(PortId(1, 4), NOW)

    def test_nonsense_is_no_link(self) -> None:
        subject = fabric(1)
        assert not subject.link_seen(PortId(1, 1), PortId(1, 1), NOW)
        assert not subject.link_seen(PortId(9, 1), PortId(1, 1), NOW)


class TestHosts:
    def test_a_host_moves(self) -> None:
        subject = fabric(1, 2)
        assert subject.learn(H1, PortId(1, 1))
        assert not subject.learn(H1, PortId(1, 1))
        assert subject.learn(H1, PortId(2, 1))
        assert subject.take_changed_hosts() == {H1}
        assert subject.hosts[H1].port == PortId(2, 1)

    def test_an_address_belongs_to_one_host(self) -> None:
        subject = fabric(1)
        subject.learn(H1, PortId(1, 1))
        subject.learn(H2, PortId(1, 2))
        subject.bind(H1, A1)
        subject.bind(H2, A1)
        owner = subject.owner(A1)
        assert owner is not None
        assert owner.mac == H2
        assert subject.hosts[H1].addresses == set()

    def test_a_forgotten_host_leaves_no_address(self) -> None:
        subject = fabric(1)
        subject.learn(H1, PortId(1, 1))
        subject.bind(H1, A1)
        subject.forget(H1)
        assert subject.owner(A1) is None


class TestPaths:
    def test_on_one_switch(self) -> None:
        subject = fabric(1)
        subject.learn(H1, PortId(1, 1))
        subject.learn(H2, PortId(1, 2))
        assert subject.path(H1, H2, None) == (PortId(1, 2),)

    def test_over_a_chain(self) -> None:
        subject = fabric(1, 2, 3)
        subject.link_seen(PortId(1, 4), PortId(2, 3), NOW)
        subject.link_seen(PortId(2, 4), PortId(3, 3), NOW)
        subject.learn(H1, PortId(1, 1))
        subject.learn(H2, PortId(3, 1))
        assert subject.path(H1, H2, None) == (PortId(1, 4), PortId(2, 4), PortId(3, 1))
        assert subject.path(H2, H1, None) == (PortId(3, 3), PortId(2, 3), PortId(1, 1))

    def test_without_connection_or_host(self) -> None:
        subject = fabric(1, 2)
        subject.learn(H1, PortId(1, 1))
        assert subject.path(H1, H2, None) is None
        subject.learn(H2, PortId(2, 1))
        assert subject.path(H1, H2, None) is None

    def test_it_follows_a_change_of_links(self) -> None:
        subject = fabric(1, 2, 3)
        subject.link_seen(PortId(1, 4), PortId(2, 4), NOW)
        subject.link_seen(PortId(1, 3), PortId(3, 3), NOW)
        subject.link_seen(PortId(3, 4), PortId(2, 3), NOW)
        subject.learn(H1, PortId(1, 1))
        subject.learn(H2, PortId(2, 1))
        assert subject.path(H1, H2, None) == (PortId(1, 4), PortId(2, 1))
        subject.set_port(1, port(4, up=False), NOW)
        assert subject.path(H1, H2, None) == (PortId(1, 3), PortId(3, 4), PortId(2, 1))


@given(
    st.integers(2, 7),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=18),
)
@settings(print_blob=True)
def test_paths_are_symmetric_shortest_and_consistent(
    n_switches: int, pairs: list[tuple[int, int]]
) -> None:
    """ACKs come back through the ports that the data leaves by, in any fabric."""
    subject = fabric(*range(n_switches), ports=40)
    peers: dict[PortId, PortId] = {}
    for index, pair in enumerate(pairs):
        a, b = (PortId(switch % n_switches, index + 2) for switch in pair)
        if a.switch != b.switch:
            subject.link_seen(a, b, NOW)
            peers[a], peers[b] = b, a
    macs = [bytes([2, 0, 0, 0, 1, switch]) for switch in range(n_switches)]
    for switch, mac in enumerate(macs):
        subject.learn(mac, PortId(switch, 1))
    distances = _distances(n_switches, peers)
    for i, src in enumerate(macs):
        for j, dst in enumerate(macs):
            there, back = subject.path(src, dst, None), subject.path(dst, src, None)
            if distances[i].get(j) is None:
                assert there is None
                continue
            assert there is not None
            assert back is not None
            assert len(there) == distances[i][j] + 1
            entered = [peers[port_id] for port_id in there[:-1]]
            assert list(back[:-1]) == entered[::-1]
            for port_id in there[:-1]:
                assert subject.trees.next_ports(j, 0)[port_id.switch] == port_id.port


def _distances(n_switches: int, peers: dict[PortId, PortId]) -> list[dict[int, int]]:
    """Breadth-first search, as the model."""
    result = []
    for root in range(n_switches):
        distance, frontier = {root: 0}, [root]
        while frontier:
            here = frontier.pop(0)
            for a, b in peers.items():
                if a.switch == here and b.switch not in distance:
                    distance[b.switch] = distance[here] + 1
                    frontier.append(b.switch)
        result.append(distance)
    return result
