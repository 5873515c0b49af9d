"""VLANs of frames (IEEE 802.1Q): tags as they stand in a frame, and the VLANs that they name."""

ETH_VLAN, ETH_SERVICE_VLAN = 0x8100, 0x88A8
MAX_VLAN = 4094
TAG_BYTES = 4


def vlan_of(tags: bytes) -> bytes:
    """The VLAN identifiers of a frame's tags, 2 bytes each; empty without a VLAN (IEEE 802.1Q
    clause 9.6: the identifier 0 only carries a priority)."""
    identifiers = [
        (int.from_bytes(tags[i + 2 : i + 4], "big") & 0xFFF).to_bytes(2, "big")
        for i in range(0, len(tags), TAG_BYTES)
    ]
    return b"".join(identifier for identifier in identifiers if any(identifier))


def vlan_numbered(number: int) -> bytes:
    """A VLAN by its number; 0 is none."""
    return number.to_bytes(2, "big") if number else b""


def outer_vlan_of(tags: bytes) -> bytes:
    """The VLAN that switches forward a frame by: that of its first tag."""
    return vlan_of(tags[:TAG_BYTES])


def number_of(vlan: bytes) -> int:
    """The number of a VLAN, 0 without one."""
    return int.from_bytes(vlan, "big")


def tag(vlan: bytes) -> bytes:
    """The tag of a frame in a VLAN, of no priority; none without a VLAN."""
    return ETH_VLAN.to_bytes(2, "big") + vlan if vlan else b""


def tags_of(frame: bytes) -> bytes:
    """The tags of a frame."""
    end = 12
    while int.from_bytes(frame[end : end + 2], "big") in (ETH_VLAN, ETH_SERVICE_VLAN):
        end += TAG_BYTES
    return frame[12:end]


def retag(frame: bytes, tags: bytes) -> bytes:
    """A frame with other tags."""
    return frame[:12] + tags + frame[12 + len(tags_of(frame)) :]
