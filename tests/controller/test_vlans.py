"""VLANs and routers: which connection is which, what is regulated where, and who hears whom."""

import struct

import pytest

from controller.config.errors import ConfigError
from controller.config.schema import Config
from controller.core.bandwidth.announced import UnknownPathError
from controller.core.topology.fabric import PORT_GRACE_NS
from controller.core.topology.vlans import Membership, VlanRule, Vlans
from controller.model.effects import AddressProbe, Deliver, Effect, NeighbourReply
from controller.model.entries import (
    FlowCounter,
    Forward,
    HeldEntry,
    HostWindow,
    TaggedIngress,
    UntaggedIngress,
    VlanEgress,
    VlanFilter,
    VlanPort,
)
from controller.model.flow import ACK, SYN, FlowKey, Segment, payload_bytes, reverse, vlan_of_key
from controller.model.packet_ins import NeighbourMessage
from controller.model.values import FlowClass, Port, PortId
from controller.model.vlans import retag, tag, tags_of, vlan_numbered
from controller.northbound.interfaces import UnknownError
from controller.rpc.methods import FlowEnds, FlowQuery
from controller.southbound.codec import match as match_fields
from controller.southbound.codec import openflow, packet_in
from controller.southbound.codec.openflow import HEADER
from controller.southbound.switch import segments
from controller.southbound.switch.pipeline import Table
from engine_bench import BROADCAST, MSS, SECOND, EngineBench, make_engine, records
from packets import Host, segment, tcp_options
from test_inspection import inspect, nothing

V10, V20, NONE = vlan_numbered(10), vlan_numbered(20), b""
A, B, ROUTER = Host(1), Host(2), Host(9)
AT_A, AT_B, AT_ROUTER = PortId(1, 1), PortId(1, 2), PortId(1, 9)
CLIENT_PORT, SERVER_PORT = 40_000, 80
PER_VLAN = (
    VlanRule(1, ("s1-eth1",), Membership(untagged=V10)),
    VlanRule(1, (2,), Membership(untagged=V20)),
    VlanRule(None, ("*-eth9",), Membership(frozenset({V10, V20}))),
)


def bench_of(*rules: VlanRule) -> EngineBench:
    """One switch; nobody is known."""
    bench = EngineBench(make_engine(vlans=rules))
    bench.switch_up(1)
    bench.now_ns += PORT_GRACE_NS
    return bench


def says(
    bench: EngineBench, host: Host, port: PortId, in_vlan: bytes, target: bytes | None = None
) -> list[Effect]:
    """A host announces its address, or asks for another one."""
    frame = BROADCAST + host.mac + tag(in_vlan) + b"\x08\x06" + bytes(28)
    said = NeighbourMessage(
        *(True, host.mac, host.address, host.address if target is None else target),
        *(BROADCAST, tag(in_vlan), frame),
    )
    return bench.do(bench.engine.resolve(port, said, bench.now_ns))


def hears(
    bench: EngineBench, port: PortId, key: FlowKey, macs: tuple[bytes, bytes], flags: int
) -> None:
    """A segment is copied up; of `macs`, the sender's comes first."""
    src, dst = macs
    segment = Segment(
        *(port.port, dst + src, key.pack(), flags, 1, 2, 0, MSS),
        7 if flags & SYN else None,
    )
    bench.do(bench.engine.segments(port.switch, [segment], bench.now_ns))


def routed() -> EngineBench:
    """A in VLAN 10 has opened a connection to B in VLAN 20, through a router that is at one port in
    both."""
    bench = bench_of(*PER_VLAN)
    for host, port, in_vlan in ((A, AT_A, V10), (B, AT_B, V20)):
        says(bench, host, port, in_vlan)
    for in_vlan in (V10, V20):
        says(bench, ROUTER, AT_ROUTER, in_vlan)
    first, second = (
        FlowKey(A.address, CLIENT_PORT, B.address, SERVER_PORT, in_vlan) for in_vlan in (V10, V20)
    )
    hears(bench, AT_A, first, (A.mac, ROUTER.mac), SYN)
    hears(bench, AT_ROUTER, second, (ROUTER.mac, B.mac), SYN)
    hears(bench, AT_B, second.reverse, (B.mac, ROUTER.mac), SYN | ACK)
    hears(bench, AT_ROUTER, first.reverse, (ROUTER.mac, A.mac), SYN | ACK)
    return bench


