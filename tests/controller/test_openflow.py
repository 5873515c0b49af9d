"""Our OpenFlow against Ryu's: what we pack it parses, what it packs we read."""

import contextlib
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ryu.ofproto import ofproto_parser, ofproto_v1_3
from ryu.ofproto import ofproto_v1_3_parser as parser
from ryu.ofproto.ofproto_protocol import ProtocolDesc

from controller.model.values import Port
from controller.southbound.codec import match, openflow
from controller.southbound.codec.openflow import FlowEntry, FlowModCommand, FlowStats

DATAPATH = ProtocolDesc(version=ofproto_v1_3.OFP_VERSION)


def by_ryu(message: bytes) -> Any:
    version, kind, length, xid = openflow.HEADER.unpack_from(message)
    assert length == len(message)
    parsed = ofproto_parser.msg(DATAPATH, version, kind, length, xid, message)
    assert parsed is not None
    return parsed


def of_ryu(message: Any, xid: int = 7) -> bytes:
    message.xid = xid
    message.serialize()
    return bytes(message.buf)


MATCH: match.Match = (
    (match.IN_PORT, (3).to_bytes(4, "big"), None),
    (match.ETH_TYPE, b"\x08\x00", None),
    (match.IP_PROTO, b"\x06", None),
    (match.IPV4_SRC, bytes([10, 0, 0, 1]), None),
    (match.TCP_DST, (80).to_bytes(2, "big"), None),
    (match.TCP_FLAGS, b"\x00\x02", b"\x00\x02"),
)


class TestToTheSwitch:
    def test_flow_mod(self) -> None:
        entry = FlowEntry(
            table=1,
            priority=100,
            cookie=0xABC,
            match=MATCH,
            actions=match.output(7),
            goto=2,
            idle_timeout_s=300,
            hard_timeout_s=5,
            flags=openflow.SEND_FLOW_REMOVED,
        )
        # Ryu does not parse FLOW_MODs, so it packs the same one.
        theirs = parser.OFPFlowMod(
            DATAPATH,
            cookie=0xABC,
            table_id=1,
            idle_timeout=300,
            hard_timeout=5,
            priority=100,
            flags=ofproto_v1_3.OFPFF_SEND_FLOW_REM,
            out_port=ofproto_v1_3.OFPP_ANY,
            out_group=ofproto_v1_3.OFPG_ANY,
            match=parser.OFPMatch(
                in_port=3,
                eth_type=0x0800,
                ip_proto=6,
                ipv4_src="10.0.0.1",
                tcp_dst=80,
                tcp_flags=(2, 2),
            ),
            instructions=[
                parser.OFPInstructionActions(
                    ofproto_v1_3.OFPIT_APPLY_ACTIONS, [parser.OFPActionOutput(7, 0)]
                ),
                parser.OFPInstructionGotoTable(2),
            ],
        )
        assert openflow.flow_mod(FlowModCommand.ADD, entry, 7) == of_ryu(theirs)

    def test_delete(self) -> None:
        entry = FlowEntry(3, 100, 0xABC, ((match.ETH_DST, b"\2\0\0\0\0\1", None),), b"x" * 8)
        theirs = parser.OFPFlowMod(
            DATAPATH,
            cookie=0xABC,
            table_id=3,
            command=ofproto_v1_3.OFPFC_DELETE_STRICT,
            priority=100,
            out_port=ofproto_v1_3.OFPP_ANY,
            out_group=ofproto_v1_3.OFPG_ANY,
            match=parser.OFPMatch(eth_dst="02:00:00:00:00:01"),
        )
        assert openflow.flow_mod(FlowModCommand.DELETE_STRICT, entry, 7) == of_ryu(theirs)

    def test_packet_out(self) -> None:
        theirs = parser.OFPPacketOut(
            DATAPATH,
            ofproto_v1_3.OFP_NO_BUFFER,
            ofproto_v1_3.OFPP_CONTROLLER,
            [parser.OFPActionOutput(4, 0), parser.OFPActionOutput(5, 0)],
            b"frame",
        )
        ours = openflow.packet_out(match.output(4) + match.output(5), b"frame", 7)
        assert ours == of_ryu(theirs)

    def test_output_to_the_controller_says_how_much(self) -> None:
        action = parser.OFPActionOutput(ofproto_v1_3.OFPP_CONTROLLER, 192)
        buffer = bytearray()
        action.serialize(buffer, 0)
        assert match.output(match.CONTROLLER, 192) == bytes(buffer)

    def test_requests(self) -> None:
        stats = parser.OFPFlowStatsRequest(
            DATAPATH, 0, 1, ofproto_v1_3.OFPP_ANY, ofproto_v1_3.OFPG_ANY, 0xA, 0xFF
        )
        assert openflow.flow_stats_request(1, 0xA, 0xFF, 7) == of_ryu(stats)
        assert openflow.barrier_request(7) == of_ryu(parser.OFPBarrierRequest(DATAPATH))
        experimenter = parser.OFPExperimenter(DATAPATH, 0x25D7C, 1, b"12345678")
        assert openflow.experimenter(0x25D7C, 1, b"12345678", 7) == of_ryu(experimenter)


