"""The capture reader must see a wrong checksum, or the tests that rely on it prove nothing."""

import struct
from pathlib import Path

import pytest

from pcap import ACK, read_segments


def frame(window: int, *, corrupt: bool = False) -> bytes:
    def checksum(data: bytes) -> int:
        total = sum(struct.unpack(f"!{len(data) // 2}H", data))
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        return ~total & 0xFFFF

    addresses = bytes([10, 0, 0, 1, 10, 0, 0, 2])
    tcp = struct.pack("!HHIIBBHHH", 5000, 40000, 7, 9, 5 << 4, ACK, window, 0, 0)
    tcp_sum = checksum(addresses + struct.pack("!BBH", 0, 6, len(tcp)) + tcp)
    tcp = tcp[:16] + struct.pack("!H", tcp_sum ^ corrupt) + tcp[18:]
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 77, 0, 64, 6, 0) + addresses
    ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    return bytes(12) + b"\x08\x00" + ip + tcp


def write(path: Path, *frames: bytes) -> Path:
    path.write_bytes(
        struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
        + b"".join(struct.pack("<IIII", 1, 500000, len(f), len(f)) + f for f in frames)
    )
    return path


def test_fields_and_checksums(tmp_path: Path) -> None:
    good, bad = read_segments(write(tmp_path / "a.pcap", frame(1460), frame(1460, corrupt=True)))
    assert (good.src, good.dst, good.sport, good.window, good.time_s) == (
        "10.0.0.1",
        "10.0.0.2",
        5000,
        1460,
        1.5,
    )
    assert good.checksums_ok
    assert not bad.checksums_ok
    assert good.identity == bad.identity


def test_other_files_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "b.pcap"
    other.write_bytes(b"no capture" * 10)
    with pytest.raises(ValueError, match="not an Ethernet pcap"):
        read_segments(other)
