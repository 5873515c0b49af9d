"""The messages of the patched switch itself, read by our codec and by Ryu's parser."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from ryu.lib.packet import ethernet, packet
from ryu.ofproto import ofproto_parser, ofproto_protocol, ofproto_v1_3

from controller.southbound.codec import extension, openflow
from controller.southbound.codec.extension import (
    ANY_PORT,
    HELD_BOUNDS_NS,
    NO_ACCOUNT,
    Capability,
    MessageType,
    QueueStats,
    QueueStatsReply,
    QueueStatsRequest,
    Subscribe,
    SubscribeFlag,
    Thresholds,
)
from dummy_ovs import DEADLINE_S, DummyOvs, dummy_ovs, patched_prefix
from packets import ACK, PSH, Host, arp, segment
from testbed.switch import parse_accounts

pytestmark = pytest.mark.switch

QOS = "max-rate=8000000 limit-bytes=4000 low=1000 mid=2000 high=3000"
ETHERNET_II_EXPERIMENTAL = 0x88B5
SET_CONFIG = bytes.fromhex("0409000c00000002 0000ffff")
"""As controllers that want packet-ins begin: fragments as they are, whole packets."""


class Connection:
    """An OpenFlow 1.3 connection to a bridge's management socket."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(DEADLINE_S)
        self._socket.connect(str(path))
        self._data = b""
        self.send(openflow.HEADER.pack(openflow.VERSION, openflow.Type.HELLO, 8, 1))

    def close(self) -> None:
        self._socket.close()

    def send(self, message: bytes) -> None:
        self._socket.sendall(message)

    def receive(self, kind: openflow.Type) -> bytes:
        """The next message of this type; others are skipped."""
        while True:
            while len(self._data) < 8 or len(self._data) < self._length():
                more = self._socket.recv(65_536)
                assert more, "the switch has disconnected"
                self._data += more
            message, self._data = self._data[: self._length()], self._data[self._length() :]
            if message[1] == kind:
                return message

    def ask(self, exp_type: MessageType, body: bytes) -> tuple[int, bytes]:
        """Type and body of the answer to a message of the extension."""
        request = openflow.experimenter(extension.EXPERIMENTER, exp_type, body, xid=exp_type)
        self.send(request)
        answer = self.receive(openflow.Type.EXPERIMENTER)
        assert answer[4:8] == request[4:8], "the answer has another xid"
        experimenter, answer_type, answer_body = openflow.unpack_experimenter(answer)
        assert experimenter == extension.EXPERIMENTER
        return answer_type, answer_body

    def _length(self) -> int:
        return int.from_bytes(self._data[2:4])


class BridgeWithQueue:
    """A bridge whose port 3 has an egress queue."""

    def __init__(self, switch: DummyOvs, directory: Path, qos: str) -> None:
        self._switch = switch
        switch.vsctl("add-br", "s1", "--", "set", "bridge", "s1", "datapath_type=dummy")
        for number in (1, 3):
            switch.add_port("s1", f"p{number}", number)
        switch.vsctl(
            *("set", "port", "p3", "qos=@q", "--", "--id=@q", "create", "qos", "type=weir"),
            *(f"other-config:{setting}" for setting in qos.split()),
        )
        switch.appctl("time/stop")
        self.connection = Connection(directory / "s1.mgmt")
        kind, body = self.connection.ask(
            MessageType.SUBSCRIBE, Subscribe(SubscribeFlag(0), ANY_PORT).pack()
        )
        answer = extension.unpack(kind, body)
        assert isinstance(answer, Subscribe)
        if Capability.QUEUE_STATS not in answer.capabilities:
            pytest.skip("the switch has no queue statistics yet")

    def fill(self, frames: int) -> None:
        """Send frames of 1000 bytes, which a bridge without flows floods, to the queue."""
        frame = arp(1, Host(1), Host(1)).ljust(1000, b"\0")
        for _ in range(frames):
            self._switch.inject("p1", frame)

    def ask_for(self, requests: int) -> None:
        """Requests for data come from the port with the queue, which is in its account now."""
        actions = "tcp_rwnd_register(register=0,wscale=7),output:1"
        self._switch.appctl("tcp-rwnd/set", "s1", 0, 0, 60_000, "p3")
        self._switch.ofctl("add-flow", "s1", f"in_port=3,tcp,actions={actions}")
        for number in range(requests):
            ports = (5000 + number, 80)
            asked = segment(Host(3), Host(1), ports, ACK | PSH, payload=b"request", window=100)
            self._switch.inject("p3", asked)

    def warp(self, ms: int) -> None:
        """Time goes by, in small steps."""
        self._switch.appctl("time/warp", ms, 10)

    def account(self) -> dict[str, int]:
        """What the switch shows of the account."""
        return parse_accounts(self._switch.appctl("netdev-credit/show", "p3"))["p3"]

    def set(self, qos: str) -> None:
        """Change the configuration of the queue."""
        settings = (f"other-config:{setting}" for setting in qos.split())
        uuid = self._switch.vsctl("get", "port", "p3", "qos").strip()
        self._switch.vsctl("set", "qos", uuid, *settings)

    def queue(self, thresholds: bool = False) -> QueueStats:
        """What the switch tells of its only queue."""
        kind, body = self.connection.ask(
            MessageType.QUEUE_STATS_REQUEST, QueueStatsRequest(ANY_PORT, thresholds).pack()
        )
        answer = extension.unpack(kind, body)
        assert isinstance(answer, QueueStatsReply)
        assert not answer.more
        assert answer.has_thresholds is thresholds
        (queue,) = answer.queues
        return queue

    def close(self) -> None:
        self.connection.close()