class TestKeys:
    @pytest.mark.parametrize("size", [4, 16])
    @pytest.mark.parametrize("in_vlan", [NONE, V10])
    def test_they_are_packed_unpacked_and_reversed(self, size: int, in_vlan: bytes) -> None:
        key = FlowKey(b"\1" * size, 1, b"\2" * size, 2, in_vlan)
        assert FlowKey.unpack(key.pack()) == key
        assert FlowKey.unpack(reverse(key.pack())) == key.reverse
        assert reverse(reverse(key.pack())) == key.pack()
        assert key.fields().get("vlan") == (10 if in_vlan else None)

    @pytest.mark.parametrize(("size", "headers_bytes"), [(4, 66), (16, 86)])
    def test_pure_acks_weigh_nothing_with_a_tag(self, size: int, headers_bytes: int) -> None:
        key = FlowKey(b"\1" * size, 1, b"\2" * size, 2, V10).pack()
        acks = 300_000
        assert payload_bytes(key, acks * (headers_bytes + 4), acks) == 0
        assert payload_bytes(key, acks * headers_bytes, acks) == 0, "where the port pops the tag"
        assert payload_bytes(key, acks * (headers_bytes + 4 + 100), acks) == acks * 100


class TestConnections:
    def test_equal_addresses_in_two_vlans_are_two(self) -> None:
        bench = bench_of()
        for number, in_vlan in ((0, V10), (10, V20)):
            client, server = Host(A.number), Host(B.number)
            at_client, at_server = PortId(1, number + 1), PortId(1, number + 2)
            macs = bytes([2, 0, 0, 0, number, 1]), bytes([2, 0, 0, 0, number, 2])
            key = FlowKey(client.address, CLIENT_PORT, server.address, SERVER_PORT, in_vlan)
            hears(bench, at_client, key, macs, SYN)
            hears(bench, at_server, key.reverse, macs[::-1], SYN | ACK)
        table = bench.engine.flow_table
        assert len(table) == 2
        for port, in_vlan in ((PortId(1, 2), V10), (PortId(1, 12), V20)):
            (flow,) = table.flows(port, FlowClass.BURST)
            assert (flow.dst, flow.vlan) == (B.address, in_vlan)
        assert {
            (entry.port, entry.address, entry.vlan) for entry in bench.entries(1, HostWindow)
        } == {(1, A.address, V10), (2, B.address, V10), (11, A.address, V20), (12, B.address, V20)}

    def test_what_a_router_passes_on_are_two_regulated_legs(self) -> None:
        bench = routed()
        table = bench.engine.flow_table
        assert len(table) == 2
        assert table.counters["elsewhere"] == 0
        # At the router's port, data of either direction leaves the fabric once.
        for port, n_flows in ((AT_A, 1), (AT_B, 1), (AT_ROUTER, 2)):
            assert table.counts(port).active_flows == n_flows
        windows = {(one.port, one.address, one.vlan) for one in bench.entries(1, HostWindow)}
        assert windows == {
            (AT_A.port, A.address, V10),  # What the router sends to A.
            (AT_ROUTER.port, B.address, V10),  # What A sends to the router.
            (AT_B.port, B.address, V20),  # What the router sends to B.
            (AT_ROUTER.port, A.address, V20),  # What B sends to the router.
        }

    def test_who_has_another_ones_address_in_the_vlan_is_not_believed(self) -> None:
        bench = bench_of()
        for host, port in ((A, AT_A), (B, AT_B)):
            says(bench, host, port, V10)
        liar = Host(3)
        key = FlowKey(A.address, CLIENT_PORT, B.address, SERVER_PORT, V10)
        hears(bench, PortId(1, 3), key, (liar.mac, B.mac), SYN)
        hears(bench, AT_B, key.reverse, (B.mac, liar.mac), SYN | ACK)
        assert len(bench.engine.flow_table) == 0

    def test_a_restarted_controller_adopts_them(self) -> None:
        bench = bench_of(*PER_VLAN)
        key = FlowKey(A.address, CLIENT_PORT, ROUTER.address, SERVER_PORT, V10)
        held = [
            HeldEntry(Forward(A.mac, AT_A.port, by_vlan=True), 0, SECOND),
            HeldEntry(Forward(ROUTER.mac, AT_ROUTER.port, by_vlan=True), 0, SECOND),
            HeldEntry(HostWindow(AT_A.port, A.address, 0, 7, V10), 0, SECOND),
            HeldEntry(HostWindow(AT_ROUTER.port, ROUTER.address, 2, 7, V10), 0, SECOND),
            HeldEntry(FlowCounter(key, forward=True), 12_345, SECOND),
        ]
        bench.switch_up(1, *held)
        bench.sleep(2 * SECOND)
        connection = bench.engine.flow_table.find(key.pack())
        assert connection is not None
        assert connection.record is not None
        assert connection.record.forward.volume_bytes == 12_345

    def test_a_restarted_controller_gives_a_router_no_addresses_of_others(self) -> None:
        bench = bench_of(*PER_VLAN)
        outside = [bytes([8, 8, 8, n]) for n in range(5)]
        held = [
            HeldEntry(Forward(A.mac, AT_A.port, by_vlan=True), 0, SECOND),
            HeldEntry(Forward(ROUTER.mac, AT_ROUTER.port, by_vlan=True), 0, SECOND),
            HeldEntry(HostWindow(AT_A.port, A.address, 0, 7, V10), 0, SECOND),
            HeldEntry(HostWindow(AT_A.port, A.address6, 0, 7), 0, SECOND),
            *(HeldEntry(HostWindow(AT_ROUTER.port, one, 2, 7, V10), 0, SECOND) for one in outside),
        ]
        bench.switch_up(1, *held)
        owner, fabric = bench.engine.fabric.owner(A.address, V10), bench.engine.fabric
        assert owner is not None
        assert owner.mac == A.mac
        assert not any(map(fabric.owners, outside))
        # It is not in that VLAN any more.
        assert not fabric.owners(A.address6)