def stats_reply() -> bytes:
    """Two entries: Ryu cannot pack such a reply, but what it parses in it is compared below."""
    body = b""
    for port in (80, 81):
        fields = parser.OFPMatch(eth_type=0x0800, ip_proto=6, ipv4_src="10.0.0.1", tcp_dst=port)
        tail = _packed(fields) + match.pack_instructions(b"", 2)
        body += openflow._FLOW_STATS.pack(
            *(48 + len(tail), 1, 2, 500, 100, 300, 0, 0, 0xAB, 1, 1500)
        )
        body += tail
    head = openflow.HEADER.pack(4, openflow.Type.MULTIPART_REPLY, 16 + len(body), 7)
    return head + bytes([0, 1, 0, 0, 0, 0, 0, 0]) + body


class TestFromTheSwitch:
    def test_flow_statistics(self) -> None:
        (first, second), more = openflow.unpack_flow_stats(stats_reply())
        assert not more
        theirs = by_ryu(stats_reply()).body[0]
        assert (theirs.table_id, theirs.priority, theirs.cookie) == first[:3]
        assert (theirs.byte_count, theirs.match["tcp_dst"]) == (first.byte_count, 80)
        assert (first.table, first.priority, first.cookie) == (1, 100, 0xAB)
        assert (first.packet_count, first.byte_count) == (1, 1500)
        assert first.duration_ns == 2 * 10**9 + 500
        assert match.unpack_instructions(first.instructions) == (b"", 2, None, None)
        fields = {field: value for field, value, _ in match.unpack_match(second.match)}
        assert fields[match.TCP_DST] == b"\x00\x51"
        assert fields[match.IPV4_SRC] == bytes([10, 0, 0, 1])

    def test_more_parts_may_follow(self) -> None:
        part = bytearray(stats_reply())
        part[11] |= 1
        assert openflow.unpack_flow_stats(bytes(part))[1]

    def test_what_was_read_back_can_be_deleted(self) -> None:
        stats = openflow.unpack_flow_stats(stats_reply())[0][0]
        message = openflow.delete_read_back(stats, 7)
        head = openflow._FLOW_MOD.unpack_from(message)
        assert head[2] == len(message)
        assert (head[4], head[5]) == (0xAB, 2**64 - 1)
        assert (head[6], head[7], head[10]) == (1, FlowModCommand.DELETE_STRICT, 100)
        assert message[48:] == stats.match

    @pytest.mark.parametrize("extra", [{}, {"metadata": 5}, {"tunnel_id": 6}])
    def test_packet_in(self, extra: dict[str, int]) -> None:
        theirs = parser.OFPMatch(in_port=9, **extra)
        message = _packet_in(theirs, b"frame")
        by_tunnel = "tunnel_id" in extra
        assert openflow.unpack_packet_in(message) == openflow.PacketIn(
            2, 0xCC, 9, b"frame", by_tunnel=by_tunnel
        )

    def test_in_port_need_not_stand_first(self) -> None:
        oxms = bytes.fromhex("80000602 0800 80000004 00000009")
        packed = (1).to_bytes(2, "big") + (4 + len(oxms)).to_bytes(2, "big") + oxms
        packed += bytes(-len(packed) % 8)
        head = openflow._PACKET_IN.pack(0xFFFFFFFF, 5, 1, 2, 0xCC)
        message = openflow.HEADER.pack(4, 10, 8 + 16 + len(packed) + 7, 1) + head[8:]
        assert openflow.unpack_packet_in(message + packed + b"\0\0frame").in_port == 9

    def test_flow_removed(self) -> None:
        packed = match.pack_match(MATCH)
        message = (
            openflow.HEADER.pack(4, 11, 48 + len(packed), 1)
            + openflow._FLOW_REMOVED.pack(0xAB, 100, 0, 1, 5, 0, 300, 0, 10, 9000)[8:]
        )
        removed = openflow.unpack_flow_removed(message + packed)
        assert removed == openflow.FlowRemoved(0xAB, 0, 1, 9000, packed)
        assert by_ryu(message + packed).byte_count == 9000

    def test_port_status(self) -> None:
        port = b"".join(
            (
                (3).to_bytes(4, "big") + bytes(4),
                b"\2\0\0\0\0\3" + bytes(2),
                b"s1-eth3".ljust(16, b"\0"),
                (0).to_bytes(4, "big") + (1).to_bytes(4, "big"),
                bytes(24),
            )
        )
        message = openflow.HEADER.pack(4, 12, 80, 1) + bytes([2]) + bytes(7) + port
        reason, described = openflow.unpack_port_status(message)
        assert reason == by_ryu(message).reason == 2
        assert described == Port(3, "s1-eth3", b"\2\0\0\0\0\3", up=False, live=False)
        assert by_ryu(message).desc.port_no == 3

    def test_error(self) -> None:
        request = openflow.barrier_request(77)
        message = openflow.HEADER.pack(4, 1, 12 + len(request), 77) + bytes([0, 1, 0, 3]) + request
        assert openflow.unpack_error(message) == openflow.Error(1, 3, request)
        assert by_ryu(message).code == 3

    def test_error_of_an_experimenter(self) -> None:
        """OpenFlow 1.3.5, section 7.4.4: the experimenter stands before the request."""
        request = openflow.barrier_request(77)
        error = struct.pack("!HHI", 0xFFFF, 6, 0x25D7C)
        message = openflow.HEADER.pack(4, 1, 16 + len(request), 77) + error + request
        assert openflow.unpack_error(message) == openflow.Error(0xFFFF, 6, request, 0x25D7C)
        assert by_ryu(message).experimenter == 0x25D7C

    def test_experimenter(self) -> None:
        message = openflow.experimenter(0x25D7C, 2, b"body", 1)
        assert openflow.unpack_experimenter(message) == (0x25D7C, 2, b"body")


