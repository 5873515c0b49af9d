"""IGMP, MLD and PIM, byte by byte."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.packet_ins import GroupKind, GroupMessage
from controller.model.vlans import vlan_numbered
from controller.southbound.codec import groups
from controller.southbound.codec.checksums import internet_checksum, ipv6_checksum
from controller.southbound.codec.ethernet import MalformedFrameError
from packets import Host, ethernet

HOST = Host(1)
ALL_ROUTERS_V3 = bytes((224, 0, 0, 22))
ALL_ROUTERS_V2 = bytes.fromhex("ff02" + "00" * 13 + "16")
GROUP, GROUP6 = bytes((239, 1, 2, 3)), bytes.fromhex("ff0e" + "00" * 12 + "0007")
OTHER, OTHER6 = bytes((232, 1, 1, 1)), bytes.fromhex("ff35" + "00" * 12 + "0009")
FIRST, SECOND = bytes((10, 0, 0, 8)), bytes((10, 0, 0, 9))
LINK_LOCAL = bytes.fromhex("fe80" + "00" * 13 + "01")
TAG = bytes.fromhex("81000007")


def igmp(body: bytes, dst: bytes = ALL_ROUTERS_V3, protocol: int = 2) -> bytes:
    """A frame with router alert, and the checksum of IGMP."""
    body = (
        body[:2] + internet_checksum(body[:2] + bytes(2) + body[4:]).to_bytes(2, "big") + body[4:]
    )
    head = struct.pack("!BBHHHBBH", 0x46, 0xC0, 24 + len(body), 0, 0, 1, protocol, 0)
    packet = head + HOST.address + dst + bytes((0x94, 4, 0, 0)) + body
    return ethernet(b"\x01\0\x5e" + dst[1:], HOST.mac, 0x0800, packet)


def mld(body: bytes, dst: bytes = ALL_ROUTERS_V2) -> bytes:
    """A frame with router alert, and the checksum of ICMPv6."""
    plain = body[:2] + bytes(2) + body[4:]
    checksum = ipv6_checksum(LINK_LOCAL, dst, 58, plain)
    body = body[:2] + checksum.to_bytes(2, "big") + body[4:]
    options = bytes((58, 0, 5, 2, 0, 0, 1, 0))
    head = struct.pack("!IHBB", 6 << 28, len(options) + len(body), 0, 1) + LINK_LOCAL + dst
    return ethernet(b"\x33\x33" + dst[-4:], HOST.mac, 0x86DD, head + options + body)


def record(kind: int, group: bytes, *sources: bytes, auxiliary: bytes = b"") -> bytes:
    return (
        struct.pack("!BBH", kind, len(auxiliary) // 4, len(sources))
        + group
        + b"".join(sources)
        + auxiliary
    )


def report(*records: bytes) -> bytes:
    """Of IGMPv3."""
    return igmp(struct.pack("!BBHHH", 0x22, 0, 0, 0, len(records)) + b"".join(records))


def report6(*records: bytes) -> bytes:
    """Of MLDv2."""
    return mld(struct.pack("!BBHHH", 143, 0, 0, 0, len(records)) + b"".join(records))


def said(frame: bytes) -> tuple[tuple[bytes, bool], ...]:
    parsed = groups.parse(frame)
    assert parsed is not None
    assert parsed.kind is GroupKind.REPORT
    return parsed.groups


class TestReports:
    def test_of_the_older_versions(self) -> None:
        for kind, is_member in ((0x12, True), (0x16, True), (0x17, False)):
            frame = igmp(struct.pack("!BBH4s", kind, 0, 0, GROUP), GROUP)
            wanted = GroupMessage(GroupKind.REPORT, ((GROUP, is_member),), b"", frame)
            assert groups.parse(frame) == wanted
        for kind, is_member in ((131, True), (132, False)):
            frame = mld(struct.pack("!BBHHH16s", kind, 0, 0, 0, 0, GROUP6), GROUP6)
            wanted = GroupMessage(GroupKind.REPORT, ((GROUP6, is_member),), b"", frame)
            assert groups.parse(frame) == wanted

    def test_of_the_newer_versions(self) -> None:
        """RFC 3376 section 4.2.12: who includes no sources is no member."""
        kinds = ((1, ()), (2, ()), (3, ()), (4, (FIRST,)), (1, (FIRST, SECOND)), (3, (FIRST,)))
        more = ((5, (FIRST,)), (6, (FIRST,)))
        frame = report(*(record(kind, GROUP, *sources) for kind, sources in (*kinds, *more)))
        assert [is_member for _, is_member in said(frame)] == [True, False, True, True, True, True]
        sources = LINK_LOCAL, GROUP6
        frame = report6(
            record(4, GROUP6, auxiliary=bytes(8)), record(3, OTHER6), record(5, GROUP6, *sources)
        )
        assert said(frame) == ((GROUP6, True), (OTHER6, False), (GROUP6, True))

    def test_in_a_vlan(self) -> None:
        frame = report(record(4, GROUP))
        parsed = groups.parse(frame[:12] + TAG + frame[12:])
        assert parsed is not None
        assert parsed.vlan == vlan_numbered(7)
        assert parsed.groups == ((GROUP, True),)
        assert groups.parse(frame[:12] + TAG + TAG + frame[12:]) is None


class TestRouters:
    def test_they_ask(self) -> None:
        for frame in (
            igmp(struct.pack("!BBH4s", 0x11, 100, 0, bytes(4)), bytes((224, 0, 0, 1))),
            mld(struct.pack("!BBHHH16s", 130, 0, 0, 1000, 0, GROUP6), GROUP6),
        ):
            parsed = groups.parse(frame)
            assert parsed is not None
            assert parsed.kind is GroupKind.QUERY
            assert parsed.groups == ()

    def test_they_greet_each_other(self) -> None:
        frame = igmp(struct.pack("!BBH", 0x20, 0, 0) + bytes(10), bytes((224, 0, 0, 13)), 103)
        parsed = groups.parse(frame)
        assert parsed is not None
        assert parsed.kind is GroupKind.ROUTING

    @pytest.mark.parametrize("group", [bytes(4), GROUP, bytes(16), GROUP6])
    def test_what_the_controller_asks_is_such_a_question(self, group: bytes) -> None:
        """The kernel's answers to it are in tests/system/test_group_members.py."""
        for tags in (b"", TAG):
            frame = groups.query(HOST.mac, group, 10, tags)
            parsed = groups.parse(frame)
            assert parsed is not None
            assert parsed.kind is GroupKind.QUERY
            packet = frame[14 + len(tags) :]
            if len(group) == 4:
                assert internet_checksum(packet[:24]) == 0
                assert frame[:3] == b"\x01\x00\x5e"
                assert packet[16:20] == (group if any(group) else bytes((224, 0, 0, 1)))
                assert packet[25] == 100
            else:
                assert frame[:6] == b"\x33\x33" + packet[36:40]
                assert packet[24:26] == (group[:2] if any(group) else b"\xff\x02")
                assert packet[52:54] == (10_000).to_bytes(2, "big")


