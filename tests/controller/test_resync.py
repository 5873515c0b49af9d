"""The controller, as it is started, and a real switch: what is wanted is there, and stays there."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.config.schema import Config
from controller.ops.event_log import read_events
from controller.runtime import translate
from controller.southbound.switch import budgets, pipeline
from controller.southbound.switch.pipeline import Table
from dummy_ovs import Controller, DummyOvs, controlled, free_endpoint, patched_prefix, wait_for
from packets import SYN, Host, arp, segment

pytestmark = pytest.mark.switch

H1, H2 = Host(1), Host(2)
SYN_PPS = 100
SYN_ENTRY = f"table={Table.EDGE:d},priority=201,in_port=1,tcp,tcp_flags=+syn"

CONFIG = """
openflow: {{listen: "tcp:{listen}"}}
budgets: {{audit_interval: 1 s, syn: {syn}}}
policies: [{{port: 22, treatment: exempt}}]
log: {{events: "{events}", connections: true}}
"""


class SwitchAndController:
    """A switch with two hosts."""

    def __init__(self, switch: DummyOvs, directory: Path) -> None:
        listen = free_endpoint()
        self._events = directory / "events.jsonl"
        self.switch = switch
        config = CONFIG.format(listen=listen, events=self._events, syn=SYN_PPS)
        self.controller = Controller(directory, config)
        self.controller.start()
        switch.add_bridge("s1", 1, listen)
        for host in (H1, H2):
            switch.add_port("s1", f"p{host.number}", host.number)

    def events(self, kind: str) -> list[dict[str, object]]:
        return read_events(self._events, kind)

    def meters(self) -> list[str]:
        shown = self.switch.ofctl("dump-meters", "s1").split("meter=")
        return sorted(meter.strip() for meter in shown[1:])

    def settle(self) -> tuple[list[str], list[str]]:
        """The entries and meters once two audits more have found nothing to put right."""

        def right(since: int) -> bool:
            audits = self.events("switch_audited")[since:]
            told = [(audit["restored"], audit["removed"], audit["refused"]) for audit in audits]
            confirmed = all(audit["wanted"] == audit["confirmed"] for audit in audits[-2:])
            return len(told) >= 2 and told[-2:] == [(0, 0, 0)] * 2 and confirmed

        done = len(self.events("switch_audited"))
        wait_for(lambda: right(done), "audits that find all as it should be")
        return sorted(self.switch.flows("s1")), self.meters()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SwitchAndController]:
    with controlled(SwitchAndController, patched_prefix(), tmp_path) as world:
        yield world


def introduce(world: SwitchAndController) -> None:
    def learnt() -> bool:
        for host in (H1, H2):
            world.switch.inject(f"p{host.number}", arp(1, host, host))
        return len(world.events("host_learnt")) == 2

    wait_for(learnt, "both hosts to be learnt")


def test_what_is_changed_by_hand_is_put_right(world: SwitchAndController) -> None:
    introduce(world)
    entries, meters = world.settle()
    limits = translate.limits(Config())
    assert len(meters) == 2 * len(budgets.meters(1, limits)) + 1
    assert len(entries) > len(pipeline.STATIC) + 2 * len(budgets.entries(1))

    forward, regulate = (f"table={table:d}" for table in (Table.FORWARD, Table.REGULATE))
    cookie = f"cookie={pipeline.COOKIE | 0x20006:#x}"
    world.switch.ofctl("del-flows", "s1", forward)
    world.switch.ofctl("add-flow", "s1", f"{cookie},{forward},priority=7,in_port=9,actions=drop")
    world.switch.ofctl("--strict del-flows", "s1", SYN_ENTRY)
    world.switch.ofctl("--strict del-flows", "s1", f"{regulate},priority=300,tcp,tp_dst=22")
    assert world.settle() == (entries, meters)

    world.switch.ofctl("del-meters", "s1")
    assert world.settle() == (entries, meters)
    assert "ERROR" not in world.controller.log
    assert "put right" in world.controller.log


def test_what_others_put_there_stays(world: SwitchAndController) -> None:
    world.switch.ofctl("add-flow", "s1", "cookie=0x99,table=7,priority=7,actions=drop")
    world.switch.ofctl("add-meter", "s1", "meter=5,kbps,band=type=drop,rate=100")
    entries, meters = world.settle()
    assert [entry for entry in entries if "cookie=0x99" in entry]
    assert [meter for meter in meters if meter.startswith("5 ")]


@pytest.mark.slow
def test_a_controller_that_comes_back_finds_meters_and_entries_as_they_are(
    world: SwitchAndController,
) -> None:
    introduce(world)
    before = world.settle()
    world.controller.stop(signal.SIGKILL)
    world.controller.start()
    # Meanwhile it has copied up what has no flow counter.
    wait_for(lambda: world.settle() == before, "the entries as they were", 60)
    assert "ERROR" not in world.controller.log


def test_copies_are_limited_and_the_traffic_is_not(world: SwitchAndController) -> None:
    """A burst of thrice what a second may bring: all of it arrives, and who sent it is named."""
    introduce(world)
    world.settle()
    n_sent = 3 * SYN_PPS
    burst = [segment(H1, H2, (1000 + number, 80), SYN) for number in range(n_sent)]
    limited: list[dict[str, object]] = []

    def named() -> bool:
        # A port keeps 100 frames until the switch has read them.
        for begin in range(0, n_sent, 50):
            world.switch.inject("p1", *burst[begin : begin + 50])
        limited[:] = world.events("packet_ins_limited")
        return bool(limited)

    wait_for(named, "the offender to be named")
    assert (limited[0]["port"], limited[0]["class"]) == ("0000000000000001:1", "syn")
    assert limited[0]["hosts"] == [H1.mac.hex(":")]
    arrived = {frame for frame in world.switch.sent("p2") if frame[12:14] == b"\x08\x00"}
    assert len(arrived) == n_sent
