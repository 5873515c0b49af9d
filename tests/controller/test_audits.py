"""When switches are audited, and what is told of it."""

from controller.core.desired.audits import Audits, SyncState
from controller.core.desired.tables import Applied, Tables
from controller.model.effects import Audit, Effect, Install, Record, Warn
from controller.model.entries import LinkPort
from engine_bench import by_key

S = 10**9
INTERVAL_NS = 300 * S


class Subject:
    """Three switches that want one entry each, and the time."""

    def __init__(self) -> None:
        self.out: list[Effect] = []
        self.now_ns = 0
        self.tables = Tables(self.out.append)
        self.audits = Audits(INTERVAL_NS, self.tables, self.out.append)
        for switch in (1, 2, 3):
            self.tables.connect(switch, by_key([LinkPort(1)]))
            self.tables.put(switch, LinkPort(1))
            self.audits.connect(switch, 0)

    def tend(self, seconds: float) -> list[int]:
        """The switches that are asked in so many seconds, none of which answers."""
        asked = []
        for _ in range(round(seconds * 4)):
            self.now_ns += S // 4
            self.out.clear()
            self.audits.tend(self.now_ns)
            asked += [effect.switch for effect in self.out if isinstance(effect, Audit)]
        return asked

    def answer(self, switch: int, *held: LinkPort, restored: int = 0) -> list[Effect]:
        self.out.clear()
        self.audits.read(switch, held)
        self.audits.end(switch, restored, 0, self.now_ns)
        return self.out


def test_a_switch_that_has_just_connected_is_not_asked() -> None:
    assert Subject().tend(299) == []


def test_one_at_a_time_and_every_one_in_turn() -> None:
    subject = Subject()
    order: list[int] = []
    while len(order) < 6:
        asked = subject.tend(0.25)
        assert len(asked) <= 1
        order += asked
        for switch in asked:
            subject.answer(switch, LinkPort(1))
    assert sorted(order[:3]) == sorted(order[3:]) == [1, 2, 3]
    assert subject.now_ns <= 3 * INTERVAL_NS


def test_a_switch_that_does_not_answer_keeps_no_other_from_its_turn() -> None:
    assert sorted(Subject().tend(500)) == [1, 2, 3]


def test_a_shorter_interval_holds_for_audits_that_were_due_later() -> None:
    subject = Subject()
    subject.audits.reconfigure(30 * S, subject.now_ns)
    assert subject.tend(29) == []
    # Each keeps the others waiting, since none answers.
    assert {*subject.tend(120)} == {1, 2, 3}


def test_a_switch_that_leaves_while_asked_keeps_no_other_from_its_turn() -> None:
    subject = Subject()
    (first,) = subject.tend(301)
    subject.tables.disconnect(first)
    subject.audits.disconnect(first)
    assert sorted([first, *subject.tend(150)]) == [1, 2, 3]


def test_what_is_in_step_is_recorded_without_a_complaint() -> None:
    subject = Subject()
    (switch,) = subject.tend(301)
    (record,) = subject.answer(switch, LinkPort(1))
    assert record == Record(
        "switch_audited",
        {
            "switch": switch,
            "wanted": 1,
            "confirmed": 1,
            "refused": 0,
            "restored": 0,
            "removed": 0,
        },
    )
    assert subject.audits.sync_state(switch) == SyncState(Applied(1, 1, 0), subject.now_ns, 0, 0)


def test_what_had_to_be_put_right_is_complained_of() -> None:
    subject = Subject()
    (switch,) = subject.tend(301)
    install, record, complaint = subject.answer(switch, restored=2)
    assert install == Install(switch, LinkPort(1))
    assert isinstance(record, Record)
    assert record.fields["restored"] == 3
    assert isinstance(complaint, Warn)
    assert "lacked 3 entries" in complaint.text


def test_an_answer_that_was_given_up_changes_nothing() -> None:
    subject = Subject()
    (switch,) = subject.tend(301)
    subject.tend(31)
    assert subject.answer(switch) == []
    assert subject.audits.sync_state(switch).audited_ns is None
