"""Frames read byte by byte: TCP over IPv4 and IPv6, VLAN tags, extension headers, and garbage."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.packet_ins import NeighbourMessage
from controller.southbound.codec import packet_in
from controller.southbound.codec.ethernet import MalformedFrameError
from controller.southbound.codec.packet_in import (
    Discovery,
    OtherFrame,
    TcpSegment,
)
from packets import ACK, SYN, Host, arp, ethernet, ipv4, ipv6, segment, tcp_header, tcp_options

H1, H2 = Host(1), Host(2)
OPTIONS = tcp_options(1460, 7, sack=True)
TCP = tcp_header((40_000, 80), SYN, 12_345, OPTIONS, acknowledgment=678)
EXPECTED = TcpSegment(
    H1.mac, H2.mac, H1.address, 40_000, H2.address, 80, SYN, 12_345, 678, 0, 1460, 7
)
EXPECTED6 = EXPECTED._replace(src=H1.address6, dst=H2.address6)


def over_ipv4(body: bytes, vlans: tuple[int, ...] = ()) -> bytes:
    return ethernet(H2.mac, H1.mac, 0x0800, ipv4(H1.address, H2.address, body), vlans)


def over_ipv6(body: bytes, header: int = 6) -> bytes:
    packet = ipv6(H1.address6, H2.address6, body, header)
    return ethernet(H2.mac, H1.mac, 0x86DD, packet)


class TestTcp:
    def test_over_ipv4(self) -> None:
        assert packet_in.parse(over_ipv4(TCP)) == EXPECTED

    def test_over_ipv6(self) -> None:
        assert packet_in.parse(over_ipv6(TCP)) == EXPECTED6

    @pytest.mark.parametrize(
        ("tags", "vlan"),
        [((5,), b"\0\5"), ((0xE005,), b"\0\5"), ((0xE000,), b"")],
    )
    def test_with_vlan_tags(self, tags: tuple[int, ...], vlan: bytes) -> None:
        assert packet_in.parse(over_ipv4(TCP, tags)) == EXPECTED._replace(vlan=vlan)

    def test_what_is_in_two_vlans_cannot_be_matched_so_it_is_no_segment(self) -> None:
        assert packet_in.parse(over_ipv4(TCP, (5, 6))) == OtherFrame(H1.mac, H2.mac)

    def test_with_ipv6_extension_headers(self) -> None:
        hop_by_hop = bytes([60, 0]) + bytes(6)
        destination = bytes([51, 1]) + bytes(14)
        authentication = bytes([44, 4]) + bytes(22)
        first_fragment = bytes([6, 0, 0, 1]) + bytes(4)
        chain = hop_by_hop + destination + authentication + first_fragment
        assert packet_in.parse(over_ipv6(chain + TCP, header=0)) == EXPECTED6

    def test_with_ipv4_options(self) -> None:
        packet = bytearray(ipv4(H1.address, H2.address, bytes(4) + TCP))
        packet[0] = 0x46
        assert packet_in.parse(ethernet(H2.mac, H1.mac, 0x0800, bytes(packet))) == EXPECTED

    def test_the_payload_is_what_ip_says_and_not_what_was_copied(self) -> None:
        frame = segment(H1, H2, (1, 2), ACK, payload=bytes(1400))
        parsed = packet_in.parse(frame[:192])
        assert isinstance(parsed, TcpSegment)
        assert parsed.payload_bytes == 1400

    def test_ethernet_padding_is_no_payload(self) -> None:
        parsed = packet_in.parse(segment(H1, H2, (1, 2), ACK).ljust(60, b"\0"))
        assert isinstance(parsed, TcpSegment)
        assert parsed.payload_bytes == 0

    def test_no_options(self) -> None:
        parsed = packet_in.parse(over_ipv4(tcp_header((1, 2), ACK, 1)))
        assert isinstance(parsed, TcpSegment)
        assert (parsed.mss_bytes, parsed.window_scale) == (None, None)

    def test_unknown_options_are_skipped_and_the_end_ends_them(self) -> None:
        timestamps = bytes([8, 10]) + bytes(8)
        options = timestamps + bytes([2, 4, 5, 180]) + bytes([0, 3])
        parsed = packet_in.parse(over_ipv4(tcp_header((1, 2), SYN, 1, options)))
        assert isinstance(parsed, TcpSegment)
        assert (parsed.mss_bytes, parsed.window_scale) == (1460, None)


class TestOthers:
    def test_arp(self) -> None:
        frame = arp(1, H1, H2)
        asked = NeighbourMessage(True, H1.mac, H1.address, H2.address, b"\xff" * 6, b"", frame)
        assert packet_in.parse(frame) == asked

    def test_discovery(self) -> None:
        assert packet_in.parse(ethernet(H2.mac, H1.mac, 0x88CC, b"tlvs")) == Discovery(b"tlvs")

    @pytest.mark.parametrize(
        "frame",
        [
            ethernet(H2.mac, H1.mac, 0x0800, ipv4(H1.address, H2.address, b"udp", protocol=17)),
            ethernet(H2.mac, H1.mac, 0x0800, ipv4(H1.address, H2.address, TCP, fragment=100)),
            over_ipv6(b"icmp" * 4, header=58),
            over_ipv6(bytes([6, 0, 1, 0]) + bytes(4) + TCP, header=44),
            ethernet(H2.mac, H1.mac, 0x1234, b"?"),
        ],
        ids=["udp", "later fragment", "icmp6", "later fragment 6", "unknown"],
    )
    def test_what_is_no_tcp_header_is_only_a_frame(self, frame: bytes) -> None:
        assert packet_in.parse(frame) == OtherFrame(H1.mac, H2.mac)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        over_ipv4(TCP)[:30],
        over_ipv4(TCP)[:50],
        over_ipv4(tcp_header((1, 2), SYN, 1, bytes([2, 0, 0, 0]))),
        over_ipv4(tcp_header((1, 2), SYN, 1, bytes([2, 9, 0, 0]))),
        over_ipv4(tcp_header((1, 2), SYN, 1, bytes([1, 1, 1, 3]))),
        over_ipv4(struct.pack("!HHIIBBHHH", 1, 2, 3, 4, 0x40, 2, 0, 0, 0)),
        over_ipv4(struct.pack("!HHIIBBHHH", 1, 2, 3, 4, 0xF0, 2, 0, 0, 0)),
        ethernet(H2.mac, H1.mac, 0x0800, b"\x55" + bytes(40)),
        over_ipv6(bytes([0, 0]) * 100, header=0),
        ethernet(H2.mac, H1.mac, 0x0806, bytes(28)),
    ],
)
def test_what_cannot_be_is_malformed(frame: bytes) -> None:
    with pytest.raises(MalformedFrameError):
        packet_in.parse(frame)


whole_frames = st.sampled_from(
    [
        over_ipv4(TCP),
        over_ipv4(TCP, (1, 2)),
        over_ipv6(TCP),
        over_ipv6(bytes([60, 0]) + bytes(6) + bytes([6, 0]) + bytes(6) + TCP, header=0),
        arp(1, H1, H2),
    ]
)


@given(whole_frames, st.data())
def test_damaged_frames_raise_nothing_but_their_own_error(
    frame: bytes, data: st.DataObject
) -> None:
    damaged = bytearray(frame)
    for _ in range(data.draw(st.integers(0, 6))):
        damaged[data.draw(st.integers(12, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    _survives(bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))


@given(st.sampled_from([0x0800, 0x86DD, 0x0806, 0x8100, 0x88CC]), st.binary(max_size=180))
def test_random_frames_raise_nothing_but_their_own_error(eth_type: int, body: bytes) -> None:
    _survives(ethernet(H2.mac, H1.mac, eth_type, body))


def _survives(frame: bytes) -> None:
    for reader in (packet_in.parse, packet_in.addresses):
        with contextlib.suppress(MalformedFrameError):
            reader(frame)
