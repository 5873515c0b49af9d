"""Valid messages of a switch: what fuzzing starts from, and what a hostile peer spoils."""

import struct

from controller.model.entries import FlowCounter
from controller.model.flow import FlowKey
from controller.southbound.codec import discovery, extension, groups, match, neighbours
from controller.southbound.codec.openflow import HEADER, Type
from controller.southbound.switch import pipeline
from controller.southbound.switch.encoding import encode
from packets import ACK, FIN, RST, SYN, Host, arp, segment, tcp_options
from scripted_switch import SECRET, stats_of
from test_groups import GROUP, GROUP6, OTHER, record, report, report6

_SAID_OF_GROUPS = pipeline.cookie_of(pipeline.Kind.GROUP_MESSAGES)


def message(kind: Type, body: bytes) -> bytes:
    return HEADER.pack(4, kind, 8 + len(body), 1) + body


def copy(
    frame: bytes, in_port: int = 1, table: int = 1, register: int = 0, cookie: int = 0
) -> bytes:
    fields: match.Match = ((match.IN_PORT, in_port.to_bytes(4, "big"), None),)
    if register:
        fields = (*fields, (match.REG0, register.to_bytes(4, "big"), None))
    packed = match.pack_match(fields)
    head = struct.pack("!IHBBQ", 0xFFFFFFFF, len(frame), 1, table, cookie)
    return message(Type.PACKET_IN, head + packed + b"\0\0" + frame)


def weir(kind: extension.MessageType, body: bytes) -> bytes:
    return message(Type.EXPERIMENTER, struct.pack("!II", extension.EXPERIMENTER, kind) + body)


def messages(a: Host, b: Host) -> list[bytes]:
    """Of a connected switch: one of each kind, and the life of a connection of its hosts."""
    options = tcp_options(1460, 7)
    there, back = (5000, 80), (80, 5000)
    life = [
        copy(segment(a, b, there, SYN, 1, options=options), 1),
        copy(segment(b, a, back, SYN | ACK, 9, options=options), 2),
        copy(segment(a, b, there, FIN | ACK, 2), 1),
        copy(segment(b, a, back, FIN | ACK, 10), 2),
        copy(segment(b, a, back, RST, 10), 2),
    ]
    event = extension.QueueEvent(2, 2, 0, 30, 45_000, 65_536, 7, 1)
    in_bytes = extension.Thresholds(20_000, 40_000, 60_000)
    queue = extension.QueueStats(
        *(2, 0, 2, 7, 10**8, 65_536, None, 45_000, 30, 50_000, 0, 0, 0, 0, 0, (1, 1, 0, 0), 2),
        thresholds=in_bytes,
    )
    other = queue._replace(port=3, thresholds=extension.Thresholds(10, 20, 30, in_packets=True))
    queues = (
        extension.QueueStatsReply((queue, other), has_thresholds=has) for has in (False, True)
    )
    counter = encode(FlowCounter(FlowKey(a.address, 5000, b.address, 80), True, 3))[0]
    return [
        b"".join(life),
        *life,
        copy(arp(1, a, b)),
        copy(discovery.pack(discovery.Origin(2, 1, 0), a.mac, 4, SECRET)),
        copy(segment(a, b, there, ACK, 5), table=pipeline.Table.FORWARD),
        copy(segment(a, b, there, SYN, 1, options=options), register=16 + 5),
        *(
            copy(neighbours.probe(b.mac, address, a.mac, b""))
            for address in (b.address, b.address6)
        ),
        *(
            copy(frame, table=pipeline.Table.FLOOD, cookie=_SAID_OF_GROUPS)
            for frame in (
                *(groups.query(a.mac, group, 10, b"") for group in (bytes(4), GROUP6)),
                report(record(4, GROUP), record(3, OTHER)),
                report6(record(4, GROUP6)),
            )
        ),
        copy(neighbours.reply(b.mac, b.address6, a.mac, a.address6, b"")),
        weir(extension.MessageType.QUEUE_EVENT, event.pack()),
        *(weir(extension.MessageType.QUEUE_STATS_REPLY, reply.pack()) for reply in queues),
        message(Type.MULTIPART_REPLY, struct.pack("!HH4x", 1, 0) + stats_of(counter, 999)),
        message(Type.PORT_STATUS, b"\2" + bytes(7) + _port(a)),
        message(Type.ERROR, struct.pack("!HH", 1, 3) + life[0][:64]),
        message(Type.BARRIER_REPLY, b""),
        message(Type.ECHO_REQUEST, b"hello"),
    ]


def handshake() -> list[bytes]:
    """What a switch says before it is connected."""
    features = struct.pack("!QIBB2xII", 1, 0, 254, 0, 0, 0)
    return [
        message(Type.HELLO, struct.pack("!HHI", 1, 8, 1 << 4)),
        message(Type.FEATURES_REPLY, features),
        message(Type.MULTIPART_REPLY, struct.pack("!HH4x", 13, 0) + _port(Host(1))),
    ]


def seeds() -> list[bytes]:
    """Streams; the first byte tells whether they begin with the handshake (0) or after it."""
    found, first = messages(Host(1), Host(2)), handshake()
    return [
        b"\0" + b"".join(first),
        *(b"\1" + one for one in found),
        b"\0" + b"".join((*first, *found)),
    ]


def _port(host: Host) -> bytes:
    return struct.pack("!I4x6s2x16sIIIIIIII", 3, host.mac, b"eth3", 0, 4, 0, 0, 0, 0, 0, 0)
