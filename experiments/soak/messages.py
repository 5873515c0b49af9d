"""Random OpenFlow messages for a switch: valid ones, and the same spoilt.

Bytes are put together here rather than by ``controller.southbound``, which refuses to make the
values that this is about.
"""

import struct
from random import Random

EXPERIMENTER = 0x00025D7C
HELLO, ECHO_REQUEST, ECHO_REPLY, FEATURES_REQUEST = 0, 2, 3, 5
_EXPERIMENTER, _PACKET_OUT, _FLOW_MOD, _MULTIPART, _BARRIER, _ROLE = 4, 13, 14, 18, 20, 24
_SET_ASYNC = 28
_SUBSCRIBE, _QUEUE_EVENT, _WINDOW_SET, _QUEUE_STATS = 1, 2, 3, 4
_ANY = 0xFFFFFFFF
_NORMAL, _CONTROLLER = 0xFFFFFFFA, 0xFFFFFFFD
_MULTIPARTS = (0, 1, 3, 4, 5, 13)

REGISTERS = 64
_HEADER = struct.Struct("!BBHI")
_ENTRY = struct.Struct("!IIIIIHBB")
_VERSION = 2


def message(kind: int, body: bytes = b"", xid: int = 0) -> bytes:
    """A message of OpenFlow 1.3."""
    return _HEADER.pack(4, kind, _HEADER.size + len(body), xid) + body


def extension(kind: int, body: bytes) -> bytes:
    """A message of the extension."""
    return message(_EXPERIMENTER, struct.pack("!II", EXPERIMENTER, kind) + body)


def subscribe(rng: Random) -> bytes:
    """Mostly to all ports, mostly on."""
    flags, port = int(rng.random() < 0.8), rng.choice((_ANY, _ANY, 1, 2, 4000))
    return extension(_SUBSCRIBE, struct.pack("!B3xIIII4x", _VERSION, flags, port, 0, 0))


def window_set(rng: Random) -> bytes:
    """One to many registers, in an account of credit or not, now and then one that is refused."""
    entries = []
    for _ in range(rng.choice((1, 1, 8, 200, 2000))):
        register = rng.randrange(REGISTERS) if rng.random() < 0.999 else rng.getrandbits(32)
        window = rng.choice((0, 1, 1460, 1460, 2920, 65_536, 2**30))
        port = rng.choice((1, 2, 2, 77)) if rng.random() < 0.6 else _ANY
        ttl_ms = rng.choice((1, 20, 500, 60_000)) if window or port != _ANY else 0
        credit = 0, 0, 0, int(rng.random() > 0.999)
        if port != _ANY:
            bound = rng.choice((0, 0, 1514, 40_000, 2**32 - 1))
            max_hold_ms, weight = rng.choice((0, 1, 160, 65_535)), rng.choice((1, 7, 255))
            cls = register & 1 if rng.random() < 0.999 else 2
            credit = bound, max_hold_ms, cls, weight
        entries.append(_ENTRY.pack(register, window, ttl_ms, port, *credit))
    return extension(_WINDOW_SET, struct.pack("!B7x", _VERSION) + b"".join(entries))


def queue_stats(rng: Random) -> bytes:
    """Requests of the right length, and of some wrong ones; with and without thresholds."""
    port = rng.choice((_ANY, 1, 2, 77))
    body = struct.pack("!BB2xI", _VERSION, rng.choice((0, 2, 2, 4)), port)
    return extension(_QUEUE_STATS, body + bytes(rng.choice((0, 8))))


def action(rng: Random) -> bytes:
    """tcp_rwnd or tcp_rwnd_register."""
    if rng.random() < 0.3:
        window = rng.choice((0, 1, 12, 65_535))
        return struct.pack("!HHIHH4x", 0xFFFF, 16, EXPERIMENTER, 1, window)
    register, scale = rng.randrange(REGISTERS), rng.choice((0, 7, 7, 10, 14, 255))
    return struct.pack("!HHIHBxI", 0xFFFF, 16, EXPERIMENTER, 2, scale, register)


def _output(port: int) -> bytes:
    return struct.pack("!HHIH6x", 0, 16, port, 128)


