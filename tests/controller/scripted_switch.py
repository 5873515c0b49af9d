"""A switch by hand, and the session with it."""

import struct

from controller.config.schema import Config
from controller.runtime import translate
from controller.southbound.codec import discovery, match, openflow
from controller.southbound.codec.extension import Capability, Subscribe, SubscribeFlag
from controller.southbound.codec.openflow import Type
from controller.southbound.switch import events
from controller.southbound.switch.session import Session
from packets import Host

SECRET = b"secret"
ORIGIN = discovery.Origin(9, 4, 77)
LIMITS = translate.limits(Config())
PATCHED = Capability.TCP_RWND | Capability.TCP_RWND_REGISTER | Capability.QUEUE_EVENT
H1, H2 = Host(1), Host(2)


class ScriptedSwitch:
    """The other end, by hand."""

    def __init__(self, ports: tuple[int, ...] = ()) -> None:
        self.got: list[bytes] = []
        self.told: set[str] = set()
        self.ports = ports
        self.reconnect()

    def reconnect(self) -> None:
        self.got.clear()
        self.session = Session(7, self.got.append, SECRET, self.told, LIMITS)
        self.session.start(self.ports)

    def kinds(self) -> list[int]:
        return [message[1] for message in self.got]

    def xid(self, kind: Type) -> int:
        message = next(message for message in self.got if message[1] == kind)
        return int.from_bytes(message[4:8], "big")

    def say(self, kind: Type, body: bytes, xid: int = 0) -> list[events.Event]:
        return self.session.receive(openflow.HEADER.pack(4, kind, 8 + len(body), xid) + body)

    def subscribe_answer(self, capabilities: Capability = PATCHED, n_registers: int = 1024) -> None:
        answer = Subscribe(SubscribeFlag.QUEUE_EVENTS, 0xFFFFFFFF, capabilities, n_registers)
        self.say_experimenter(1, answer.pack(), self.xid(Type.EXPERIMENTER))

    def refuse_subscription(self) -> None:
        request = next(message for message in self.got if message[1] == Type.EXPERIMENTER)
        self.say(Type.ERROR, struct.pack("!HH", 1, 3) + request)

    def say_experimenter(
        self, exp_type: int, body: bytes, xid: int = 0, experimenter: int = 0x25D7C
    ) -> list[events.Event]:
        return self.say(Type.EXPERIMENTER, struct.pack("!II", experimenter, exp_type) + body, xid)

    def say_flows(self, *stats: bytes, xid: int | None = None) -> list[events.Event]:
        body = struct.pack("!HH4x", 1, 0) + b"".join(stats)
        return self.say(Type.MULTIPART_REPLY, body, self.asked(1) if xid is None else xid)

    def asked(self, kind: int) -> int:
        """The transaction id of the last multipart request of this kind."""
        requests = [
            message
            for message in self.got
            if message[1] == Type.MULTIPART_REQUEST and message[8:10] == kind.to_bytes(2, "big")
        ]
        return int.from_bytes(requests[-1][4:8], "big")

    def barrier(self) -> list[events.Event]:
        request = [message for message in self.got if message[1] == Type.BARRIER_REQUEST][-1]
        return self.say(Type.BARRIER_REPLY, b"", int.from_bytes(request[4:8], "big"))

    def say_meter_features(self, max_meters: int = 0x40000) -> None:
        body = struct.pack("!HH4xIIIBB2x", 11, 0, max_meters, 2, 15, 8, 0)
        self.say(Type.MULTIPART_REPLY, body, self.asked(11))

    def become_ready(self, *stats: bytes) -> list[events.Event]:
        self.subscribe_answer()
        self.say_meter_features()
        self.say_flows(*stats)
        return self.barrier()

    def packet_in(self, table: int, in_port: int, frame: bytes) -> list[events.Event]:
        packed = match.pack_match(((match.IN_PORT, in_port.to_bytes(4, "big"), None),))
        head = struct.pack("!IHBBQ", 0xFFFFFFFF, len(frame), 1, table, 0)
        return self.say(Type.PACKET_IN, head + packed + b"\0\0" + frame)


def stats_of(entry: openflow.FlowEntry, byte_count: int = 0) -> bytes:
    packed = match.pack_match(entry.match) + match.pack_instructions(entry.actions, entry.goto)
    return (
        struct.pack("!HBxIIHHHH4x", 48 + len(packed), entry.table, 3, 0, entry.priority, 0, 0, 0)
        + struct.pack("!QQQ", entry.cookie, 1, byte_count)
        + packed
    )
