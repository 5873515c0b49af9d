"""The networks have the parts that an experiment relies on."""

import pytest

from testbed.topology import TOPOLOGIES, IncastTopo, topology

RATE_BPS, BOTTLENECK_BYTES, OTHER_BYTES = 100_000_000, 65536, 1 << 20
IFNAMSIZ = 16


def make(name: str, senders: int = 32) -> IncastTopo:
    return topology(
        name,
        senders=senders,
        rate_bps=RATE_BPS,
        bottleneck_limit_bytes=BOTTLENECK_BYTES,
        limit_bytes=OTHER_BYTES,
    )


def ends(topo: IncastTopo) -> dict[str, tuple[str, int]]:
    """Every end of every link: the other end and the buffer at this one, by device."""
    found = {}
    for _, _, link in topo.links(withInfo=True):
        first = f"{link['node1']}-eth{link['port1']}"
        second = f"{link['node2']}-eth{link['port2']}"
        assert link["rate_bps"] == RATE_BPS
        found[first] = (second, link["limit1_bytes"])
        found[second] = (first, link["limit2_bytes"])
    return found


@pytest.mark.parametrize("name", TOPOLOGIES)
@pytest.mark.parametrize("senders", [1, 32, 120])
def test_roles_are_played_by_nodes_that_are_there(name: str, senders: int) -> None:
    topo = make(name, senders)
    roles = topo.roles
    hosts = set(topo.hosts())
    assert len(set(roles.senders)) == senders
    players = {*roles.senders, roles.receiver, roles.background_sender, roles.background_receiver}
    assert players <= hosts
    assert roles.background_sender not in roles.senders
    links = ends(topo)
    assert links[roles.bottleneck][0] == roles.far_end
    assert roles.bottleneck == f"{roles.switch}-eth{roles.bottleneck_port}"
    assert roles.far_end.startswith(f"{roles.far_node}-")
    assert all(len(device) < IFNAMSIZ for device in links)


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_only_the_bottleneck_is_shallow(name: str) -> None:
    topo = make(name)
    shallow = {device for device, (_, limit) in ends(topo).items() if limit != OTHER_BYTES}
    assert shallow == {topo.roles.bottleneck}
    assert ends(topo)[topo.roles.bottleneck][1] == BOTTLENECK_BYTES


def test_figure_8_puts_senders_and_receivers_on_either_side() -> None:
    topo = make("fig8", senders=3)
    near = {other for device, (other, _) in ends(topo).items() if device.startswith("s1-")}
    assert near == {"h1-eth0", "h2-eth0", "h3-eth0", "b1-eth0", "s2-eth1"}


def test_unknown_name_and_no_senders() -> None:
    with pytest.raises(ValueError, match="there are fig8, star"):
        make("ring")
    with pytest.raises(ValueError, match="at least 1"):
        make("star", senders=0)