class TestBandwidth:
    def test_it_is_told_in_a_vlan(self) -> None:
        bench = bench_of()
        for host, port in ((A, AT_A), (B, AT_B)):
            says(bench, host, port, V10)
        path = bench.engine.path_bandwidth(A.address, B.address, bench.now_ns)
        assert path.available_bps > 0

    def test_across_a_router_it_says_what_to_ask_for(self) -> None:
        bench = routed()
        with pytest.raises(UnknownPathError, match=r"10.0.0.1 is in VLAN 10, 10.0.0.2 in VLAN 20"):
            bench.engine.path_bandwidth(A.address, B.address, bench.now_ns)

    def test_who_claims_addresses_in_a_vlan_of_its_own_takes_no_paths_away(self) -> None:
        bench = bench_of()
        for host, port in ((A, AT_A), (B, AT_B)):
            says(bench, host, port, NONE)
        for host in (A, B):
            mac = bytes([2, 0, 0, 0, 9, host.number])
            said = NeighbourMessage(
                *(True, mac, host.address, host.address, BROADCAST, tag(V20), b"")
            )
            bench.do(bench.engine.resolve(PortId(1, 5), said, bench.now_ns))
        path = bench.engine.path_bandwidth(A.address, B.address, bench.now_ns)
        assert [one.link for one in path.links if one.link == AT_B] == [AT_B]

    def test_equal_addresses_in_two_vlans_are_an_error(self) -> None:
        bench = bench_of()
        for number, in_vlan in ((0, V10), (10, V20)):
            for host in (A, B):
                other = Host(number + host.number)
                frame = tag(in_vlan)
                said = NeighbourMessage(
                    *(True, other.mac, host.address, host.address, BROADCAST, frame, b"")
                )
                at = PortId(1, other.number)
                bench.do(bench.engine.resolve(at, said, bench.now_ns))
        with pytest.raises(UnknownPathError, match="in several VLANs: VLAN 10, VLAN 20"):
            bench.engine.path_bandwidth(A.address, B.address, bench.now_ns)


