"""Discovery frames that only their maker believes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ryu.lib.packet import lldp

from controller.southbound.codec import discovery, packet_in
from controller.southbound.codec.discovery import ForeignDiscoveryError, Origin

SECRET = b"sixteen bytes, so"
MAC = b"\2\0\0\0\0\1"


def payload(frame: bytes) -> bytes:
    parsed = packet_in.parse(frame)
    assert isinstance(parsed, packet_in.Discovery)
    return parsed.payload


@given(st.integers(0, 2**64 - 1), st.integers(1, 2**32 - 1), st.integers(0, 2**64 - 1))
def test_it_tells_where_it_comes_from_and_when(switch: int, port: int, sent_ns: int) -> None:
    origin = Origin(switch, port, sent_ns)
    assert discovery.unpack(payload(discovery.pack(origin, MAC, 4, SECRET)), SECRET) == origin


def test_it_is_lldp_to_everybody_else() -> None:
    parsed, _, rest = lldp.lldp.parser(payload(discovery.pack(Origin(0xAB, 3, 0), MAC, 4, SECRET)))
    assert [tlv.tlv_type for tlv in parsed.tlvs] == [1, 2, 3, 127, 0]
    assert parsed.tlvs[0].chassis_id == b"00000000000000ab"
    assert parsed.tlvs[1].port_id == b"3"
    assert parsed.tlvs[2].ttl == 4
    assert not rest


def test_another_controllers_is_not_believed() -> None:
    frame = discovery.pack(Origin(1, 2, 99), MAC, 4, b"another secret")
    with pytest.raises(ForeignDiscoveryError, match="forged"):
        discovery.unpack(payload(frame), SECRET)


@given(st.data())
def test_a_changed_one_is_not_believed(data: st.DataObject) -> None:
    original = payload(discovery.pack(Origin(1, 2, 99), MAC, 4, SECRET))
    changed = bytearray(original)
    at = data.draw(st.integers(0, len(original) - 1))
    changed[at] ^= data.draw(st.integers(1, 255))
    try:
        said = discovery.unpack(bytes(changed), SECRET)
    except ForeignDiscoveryError:
        return
    assert said == (1, 2, 99)


@given(st.binary(max_size=80))
def test_any_bytes_raise_nothing_but_the_error(body: bytes) -> None:
    with pytest.raises(ForeignDiscoveryError):
        discovery.unpack(body, SECRET)
