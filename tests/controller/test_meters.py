"""Meters on the wire."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.southbound.codec import meters
from controller.southbound.codec.match import MalformedMessageError
from controller.southbound.codec.meters import Meter, MeterModCommand, MeterStats

HEAD = struct.pack("!BBHIHH4x", 4, 19, 0, 1, 0, 0)

METERS = st.builds(
    Meter,
    st.integers(1, 0xFFFF0000),
    st.integers(1, 2**32 - 1),
    st.integers(0, 2**32 - 1),
)


def as_told(meter: Meter) -> bytes:
    """A meter as a reply has it, from what was sent to set it up."""
    body = meters.meter_mod(MeterModCommand.ADD, meter, 1)[8:]
    _, flags, number = struct.unpack_from("!HHI", body)
    return struct.pack("!HHI", len(body), flags, number) + body[8:]


@given(st.lists(METERS, max_size=5))
def test_what_is_set_up_is_read_back(wanted: list[Meter]) -> None:
    assert meters.unpack_config(HEAD + b"".join(map(as_told, wanted))) == wanted


def test_a_meter_of_another_form_has_no_rate() -> None:
    told = bytearray(as_told(Meter(7, 100, 50)))
    told[3] ^= 3  # kbit/s
    assert meters.unpack_config(HEAD + bytes(told)) == [Meter(7, 0, 0)]


def test_a_deletion_names_the_meter_alone() -> None:
    message = meters.meter_mod(MeterModCommand.DELETE, Meter(7, 100, 50), 3)
    assert message == bytes.fromhex("041d0010 00000003 0002 000e 00000007")


def test_the_counters_of_all_bands() -> None:
    bands = struct.pack("!QQQQ", 3, 1, 4, 1)
    stats = struct.pack("!IH6xIQQII", 7, 40 + len(bands), 0, 100, 9, 2, 5) + bands
    assert meters.unpack_stats(HEAD + stats) == [MeterStats(7, 2_000_000_005, 100, 7)]


@given(st.binary(max_size=200))
def test_nothing_but_a_malformed_message_comes_of_nonsense(body: bytes) -> None:
    for unpack in (meters.unpack_config, meters.unpack_stats, meters.unpack_features):
        with contextlib.suppress(MalformedMessageError):
            unpack(HEAD + body)


def test_a_reply_without_its_head_is_malformed() -> None:
    with pytest.raises(MalformedMessageError):
        meters.multipart_kind(HEAD[:12])