def flow_mod(rng: Random) -> bytes:
    """Add, modify or delete an entry for TCP that carries the extension's actions."""
    command = rng.choice((0, 0, 0, 1, 3))
    # eth_type IPv4 or IPv6, ip_proto TCP, and for some a source port.
    ip = rng.choice((0x0800, 0x86DD))
    oxms = struct.pack("!HBBH", 0x8000, 5 << 1, 2, ip) + struct.pack("!HBBB", 0x8000, 10 << 1, 1, 6)
    if rng.random() < 0.3:
        oxms += struct.pack("!HBBH", 0x8000, 13 << 1, 2, 7000)
    match = struct.pack("!HH", 1, 4 + len(oxms)) + oxms
    match += bytes(-len(match) % 8)
    actions = b"".join(action(rng) for _ in range(rng.randint(0, 3))) + _output(_NORMAL)
    if rng.random() < 0.1:
        actions += _output(_CONTROLLER)
    instructions = struct.pack("!HH4x", 4, 8 + len(actions)) + actions if command < 3 else b""
    head = struct.pack(
        "!QQBBHHHIIIH2x", 0, 0, 0, command, rng.choice((0, 1)), 0, rng.choice((5, 10, 10)),
        _ANY, _ANY, _ANY, 0,
    )  # fmt: skip
    return message(_FLOW_MOD, head + match + instructions)


def forwarding() -> bytes:
    """The entry that lets everything through."""
    actions = _output(_NORMAL)
    return message(
        _FLOW_MOD,
        struct.pack("!QQBBHHHIIIH2x", 0, 0, 0, 0, 0, 0, 0, _ANY, _ANY, _ANY, 0)
        + struct.pack("!HH4x", 1, 4)
        + struct.pack("!HH4x", 4, 8 + len(actions))
        + actions,
    )


def packet_out(rng: Random) -> bytes:
    """A frame of any length, through the actions."""
    actions = action(rng) + _output(rng.choice((_NORMAL, 1, 2)))
    frame = rng.randbytes(rng.choice((14, 60, 200, 1514)))
    return message(
        _PACKET_OUT, struct.pack("!IIH6x", _ANY, _CONTROLLER, len(actions)) + actions + frame
    )


def sensible(rng: Random) -> bytes:
    """A message that a controller might send."""
    return rng.choices(
        (
            subscribe,
            window_set,
            queue_stats,
            flow_mod,
            packet_out,
            lambda _: message(_BARRIER),
            lambda rng: message(_MULTIPART, _multipart(rng)),
            lambda rng: message(_ROLE, struct.pack("!I4xQ", rng.choice((1, 2, 3)), 2**40)),
            lambda rng: message(_SET_ASYNC, struct.pack("!6I", *(rng.getrandbits(32),) * 6)),
        ),
        weights=(2, 8, 2, 4, 2, 2, 2, 1, 1),
    )[0](rng)


def _multipart(rng: Random) -> bytes:
    kind = rng.choice(_MULTIPARTS)
    bodies = {
        1: struct.pack("!B3xII4xQQHH4x", 255, _ANY, _ANY, 0, 0, 1, 4),
        4: struct.pack("!I4x", _ANY),
        5: struct.pack("!II", _ANY, _ANY),
    }
    return struct.pack("!HH4x", kind, 0) + bodies.get(kind, b"")


def spoilt(rng: Random) -> bytes:
    """A message of the extension, or one with its actions, with an error in it.

    Its own length is right, so that the connection outlives it.
    """
    makers = (subscribe, window_set, queue_stats, flow_mod, packet_out)
    body = bytearray(rng.choice(makers)(rng)[:4096])
    fault = rng.randrange(5)
    if fault == 0:
        del body[rng.randrange(_HEADER.size, len(body)) :]
    elif fault == 1:
        body += rng.randbytes(rng.choice((1, 7, 8, 24)))
    elif fault == 2:
        body[8:] = rng.randbytes(len(body) - 8)
    elif len(body) > 16:
        for _ in range(1 if fault == 3 else 8):
            body[rng.randrange(8, len(body))] = rng.getrandbits(8)
    struct.pack_into("!H", body, 2, len(body))
    return bytes(body)


def events_in(data: bytes) -> int:
    """How many QUEUE_EVENTs begin in what a switch sent (whole messages)."""
    mark = struct.pack("!II", EXPERIMENTER, _QUEUE_EVENT)
    return data.count(mark)
