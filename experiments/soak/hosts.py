"""The hosts of the controller's soak: where they are, and the frames that they send."""

import struct
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.model.flow import ACK, SYN, FlowKey
from experiments.bench.controller.fake_switch import OPTIONS, SYN_OPTIONS, packet_in_head

_ETHERNET = struct.Struct("!6s6sH")
_IPV4 = struct.Struct("!BBHHHBBH")
_IPV6 = struct.Struct("!IHBB")
_TCP = struct.Struct("!HHIIBBHHH")
_ARP = struct.Struct("!HHBBH6s4s6s4s")
_ARP_TYPE, _ARP_AT = 0x0806, _ETHERNET.size
_ARP_QUESTION, _ARP_ANSWER = 1, 2
_BROADCAST = b"\xff" * 6
_IPV6_NETWORK = bytes.fromhex("fd00") + bytes(10)


class Place(NamedTuple):
    """A port of an edge switch, both by their numbers."""

    switch: int
    port: int


@dataclass(slots=True, eq=False)
class Host:
    """A host that is at ``place``, or nowhere at the moment. ``up`` tells whether its port is."""

    number: int
    place: Place | None = None
    up: bool = False
    calls: set["Call"] = field(default_factory=set)

    @property
    def mac(self) -> bytes:
        return b"\2\1" + self.number.to_bytes(4, "big")

    def address(self, ipv6: bool) -> bytes:
        """Packed."""
        tail = self.number.to_bytes(3, "big")
        return _IPV6_NETWORK + b"\0" + tail if ipv6 else b"\x0a" + tail

    def introduction(self) -> bytes:
        """The frame by which a host makes itself known: a request for its own address."""
        address = self.address(ipv6=False)
        body = _ARP.pack(1, 0x0800, 6, 4, _ARP_QUESTION, self.mac, address, bytes(6), address)
        return _ETHERNET.pack(_BROADCAST, self.mac, _ARP_TYPE) + body

    def answer(self, frame: bytes) -> bytes | None:
        """The host's answer to a frame that asks for its address."""
        address = self.address(ipv6=False)
        if _ETHERNET.unpack_from(frame)[2] != _ARP_TYPE:
            return None
        *_, operation, asker_mac, asker, _, target = _ARP.unpack_from(frame, _ARP_AT)
        if operation != _ARP_QUESTION or target != address:
            return None
        body = _ARP.pack(1, 0x0800, 6, 4, _ARP_ANSWER, self.mac, address, asker_mac, asker)
        return _ETHERNET.pack(asker_mac, self.mac, _ARP_TYPE) + body


@dataclass(slots=True, eq=False)
class Call:
    """A TCP connection. ``rates_bps`` are of the client's and the server's data, ``begun_s`` when
    it was opened."""

    client: Host
    server: Host
    ports: tuple[int, int]
    ipv6: bool
    sequence: int
    rates_bps: tuple[int, int] = (0, 0)
    begun_s: float = 0.0
    over: bool = False

    @property
    def key(self) -> FlowKey:
        """The key of the client's data."""
        return FlowKey(
            *(self.client.address(self.ipv6), self.ports[0]),
            *(self.server.address(self.ipv6), self.ports[1]),
        )

    def segment(self, by_client: bool, flags: int, payload: bytes = b"") -> bytes:
        """A frame of either end."""
        src, dst = (self.client, self.server) if by_client else (self.server, self.client)
        ports = self.ports if by_client else self.ports[::-1]
        options = SYN_OPTIONS if flags & SYN else OPTIONS
        tcp_bytes = _TCP.size + len(options)
        acknowledged = self.sequence + 1 if flags & ACK else 0
        tcp = _TCP.pack(*ports, self.sequence, acknowledged, tcp_bytes << 2, flags, 65_535, 0, 0)
        length = tcp_bytes + len(payload)
        if self.ipv6:
            ip, kind = _IPV6.pack(6 << 28, length, 6, 64), 0x86DD
        else:
            ip, kind = _IPV4.pack(0x45, 0, 20 + length, 1, 0x4000, 64, 6, 0), 0x0800
        addresses = src.address(self.ipv6) + dst.address(self.ipv6)
        return _ETHERNET.pack(dst.mac, src.mac, kind) + ip + addresses + tcp + options + payload


def packet_in(port: int, frame: bytes) -> bytes:
    """A copy of a frame that entered by a port."""
    return packet_in_head(port, len(frame)) + frame
