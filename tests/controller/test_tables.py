"""What switches are meant to hold, and what is sent to bring them there."""

import pytest

from controller.core.desired.tables import Applied, AuditResult, Tables
from controller.model.effects import Effect, Install, Withdraw
from controller.model.entries import Entry, FlowCounter, Forward, LinkPort, Relearn
from controller.model.flow import FlowKey
from engine_bench import by_key

M1, M2 = b"\2\0\0\0\0\1", b"\2\0\0\0\0\2"
FLOW = FlowKey(b"\x0a\0\0\1", 1, b"\x0a\0\0\2", 2)


class Subject:
    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.tables = Tables(self.effects.append)

    def take(self) -> list[Effect]:
        effects = self.effects.copy()
        self.effects.clear()
        return effects


@pytest.fixture
def subject() -> Subject:
    return Subject()


def test_what_is_wanted_before_a_switch_comes_is_installed_when_it_does(subject: Subject) -> None:
    subject.tables.put(1, Forward(M1, 3))
    assert subject.take() == []
    subject.tables.connect(1, by_key([]))
    assert subject.take() == [Install(1, Forward(M1, 3))]


def test_the_same_again_is_nothing_and_a_new_value_replaces(subject: Subject) -> None:
    subject.tables.connect(1, by_key([]))
    subject.tables.put(1, Forward(M1, 3))
    subject.tables.put(1, Forward(M1, 3))
    subject.tables.put(1, Forward(M1, 4))
    assert subject.take() == [Install(1, Forward(M1, 3)), Install(1, Forward(M1, 4))]


def test_what_a_switch_holds_already_is_not_sent(subject: Subject) -> None:
    subject.tables.put(1, Forward(M1, 3))
    subject.tables.connect(1, by_key([Forward(M1, 3), Forward(M2, 5)]))
    subject.tables.put(1, Forward(M2, 5))
    subject.tables.sweep(1)
    assert subject.take() == []


def test_what_it_holds_otherwise_is_replaced_in_place(subject: Subject) -> None:
    subject.tables.connect(1, by_key([Forward(M1, 3)]))
    subject.tables.put(1, Forward(M1, 4))
    subject.tables.sweep(1)
    assert subject.take() == [Install(1, Forward(M1, 4))]


def test_what_nobody_wants_goes_with_the_sweep_and_not_before(subject: Subject) -> None:
    held: list[Entry] = [Forward(M1, 3), LinkPort(7), FlowCounter(FLOW, True)]
    subject.tables.connect(1, by_key(held))
    assert subject.take() == []
    subject.tables.sweep(1, FlowCounter)
    assert subject.take() == [Withdraw(1, FlowCounter(FLOW, True))]
    subject.tables.sweep(1)
    assert subject.take() == [Withdraw(1, Forward(M1, 3)), Withdraw(1, LinkPort(7))]


def test_a_switch_that_is_away_is_not_told(subject: Subject) -> None:
    subject.tables.connect(1, by_key([]))
    subject.tables.put(1, Forward(M1, 3))
    subject.tables.disconnect(1)
    subject.tables.remove(1, Forward(M1, 3).key)
    subject.tables.put(1, Forward(M2, 4))
    subject.take()
    subject.tables.connect(1, by_key([Forward(M1, 3)]))
    subject.tables.sweep(1)
    assert subject.take() == [Install(1, Forward(M2, 4)), Withdraw(1, Forward(M1, 3))]


def test_what_the_switch_removed_itself_is_not_withdrawn(subject: Subject) -> None:
    subject.tables.connect(1, by_key([]))
    subject.tables.put(1, FlowCounter(FLOW, True))
    subject.take()
    subject.tables.vanished(1, FlowCounter(FLOW, True).key)
    subject.tables.remove(1, FlowCounter(FLOW, True).key)
    assert subject.take() == []


