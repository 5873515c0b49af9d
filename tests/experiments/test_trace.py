"""The picture of a queue is the queue, whatever the width of a pixel."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.measure.trace import KINDS, QueueTrace, parse
from testbed.shaping import FULL_FRAME_BYTES

RATE_BPS = 8e9  # drains one byte per nanosecond


def test_parse() -> None:
    trace = parse("100 1514 1 enqueue\n200 20000 14 CN-L\n300 65000 43 drop\n")
    assert trace.time_ns.tolist() == [100, 200, 300]
    assert trace.bytes.tolist() == [1514, 20000, 65000]
    assert trace.packets.tolist() == [1, 14, 43]
    assert [trace.count(kind) for kind in KINDS] == [1, 1, 1, 0, 0, 0]
    assert trace.times_of("CN-L").tolist() == [200]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("100 1514 1\n", "not made of lines of four"),
        ("100 1514 1 vanish\n", "unknown kinds.*vanish"),
    ],
)
def test_what_is_no_trace_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse(text)


def test_nothing_came() -> None:
    starts, low, high = parse("").envelope(10, RATE_BPS)
    assert len(starts) == len(low) == len(high) == 0


def test_it_is_read_back(tmp_path: Path) -> None:
    trace = replace(
        parse("100 1514 1 enqueue\n"),
        departure_ns=np.array([300]),
        departure_bytes=np.array([1514]),
    )
    trace.save(tmp_path / "queue.npz")
    read = QueueTrace.load(tmp_path / "queue.npz")
    assert read.bytes.tolist() == read.departure_bytes.tolist() == [1514]
    assert read.departure_ns.tolist() == [300]


def test_a_trace_without_departures_is_read_back(tmp_path: Path) -> None:
    none = np.empty(0, np.int64)
    np.savez(tmp_path / "queue.npz", time_ns=none, bytes=none, packets=none, kind=none)
    assert len(QueueTrace.load(tmp_path / "queue.npz").departure_ns) == 0


FRAME_NS = FULL_FRAME_BYTES  # At RATE_BPS.


def departing(times_ns: list[int], *, came: int = 10, delay_ns: int = 0) -> list[float]:
    """How far gaps are off where so many full-size frames came at once and left at these times."""
    arrivals = "\n".join(f"0 {n * FULL_FRAME_BYTES} {n} enqueue" for n in range(1, came + 1))
    sizes = np.full(len(times_ns), FULL_FRAME_BYTES)
    trace = replace(parse(arrivals), departure_ns=np.array(times_ns), departure_bytes=sizes)
    return trace.spacing_errors_ns(RATE_BPS, delay_ns).tolist()


def test_each_frame_in_its_time() -> None:
    even = [n * FRAME_NS for n in range(1, 11)]
    # Three still waited when the seventh left.
    assert departing(even) == [0] * 7
    assert departing([at + 5000 for at in even], delay_ns=5000) == [0] * 7


def test_a_port_that_stands_still_while_packets_wait() -> None:
    late = [FRAME_NS, *(n * FRAME_NS + 40_000 for n in range(2, 11))]
    assert departing(late)[0] == 40_000


def test_an_idle_link_sends_when_something_comes() -> None:
    assert departing([FRAME_NS, 900_000], came=2) == []
    assert departing([], came=2) == departing([FRAME_NS], came=1) == []


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 40)), min_size=1, max_size=30),
    st.integers(1, 25),
)
def test_envelope_agrees_with_a_walk_through_the_records(
    arrivals: list[tuple[int, int]], bin_ns: int
) -> None:
    times = np.cumsum([gap for gap, _ in arrivals])
    lengths = np.array([length for _, length in arrivals])
    zeros = np.zeros(len(arrivals), dtype=np.int8)
    trace = QueueTrace(times, lengths, zeros.astype(np.int64), zeros)

    def length_at(now_ns: int, *, before: bool = False) -> int | None:
        """The queue at a time, or just before it; None before the first record."""
        known = [i for i, at in enumerate(times) if at < now_ns or (at == now_ns and not before)]
        return max(0, lengths[known[-1]] - (now_ns - times[known[-1]])) if known else None

    for start, least, most in zip(*trace.envelope(bin_ns, RATE_BPS), strict=True):
        within = [at for at in times if start <= at < start + bin_ns]
        highs = [length_at(start), *(length_at(at) for at in within)]
        lows = [length_at(start + bin_ns, before=True)]
        lows += [length_at(at, before=True) for at in within]
        assert most == max(length for length in highs if length is not None)
        assert least == min(length for length in lows if length is not None)


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 40)), min_size=1, max_size=40),
    st.integers(0, 50),
    st.integers(1, 400),
)
def test_mean_agrees_with_a_queue_that_sends_byte_by_byte(
    arrivals: list[tuple[int, int]], begin_ns: int, duration_ns: int
) -> None:
    """A packet is there until its last byte is sent; what does not fit in is dropped."""
    due = list(zip(np.cumsum([gap for gap, _ in arrivals]).tolist(), arrivals, strict=True))
    queue: list[list[int]] = []  # size, bytes not sent yet
    records, total = [], 0
    for now_ns in range(begin_ns + duration_ns):
        while due and due[0][0] == now_ns:
            size = due.pop(0)[1][1]
            fits = sum(held for held, _ in queue) + size <= 100
            if fits:
                queue.append([size, size])
            held = sum(held for held, _ in queue)
            records.append(f"{now_ns} {held} {len(queue)} {'enqueue' if fits else 'drop'}")
        if now_ns >= begin_ns:
            total += sum(held for held, _ in queue)
        if queue:
            queue[0][1] -= 1
            if not queue[0][1]:
                queue.pop(0)
    trace = parse("\n".join(records))
    mean = trace.mean_bytes(begin_ns, begin_ns + duration_ns, RATE_BPS)
    assert mean == pytest.approx(total / duration_ns)


def test_length_at_a_time() -> None:
    trace = parse("100 50 1 enqueue\n120 80 2 enqueue\n")
    times = np.array([100, 110, 119, 120, 130, 300])
    assert trace.at(times, RATE_BPS).tolist() == [50, 40, 31, 80, 70, 0]
