"""Between switches and application: a slave is silent, a master is told of, a loser lets go."""

import pytest

from controller.ha.election import Election, Heartbeat, Rank
from controller.ha.mastership import Mastership
from controller.southbound.codec import openflow, roles
from controller.southbound.codec.openflow import HEADER, Type
from controller.southbound.codec.roles import UNDEFINED, Role

SECOND = 10**9
TIMEOUT_NS = 600 * 10**6
PERIOD_NS = 150 * 10**6


class Switch:
    """A switch as OpenFlow 1.3.5 section 6.3.5 has it, as one controller's channel sees it."""

    def __init__(self, world: "Candidate", number: int) -> None:
        self.id = number
        self.generation = UNDEFINED
        self.role = Role.EQUAL
        self.address = ("test", number)
        self.aborted = self.probed = False
        self.asked: list[Role] = []
        self._world = world
        self._queued: list[bytes] = []

    def queue(self, message: bytes) -> bool:
        self._queued.append(message)
        return True

    def flush(self) -> None:
        """Nothing is answered before the controller has come back to its main loop."""

    def abort(self) -> None:
        self.aborted = True

    def probe(self) -> None:
        self.probed = True

    def answer(self) -> None:
        """Answer all that was asked."""
        while self._queued:
            message = self._queued.pop(0)
            assert message[1] == Type.ROLE_REQUEST, "a standby sends nothing else"
            _, _, _, xid = HEADER.unpack_from(message)
            role = Role(int.from_bytes(message[8:12], "big"))
            generation = int.from_bytes(message[16:24], "big")
            self.asked.append(role)
            if role in (Role.MASTER, Role.SLAVE):
                if self.generation != UNDEFINED and roles.newer(self.generation, generation):
                    self.refuse(11, 0)
                    continue
                self.generation = generation
            if role is not Role.NOCHANGE:
                self.role = role
            body = self.role.to_bytes(4, "big") + bytes(4) + self.generation.to_bytes(8, "big")
            self.say(Type.ROLE_REPLY, body, xid)

    def another_master(self, generation: int) -> None:
        self.generation, self.role = generation, Role.SLAVE

    def refuse(self, kind: int, code: int) -> None:
        self.say(Type.ERROR, kind.to_bytes(2, "big") + code.to_bytes(2, "big") + bytes(64))

    def say(self, kind: int, body: bytes, xid: int = 0) -> None:
        head = HEADER.pack(4, kind, HEADER.size + len(body), xid)
        self._world.mastership.received(self, head + body)  # type: ignore[arg-type]


class Candidate:
    """A controller whose application remembers what it is told."""

    def __init__(self) -> None:
        self.now_ns = 100 * SECOND
        self.failures = self.forgotten = self.beats = 0
        self.has: list[int] = []
        self.heard: list[tuple[int, int]] = []
        self.switches: list[Switch] = []
        self.election = Election("a", 100, ["b"], TIMEOUT_NS, self.now_ns)
        self.mastership = Mastership(
            self.election,
            self,
            self.forget,
            self.beat,
            lambda _event, _fields: None,
            PERIOD_NS,
            lambda: self.now_ns,
            self.fail,
        )

    def forget(self) -> None:
        self.forgotten += 1

    def beat(self) -> None:
        self.beats += 1

    def fail(self) -> None:
        self.failures += 1

    def connected(self, switch: Switch) -> None:
        self.has.append(switch.id)

    def disconnected(self, switch: Switch) -> None:
        self.has.remove(switch.id)

    def received(self, switch: Switch, message: bytes) -> None:
        self.heard.append((switch.id, message[1]))

    def received_segments(self, switch: Switch, copied: list) -> None:
        self.heard.append((switch.id, len(copied)))

    def connect(self, number: int, generation: int = UNDEFINED) -> Switch:
        switch = Switch(self, number)
        switch.generation = generation
        self.switches.append(switch)
        self.mastership.connected(switch)  # type: ignore[arg-type]
        switch.answer()
        return switch

    def sleep(self, ns: int) -> None:
        end_ns = self.now_ns + ns
        while self.now_ns < end_ns:
            self.now_ns += TIMEOUT_NS // 12
            self.mastership.tend()
            for switch in self.switches:
                switch.answer()

    def hear(self, rank: Rank, generation: int = UNDEFINED) -> None:
        self.mastership.heard(Heartbeat("b", rank, generation, 100))
        for switch in self.switches:
            switch.answer()

    def be_master(self) -> None:
        self.sleep(4 * TIMEOUT_NS)
        assert self.election.master


@pytest.fixture
def world() -> Candidate:
    return Candidate()


def test_a_standby_is_slave_and_the_application_knows_of_nothing(world: Candidate) -> None:
    world.hear(Rank.MASTER, 17)
    switch = world.connect(1, 17)
    assert switch.role is Role.SLAVE
    switch.say(Type.PACKET_IN, bytes(16))
    world.mastership.received_segments(switch, [None] * 5)  # type: ignore[arg-type, list-item]
    assert world.has == world.heard == []


