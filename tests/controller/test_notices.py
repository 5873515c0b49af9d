"""What notices say of ports between two samples."""

from typing import Any

from controller.api.notices import Notices
from controller.model.values import PortId

PORT = PortId(1, 2)


def notice(label: str, wall_s: float, queue_bytes: int = 1000, port: PortId = PORT) -> Any:
    return {
        "event": "queue_event",
        "wall_s": wall_s,
        **port._asdict(),
        "notice": label,
        "bytes": queue_bytes,
        "limit_bytes": 5000,
        "missed": 0,
    }


def levels(notices: Notices, now_s: float) -> dict[PortId, int]:
    return {port: heard.level for port, heard in notices.now(now_s).items()}


def test_a_notice_counts_at_once() -> None:
    notices = Notices()
    assert not notices.hear([{"event": "link_up", "wall_s": 7.0}], 0.0)
    assert levels(notices, 0.0) == {}
    assert notices.hear([notice("CN-M", 7.0, 3000), notice("CN-L", 7.0, port=PortId(1, 3))], 0.0)
    assert levels(notices, 0.0) == {PORT: 2, PortId(1, 3): 1}
    assert notices.now(0.0)[PORT].queue_bytes == 3000


def test_the_worst_of_the_last_second_counts_and_then_the_last() -> None:
    notices = Notices()
    notices.hear([notice("CN-L", 7.0), notice("CN-H", 7.0, 4000), notice("CR", 7.01)], 0.0)
    assert levels(notices, 0.0) == levels(notices, 0.9) == {PORT: 3}
    assert levels(notices, 1.0) == {PORT: 0}
    # The worst is over, so that a lesser one is the worst of its second.
    notices.hear([notice("CN-L", 8.2), notice("CR", 8.21)], 1.2)
    assert levels(notices, 2.1) == {PORT: 1}


def test_what_was_heard_before_a_sample_is_in_it() -> None:
    notices = Notices()
    notices.hear([notice("CN-L", 7.0)], 0.0)
    notices.hear([notice("CN-M", 8.9, port=PortId(1, 3))], 1.8)
    notices.sampled(8.5, 2.0)
    assert levels(notices, 3.0) == {PortId(1, 3): 2}


def test_a_clock_that_is_set_back_keeps_no_notice_for_long() -> None:
    notices = Notices()
    notices.sampled(3600.0, 0.0)
    notices.hear([notice("CN-M", 3600.5)], 0.5)
    notices.sampled(1.0, 1.0)
    assert levels(notices, 1.0) == {PORT: 2}
    notices.sampled(2.0, 2.0)
    assert levels(notices, 2.0) == {}