class TestMembership:
    def test_the_first_rule_that_names_a_port_decides(self) -> None:
        vlans = Vlans(
            [
                VlanRule(2, ("eth*",), Membership(untagged=V20)),
                VlanRule(None, ("eth1", 7), Membership(untagged=V10)),
            ]
        )
        eth1, other = Port(1, "eth1", bytes(6), up=True), Port(7, "x", bytes(6), up=True)
        assert vlans.membership(2, eth1) == Membership(untagged=V20)
        assert vlans.membership(1, eth1) == vlans.membership(2, other) == Membership(untagged=V10)
        assert vlans.membership(1, Port(8, "x", bytes(6), up=True)) is None

    def test_frames_have_the_form_of_their_port(self) -> None:
        trunk = Membership(frozenset({V10}), V20)
        assert trunk.on_wire(tag(V10)) == tag(V10)
        assert trunk.on_wire(tag(V20)) == b""
        assert trunk.on_wire(tag(vlan_numbered(30))) is trunk.on_wire(b"") is None
        frame = bytes(12) + tag(V10) + b"\x08\x06" + b"body"
        assert tags_of(frame) == tag(V10)
        assert retag(frame, b"") == bytes(12) + b"\x08\x06" + b"body"
        assert retag(retag(frame, b""), tag(V10)) == frame

    def test_switches_hold_it(self) -> None:
        bench = bench_of(*PER_VLAN)
        assert bench.entries(1, VlanFilter) == {VlanFilter()}
        assert {entry.port for entry in bench.entries(1, VlanPort)} == {1, 2, 9}
        assert bench.entries(1, UntaggedIngress) == {
            UntaggedIngress(1, V10),
            UntaggedIngress(2, V20),
        }
        assert bench.entries(1, TaggedIngress) == {TaggedIngress(9, V10), TaggedIngress(9, V20)}
        assert bench.entries(1, VlanEgress) == {
            VlanEgress(1, V10, tagged=False),
            VlanEgress(2, V20, tagged=False),
            VlanEgress(9, V10, tagged=True),
            VlanEgress(9, V20, tagged=True),
        }
        says(bench, A, AT_A, V10)
        assert Forward(A.mac, 1, by_vlan=True) in bench.entries(1, Forward)

    def test_a_port_with_another_name_is_in_other_vlans(self) -> None:
        bench = bench_of(*PER_VLAN)
        renamed = Port(1, "elsewhere", bytes(6), up=True)
        bench.do(bench.engine.port_changed(1, renamed, bench.now_ns))
        assert {entry.port for entry in bench.entries(1, VlanEgress)} == {2, 9}
        bench.do(bench.engine.port_removed(PortId(1, 9), bench.now_ns))
        assert {entry.port for entry in bench.entries(1, VlanPort)} == {2}

    def test_what_no_port_carries_any_more_goes_at_once(self) -> None:
        bench = bench_of()
        entries = VlanFilter(), VlanPort(1), UntaggedIngress(1, V10), TaggedIngress(2, V10)
        egress = VlanEgress(1, V10, tagged=False)
        bench.switch_up(1, *(HeldEntry(entry, 0, 0) for entry in (*entries, egress)))
        for kind in (VlanFilter, VlanPort, UntaggedIngress, TaggedIngress, VlanEgress):
            assert not bench.entries(1, kind)

    def test_without_rules_switches_hold_nothing_of_it(self) -> None:
        bench = bench_of()
        says(bench, A, AT_A, NONE)
        assert not bench.entries(1, VlanFilter)
        assert bench.entries(1, Forward) == {Forward(A.mac, 1)}


