"""What a switch holds is what it should hold: acknowledged when it is sent, read back later."""

import struct

import pytest

from controller.model.entries import Exempt, Forward, Relearn
from controller.southbound.codec import openflow
from controller.southbound.codec.openflow import Type
from controller.southbound.switch import budgets, events, pipeline
from controller.southbound.switch.encoding import encode
from scripted_switch import H1, LIMITS, ScriptedSwitch, stats_of


class TestAcknowledgement:
    @pytest.fixture
    def switch(self) -> ScriptedSwitch:
        switch = ScriptedSwitch()
        switch.become_ready()
        ready = switch.kinds().index(Type.BARRIER_REQUEST)
        del switch.got[: ready + 1]
        self.settle(switch)
        return switch

    def settle(self, switch: ScriptedSwitch) -> list[events.Event]:
        """Answer barriers until none is under way."""
        told = []
        while barriers := [m for m in switch.got if m[1] == Type.BARRIER_REQUEST]:
            switch.got.clear()
            for message in barriers:
                xid = int.from_bytes(message[4:8], "big")
                told += switch.say(Type.BARRIER_REPLY, b"", xid)
        return told

    def test_what_is_installed_is_told_when_the_switch_has_taken_it(
        self, switch: ScriptedSwitch
    ) -> None:
        switch.session.install(Forward(H1.mac, 3))
        switch.session.install(Relearn(4))
        assert switch.session.depths["unacknowledged"] == 3
        told = self.settle(switch)
        tags = [
            tag for event in told if isinstance(event, events.Acknowledged) for tag in event.tags
        ]
        assert tags == [Forward(H1.mac, 3).key, Relearn(4).key]
        assert switch.session.depths["unacknowledged"] == 0

    def test_what_is_refused_is_told_once_in_words(
        self, switch: ScriptedSwitch, caplog: pytest.LogCaptureFixture
    ) -> None:
        for _ in range(2):
            switch.session.install(Forward(H1.mac, 3))
            request = next(m for m in reversed(switch.got) if m[1] == Type.FLOW_MOD)
            refusal = struct.pack("!HH", 5, 1) + request[:64]
            assert switch.say(Type.ERROR, refusal) == [events.EntryRefused(Forward(H1.mac, 3).key)]
        (record,) = caplog.records
        assert "refused, with error type 5 code 1, to add entry in table 6" in record.getMessage()
        assert not [e for e in self.settle(switch) if isinstance(e, events.Acknowledged)]


class TestAudit:
    @pytest.fixture
    def switch(self) -> ScriptedSwitch:
        switch = ScriptedSwitch((1,))
        switch.become_ready()
        switch.barrier()
        return switch

    def own(self) -> list[openflow.FlowEntry]:
        return [*pipeline.STATIC, *budgets.entries(1)]

    def meters(self, *wanted: tuple[int, int]) -> bytes:
        return b"".join(
            struct.pack("!HHIHHII4x", 24, 14, number, 1, 16, rate, rate) for number, rate in wanted
        )

    def right_meters(self) -> list[tuple[int, int]]:
        wanted = [*budgets.meters(1, LIMITS), budgets.unmetered(LIMITS)]
        return [(meter.number, meter.rate_pps) for meter in wanted]

    def audit(
        self, switch: ScriptedSwitch, meters: list[tuple[int, int]], *stats: bytes
    ) -> events.AuditRead:
        switch.got.clear()
        switch.session.audit()
        body = struct.pack("!HH4x", 10, 0) + self.meters(*meters)
        switch.say(Type.MULTIPART_REPLY, body, switch.asked(10))
        (event,) = switch.say_flows(*stats)
        assert isinstance(event, events.AuditRead)
        return event

    def sent(self, switch: ScriptedSwitch, kind: Type) -> list[bytes]:
        return [message for message in switch.got if message[1] == kind]

    def test_nothing_is_done_where_all_is_right(self, switch: ScriptedSwitch) -> None:
        (entry,) = encode(Forward(H1.mac, 3))
        stats = map(stats_of, [*self.own(), entry])
        read = self.audit(switch, self.right_meters(), *stats)
        assert [held.entry for held in read.held] == [Forward(H1.mac, 3)]
        assert read[1:] == (0, 0, False)
        assert self.sent(switch, Type.FLOW_MOD) == self.sent(switch, Type.METER_MOD) == []

    def test_what_was_deleted_by_hand_is_put_back(self, switch: ScriptedSwitch) -> None:
        stats = [stats_of(entry) for entry in self.own()[2:]]
        assert self.audit(switch, self.right_meters(), *stats)[1:] == (2, 0, False)
        assert len(self.sent(switch, Type.FLOW_MOD)) == 2

    def test_an_entry_is_put_anew_on_a_meter_that_was_deleted(self, switch: ScriptedSwitch) -> None:
        """Else it would go on without any: it names the meter of the moment when it came."""
        stats = map(stats_of, self.own())
        read = self.audit(switch, self.right_meters()[1:], *stats)
        assert read.restored == 1 + len(budgets.entries(1))
        first = switch.kinds().index(Type.METER_MOD)
        assert Type.FLOW_MOD not in switch.kinds()[:first]

    def test_what_nobody_can_have_meant_goes(self, switch: ScriptedSwitch) -> None:
        (entry,) = encode(Forward(H1.mac, 3))
        odd = openflow.FlowEntry(3, 77, pipeline.COOKIE | 0x10006, entry.match, entry.actions)
        stats = map(stats_of, [*self.own(), odd])
        read = self.audit(switch, [*self.right_meters(), (0x1FFF8, 5)], *stats)
        assert (read.held, read.restored, read.removed) == ([], 0, 2)
        assert [m[25] for m in self.sent(switch, Type.FLOW_MOD)] == [
            openflow.FlowModCommand.DELETE_STRICT
        ]

    def test_half_of_what_belongs_together_is_not_there(self, switch: ScriptedSwitch) -> None:
        whole = encode(Exempt(b"", 0, 22))
        for entries, n_held in ((whole, 1), (whole[1:], 0)):
            stats = map(stats_of, [*self.own(), *entries])
            assert len(self.audit(switch, self.right_meters(), *stats).held) == n_held

    def test_an_answer_to_an_audit_that_was_given_up_is_passed_over(
        self, switch: ScriptedSwitch
    ) -> None:
        switch.session.audit()
        late = switch.asked(1)
        switch.session.audit()
        assert switch.say_flows(xid=late) == []