def test_a_master_has_all_switches_also_those_that_come_later(world: Candidate) -> None:
    world.connect(1)
    world.be_master()
    assert world.has == [1]
    later = world.connect(2)
    assert later.role is Role.MASTER
    assert world.has == [1, 2]
    later.say(Type.PACKET_IN, bytes(16))
    assert world.heard == [(2, Type.PACKET_IN)]
    world.sleep(5 * SECOND)
    assert world.has == [1, 2], "that it asks again and again changes nothing"


def test_ports_that_changed_meanwhile_are_told_to_the_application(world: Candidate) -> None:
    switch = world.connect(1)
    port = bytes(8) + (7).to_bytes(4, "big") + bytes(60)
    switch.say(Type.PORT_STATUS, port)
    switch.say(Type.PORT_STATUS, port)
    assert world.heard == []
    world.be_master()
    assert world.heard == [(1, Type.PORT_STATUS)]


def test_the_generation_is_newer_than_any_that_a_switch_tells(world: Candidate) -> None:
    old, new = world.connect(1, 1000), world.connect(2, 5000)
    world.be_master()
    assert roles.newer(world.election.generation, 5000)
    assert old.generation == new.generation == world.election.generation
    # It was away while somebody else was master, who is gone.
    late = world.connect(3, world.election.generation + 1000)
    world.sleep(SECOND)
    assert late.role is Role.MASTER
    assert {switch.generation for switch in world.switches} == {world.election.generation}
    assert sorted(world.has) == [1, 2, 3]


@pytest.mark.parametrize("how", ["refused order", "role status", "stale claim", "heartbeat"])
def test_a_master_that_lost_one_switch_lets_go_of_all(
    world: Candidate, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = world.connect(1), world.connect(2)
    world.be_master()
    beats = world.beats
    newer = world.election.generation + 16 * 100
    first.another_master(newer)
    match how:
        case "refused order":
            first.refuse(1, 10)
        case "role status":
            status = bytes.fromhex("4f4e4600 00000777 00000003 00000000")
            first.say(Type.EXPERIMENTER, status + newer.to_bytes(8, "big"))
        case "stale claim":
            world.sleep(2 * PERIOD_NS)
        case "heartbeat":
            world.hear(Rank.MASTER, newer)
    assert not world.election.master
    assert world.has == []
    assert world.forgotten == 1
    assert world.beats > beats, "the peers are told"
    assert "a is no longer master" in caplog.text
    assert first.role is second.role is Role.SLAVE or how != "heartbeat"
    world.hear(Rank.MASTER, newer)
    world.sleep(TIMEOUT_NS // 2)
    assert not world.election.master


def test_a_master_that_is_not_heard_but_seen_at_work_is_left_alone(world: Candidate) -> None:
    switch = world.connect(1, 1600)
    for _ in range(40):
        switch.another_master(switch.generation + 16)
        world.sleep(TIMEOUT_NS // 4)
    assert not world.election.master
    world.sleep(2 * TIMEOUT_NS)
    assert world.election.master, "it has stopped"


def test_a_master_renews_its_claim_until_it_leaves(world: Candidate) -> None:
    switch = world.connect(1)
    world.be_master()
    before = switch.generation
    world.sleep(SECOND)
    assert roles.newer(switch.generation, before)
    world.hear(Rank.STANDBY)
    assert world.mastership.hand_over()
    before = switch.generation
    world.sleep(SECOND)
    assert switch.generation == before


def test_errors_of_other_kinds_are_the_applications(world: Candidate) -> None:
    switch = world.connect(1)
    world.be_master()
    switch.refuse(4, 9)
    assert world.heard == [(1, Type.ERROR)]
    assert world.election.master


def test_nobody_takes_the_place_of_a_switch_that_is_connected(world: Candidate) -> None:
    world.be_master()
    first = world.connect(1)
    second = world.connect(1)
    assert second.aborted and not first.aborted
    assert first.probed
    world.mastership.disconnected(second)  # type: ignore[arg-type]
    assert world.has == [1]
    world.mastership.disconnected(first)  # type: ignore[arg-type]
    assert world.has == []
    world.connect(1)
    assert world.has == [1]


def test_a_hand_over_is_asked_for_and_waits_for_the_successor(world: Candidate) -> None:
    world.connect(1)
    assert not world.mastership.hand_over(), "it is not the master"
    world.be_master()
    assert not world.mastership.hand_over(), "nobody is there"
    world.hear(Rank.STANDBY)
    assert world.mastership.hand_over()
    assert world.has == [1], "it goes on until the other one has taken over"
    world.hear(Rank.MASTER, world.election.generation + 16)
    assert world.has == []


def test_nonsense_about_roles_is_passed_over(world: Candidate) -> None:
    switch = world.connect(1)
    switch.say(Type.ROLE_REPLY, b"short")
    switch.say(Type.ROLE_REPLY, (77).to_bytes(4, "big") + bytes(12))
    switch.say(Type.PORT_STATUS, b"short")
    switch.refuse(11, 1)
    world.be_master()
    assert world.failures == 0
    assert openflow.Type.ROLE_REPLY not in {kind for _, kind in world.heard}
