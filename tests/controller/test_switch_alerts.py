"""Each alert fires by the fault that it is for, on a controller at work: faults of switches.

They are of switches that are broken, of another version or small, so a fake one has them. What
befalls real switches, and the controllers themselves, is in tests/system/test_alerts_live.py.
"""

import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from controller.model.values import Notice
from controller.southbound.codec import extension
from controller.southbound.codec.openflow import Type
from dummy_ovs import Controller, free_endpoint, wait_for
from experiments.bench.controller.fake_switch import (
    HOSTS,
    FakeSwitch,
    extension_message,
    message,
    notice,
)
from experiments.bench.controller.handshakes import Call, CallTo, openings
from scraping import Phase, Scraper, require_alerts
from starving import starved

FLOWS = struct.pack("!H", 1)
LISTENING_S, STARVED_S = 0.05, 0.5
DELAYS = "weir_control_delay_seconds_bucket"
# Together more than sockets take, and less than a switch is disconnected for.
ECHO, ECHO_BYTES, ECHOES = 2, 60_000, 150


class World:
    """A controller, and a switch as it is to be."""

    def __init__(self, directory: Path) -> None:
        listen, metrics = free_endpoint(), free_endpoint()
        host, _, port = listen.rpartition(":")
        self.address = host, int(port)
        self.scraper = Scraper({"a": f"http://{metrics}/metrics"})
        config = {
            "openflow": {"listen": f"tcp:{listen}"},
            "northbound": {"socket": False, "metrics": metrics},
        }
        self.controller = Controller(directory, json.dumps(config))
        self.controller.start()

    def wait(self, name: str, least: float, switch: FakeSwitch | None = None) -> None:
        """Wait until a metric is as large; the switch answers meanwhile."""

        def reached() -> bool:
            if switch is not None:
                switch.listen(LISTENING_S)
            return (self.scraper.scrape().find(name) or 0) >= least

        wait_for(reached, f"{name} is {least}")

    @contextmanager
    def switch(self, kind: type[FakeSwitch] = FakeSwitch) -> Iterator[FakeSwitch]:
        """A switch that is ready, and has told of the queues of all ports with hosts."""
        with kind(self.address) as switch:
            self.wait("weir_switch_ready", 1, switch)
            wait_for(lambda: self._has_queues(switch), "all ports with hosts have queues")
            yield switch

    def _has_queues(self, switch: FakeSwitch) -> bool:
        switch.listen(LISTENING_S)
        told = self.scraper.scrape().values
        return all(value for name, value in told.items() if name.startswith("weir_port_has_queue"))

    def usual(self) -> Phase:
        with self.switch() as switch:
            return self.scraper.watch(meanwhile=lambda: switch.listen(LISTENING_S))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("alerts"))
    yield world
    world.controller.stop()


class Mute(FakeSwitch):
    """Does not say which entries it holds."""

    def answer(self, kind: int, xid: int, body: bytes) -> bytes:
        asked = kind == Type.MULTIPART_REQUEST and body.startswith(FLOWS)
        return b"" if asked else super().answer(kind, xid, body)


class Small(FakeSwitch):
    """Has registers for one port only."""

    def answer(self, kind: int, xid: int, body: bytes) -> bytes:
        answer = super().answer(kind, xid, body)
        if kind != Type.EXPERIMENTER or body[7] != extension.MessageType.SUBSCRIBE:
            return answer
        subscribed = replace(extension.Subscribe.unpack(answer[16:]), n_registers=2)
        return extension_message(extension.MessageType.SUBSCRIBE, subscribed.pack(), xid)


class Deaf(FakeSwitch):
    """Speaks without ever reading what it is told."""

    def shout(self, data: bytes) -> None:
        self._socket.setblocking(True)
        self._socket.sendall(data)


def test_a_switch_does_not_say_what_it_holds(world: World, tmp_path: Path) -> None:
    before = world.usual()
    with Mute(world.address):
        world.wait("weir_switch_connected", 1)
        during = world.scraper.watch()
    require_alerts(tmp_path, before, during, world.usual(), {"WeirSwitchNotReady"})


def test_a_switch_does_not_read(world: World, tmp_path: Path) -> None:
    before = world.usual()
    with Deaf(world.address) as switch:
        world.wait("weir_switch_ready", 1, switch)
        switch.shout(message(ECHO, bytes(ECHO_BYTES)) * ECHOES)
        world.wait("weir_switch_outgoing_bytes", 1e6)
        during = world.scraper.watch()
    require_alerts(tmp_path, before, during, world.usual(), {"WeirSwitchDoesNotRead"})


def test_a_switch_has_too_few_registers(world: World, tmp_path: Path) -> None:
    before = world.usual()
    with world.switch(Small) as switch:
        switch.introduce()
        for opened in openings(0, 10, CallTo):
            switch.send(opened)
        world.wait("weir_switch_registers_used", 2, switch)
        during = world.scraper.watch()
    require_alerts(tmp_path, before, during, world.usual(), {"WeirRegistersShort"})


def test_a_switch_sends_what_cannot_be_used(world: World, tmp_path: Path) -> None:
    before = world.usual()
    with world.switch() as switch:
        cut_off = extension_message(extension.MessageType.QUEUE_EVENT, b"?", 0)
        during = world.scraper.watch(meanwhile=lambda: switch.send(cut_off))
    require_alerts(tmp_path, before, during, world.usual(), {"WeirMessagesUnusable"})


def test_a_switch_leaves_notices_out(world: World, tmp_path: Path) -> None:
    before = world.usual()
    with world.switch() as switch:
        numbers = count(1, 2)
        during = world.scraper.watch(
            meanwhile=lambda: switch.send(notice(Notice.CR, HOSTS, next(numbers)))
        )
    require_alerts(tmp_path, before, during, world.usual(), {"WeirNoticesMissed"})


@pytest.mark.slow
@pytest.mark.timing
def test_the_controller_has_little_processor_for_notices(world: World, tmp_path: Path) -> None:
    before = world.usual()
    with world.switch() as switch:
        switch.introduce()
        for opened in openings(0, HOSTS, Call):
            switch.send(opened)
        switch.settle()
        turns, during = count(), [world.scraper.scrape()]

        def slow() -> bool:
            turn = next(turns)
            kind = Notice.CR if turn % 2 else Notice.CN_H
            with starved(world.controller.tell, stopped_s=0.02, running_s=0.0003):
                switch.send(b"".join(notice(kind, port, turn) for port in range(1, HOSTS + 1)))
                switch.listen(STARVED_S)
            during[1:] = [world.scraper.scrape()]
            soon, all_of_them = (
                (during[1].find(DELAYS, le=le) or 0) - (during[0].find(DELAYS, le=le) or 0)
                for le in ("0.005", "+Inf")
            )
            return soon < 0.98 * all_of_them

        wait_for(slow, "windows come late")
    require_alerts(tmp_path, before, during, world.usual(), {"WeirControlSlow"})
