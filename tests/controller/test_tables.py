"""What switches are meant to hold, and what is sent to bring them there."""

import pytest

from controller.core.effects import Effect, Install, Withdraw
from controller.core.entries import Account, Entry, Forward, LinkPort
from controller.core.flow import FlowKey
from controller.core.tables import Tables

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
    subject.tables.connect(1, [])
    assert subject.take() == [Install(1, Forward(M1, 3))]


def test_the_same_again_is_nothing_and_a_new_value_replaces(subject: Subject) -> None:
    subject.tables.connect(1, [])
    subject.tables.put(1, Forward(M1, 3))
    subject.tables.put(1, Forward(M1, 3))
    subject.tables.put(1, Forward(M1, 4))
    assert subject.take() == [Install(1, Forward(M1, 3)), Install(1, Forward(M1, 4))]


def test_what_a_switch_holds_already_is_not_sent(subject: Subject) -> None:
    subject.tables.put(1, Forward(M1, 3))
    subject.tables.connect(1, [Forward(M1, 3), Forward(M2, 5)])
    subject.tables.put(1, Forward(M2, 5))
    subject.tables.sweep(1)
    assert subject.take() == []


def test_what_it_holds_otherwise_is_replaced_in_place(subject: Subject) -> None:
    subject.tables.connect(1, [Forward(M1, 3)])
    subject.tables.put(1, Forward(M1, 4))
    subject.tables.sweep(1)
    assert subject.take() == [Install(1, Forward(M1, 4))]


def test_what_nobody_wants_goes_with_the_sweep_and_not_before(subject: Subject) -> None:
    held: list[Entry] = [Forward(M1, 3), LinkPort(7), Account(FLOW, True)]
    subject.tables.connect(1, held)
    assert subject.take() == []
    subject.tables.sweep(1, Account)
    assert subject.take() == [Withdraw(1, Account(FLOW, True))]
    subject.tables.sweep(1)
    assert subject.take() == [Withdraw(1, Forward(M1, 3)), Withdraw(1, LinkPort(7))]


def test_a_switch_that_is_away_is_not_told(subject: Subject) -> None:
    subject.tables.connect(1, [])
    subject.tables.put(1, Forward(M1, 3))
    subject.tables.disconnect(1)
    subject.tables.remove(1, Forward(M1, 3).key)
    subject.tables.put(1, Forward(M2, 4))
    subject.take()
    subject.tables.connect(1, [Forward(M1, 3)])
    subject.tables.sweep(1)
    assert subject.take() == [Install(1, Forward(M2, 4)), Withdraw(1, Forward(M1, 3))]


def test_what_the_switch_removed_itself_is_not_withdrawn(subject: Subject) -> None:
    subject.tables.connect(1, [])
    subject.tables.put(1, Account(FLOW, True))
    subject.take()
    subject.tables.vanished(1, Account(FLOW, True).key)
    subject.tables.remove(1, Account(FLOW, True).key)
    assert subject.take() == []
