"""The Ryu shell: events reach the core, effects reach the switches, and bugs end the process."""

import logging
import struct
from pathlib import Path
from typing import Any

import pytest
from ryu.lib import hub

from controller.config.schema import Config
from controller.core.engine import Engine
from controller.model import effects
from controller.model.effects import Record
from controller.model.values import Port
from controller.ops.event_log import EventLog
from controller.runtime import translate
from controller.runtime.app import Weir
from controller.southbound.codec import match, neighbours, openflow
from controller.southbound.codec.openflow import Type
from controller.southbound.switch.admission import Admission
from packets import Host, arp
from scripted_switch import ScriptedSwitch

H1, H2 = Host(1), Host(2)
SECRET = b"secret"


class FakeChannel(ScriptedSwitch):
    """The switch of the session's tests, as far as the application sees a channel."""

    def __init__(self, weir: Weir, switch: int, n_ports: int = 3) -> None:
        self.id = switch
        self.address = ("test", switch)
        self.aborted = self.probed = False
        self.refused: str | None = None
        self.flushed = 0
        self.got: list[bytes] = []
        self.port_descriptions = [
            Port(n, f"eth{n}", bytes([2, 9, 0, 0, switch, n & 0xFF]), True)
            for n in (*range(1, n_ports + 1), 0xFFFFFFFE)
        ]
        self.ports = ()
        self.told: set[str] = set()
        self.admission = Admission(translate.limits(Config()), lambda: 0)
        self._weir: Any = weir

    def queue(self, message: bytes) -> bool:
        self.got.append(message)
        return True

    def flush(self) -> None:
        self.flushed += 1

    def abort(self) -> None:
        self.aborted = True

    def probe(self) -> None:
        self.probed = True

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


