"""The Ryu shell: events reach the core, effects reach the switches, and bugs end the process."""

import logging
from pathlib import Path

import pytest

from controller.app import Weir
from controller.config import Config
from controller.eventlog import EventLog
from controller.southbound import frames, match, openflow
from controller.southbound.openflow import Type
from packets import Host, arp
from test_session import Switch

H1, H2 = Host(1), Host(2)
SECRET = b"secret"


class FakeChannel(Switch):
    """The switch of the session's tests, as far as the application sees a channel."""

    def __init__(self, weir: Weir, switch: int, n_ports: int = 3) -> None:
        self.id = switch
        self.address = ("test", switch)
        self.aborted = False
        self.flushed = 0
        self.got: list[bytes] = []
        self.port_descriptions = [
            openflow.PortDescription(n, bytes([2, 9, 0, 0, switch, n & 0xFF]), f"eth{n}", True)
            for n in (*range(1, n_ports + 1), 0xFFFFFFFE)
        ]
        self._weir = weir

    def queue(self, message: bytes) -> bool:
        self.got.append(message)
        return True

    def flush(self) -> None:
        self.flushed += 1

    def abort(self) -> None:
        self.aborted = True

    def say(self, kind: Type, body: bytes, xid: int = 0) -> list:
        head = openflow.HEADER.pack(4, kind, 8 + len(body), xid)
        self._weir.received(self, head + body)
        return []

    def sent_frames(self) -> list[tuple[list[int], bytes]]:
        """Ports and frame of every PACKET_OUT."""
        found = []
        for message in self.got:
            if message[1] == Type.PACKET_OUT:
                length = int.from_bytes(message[16:18], "big")
                actions = message[24 : 24 + length]
                ports = [match.unpack_output(actions[i : i + 16]) for i in range(0, length, 16)]
                found.append((ports, message[24 + length :]))
        return found


class World:
    def __init__(self, tmp_path: Path) -> None:
        self.now_ns = 10**9
        self.failures = 0
        self.events = tmp_path / "events.jsonl"
        self.weir = Weir(
            Config(),
            EventLog(str(self.events)),
            clock_ns=lambda: self.now_ns,
            wall_s=lambda: 0.0,
            secret=SECRET,
            fail=self.fail,
        )

    def fail(self) -> None:
        self.failures += 1

    def connect(self, switch: int) -> FakeChannel:
        channel = FakeChannel(self.weir, switch)
        self.weir.connected(channel)
        channel.become_ready()
        self.now_ns += 10**9
        return channel


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_ready_switch_is_probed_at_its_own_ports_only(world: World) -> None:
    channel = world.connect(1)
    assert [ports for ports, _ in channel.sent_frames()] == [[1], [2], [3]]
    assert '"switch_up"' in world.events.read_text()
    assert world.failures == 0


def test_probes_are_understood_at_the_other_end(world: World) -> None:
    first, second = world.connect(1), world.connect(2)
    ((_, probe), *_) = first.sent_frames()
    second.packet_in(0, 3, probe)
    assert '"a": "1:1", "b": "2:3"' in world.events.read_text()


def test_arp_is_passed_on_and_answered(world: World) -> None:
    channel = world.connect(1)
    channel.got.clear()
    channel.packet_in(0, 1, arp(1, H1, H2))
    assert channel.sent_frames() == [([2, 3], arp(1, H1, H2))]
    channel.packet_in(0, 2, arp(2, H2, H1))
    channel.got.clear()
    channel.packet_in(0, 1, arp(1, H1, H2))
    reply = frames.arp_reply(H2.mac, H2.address, H1.mac, H1.address)
    assert channel.sent_frames() == [([1], reply)]


def test_a_switch_that_connects_anew_replaces_its_old_channel(world: World) -> None:
    old = world.connect(1)
    new = world.connect(1)
    assert old.aborted
    world.weir.disconnected(old)
    new.got.clear()
    new.packet_in(0, 1, arp(1, H1, H2))
    assert new.sent_frames()
    assert world.events.read_text().count('"switch_down"') == 1


def test_a_switch_that_never_became_ready_was_never_there(world: World) -> None:
    channel = FakeChannel(world.weir, 1)
    world.weir.connected(channel)
    world.weir.disconnected(channel)
    assert not world.events.exists() or "switch" not in world.events.read_text()
    assert world.failures == 0


def test_a_bug_ends_the_controller(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    channel = world.connect(1)

    def buggy(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(world.weir._engine, "arp", buggy)
    with caplog.at_level(logging.CRITICAL):
        channel.packet_in(0, 1, arp(1, H1, H2))
    assert world.failures == 1
    assert "received failed; the controller ends" in caplog.text
    assert "ZeroDivisionError" in caplog.text
