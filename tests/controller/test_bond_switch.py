"""A bond on a real Open vSwitch. Its other end is a bond of Open vSwitch, too, with LACP, in a
bridge that forwards by itself: that is the host."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path

import pytest

from controller.southbound.switch.pipeline import Table
from dummy_ovs import DummyOvs, controlled, patched_prefix, wait_for
from packets import ACK, PSH, SYN, Host, ethernet, ipv4, segment, tcp_options
from test_real_switch import CONFIG, World, stock_prefix

CLIENT, SERVER = Host(1), Host(2)
PORTS = {CLIENT: "p1", SERVER: "p9"}
N_CONNECTIONS = 48
CALLS = [(40_000 + 7 * n, 80) for n in range(N_CONNECTIONS)]
HOST_WINDOW = re.compile(
    r"n_packets=(?P<packets>\d+),.* priority=100,tcp,in_port=(?P<port>\w+),.*"
    rf"nw_src={ip_address(SERVER.address)} "
)


class Bonded(World):
    """Switch s1 has the client at p1 and a bond of m1 and m2; at its other end is the server."""

    config = CONFIG.replace("fabric: {{", "fabric: {{bonds: [{{switch: 1, ports: ['m?']}}], ")
    ports = PORTS

    def __init__(self, switch: DummyOvs, directory: Path) -> None:
        super().__init__(switch, directory)
        switch.add_bridge("s1", 1, self.listen)
        switch.vsctl(
            *("add-br", "host", "--", "set", "bridge", "host", "datapath_type=dummy"),
            "fail-mode=standalone",
        )
        switch.add_port("s1", "p1", 1)
        switch.add_port("host", "p9", 9)
        switch.add_bond(("s1", "host"), (("m1", "h1"), ("m2", "h2")), 11)

    def left_by(self, frames: list[bytes]) -> dict[str, int]:
        """How many of these frames left s1 by each member."""
        return {
            member: sum(frame in frames for frame in self.switch.sent(member))
            for member in ("m1", "m2")
        }

    def open(self, calls: list[tuple[int, int]]) -> tuple[list[bytes], list[bytes]]:
        """Open connections from the client to the server; returns the SYNs and the answers."""
        options = tcp_options(1460, 7)
        there = [segment(CLIENT, SERVER, call, SYN, options=options) for call in calls]
        back = [segment(SERVER, CLIENT, call[::-1], SYN | ACK, options=options) for call in calls]
        for to_server, to_client in zip(there, back, strict=True):
            self.send(to_server, CLIENT)
            self.arrives(to_server, SERVER)
            self.send(to_client, SERVER)
            self.arrives(to_client, CLIENT)
        return there, back

    def held_at(self) -> Counter[str]:
        """How many of the server's segments s1 has held to the windows of each member."""
        text = self.switch.ofctl("dump-flows", "s1", f"table={Table.REGULATE.value}")
        found = (HOST_WINDOW.search(line) for line in text.splitlines())
        return Counter({one["port"]: int(one["packets"]) for one in found if one})

    def has_held(self, segments: Counter[str]) -> None:
        wait_for(lambda: self.held_at() == segments, f"{segments} held")

    def members(self) -> set[str]:
        """The numbers of the ports by which s1 sends to the server."""
        flows = [f for f in self.switch.flows("s1") if f"table={Table.BOND_OUT.value}, " in f]
        return {flow.rpartition("output:")[2] for flow in flows if "output:" in flow}


@contextmanager
def with_lacp(prefix: Path, directory: Path) -> Iterator[Bonded]:
    with controlled(Bonded, prefix, directory) as bonded:
        wait_for(lambda: bonded.switch.ofctl("show", "s1").count("LIVE") >= 3, "LACP")
        bonded.resolve(CLIENT, SERVER)
        yield bonded


@pytest.fixture
def bonded(tmp_path: Path) -> Iterator[Bonded]:
    with with_lacp(stock_prefix(), tmp_path) as bonded:
        yield bonded