class TestApplied:
    def test_what_was_sent_is_not_in_force_before_it_is_acknowledged(
        self, subject: Subject
    ) -> None:
        subject.tables.connect(1, by_key([]))
        for port in (1, 2, 3):
            subject.tables.put(1, LinkPort(port))
        assert subject.tables.applied(1) == Applied(3, 0, 0)
        subject.tables.acknowledged(1, [LinkPort(1).key, LinkPort(2).key])
        assert subject.tables.applied(1) == Applied(3, 2, 0)

    def test_what_a_switch_held_already_needs_no_acknowledgement(self, subject: Subject) -> None:
        subject.tables.put(1, LinkPort(1))
        subject.tables.connect(1, by_key([LinkPort(1)]))
        assert subject.tables.applied(1) == Applied(1, 1, 0)

    def test_what_is_refused_is_neither_in_force_nor_on_its_way(self, subject: Subject) -> None:
        subject.tables.connect(1, by_key([]))
        subject.tables.put(1, LinkPort(1))
        subject.tables.refused(1, LinkPort(1).key)
        subject.tables.acknowledged(1, [LinkPort(1).key])
        assert subject.tables.applied(1) == Applied(1, 0, 1)
        subject.tables.remove(1, LinkPort(1).key)
        assert subject.tables.applied(1) == Applied(0, 0, 0)

    def test_a_switch_that_is_away_has_confirmed_nothing(self, subject: Subject) -> None:
        subject.tables.connect(1, by_key([]))
        subject.tables.put(1, LinkPort(1))
        subject.tables.acknowledged(1, [LinkPort(1).key])
        subject.tables.disconnect(1)
        subject.tables.acknowledged(1, [LinkPort(1).key])
        subject.tables.refused(1, LinkPort(1).key)
        assert subject.tables.applied(1) == Applied(1, 0, 0)


class TestAudit:
    @pytest.fixture
    def subject(self) -> Subject:
        subject = Subject()
        subject.tables.connect(1, by_key([]))
        for entry in (Forward(M1, 3), Forward(M2, 4), LinkPort(1)):
            subject.tables.put(1, entry)
            subject.tables.acknowledged(1, [entry.key])
        subject.take()
        subject.tables.begin_audit(1)
        return subject

    def test_what_is_there_is_left_alone(self, subject: Subject) -> None:
        subject.tables.audit(1, [Forward(M1, 3)])
        subject.tables.audit(1, [LinkPort(1), Forward(M2, 4)])
        assert subject.tables.end_audit(1) == AuditResult(0, 0)
        assert subject.take() == []

    def test_what_is_missing_or_different_is_put_back(self, subject: Subject) -> None:
        subject.tables.audit(1, [Forward(M1, 9), LinkPort(1)])
        assert subject.tables.end_audit(1) == AuditResult(2, 0)
        effects = subject.take()
        assert len(effects) == 2
        assert Install(1, Forward(M1, 3)) in effects
        assert Install(1, Forward(M2, 4)) in effects
        assert subject.tables.applied(1) == Applied(3, 1, 0)

    def test_what_nobody_wants_goes_but_what_goes_by_itself(self, subject: Subject) -> None:
        held: list[Entry] = [Forward(M1, 3), Forward(M2, 4), LinkPort(1), LinkPort(7), Relearn(2)]
        subject.tables.audit(1, held)
        assert subject.tables.end_audit(1) == AuditResult(0, 1)
        assert subject.take() == [Withdraw(1, LinkPort(7))]

    def test_what_was_changed_meanwhile_is_not_judged(self, subject: Subject) -> None:
        subject.tables.put(1, Forward(M1, 5))
        subject.tables.remove(1, Forward(M2, 4).key)
        subject.tables.put(1, LinkPort(2))
        subject.tables.vanished(1, LinkPort(1).key)
        subject.take()
        subject.tables.audit(1, [Forward(M1, 3), Forward(M2, 4), LinkPort(1)])
        assert subject.tables.end_audit(1) == AuditResult(0, 0)
        assert subject.take() == []

    def test_what_waits_for_the_sweep_is_not_withdrawn_before(self) -> None:
        subject = Subject()
        subject.tables.connect(1, by_key([LinkPort(7)]))
        subject.tables.begin_audit(1)
        subject.tables.audit(1, [LinkPort(7)])
        assert subject.tables.end_audit(1) == AuditResult(0, 0)
        assert subject.take() == []

    def test_what_was_refused_is_tried_again(self, subject: Subject) -> None:
        subject.tables.put(1, LinkPort(2))
        subject.tables.refused(1, LinkPort(2).key)
        subject.tables.begin_audit(1)
        subject.take()
        subject.tables.audit(1, [Forward(M1, 3), Forward(M2, 4), LinkPort(1)])
        assert subject.tables.end_audit(1) == AuditResult(0, 0)
        assert subject.take() == [Install(1, LinkPort(2))]
        assert subject.tables.applied(1) == Applied(4, 3, 0)

    def test_an_audit_ends_with_the_connection(self, subject: Subject) -> None:
        subject.tables.disconnect(1)
        subject.tables.audit(1, [])
        assert subject.tables.end_audit(1) is None
        assert subject.take() == []