class TestIsolation:
    def delivered(self, effects: list[Effect]) -> dict[PortId, bytes]:
        """The tags that arrive, by port."""
        return {
            port: tags_of(effect.frame)
            for effect in effects
            if isinstance(effect, Deliver)
            for port in effect.ports
        }

    def test_what_is_for_all_reaches_the_ports_of_its_vlan_in_their_form(self) -> None:
        bench = bench_of(
            *PER_VLAN,
            VlanRule(1, (3,), Membership(untagged=V10)),
            VlanRule(1, (4,), Membership(frozenset({V20}), V10)),
            VlanRule(1, (5,), Membership(frozenset({V20}))),
        )
        found = self.delivered(says(bench, A, AT_A, V10))
        assert found == {PortId(1, 3): b"", PortId(1, 4): b"", AT_ROUTER: tag(V10)}
        found = self.delivered(says(bench, B, AT_B, V20))
        assert found == {PortId(1, 4): tag(V20), PortId(1, 5): tag(V20), AT_ROUTER: tag(V20)}

    def test_what_is_in_no_vlan_reaches_the_ports_that_no_rule_names(self) -> None:
        bench = bench_of(*PER_VLAN)
        found = self.delivered(says(bench, Host(20), PortId(1, 20), NONE))
        assert found
        assert not found.keys() & {AT_A, AT_B, AT_ROUTER}

    def test_questions_and_answers_have_the_form_of_their_port(self) -> None:
        bench = bench_of(*PER_VLAN)
        says(bench, A, AT_A, V10)
        says(bench, ROUTER, AT_ROUTER, V10)
        for host, port, target, form in (
            (A, AT_A, ROUTER, b""),
            (ROUTER, AT_ROUTER, A, tag(V10)),
        ):
            (answer,) = (
                effect
                for effect in says(bench, host, port, V10, target.address)
                if isinstance(effect, NeighbourReply)
            )
            assert (answer.port, answer.tags) == (port, form)
        bench.now_ns += 1800 * SECOND
        probes = [one for one in bench.sleep(2 * SECOND) if isinstance(one, AddressProbe)]
        assert {(one.port, one.tags) for one in probes} == {(AT_A, b""), (AT_ROUTER, tag(V10))}

    def test_a_second_tag_leads_nowhere_but_where_the_first_one_does(self) -> None:
        bench = bench_of(*PER_VLAN)
        hidden = bytes.fromhex("81000000") + tag(V10)
        frame = bytes([2, 0, 0, 0, 0, 99]) + Host(20).mac + hidden + b"\x08\x06" + bytes(28)
        outside = PortId(1, 20)
        effects = bench.do(
            bench.engine.frame(outside, Host(20).mac, frame[:6], frame, bench.now_ns)
        )
        assert not self.delivered(effects).keys() & {AT_A, AT_B, AT_ROUTER}
        claimed = NeighbourMessage(
            *(True, Host(20).mac, A.address, A.address, BROADCAST, hidden, frame)
        )
        bench.do(bench.engine.resolve(outside, claimed, bench.now_ns))
        assert bench.engine.fabric.owner(A.address, V10) is None
        doubled = tag(V10) + tag(V20)
        frame = frame[:12] + doubled + frame[20:]
        found = self.delivered(
            bench.do(bench.engine.frame(AT_ROUTER, ROUTER.mac, frame[:6], frame, bench.now_ns))
        )
        assert found == {AT_A: tag(V20)}

    def test_an_address_of_another_vlan_is_not_answered_for(self) -> None:
        bench = bench_of(*PER_VLAN)
        says(bench, B, AT_B, V20)
        effects = says(bench, A, AT_A, V10, B.address)
        assert not [one for one in effects if isinstance(one, NeighbourReply)]
        assert AT_B not in self.delivered(effects)


class TestConfiguration:
    def read(self, *sections: dict[str, object]) -> tuple[VlanRule, ...]:
        config = Config.model_validate({"fabric": {"vlans": sections}})
        return config.engine_settings().vlans

    def test_it_is_read(self) -> None:
        assert self.read(
            {"switch": 17, "ports": ["eth1", 2], "access": 10},
            {"ports": ["r*"], "trunk": [10, 20], "native": 30},
        ) == (
            VlanRule(17, ("eth1", 2), Membership(untagged=V10)),
            VlanRule(None, ("r*",), Membership(frozenset({V10, V20}), vlan_numbered(30))),
        )

    @pytest.mark.parametrize(
        ("section", "says"),
        [
            ({"ports": ["a"]}, "write access: VLAN for ports without tags"),
            (
                {"ports": ["a"], "access": 10, "trunk": [20]},
                "an access port of one VLAN, or a trunk",
            ),
            ({"ports": ["a"], "trunk": [20], "native": 20}, "VLAN 20 is native"),
            ({"ports": ["a"], "access": 0}, "greater than or equal to 1"),
            ({"ports": ["a"], "access": 4095}, "less than or equal to 4094"),
            ({"ports": [], "access": 1}, "at least 1 item"),
            ({"access": 1}, "Field required"),
        ],
    )
    def test_errors_say_what_would_be_right(self, section: dict[str, object], says: str) -> None:
        with pytest.raises((ConfigError, ValueError), match=says):
            self.read(section)