class TestMalformed:
    @pytest.mark.parametrize(
        "frame",
        [
            report(record(4, GROUP), record(4, OTHER))[:-1],
            report6(record(4, GROUP6))[:-1],
            report(record(4, GROUP))[:-1] + b"\xff",
            report6(record(4, GROUP6))[:-1] + b"\xff",
            igmp(struct.pack("!BBHHH", 0x22, 0, 0, 0, 2) + record(4, GROUP)),
            igmp(struct.pack("!BBHHH", 0x22, 0, 0, 0, 1) + struct.pack("!BBH", 4, 0, 9) + GROUP),
            igmp(bytes((0x16, 0, 0, 0))),
            igmp(b"\x22\0\0\0"),
            mld(bytes((131, 0, 0, 0, 0, 0, 0, 0))),
        ],
    )
    def test_is_refused(self, frame: bytes) -> None:
        with pytest.raises(MalformedFrameError):
            groups.parse(frame)

    def test_others_are_none_of_ours(self) -> None:
        for frame in (
            ethernet(b"\xff" * 6, HOST.mac, 0x0806, bytes(28)),
            igmp(bytes((0x13, 0, 0, 0, 0, 0, 0, 0))),
            mld(bytes((133, 0, 0, 0)) + bytes(4)),
            b"",
        ):
            assert groups.parse(frame) is None

    @given(
        st.sampled_from(
            [
                report(record(4, GROUP, FIRST), record(3, OTHER)),
                report6(record(4, GROUP6), record(3, OTHER6)),
                groups.query(HOST.mac, GROUP6, 10, TAG),
                igmp(struct.pack("!BBH4s", 0x16, 0, 0, GROUP), GROUP),
            ]
        ),
        st.lists(st.tuples(st.integers(0, 120), st.integers(0, 255)), max_size=4),
        st.integers(0, 130),
    )
    def test_anything_is_read_or_refused(
        self, frame: bytes, changes: list[tuple[int, int]], end: int
    ) -> None:
        changed = bytearray(frame)
        for at, value in changes:
            if at < len(changed):
                changed[at] = value
        with contextlib.suppress(MalformedFrameError):
            groups.parse(bytes(changed[:end]))