def test_connections_use_both_members_and_nothing_comes_twice(bonded: Bonded) -> None:
    there, back = bonded.open(CALLS)
    wait_for(lambda: len(bonded.events("connection_opened")) == N_CONNECTIONS, "all connections")
    assert all(bonded.received(SERVER).count(frame) == 1 for frame in there)
    assert all(bonded.received(CLIENT).count(frame) == 1 for frame in back)
    used = bonded.left_by(there)
    assert sum(used.values()) == N_CONNECTIONS
    assert min(used.values()) > N_CONNECTIONS // 5
    assert not bonded.events("port_disbelieved")
    assert len(bonded.events("host_learnt")) == 2
    assert not bonded.events("host_moved")
    assert "refused" not in bonded.controller.log


def test_acks_are_held_to_the_windows_of_the_member_that_their_data_leaves_by(
    tmp_path: Path,
) -> None:
    with with_lacp(patched_prefix(), tmp_path) as bonded:
        bonded.open(CALLS)
        wait_for(lambda: len(bonded.held_at()) == 2, "window entries of both members")
        for call in CALLS[:16]:
            data = segment(CLIENT, SERVER, call, ACK | PSH, 1, payload=bytes(300))
            bonded.send(data, CLIENT)
            bonded.arrives(data, SERVER)
            (member,) = (name for name, n in bonded.left_by([data]).items() if n)
            before = bonded.held_at()
            # Hosts spread their own frames as they like.
            for sequence, port in enumerate(("m1", "m2"), 301):
                ack = segment(SERVER, CLIENT, call[::-1], ACK, sequence, payload=b"")
                bonded.switch.inject(port, ack)
                bonded.arrives(ack, CLIENT)
            after = before + Counter({{"m1": "11", "m2": "12"}[member]: 2})
            bonded.has_held(after)


def test_frames_to_all_come_once_and_do_not_return(bonded: Bonded) -> None:
    for mark, (by, at) in enumerate(((CLIENT, SERVER), (SERVER, CLIENT)) * 4):
        packet = ipv4(by.address, b"\xff" * 4, bytes([mark]) * 40, protocol=17)
        frame = ethernet(b"\xff" * 6, by.mac, 0x0800, packet)
        bonded.send(frame, by)
        bonded.arrives(frame, at)
        assert bonded.received(at).count(frame) == 1
        assert frame not in bonded.received(by)


def test_a_lost_member_is_left_and_comes_back(bonded: Bonded) -> None:
    assert bonded.members() == {"11", "12"}
    bonded.switch.appctl("netdev-dummy/set-admin-state", "m1", "down")
    wait_for(lambda: bonded.members() == {"12"}, "all on the other member")
    for n in range(16):
        data = segment(CLIENT, SERVER, (50_000 + n, 80), ACK | PSH, 1, payload=bytes(200))
        bonded.send(data, CLIENT)
        bonded.arrives(data, SERVER)
    assert not bonded.events("host_lost")
    bonded.switch.appctl("netdev-dummy/set-admin-state", "m1", "up")
    wait_for(lambda: bonded.members() == {"11", "12"}, "both members")


def test_a_restarted_controller_changes_nothing(bonded: Bonded) -> None:
    """What switches are told and what they tell are the same: no entry is added again."""

    def ages_s() -> dict[str, float]:
        found = {}
        for table in (Table.BOND_IN, Table.BOND_OUT):
            for line in bonded.switch.ofctl(
                "dump-flows", "s1", f"table={table.value}"
            ).splitlines():
                if "duration=" in line and "priority=0 " not in line:
                    age, _, entry = line.partition("duration=")[2].partition("s, ")
                    found[re.sub(r"n_packets=\d+, n_bytes=\d+, ", "", entry)] = float(age)
        return found

    before = ages_s()
    bonded.controller.stop()
    bonded.controller.start()
    wait_for(lambda: len(bonded.events("switch_up")) == 2, "the switch")
    bonded.resolve(CLIENT, SERVER)
    after = ages_s()
    assert after.keys() == before.keys()
    assert len(after) > 16
    assert all(after[entry] > before[entry] for entry in after)
    assert "refused" not in bonded.controller.log