class Application:
    """The Ryu application on the test's clock, with an event log."""

    def __init__(self, tmp_path: Path, config: Config | None = None) -> None:
        self.now_ns = 10**9
        self.failures = 0
        self.events = tmp_path / "events.jsonl"
        # It takes the channels for what they stand for.
        self.weir: Any = Weir(
            config or Config(),
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
def world(tmp_path: Path) -> Application:
    return Application(tmp_path)


def test_a_ready_switch_is_probed_at_its_own_ports_only(world: Application) -> None:
    channel = world.connect(1)
    assert [ports for ports, _ in channel.sent_frames()] == [[1], [2], [3]]
    assert '"switch_up"' in world.events.read_text()
    assert world.failures == 0


def test_probes_are_understood_at_the_other_end(world: Application) -> None:
    first, second = world.connect(1), world.connect(2)
    ((_, probe), *_) = first.sent_frames()
    second.packet_in(0, 3, probe)
    assert '"a": "0000000000000001:1", "b": "0000000000000002:3"' in world.events.read_text()


def test_arp_is_passed_on_and_answered(world: Application) -> None:
    channel = world.connect(1)
    channel.got.clear()
    channel.packet_in(0, 1, arp(1, H1, H2))
    assert channel.sent_frames() == [([2, 3], arp(1, H1, H2))]
    channel.packet_in(0, 2, arp(2, H2, H1))
    channel.got.clear()
    channel.packet_in(0, 1, arp(1, H1, H2))
    reply = neighbours.reply(H2.mac, H2.address, H1.mac, H1.address, b"")
    assert channel.sent_frames() == [([1], reply)]


def test_the_core_is_reminded_when_it_wants_to_be(
    world: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    reminded: list[int] = []

    def widen(_engine: Engine, now_ns: int) -> list[effects.Effect]:
        reminded.append(now_ns)
        return []

    monkeypatch.setattr(Engine, "widen", widen)
    world.weir._apply([effects.Remind(world.now_ns + 20_000_000)])
    hub.sleep(0.005)
    assert reminded == []
    hub.sleep(0.03)
    assert reminded == [world.now_ns]


def test_who_has_settings_taken_over_hears_of_a_failure(
    world: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> list[effects.Effect]:
        raise ZeroDivisionError

    monkeypatch.setattr(Engine, "reconfigure", fail)
    with pytest.raises(ZeroDivisionError):
        world.weir.reconfigure(Config())
    # And the controller ends, so that no half of them stays in force.
    assert world.failures == 1


def test_windows_follow_another_time_to_live_at_once(
    world: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    refreshed: list[int] = []

    def refresh(_engine: Engine, now_ns: int) -> list[effects.Effect]:
        refreshed.append(now_ns)
        return []

    def live(ttl: str) -> None:
        world.weir.reconfigure(Config.model_validate({"regulation": {"window_ttl": ttl}}))

    monkeypatch.setattr(Engine, "refresh_windows", refresh)
    live("24 h")
    loop = hub.spawn(world.weir._refresh_windows)
    hub.sleep(0.05)
    assert len(refreshed) == 1
    live("24 h")
    assert len(refreshed) == 1
    # By the former, the next time would be in four hours.
    live("120 ms")
    assert len(refreshed) == 2
    hub.sleep(0.07)
    assert len(refreshed) > 2
    hub.kill(loop)
    assert world.failures == 0


def test_nobody_takes_the_place_of_a_switch_that_is_connected(world: Application) -> None:
    first = world.connect(1)
    second = FakeChannel(world.weir, 1)
    world.weir.connected(second)
    assert second.aborted and not first.aborted
    assert first.probed
    assert second.refused is not None
    assert "claims to be switch 0000000000000001, which is connected from test:1" in second.refused
    world.weir.disconnected(second)
    first.got.clear()
    first.packet_in(0, 1, arp(1, H1, H2))
    assert first.sent_frames()
    assert '"switch_down"' not in world.events.read_text()


def test_a_switch_that_was_disconnected_may_come_again(world: Application) -> None:
    world.weir.disconnected(world.connect(1))
    again = world.connect(1)
    assert not again.aborted
    again.got.clear()
    again.packet_in(0, 1, arp(1, H1, H2))
    assert again.sent_frames()


def test_a_switch_that_never_became_ready_was_never_there(world: Application) -> None:
    channel = FakeChannel(world.weir, 1)
    world.weir.connected(channel)
    world.weir.disconnected(channel)
    assert not world.events.exists() or "switch" not in world.events.read_text()
    assert world.failures == 0


def test_a_bug_ends_the_controller(
    world: Application, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    channel = world.connect(1)

    def buggy(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(world.weir._engine, "resolve", buggy)
    with caplog.at_level(logging.CRITICAL):
        channel.packet_in(0, 1, arp(1, H1, H2))
    assert world.failures == 1
    assert "received failed; the controller ends" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_what_was_thrown_away_here_is_told_like_what_the_meters_dropped(world: Application) -> None:
    channel = world.connect(1)
    budget = translate.limits(Config()).switch_frames_pps
    head = struct.pack("!BBHIIHBBQ", 4, 10, 42, 0, 0, 0, 1, 0, 0)
    packet_in = head + struct.pack("!QII", 0x0001000C80000004, 3, 0) + bytes(2)
    assert sum(channel.admission.admits(packet_in) for _ in range(budget + 7)) == budget
    effects = world.weir.watch_budgets(world.now_ns)
    (record,) = (effect for effect in effects if isinstance(effect, Record))
    assert record.event == "packet_ins_limited"
    assert (record.fields["port"], record.fields["class"]) == ("0000000000000001:3", "unknown")
    assert world.weir.watch_budgets(world.now_ns) == []


def test_the_meters_of_switches_that_are_ready_are_read(world: Application) -> None:
    channel = world.connect(1)
    channel.got.clear()
    world.weir.watch_budgets(world.now_ns)
    (request,) = channel.got
    assert (request[1], request[9]) == (Type.MULTIPART_REQUEST, 9)
    assert world.failures == 0
