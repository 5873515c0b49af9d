"""What is applied is what was acknowledged."""

from hypothesis import given
from hypothesis import strategies as st

from controller.model.entries import Forward
from controller.southbound.codec.meters import Meter
from controller.southbound.switch.encoding import encode
from controller.southbound.switch.ledger import Ledger, Sent

(ENTRY,) = encode(Forward(b"\2\0\0\0\0\1", 3))


class Subject:
    """A ledger and the barriers that it has sent."""

    def __init__(self) -> None:
        self.xid = 0
        self.barriers: list[int] = []
        self.ledger = Ledger(self._barrier)

    def _barrier(self) -> int:
        self.xid += 1
        self.barriers.append(self.xid)
        return self.xid

    def send(self, tag: object) -> int:
        self.xid += 1
        self.ledger.sent(self.xid, Sent("add", ENTRY, tag))
        return self.xid

    def answer(self) -> list[object]:
        return list(self.ledger.answered(self.barriers.pop(0)))


def test_nothing_is_in_force_before_its_barrier() -> None:
    subject = Subject()
    subject.send("a")
    subject.send("b")
    assert len(subject.ledger) == 2
    assert subject.answer() == ["a"], "b was sent after the barrier"
    assert subject.answer() == ["b"]
    assert subject.barriers == []
    assert len(subject.ledger) == 0


def test_a_batch_costs_two_barriers() -> None:
    subject = Subject()
    for n in range(1000):
        subject.send(n)
    assert len(subject.barriers) == 1
    subject.answer()
    assert len(subject.barriers) == 1
    assert subject.answer() == list(range(1, 1000))


def test_a_tag_of_several_entries_is_told_when_the_last_is_in() -> None:
    subject = Subject()
    for tag in ("a", "b", "a"):
        subject.send(tag)
    assert subject.answer() == []
    assert subject.answer() == ["b", "a"]


def test_what_was_refused_is_known_and_not_told_as_taken() -> None:
    subject = Subject()
    subject.send("a")
    refused = subject.ledger.refused(subject.send("b"))
    assert refused is not None
    assert refused.tag == "b"
    assert str(refused).startswith("add entry in table 6 priority 100 match (eth_dst=020000000001)")
    assert subject.answer() == ["a"]
    assert subject.ledger.refused(99) is None


def test_a_meter_in_words() -> None:
    assert str(Sent("add", Meter(7, 100, 5), None)) == "add meter 7 of 100 packets/s"


def test_another_barrier_says_nothing() -> None:
    subject = Subject()
    subject.send("a")
    assert subject.ledger.answered(999) == []
    assert len(subject.ledger) == 1


def test_a_switch_that_never_answers_does_not_fill_the_memory() -> None:
    subject = Subject()
    for n in range(100_000):
        subject.send(n)
    assert len(subject.ledger) < 70_000
    assert len(subject.barriers) == 1


@given(st.lists(st.sampled_from(["send a", "send b", "answer", "refuse"]), max_size=60))
def test_in_the_end_every_tag_was_told_or_refused(steps: list[str]) -> None:
    subject, told, last = Subject(), set(), 0
    wanted: set[object] = set()
    for step in steps:
        if step.startswith("send"):
            wanted.add(step)
            last = subject.send(step)
        elif step == "refuse":
            refused = subject.ledger.refused(last)
            told |= {refused.tag} if refused else set()
        elif subject.barriers:
            told |= set(subject.answer())
    while subject.barriers:
        told |= set(subject.answer())
    assert told == wanted
    assert len(subject.ledger) == 0