READERS = [
    openflow.unpack_packet_in,
    openflow.unpack_flow_removed,
    openflow.unpack_flow_stats,
    openflow.unpack_port_status,
    openflow.unpack_error,
    openflow.unpack_experimenter,
]


@pytest.mark.parametrize("reader", READERS)
@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_value_error(reader: Any, tail: bytes) -> None:
    message = openflow.HEADER.pack(4, 10, 8 + len(tail), 1) + tail
    try:
        result = reader(message)
    except ValueError:
        return
    for stats in result if isinstance(result, list) else []:
        _read(stats)


@given(st.data())
def test_damaged_statistics_raise_nothing_but_value_error(data: st.DataObject) -> None:
    message = bytearray(stats_reply())
    for _ in range(data.draw(st.integers(1, 4))):
        message[data.draw(st.integers(16, len(message) - 1))] = data.draw(st.integers(0, 255))
    del message[data.draw(st.integers(16, len(message))) :]
    with contextlib.suppress(ValueError):
        for stats in openflow.unpack_flow_stats(bytes(message))[0]:
            _read(stats)


def _read(stats: FlowStats) -> None:
    for reader, packed in (
        (match.unpack_match, stats.match),
        (match.unpack_instructions, stats.instructions),
    ):
        with contextlib.suppress(ValueError):
            reader(packed)


def _packed(theirs: Any) -> bytes:
    buffer = bytearray()
    length = theirs.serialize(buffer, 0)
    return bytes(buffer[:length])


def _packet_in(theirs: Any, data: bytes) -> bytes:
    packed = _packed(theirs)
    head = openflow._PACKET_IN.pack(0xFFFFFFFF, len(data), 1, 2, 0xCC)
    header = openflow.HEADER.pack(4, 10, 24 + len(packed) + 2 + len(data), 1)
    return header + head[8:] + packed + b"\0\0" + data
