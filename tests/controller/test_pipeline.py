"""The flow tables as data: what a packet would meet, and that all is read back as it was sent."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.entries import (
    AssignPathIds,
    BondEgress,
    BondIngress,
    ControllerAnswers,
    Entry,
    Exempt,
    FloodFrom,
    FloodTo,
    FlowCounter,
    FlowWindow,
    Forward,
    ForwardVia,
    GroupMessages,
    GroupsFollowed,
    GroupTo,
    HeldEntry,
    HostWindow,
    LinkPort,
    NextHop,
    PortWindow,
    ProtectedHop,
    Relearn,
    ServiceWatch,
    Steer,
    TaggedIngress,
    TunnelCounter,
    UntaggedIngress,
    VlanEgress,
    VlanFilter,
    VlanPort,
)
from controller.model.flow import FlowKey
from controller.model.values import N_PATH_IDS
from controller.model.vlans import vlan_numbered
from controller.southbound.codec import match, openflow
from controller.southbound.codec.extension import TcpRwndRegister
from controller.southbound.codec.openflow import FlowEntry, FlowStats
from controller.southbound.switch import encoding, pipeline
from controller.southbound.switch.encoding import counted_flow, decode, encode
from controller.southbound.switch.pipeline import STATIC, Table
from controller.southbound.switch.readback import ReadBack

ports = st.integers(1, 0xFFFFFEFF)
several_ports = st.lists(ports, max_size=3).map(tuple)
u16 = st.integers(0, 65_535)
macs = st.binary(min_size=6, max_size=6)
addresses = st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16)
in_a_vlan = st.integers(1, 4094).map(vlan_numbered)
vlans = st.just(b"") | in_a_vlan
keys4 = st.builds(
    FlowKey, st.binary(min_size=4, max_size=4), u16, st.binary(min_size=4, max_size=4), u16, vlans
)
keys6 = st.builds(
    *(FlowKey, st.binary(min_size=16, max_size=16), u16),
    *(st.binary(min_size=16, max_size=16), u16, vlans),
)
keys = keys4 | keys6
registers = st.integers(0, 1023)
scales = st.integers(0, 14)
steered = st.integers(0, N_PATH_IDS - 1)
path_ids = st.none() | steered
datapath_ids = st.integers(0, 2**64 - 1)


@st.composite
def exemptions(draw: st.DrawFn) -> Exempt:
    """A network of either family and a port, or one of the two."""
    port = draw(u16.filter(bool))
    if draw(st.booleans()):
        return Exempt(b"", 0, port)
    address = draw(addresses)
    prefix_bits = draw(st.integers(1, 8 * len(address)))
    host_bits = 8 * len(address) - prefix_bits
    network = int.from_bytes(address, "big") >> host_bits << host_bits
    return Exempt(
        network.to_bytes(len(address), "big"), prefix_bits, draw(st.sampled_from([0, port]))
    )


entries: st.SearchStrategy[Entry] = st.one_of(
    st.builds(LinkPort, ports),
    st.builds(ControllerAnswers),
    st.builds(FloodFrom, st.integers(1, 0xFFFF), st.booleans()),
    st.builds(FloodFrom, st.integers(1, 0xFFFF), st.just(True), u16),
    st.builds(FloodTo, st.none() | vlans, several_ports, several_ports),
    st.builds(GroupsFollowed, st.booleans()),
    st.builds(GroupMessages, st.integers(1, 0xFFFF)),
    st.builds(GroupTo, vlans, addresses, several_ports, several_ports),
    st.builds(VlanFilter),
    st.builds(VlanPort, ports),
    st.builds(TaggedIngress, ports, in_a_vlan),
    st.builds(UntaggedIngress, ports, in_a_vlan),
    st.builds(VlanEgress, ports, in_a_vlan, st.booleans()),
    st.builds(Relearn, ports),
    st.builds(AssignPathIds),
    st.builds(Steer, *[st.binary(min_size=4, max_size=4)] * 2, steered, vlans),
    st.builds(Steer, *[st.binary(min_size=16, max_size=16)] * 2, steered, vlans),
    st.builds(FlowCounter, keys, st.booleans(), path_ids),
    st.builds(ServiceWatch, *[st.binary(min_size=4, max_size=4)] * 2, u16, vlans),
    st.builds(ServiceWatch, *[st.binary(min_size=16, max_size=16)] * 2, u16, vlans),
    st.builds(HostWindow, ports, addresses, registers, scales, vlans),
    st.builds(PortWindow, ports, registers),
    st.builds(FlowWindow, ports, keys, registers, scales),
    st.builds(Forward, macs, ports, st.booleans()),
    st.builds(TunnelCounter, ports),
    st.builds(Forward, macs, ports, by_bond=st.just(True)),
    st.builds(BondIngress, ports, path_ids, u16),
    st.builds(BondEgress, ports, path_ids, ports, st.booleans()),
    st.builds(ForwardVia, macs, datapath_ids),
    st.builds(NextHop, datapath_ids, path_ids, ports),
    st.builds(ProtectedHop, datapath_ids, st.integers(1, 0xFEFF)),
    exemptions(),
)


def read_back(entry: FlowEntry) -> FlowStats:
    """The entry as a switch returns it."""
    return FlowStats(
        entry.table,
        entry.priority,
        entry.cookie,
        5 * 10**9,
        7,
        777,
        match.pack_match(entry.match),
        match.pack_instructions(*entry.instructions),
    )


@given(entries)
def test_every_entry_is_read_back_as_it_was_meant(entry: Entry) -> None:
    flow_entries = encode(entry)
    for flow_entry in flow_entries:
        assert decode(read_back(flow_entry)) == (entry, len(flow_entries))
    volume_bytes = 0
    if isinstance(entry, FlowCounter):
        headers_bytes = (66 if len(entry.flow.src) == 4 else 86) + (4 if entry.flow.vlan else 0)
        volume_bytes = 777 - 7 * headers_bytes
    held = ReadBack({}).take(map(read_back, flow_entries))
    assert held == [HeldEntry(entry, volume_bytes, 5 * 10**9)]


@given(entries, entries)
def test_entries_of_different_keys_never_share_a_place(a: Entry, b: Entry) -> None:
    if a.key != b.key:
        places = [e.place for entry in (a, b) for e in encode(entry)]
        assert len(places) == len(set(places))


@given(entries, st.data())
def test_what_somebody_has_changed_is_not_taken_for_ours(entry: Entry, data: st.DataObject) -> None:
    stats = read_back(encode(entry)[0])
    changed = data.draw(
        st.sampled_from(
            [
                stats._replace(table=stats.table + 1),
                stats._replace(priority=stats.priority + 1),
                stats._replace(cookie=stats.cookie ^ 1 << 15),
                stats._replace(cookie=stats.cookie ^ 1 << 16),
                stats._replace(cookie=stats.cookie ^ 1 << 40),
                stats._replace(
                    instructions=stats.instructions + match.pack_instructions(b"", 3)[:4]
                ),
                stats._replace(
                    match=match.pack_match(((match.TCP_FLAGS, bytes(2), None),)),
                ),
            ]
        )
    )
    assert decode(changed) is None


@given(st.integers(0, 6), st.binary(max_size=64), st.binary(max_size=64))
def test_garbage_that_is_read_back_raises_nothing(kind: int, match_: bytes, rest: bytes) -> None:
    cookie = pipeline.STATIC[0].cookie | kind
    assert decode(FlowStats(2, 100, cookie, 0, 0, 0, match_, rest)) is None


@given(keys)
def test_a_flow_counter_names_its_flow(key: FlowKey) -> None:
    (entry,) = encode(FlowCounter(key, True, None))
    assert counted_flow(match.pack_match(entry.match)) == key


def test_fixed_entries_are_nobody_elses() -> None:
    for entry in STATIC:
        assert decode(read_back(entry)) is None
        assert entry.cookie & pipeline.COOKIE_MASK == pipeline.COOKIE
    assert len({entry.place for entry in STATIC}) == len(STATIC)


class TestLayout:
    def fixed(self, table: Table) -> list[FlowEntry]:
        found = [entry for entry in STATIC if entry.table == table]
        return sorted(found, key=lambda entry: -entry.priority)

    def test_every_table_has_a_last_word(self) -> None:
        for table in Table:
            last = self.fixed(table)[-1]
            assert (last.priority, last.match) == (0, ())
            if table in (Table.FORWARD, Table.FLOOD):
                assert last.actions == match.output(match.CONTROLLER)
            else:
                ends = table >= Table.BOND_OUT
                assert last.goto == (None if ends else table + 1)

    def test_tcp_is_copied_never_diverted(self) -> None:
        copies = [
            entry
            for entry in self.fixed(Table.EDGE)
            if any(field is match.TCP_FLAGS for field, _, _ in entry.match)
        ]
        assert len(copies) == 6
        for entry in copies:
            assert entry.actions == match.output(match.CONTROLLER, 192)
            assert entry.goto == Table.COUNT

    def test_arp_between_two_hosts_needs_no_controller(self) -> None:
        of_group, of_one = (
            entry
            for entry in self.fixed(Table.EDGE)
            if (match.ETH_TYPE, b"\x08\x06", None) in entry.match
        )
        group_bit = bytes.fromhex("010000000000")
        assert (match.ETH_DST, group_bit, group_bit) in of_group.match
        assert of_group.goto == of_one.goto == Table.COUNT
        assert of_group.actions == of_one.actions == match.output(match.CONTROLLER)

    def test_what_comes_over_a_link_is_not_copied_again(self) -> None:
        copies = [entry for entry in self.fixed(Table.EDGE) if entry.goto and entry.actions]
        assert encode(LinkPort(1))[0].priority > max(entry.priority for entry in copies)

    def test_an_exception_comes_before_its_host(self) -> None:
        key = FlowKey(b"\x0a\0\0\1", 1, b"\x0a\0\0\2", 2)
        exception = encode(FlowWindow(1, key, 0, 7))[0]
        host = encode(HostWindow(1, key.src, 0, 7))[0]
        assert exception.table == host.table == Table.REGULATE
        assert exception.priority > host.priority > 0

    def test_a_host_comes_before_its_port(self) -> None:
        host = encode(HostWindow(1, b"\x0a\0\0\1", 0, 7))[0]
        of_ipv4, of_ipv6 = encode(PortWindow(1, 0))
        for entry, eth_type in ((of_ipv4, b"\x08\x00"), (of_ipv6, b"\x86\xdd")):
            assert (entry.table, entry.goto) == (Table.REGULATE, Table.FORWARD)
            assert host.priority > entry.priority > 0
            assert set(entry.match) == {
                (match.IN_PORT, b"\0\0\0\1", None),
                (match.ETH_TYPE, eth_type, None),
                (match.IP_PROTO, b"\6", None),
            }

    @pytest.mark.parametrize(
        ("entry", "scale"),
        [
            (encode(PortWindow(1, 4))[0], 7),
            (encode(HostWindow(1, b"\x0a\0\0\1", 4, 7))[0], None),
        ],
    )
    def test_a_port_has_no_scale_and_a_host_has_one(
        self, entry: FlowEntry, scale: int | None
    ) -> None:
        other = dataclasses.replace(entry, actions=TcpRwndRegister(4, scale).pack())
        assert decode(read_back(other)) is None

    def test_an_exemption_comes_before_all_windows(self) -> None:
        key = FlowKey(b"\x0a\0\0\1", 1, b"\x0a\0\0\2", 2)
        window = encode(FlowWindow(1, key, 0, 7))[0]
        for exempt in encode(Exempt(bytes([10, 0, 0, 0]), 8, 80)):
            assert (exempt.table, exempt.goto) == (Table.REGULATE, Table.FORWARD)
            assert exempt.priority > window.priority
            assert exempt.actions == b""

    def test_an_exemption_is_of_both_directions_and_without_a_network_of_both_families(
        self,
    ) -> None:
        (of_data, of_acks) = encode(Exempt(bytes([10, 0, 0, 0]), 8, 80))
        mask = bytes([255, 0, 0, 0])
        assert (match.IPV4_SRC, bytes([10, 0, 0, 0]), mask) in of_data.match
        assert (match.TCP_SRC, bytes([0, 80]), None) in of_data.match
        assert (match.IPV4_DST, bytes([10, 0, 0, 0]), mask) in of_acks.match
        assert (match.TCP_DST, bytes([0, 80]), None) in of_acks.match
        assert len(encode(Exempt(b"", 0, 80))) == 4

    def test_a_counter_ends_the_relearning_of_its_flow(self) -> None:
        key = FlowKey(b"\x0a\0\0\1", 1, b"\x0a\0\0\2", 2)
        counter, relearn = encode(FlowCounter(key, True, None))[0], encode(Relearn(1))[0]
        assert counter.table == relearn.table == Table.COUNT
        assert counter.priority > relearn.priority > 0
        assert relearn.hard_timeout_s > 0
        assert counter.flags == openflow.SEND_FLOW_REMOVED

    def test_a_counter_outlives_its_connection_only_for_a_while(self) -> None:
        key = FlowKey(b"\x0a\0\0\1", 1, b"\x0a\0\0\2", 2)
        (counter,) = encode(FlowCounter(key, True, None))
        # struct nx_action_fin_timeout: experimenter, 16 bytes, Nicira, 19, idle and hard timeout.
        assert counter.actions == bytes.fromhex("ffff 0010 00002320 0013 001e 0000 0000")
        assert counter.idle_timeout_s > encoding.FINISHED_IDLE_S

    @pytest.mark.parametrize("last", range(16))
    def test_frames_between_neighbours_are_not_forwarded(self, last: int) -> None:
        (drop,) = [
            entry
            for entry in self.fixed(Table.FORWARD)
            if entry.match and not entry.actions and entry.goto is None
        ]
        ((_, value, mask),) = drop.match
        address = bytes.fromhex("0180c20000") + bytes([last])
        assert mask is not None
        assert bytes(a & m for a, m in zip(address, mask, strict=True)) == value
