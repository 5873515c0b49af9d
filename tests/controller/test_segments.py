"""The usual packet-in read in one step: the same as field by field, whatever comes."""

import struct

from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller.model.flow import SegmentFields
from controller.southbound.codec import match, openflow, packet_in
from controller.southbound.codec.ethernet import MalformedFrameError
from controller.southbound.codec.openflow import HEADER, Type
from controller.southbound.codec.packet_in import TcpSegment
from controller.southbound.switch import segments
from controller.southbound.switch.pipeline import Table
from packets import ACK, FIN, SYN, Host, ethernet, ipv4, ipv6, segment, tcp_header, tcp_options

H1, H2 = Host(1), Host(2)
LINUX = bytes.fromhex("020405b4 0402080a 00000001 00000000 01030307")
TIMESTAMPS = bytes.fromhex("0101080a 00000001 00000002")


def wrapped(frame: bytes, in_port: int = 5, table: int = 1, register: int | None = None) -> bytes:
    """A packet-in; Open vSwitch tells the registers that are not 0."""
    fields: match.Match = ((match.IN_PORT, in_port.to_bytes(4, "big"), None),)
    if register is not None:
        fields = (*fields, (match.REG0, register.to_bytes(4, "big"), None))
    packed = match.pack_match(fields)
    head = struct.pack("!IHBBQ", 0xFFFFFFFF, len(frame), 0, table, 0)
    body = head + packed + b"\0\0" + frame
    return HEADER.pack(4, Type.PACKET_IN, 8 + len(body), 7) + body


def over_ipv4(tcp: bytes) -> bytes:
    return ethernet(H2.mac, H1.mac, 0x0800, ipv4(H1.address, H2.address, tcp))


def over_ipv6(tcp: bytes) -> bytes:
    return ethernet(H2.mac, H1.mac, 0x86DD, ipv6(H1.address6, H2.address6, tcp))


def carefully(message: bytes) -> SegmentFields | None:
    """What the fields say, one after the other; None if it is no TCP segment."""
    packet = openflow.unpack_packet_in(message)
    try:
        parsed = packet_in.parse(packet.data)
    except MalformedFrameError:
        return None
    return (
        segments.copied(packet.in_port, packet.register, parsed)
        if isinstance(parsed, TcpSegment)
        else None
    )


def test_a_linux_syn() -> None:
    message = wrapped(over_ipv4(tcp_header((40_000, 80), SYN, 9, LINUX)))
    key = H1.address + H2.address + struct.pack("!HH", 40_000, 80)
    for _ in range(2):
        assert segments.take(message, 0) == (
            [(5, H2.mac + H1.mac, key, SYN, 9, 0, 0, 1460, 7, None)],
            len(message),
        )


def test_one_after_the_other_until_something_else_comes() -> None:
    usual = [
        wrapped(over_ipv4(tcp_header((1, 2), SYN, 1, tcp_options(1460, 7)))),
        wrapped(over_ipv6(tcp_header((1, 2), SYN, 1, LINUX))),
        wrapped(segment(H1, H2, (1, 2), FIN | ACK, options=TIMESTAMPS)[:200]),
    ]
    other = openflow.barrier_request(1)
    stream = b"".join(usual)
    found, end = segments.take(b"before" + stream + other + usual[0], 6)
    assert found == [carefully(message) for message in usual]
    assert end == 6 + len(stream)


def test_one_that_is_not_whole_yet_is_left() -> None:
    message = wrapped(segment(H1, H2, (1, 2), SYN, options=LINUX))
    for length in range(len(message)):
        assert segments.take(message[:length], 0) == ([], 0)


def test_a_path_id_is_told_and_ends_a_run_without() -> None:
    frame = over_ipv4(tcp_header((40_000, 80), SYN, 9, LINUX))
    plain, with_register = wrapped(frame), wrapped(frame, register=16 + 11)
    found, end = segments.take(with_register * 2 + plain, 0)
    assert [segment[-1] for segment in found] == [11, 11]
    assert end == 2 * len(with_register)


def test_what_found_no_entry_is_no_copy() -> None:
    assert segments.take(wrapped(segment(H1, H2, (1, 2), SYN), table=Table.FORWARD), 0) == ([], 0)


frames = st.builds(
    lambda make, flags, options, payload: make(
        tcp_header((1000, 80), flags, 77, options, acknowledgment=3) + payload
    ),
    st.sampled_from([over_ipv4, over_ipv6]),
    st.integers(0, 255),
    st.sampled_from([b"", LINUX, TIMESTAMPS, tcp_options(9000, 14, sack=True), bytes(40)])
    | st.binary(max_size=10).map(lambda some: some * 4),
    st.binary(max_size=30),
)


# With the path id 5, with none, and with what none of ours has set.
registers = st.sampled_from([None, 16 + 5, 16, 3, 1 << 31])


@settings(max_examples=400)
@given(
    frames,
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255))),
    st.integers(0, 200),
    registers,
)
@example(over_ipv4(tcp_header((1, 2), SYN, 1, LINUX)), [], 2, None)
def test_both_ways_agree_on_every_frame(
    frame: bytes, damage: list[tuple[int, int]], cut: int, register: int | None
) -> None:
    damaged = bytearray(frame[: max(0, len(frame) - cut)])
    for place, value in damage:
        if place < len(damaged):
            damaged[place] = value
    message = wrapped(bytes(damaged), register=register)
    # The options are in the cache, or are not, by what was read before: both must agree.
    for _ in range(2):
        found, end = segments.take(message, 0)
        if found:
            assert end == len(message)
            assert found == [carefully(message)]
        else:
            assert end == 0


@given(frames, registers)
def test_the_usual_frames_do_go_the_short_way(frame: bytes, register: int | None) -> None:
    message = wrapped(frame, register=register)
    if carefully(message) is not None:
        assert segments.take(message, 0)[0] == [carefully(message)]


@given(st.binary(max_size=300), st.integers(0, 40))
def test_garbage_is_left(garbage: bytes, offset: int) -> None:
    found, end = segments.take(garbage, offset)
    assert found or end == offset
