"""ARP and IPv6 neighbour discovery, byte by byte."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.packet_ins import NeighbourMessage
from controller.southbound.codec import neighbours, packet_in
from controller.southbound.codec.ethernet import MalformedFrameError
from packets import Host, arp, neighbour_discovery, option, solicited_node

H1, H2 = Host(1), Host(2)
TAG = bytes.fromhex("8100 6007")
ALL_NODES = bytes.fromhex("ff020000000000000000000000000001")
ALL_NODES_MAC = bytes.fromhex("333300000001")
NOBODY = bytes(16)
SOLICITATION, ADVERTISEMENT = 135, 136
SOURCE, TARGET = 1, 2
SOLICITED, OVERRIDE = 1 << 30, 1 << 29


def nd(*said: bytes | int, dst_mac: bytes = H2.mac, **otherwise: Any) -> bytes:
    """A frame of H1."""
    return neighbour_discovery(*said, macs=(dst_mac, H1.mac), **otherwise)  # type: ignore[arg-type]


SOLICITED_BY_H1 = nd(
    SOLICITATION, H1.address6, solicited_node(H2.address6), H2.address6, option(SOURCE, H1.mac)
)


class TestReading:
    def test_arp(self) -> None:
        frame = arp(1, H1, H2)
        asked = NeighbourMessage(True, H1.mac, H1.address, H2.address, b"\xff" * 6, b"", frame)
        assert packet_in.parse(frame) == asked
        frame = arp(2, H1, H2)
        told = NeighbourMessage(False, H1.mac, H1.address, H2.address, H2.mac, b"", frame)
        assert packet_in.parse(frame) == told

    def test_under_a_tag(self) -> None:
        frame = arp(1, H1, H2)
        tagged = frame[:12] + TAG + frame[12:]
        parsed = packet_in.parse(tagged)
        assert isinstance(parsed, NeighbourMessage)
        assert parsed.tags == TAG
        parsed = packet_in.parse(
            nd(SOLICITATION, H1.address6, H2.address6, H2.address6, vlans=(7, 8))
        )
        assert isinstance(parsed, NeighbourMessage)
        assert parsed.tags == bytes.fromhex("8100 0007 8100 0008")

    def test_a_solicitation(self) -> None:
        frame = SOLICITED_BY_H1
        asked = NeighbourMessage(True, H1.mac, H1.address6, H2.address6, H2.mac, b"", frame)
        assert packet_in.parse(frame) == asked

    def test_duplicate_address_detection(self) -> None:
        frame = nd(SOLICITATION, NOBODY, solicited_node(H1.address6), H1.address6)
        asked = NeighbourMessage(True, H1.mac, NOBODY, H1.address6, H2.mac, b"", frame)
        assert packet_in.parse(frame) == asked

    def test_an_advertisement_tells_of_the_address_in_it(self) -> None:
        other = Host(9).mac
        frame = nd(
            ADVERTISEMENT,
            *(H1.address6, ALL_NODES, Host(3).address6, option(TARGET, other)),
            flags=OVERRIDE,
            dst_mac=ALL_NODES_MAC,
        )
        told = NeighbourMessage(False, other, Host(3).address6, NOBODY, ALL_NODES_MAC, b"", frame)
        assert packet_in.parse(frame) == told

    @pytest.mark.parametrize(
        "frame",
        [
            nd(SOLICITATION, H1.address6, H2.address6, H2.address6, hop_limit=254),
            nd(SOLICITATION, H1.address6, H2.address6, H2.address6, wrong=1),
            nd(SOLICITATION, H1.address6, H2.address6, H2.address6, code=1),
            nd(SOLICITATION, H1.address6, H2.address6, ALL_NODES),
            nd(SOLICITATION, H1.address6, H2.address6, H2.address6, b"\1\0" + bytes(6)),
            nd(SOLICITATION, H1.address6, H2.address6, H2.address6, b"\1\2" + bytes(6)),
            nd(SOLICITATION, H1.address6, H2.address6, H2.address6, b"\1"),
            nd(SOLICITATION, NOBODY, H2.address6, H2.address6),
            nd(
                *(SOLICITATION, NOBODY, solicited_node(H2.address6), H2.address6),
                option(SOURCE, H1.mac),
            ),
            nd(ADVERTISEMENT, H1.address6, ALL_NODES, H1.address6, flags=SOLICITED),
            SOLICITED_BY_H1[:-1],
        ],
    )
    def test_what_is_not_valid_is_not_believed(self, frame: bytes) -> None:
        """RFC 4861 sections 7.1.1 and 7.1.2."""
        with pytest.raises(MalformedFrameError):
            packet_in.parse(frame)

    @pytest.mark.parametrize("kind", [133, 134, 137, 143])
    def test_the_rest_of_icmpv6_is_other_traffic(self, kind: int) -> None:
        frame = nd(kind, H1.address6, H2.address6, H2.address6)
        assert packet_in.parse(frame) == packet_in.OtherFrame(H1.mac, H2.mac)

    @given(st.lists(st.tuples(st.integers(0, 85), st.integers(0, 255))), st.integers(0, 86))
    def test_damaged_frames_raise_nothing_else(
        self, damage: list[tuple[int, int]], length: int
    ) -> None:
        frame = bytearray(SOLICITED_BY_H1)
        for place, value in damage:
            frame[place] = value
        with contextlib.suppress(MalformedFrameError):
            packet_in.parse(bytes(frame[:length]))


class TestWriting:
    @pytest.mark.parametrize("tags", [b"", TAG])
    def test_an_arp_reply(self, tags: bytes) -> None:
        frame = neighbours.reply(H1.mac, H1.address, H2.mac, H2.address, tags)
        usual = arp(2, H1, H2)
        assert frame == usual[:12] + tags + usual[12:]

    @pytest.mark.parametrize("tags", [b"", TAG])
    def test_an_advertisement(self, tags: bytes) -> None:
        frame = neighbours.reply(H1.mac, H1.address6, H2.mac, H2.address6, tags)
        usual = nd(
            ADVERTISEMENT,
            *(H1.address6, H2.address6, H1.address6, option(TARGET, H1.mac)),
            flags=SOLICITED | OVERRIDE,
        )
        assert frame == usual[:12] + tags + usual[12:]

    @pytest.mark.parametrize("host_address", [H2.address, H2.address6])
    def test_a_question_is_of_nobody_and_to_one(self, host_address: bytes) -> None:
        frame = neighbours.probe(H2.mac, host_address, H1.mac, TAG)
        nobody = bytes(len(host_address))
        asked = NeighbourMessage(True, H1.mac, nobody, host_address, H2.mac, TAG, frame)
        assert packet_in.parse(frame) == asked