def test_events_name_the_vlan() -> None:
    bench = bench_of()
    key = FlowKey(A.address, CLIENT_PORT, B.address, SERVER_PORT, V10)
    hears(bench, AT_A, key, (A.mac, B.mac), SYN)
    hears(bench, AT_B, key.reverse, (B.mac, A.mac), SYN | ACK)
    (opened,) = records(bench.last, "connection_opened")
    assert opened["vlan"] == 10


class TestListing:
    def ends(self, in_vlan: int | None = None) -> FlowEnds:
        return FlowEnds(
            src="10.0.0.1",
            src_port=CLIENT_PORT,
            dst="10.0.0.2",
            dst_port=SERVER_PORT,
            vlan=in_vlan,
        )

    def test_both_legs_are_listed_and_found_by_their_vlan(self) -> None:
        inspection = inspect(routed())
        page = inspection.flows(FlowQuery(), nothing)
        assert sorted(row["vlan"] or 0 for row in page.flows) == [10, 10, 20, 20]
        assert inspection.flow(self.ends(10))["enters"] == str(AT_A)
        assert inspection.flow(self.ends(20))["enters"] == str(AT_ROUTER)
        with pytest.raises(UnknownError, match="several VLANs: say which, vlan=10 or vlan=20"):
            inspection.flow(self.ends())
        with pytest.raises(UnknownError, match="no flow from"):
            inspection.flow(self.ends(30))

    def test_the_only_one_is_found_without(self) -> None:
        bench = bench_of()
        says(bench, A, AT_A, V10)
        key = FlowKey(A.address, CLIENT_PORT, B.address, SERVER_PORT, V10)
        hears(bench, AT_A, key, (A.mac, B.mac), SYN)
        hears(bench, AT_B, key.reverse, (B.mac, A.mac), SYN | ACK)
        assert inspect(bench).flow(self.ends())["flow"]["vlan"] == 10


class TestFastPath:
    def packet_in(self, *vlans: int, register: bool = False) -> bytes:
        frame = segment(A, B, (CLIENT_PORT, SERVER_PORT), SYN, options=tcp_options(MSS, 7))
        tags = b"".join(struct.pack("!HH", 0x8100, number) for number in vlans)
        match: match_fields.Match = ((match_fields.IN_PORT, b"\0\0\0\1", None),)
        if register:
            match = (*match, (match_fields.REG0, b"\0\0\0\x15", None))
        frame = frame[:12] + tags + frame[12:]
        head = struct.pack("!IHBBQ", 0xFFFFFFFF, len(frame), 0, int(Table.EDGE), 0)
        body = head + match_fields.pack_match(match) + b"\0\0" + frame
        return HEADER.pack(4, openflow.Type.PACKET_IN, HEADER.size + len(body), 0) + body

    @pytest.mark.parametrize("register", [False, True])
    def test_one_tag_or_none_is_read_in_one_step_as_field_by_field(self, register: bool) -> None:
        for vlans in ((), (10,), (0xE00A,), (0xE000,)):
            message = self.packet_in(*vlans, register=register)
            copied, end = segments.take(message * 3, 0)
            assert (len(copied), end) == (3, 3 * len(message))
            read = openflow.unpack_packet_in(message)
            careful = packet_in.parse(read.data)
            assert isinstance(careful, packet_in.TcpSegment)
            assert copied[0] == segments.copied(read.in_port, read.register, careful)
            assert vlan_of_key(copied[0][2]) == (V10 if vlans and vlans[0] & 0xFFF else NONE)

    def test_what_has_two_tags_is_left_to_those_who_look(self) -> None:
        assert segments.take(self.packet_in(10, 20), 0) == ([], 0)

    def test_segments_with_a_tag_and_without_may_follow_each_other(self) -> None:
        stream = self.packet_in(10) + self.packet_in() + self.packet_in(20)
        copied, end = [], 0
        while end < len(stream):
            found, end = segments.take(stream, end)
            assert found
            copied += found
        assert [vlan_of_key(one[2]) for one in copied] == [V10, NONE, V20]
