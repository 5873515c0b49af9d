"""Multicast on real Open vSwitches: only who has joined a group gets what is sent to it."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.model.packet_ins import GroupKind
from controller.southbound.codec import groups
from controller.southbound.codec.ethernet import MalformedFrameError
from controller.southbound.switch.pipeline import Table
from dummy_ovs import DummyOvs, controlled, wait_for
from packets import Host, ethernet, ipv4, ipv6
from test_groups import GROUP, GROUP6, igmp, record, report, report6
from test_real_switch import CONFIG, TwoSwitchesAndController, stock_prefix

MEMBER, SOURCE, OTHER = Host(1), Host(2), Host(3)
PORTS = {SOURCE: "p1", MEMBER: "p4", OTHER: "p5"}
# Ports that come up get everything for 22 s.
SURE_S = 60

pytestmark = pytest.mark.slow


class Fabric(TwoSwitchesAndController):
    """The ports of the member and of the other host come up later: of those that are there when the
    controller comes it takes longer to know what they want."""

    config = CONFIG.replace("link_timeout: 2 s", "link_timeout: 2 s, multicast_snooping: true")
    ports = PORTS

    def __init__(self, switch: DummyOvs, directory: Path) -> None:
        super().__init__(switch, directory)
        self._marks = itertools.count()

    def grow(self) -> None:
        self.wait_events("link_up")
        # To p1 and p2, and to p3.
        wait_for(lambda: self.ways("output:1,output:2"), "that the first switch floods")
        wait_for(lambda: self.ways("output:3"), "that the second switch floods")
        self.switch.add_port("s1", "p4", 4)
        self.switch.add_port("s2", "p5", 5)

    def ways(self, part: str) -> list[str]:
        """Entries for frames to groups."""
        tables = tuple(f"table={table.value}," for table in (Table.FLOOD, Table.FLOOD_OUT))
        flows = self.switch.flows("s1") + self.switch.flows("s2")
        return [flow for flow in flows if part in flow and any(one in flow for one in tables)]

    def got(self, group: bytes) -> list[int]:
        """How many of three datagrams to a group come to the member and to the other host."""
        mark = b"mark %d." % next(self._marks)
        if len(group) == 4:
            packet = ipv4(SOURCE.address, group, mark, protocol=17)
            frame = ethernet(b"\x01\0\x5e" + group[1:], SOURCE.mac, 0x0800, packet)
        else:
            packet = ipv6(SOURCE.address6, group, mark, 17)
            frame = ethernet(b"\x33\x33" + group[-4:], SOURCE.mac, 0x86DD, packet)
        # What enters last leaves last, everywhere.
        last = ethernet(
            b"\xff" * 6, SOURCE.mac, 0x0800, ipv4(bytes(4), b"\xff" * 4, mark, protocol=17)
        )
        self.switch.inject(PORTS[SOURCE], *[frame] * 3, last)
        for host in (MEMBER, OTHER):
            self.arrives(last, at=host)
        return [self.received(host).count(frame) for host in (MEMBER, OTHER)]

    def asked(self, at: Host) -> set[int]:
        """Over which IP the controller has asked a host for its groups."""
        found = set()
        for frame in self.received(at):
            try:
                said = groups.parse(frame)
            except MalformedFrameError:
                continue
            if said is not None and said.kind is GroupKind.QUERY:
                found.add(6 if frame[12:14] == b"\x86\xdd" else 4)
        return found


@pytest.fixture
def fabric(tmp_path: Path) -> Iterator[Fabric]:
    with controlled(Fabric, stock_prefix(), tmp_path) as fabric:
        fabric.grow()
        yield fabric


@pytest.mark.timeout(240)
def test_members_get_what_is_sent_to_their_group(fabric: Fabric) -> None:
    wait_for(lambda: fabric.asked(OTHER) == {4, 6}, "questions at the other host", SURE_S)
    joining = report(record(4, GROUP)), report6(record(4, GROUP6))
    for frame in joining:
        fabric.send(frame, by=MEMBER)
    wait_for(lambda: len(fabric.ways("nw_dst=239.1.2.3")) == 2, "entries at both switches")
    wait_for(lambda: fabric.got(GROUP) == [3, 0], "only the member gets it", SURE_S)
    wait_for(lambda: fabric.got(GROUP6) == [3, 0], "only the member gets it over IPv6", SURE_S)
    assert not {*joining} & {*fabric.received(OTHER)}, "another host must not hear a report"
    # Of a kind that nobody reads here.
    strange = igmp(bytes((0x13, 0, 0, 0, 0, 0, 0, 0)))
    fabric.send(strange, by=MEMBER)
    fabric.arrives(strange, at=OTHER)
    fabric.send(report(record(3, GROUP)), by=MEMBER)
    wait_for(lambda: fabric.got(GROUP) == [0, 0], "nobody gets it", SURE_S)
    assert fabric.got(GROUP6) == [3, 0]
    assert fabric.controller.stop() == 0
    wait_for(lambda: fabric.got(GROUP6) == [3, 3], "without a controller all get it", SURE_S)
    assert "refused" not in fabric.controller.log
