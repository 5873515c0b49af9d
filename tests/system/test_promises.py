"""The judge of captures must see each kind of fault, or the tests that rely on it prove nothing."""

from dataclasses import replace
from typing import Any

import pytest

from pcap import ACK, FIN, PSH, RST, SYN, Segment
from promises import Connection, connections, faults, parts

MSS, SCALE = 1448, 7
RECEIVER, SENDER = "10.0.0.1", "10.0.0.2"
# Sequence numbers pass through 0 meanwhile.
OURS, THEIRS = 2**32 - 2, 2**32 - 1000


def said(
    time_s: float, seq: int, ack: int, window: int = 500, flags: int = ACK, **fields: Any
) -> Segment:
    """A segment of the receiver; numbers count from the first byte of data."""
    segment = Segment(
        *(time_s, RECEIVER, SENDER, 40_000, 5000),
        ip_id=int(time_s * 1000),
        seq=(OURS + seq) % 2**32,
        ack=(THEIRS + ack) % 2**32,
        flags=flags,
        window=window,
        payload_bytes=0,
        mss=None,
        window_scale=None,
        tsval=int(time_s * 1000),
        checksums_ok=True,
    )
    return replace(segment, **fields)


def data(time_s: float, seq: int, size: int = MSS) -> Segment:
    """A segment of the sender."""
    turned = replace(said(time_s, 4, 0), src=SENDER, dst=RECEIVER, sport=5000, dport=40_000)
    seq, ack = (THEIRS + seq) % 2**32, (OURS + 4) % 2**32
    return replace(turned, seq=seq, ack=ack, payload_bytes=size)


SYN_SENT = said(0.0, -1, 0, 64_240, SYN, mss=1460, window_scale=SCALE)
SYN_ANSWER = replace(data(0.001, -1, 0), flags=SYN | ACK, mss=1460, window_scale=SCALE)
FIRST = said(0.002, 0, 0)
REQUEST = said(0.010, 0, 0, flags=ACK | PSH, payload_bytes=4)
LATER = said(0.030, 4, 2 * MSS)
SENT = [SYN_SENT, FIRST, REQUEST, LATER]
# The switch leaves a segment each time, and then, by an update, more of them.
UPDATE = replace(
    REQUEST, time_s=0.020, seq=(OURS + 4) % 2**32, flags=ACK, window=46, payload_bytes=0
)
ARRIVED = [
    SYN_SENT,
    replace(FIRST, window=12),
    replace(REQUEST, window=23),
    UPDATE,
    replace(LATER, window=23),
]
DATA = [SYN_ANSWER, data(0.012, 0), data(0.013, MSS)]


def captured(arrived: list[Segment], sent: list[Segment] = SENT) -> Connection:
    seen = sorted([*arrived, *DATA], key=lambda segment: segment.time_s)
    (connection,) = connections(sent, seen, RECEIVER)
    return connection


def instead(index: int, **fields: Any) -> list[Segment]:
    """What arrives, one segment being otherwise."""
    arrived = list(ARRIVED)
    arrived[index] = replace(arrived[index], **fields)
    return arrived


def test_what_the_switch_may_do_is_no_fault() -> None:
    connection = captured(ARRIVED)
    assert (connection.scale, connection.mss_bytes) == (SCALE, MSS)
    assert connection.updates() == [UPDATE]
    assert faults(connection) == []
    reset = said(0.04, 4, 99, 0, RST)
    assert faults(captured([*ARRIVED, reset], [*SENT, reset])) == []


@pytest.mark.parametrize(
    ("arrived", "fault"),
    [
        (instead(1, checksums_ok=False), "a checksum is wrong"),
        (instead(1, window=501), "window 501 was 500"),
        (instead(0, window=64_239), "with SYN or RST"),
        (instead(2, payload_bytes=3), "was Segment"),
        (instead(4, tsval=31), "was Segment"),
        (ARRIVED[:4], "only 3 of 4 segments arrived"),
        ([*ARRIVED[:2], replace(LATER, time_s=0.01), replace(REQUEST, time_s=0.03)], "instead of"),
        ([*ARRIVED, replace(ARRIVED[2], time_s=0.04)], "no pure acknowledgment"),
        (instead(3, flags=ACK | FIN), "no pure acknowledgment"),
        (instead(3, ack=(THEIRS + 1) % 2**32), "the receiver has said nothing of that"),
        (instead(3, seq=(OURS + 5) % 2**32), "the receiver has said nothing of that"),
        (instead(3, tsval=11), "the receiver has said nothing of that"),
        (instead(3, window=501), "more than the receiver has granted"),
        (instead(3, tsval=2), "a timestamp before"),
        (instead(4, window=10), "were taken back"),
        ([*ARRIVED[:3], replace(ARRIVED[4], time_s=0.22)], "less than a segment for 0.2"),
    ],
)
def test_what_it_may_not_do_is_told(arrived: list[Segment], fault: str) -> None:
    assert [told for told in faults(captured(arrived)) if fault in told]


def test_an_edge_that_is_no_whole_segment_away_is_told() -> None:
    sent = [replace(segment, window_scale=None, window=64_000) for segment in SENT]
    windows = [64_000, MSS, 2 * MSS, 4 * MSS, 3 * MSS]
    arrived = [
        replace(segment, window=window, window_scale=None)
        for segment, window in zip(ARRIVED, windows, strict=True)
    ]
    moves, broken = parts(captured(arrived, sent))
    assert (moves, broken) == (3, [])
    arrived[3] = replace(arrived[3], window=4 * MSS - 1)
    moves, broken = parts(captured(arrived, sent))
    assert [step.segment.window for step in broken] == [4 * MSS - 1]