@pytest.fixture
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[BridgeWithQueue]:
    with dummy_ovs(patched_prefix(), tmp_path) as switch:
        world = BridgeWithQueue(switch, tmp_path, f"{QOS} {getattr(request, 'param', '')}")
        try:
            yield world
        finally:
            world.close()


def test_queue_statistics(world: BridgeWithQueue) -> None:
    world.fill(5)
    queue = world.queue()
    assert queue.time_ns > 0
    assert queue._asdict() == {
        "port": 3,
        "queue": 0,
        "level": 3,
        "time_ns": queue.time_ns,
        "rate_bps": 8_000_000,
        "limit_bytes": 4000,
        "limit_pkts": None,
        "queue_bytes": 4000,
        "queue_pkts": 4,
        "max_queue_bytes": 4000,
        "tx_pkts": 4,
        "tx_bytes": 4000,
        "dropped_pkts": 1,
        "dropped_bytes": 1000,
        "marked_pkts": 0,
        "events": (1, 1, 1, 0),
        "sequence": 3,
        "credit": NO_ACCOUNT,
        "can_have_account": True,
        "thresholds": None,
    }


def test_thresholds_are_those_in_force(world: BridgeWithQueue) -> None:
    assert world.queue(thresholds=True).thresholds == Thresholds(1000, 2000, 3000)
    # Neither a change that is refused nor one that is half made is in force.
    world.set("low=2500 limit-packets=10")
    assert world.queue(thresholds=True).thresholds == Thresholds(1000, 2000, 3000)
    world.set("low=20% mid=50% high=3900")
    assert world.queue(thresholds=True).thresholds == Thresholds(800, 2000, 3900)
    world.set("low=2p mid=4p high=6p")
    queue = world.queue(thresholds=True)
    assert queue.thresholds == Thresholds(2, 4, 6, in_packets=True)
    # A controller of before gets what it has always got.
    assert world.queue()[:-1] == (queue.port, queue.queue, queue.level, *queue[3:-1])
    asked = bytes.fromhex("02000000 ffffffff")
    kind, told = world.connection.ask(MessageType.QUEUE_STATS_REQUEST, asked)
    assert kind == MessageType.QUEUE_STATS_REPLY
    assert (told[:8], len(told)) == (bytes.fromhex("0200000000000000"), 8 + 320)


def test_statistics_of_an_account(world: BridgeWithQueue) -> None:
    # Each is answered by a segment at least, and the queue takes two of these.
    world.ask_for(3)
    assert world.account()["now.held"] == 1
    world.warp(200)
    told = world.queue().credit
    shown = world.account()
    assert (told.connections, told.requests, told.held_requests, told.held) == (3, 3, 1, 0)
    assert 0 < told.max_held_ns <= 160_000_000
    assert told.charged_bytes > told.expired_bytes > 0
    bounds = [*(f"<{bound_ns // 1000}us" for bound_ns in HELD_BOUNDS_NS), "more"]
    assert told._replace(held_ns=told.held_ns // 1000, max_held_ns=told.max_held_ns // 1000) == (
        *(shown[f"now.{which}"] for which in ("connections", "held", "expected_bytes")),
        *(shown[f"requests.{which}"] for which in ("all", "held", "overdue", "full")),
        *(shown[f"held.{which}"] for which in ("total_us", "longest_us")),
        tuple(shown[f"held.{bound}"] for bound in bounds),
        shown["window_updates"],
        *(shown[f"bytes.{which}"] for which in ("expected", "given_back", "expired")),
    )


# The reasons of packet-ins that are notices (SDTCP Figure 4).
CN_L, CN_M, CN_H = 16, 17, 18


@pytest.mark.parametrize("world", ["notify=packet-in"], indirect=True)
def test_ryu_parses_notices_in_packet_ins(world: BridgeWithQueue) -> None:
    world.connection.send(SET_CONFIG)
    world.connection.send(openflow.barrier_request(3))
    world.connection.receive(openflow.Type.BARRIER_REPLY)
    world.fill(3)

    description = ofproto_protocol.ProtocolDesc(ofproto_v1_3.OFP_VERSION)
    for reason, length in (
        (CN_L, 1000),
        (CN_M, 2000),
        (CN_H, 3000),
    ):
        data = world.connection.receive(openflow.Type.PACKET_IN)
        while data[14] < CN_L:
            data = world.connection.receive(openflow.Type.PACKET_IN)
        version, kind, size, xid = openflow.HEADER.unpack_from(data)
        message = ofproto_parser.msg(description, version, kind, size, xid, data)
        assert message.reason == reason
        assert message.match["in_port"] == 3
        assert message.total_len == message.cookie == length
        assert message.table_id == 0xFF
        assert message.buffer_id == ofproto_v1_3.OFP_NO_BUFFER
        # What a learning switch does to every packet-in.
        frame = packet.Packet(message.data).get_protocols(ethernet.ethernet)[0]
        assert frame.ethertype == ETHERNET_II_EXPERIMENTAL
