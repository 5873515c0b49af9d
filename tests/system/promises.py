"""What senders of data are promised: the right edges in the segments that reach them.

A switch with accounts of credit lowers the windows of a receiver's segments, holds some of them for
a while, and sends window updates of its own. What it may do, and what not, is judged from captures
at both ends.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pcap import ACK, FIN, RST, SYN, Segment

# A request may be held for 160 ms, less than the least retransmission timeout of Linux.
PERMITTED_WITHIN_S = 0.2
_TIMESTAMPS_BYTES = 12


def ahead(a: int, b: int) -> int:
    """How far a sequence number is ahead of another one; negative if behind (RFC 9293, 3.4)."""
    return (a - b + 2**31) % 2**32 - 2**31


@dataclass
class Connection:
    """What was captured of a connection: the receiver's segments at both ends, `sent` and
    `arrived`, and the sender's as they left, `data`."""

    sent: list[Segment] = field(default_factory=list)
    arrived: list[Segment] = field(default_factory=list)
    data: list[Segment] = field(default_factory=list)

    @property
    def syn(self) -> Segment:
        return next(s for s in self.sent if s.flags & SYN)

    @property
    def answer(self) -> Segment:
        """The sender's SYN."""
        return next(s for s in self.data if s.flags & SYN)

    @property
    def scale(self) -> int:
        """By which the receiver's windows are to be shifted; both must have it (RFC 7323, 2.2)."""
        return (self.syn.window_scale or 0) if self.answer.window_scale is not None else 0

    @property
    def mss_bytes(self) -> int:
        """The payload of the sender's full segments."""
        assert self.syn.mss is not None
        has_timestamps = self.syn.tsval is not None and self.answer.tsval is not None
        return self.syn.mss - (_TIMESTAMPS_BYTES if has_timestamps else 0)

    def edge(self, segment: Segment) -> int:
        """The right edge that a segment of the receiver promises, if that is no SYN."""
        return (segment.ack + (segment.window << self.scale)) % 2**32

    def own(self) -> list[tuple[Segment, Segment]]:
        """The segments that came from the receiver, each as it was sent and as it arrived."""
        left: dict[tuple[object, ...], list[Segment]] = {}
        for segment in self.sent:
            left.setdefault(segment.identity, []).append(segment)
        return [
            (left[segment.identity].pop(0), segment)
            for segment in self.arrived
            if left.get(segment.identity)
        ]

    def updates(self) -> list[Segment]:
        """Those that did not: window updates of the switch."""
        left = Counter(segment.identity for segment in self.sent)
        found = []
        for segment in self.arrived:
            left[segment.identity] -= 1
            if left[segment.identity] < 0:
                found.append(segment)
        return found


def connections(
    sent: Sequence[Segment], seen: Sequence[Segment], receiver: str
) -> list[Connection]:
    """Sort what was captured at the receiver, `sent`, and at a sender, `seen`."""
    by_port: dict[int, Connection] = {}
    for segment in sent:
        if segment.src == receiver:
            by_port.setdefault(segment.sport, Connection()).sent.append(segment)
    for segment in seen:
        if segment.src == receiver:
            by_port.setdefault(segment.sport, Connection()).arrived.append(segment)
        else:
            by_port.setdefault(segment.dport, Connection()).data.append(segment)
    return list(by_port.values())


@dataclass(frozen=True)
class Step:
    """Something has reached the sender, or left it: what it may send from then on."""

    segment: Segment
    is_data: bool
    moved_bytes: int  # By how much the right edge has moved; negative to the left.
    sent: int  # The end of what it has sent.
    room_bytes: int  # From there to its edge.
    granted_bytes: int  # From there to the edge that the receiver has said last.


def follow(connection: Connection) -> Iterator[Step]:
    """Go by the sender's view of its window (RFC 9293, 3.10.7.4), from the handshake's end on."""
    captured = [(segment, "said") for segment in connection.sent]
    captured += [(segment, "data") for segment in connection.data]
    captured += [(segment, "arrived") for segment in connection.arrived]
    una: int | None = None
    edge: int | None = None
    sent: int | None = None
    granted: int | None = None
    told_by = 0
    for segment, what in sorted(captured, key=lambda each: each[0].time_s):
        before = edge
        if what == "said":
            if not segment.flags & (SYN | RST):
                granted = connection.edge(segment)
            continue
        if segment.flags & RST:
            return
        if what == "data":
            sent = segment.end if sent is None or ahead(segment.end, sent) > 0 else sent
        elif segment.flags & SYN or (una is not None and ahead(segment.ack, una) < 0):
            continue
        else:
            told = connection.edge(segment)
            if (
                una is None
                or edge is None
                or ahead(segment.ack, una) > 0
                or ahead(segment.seq, told_by) > 0
                or (segment.seq == told_by and ahead(told, edge) > 0)
            ):
                edge, told_by = told, segment.seq
            una = segment.ack
        if edge is not None:
            assert sent is not None
            assert granted is not None
            moved_bytes = 0 if before is None else ahead(edge, before)
            rooms = ahead(edge, sent), ahead(granted, sent)
            yield Step(segment, what == "data", moved_bytes, sent, *rooms)


def faults(connection: Connection) -> list[str]:
    """What is wrong with what has become of the receiver's segments, however busy the machine."""
    return [
        *_changed(connection),
        *_lost(connection),
        *_made_up(connection),
        *_out_of_time(connection),
        *_retracted(connection),
        *_strangled(connection),
    ]


def _changed(connection: Connection) -> Iterator[str]:
    """Windows may be lower than the receiver's, and nothing else."""
    for segment in connection.arrived:
        if not segment.checksums_ok:
            yield f"a checksum is wrong: {segment}"
    for sent, arrived in connection.own():
        if arrived.window > sent.window:
            yield f"window {arrived.window} was {sent.window}: {arrived}"
        if arrived.window < sent.window and sent.flags & (SYN | RST):
            yield f"window {arrived.window} was {sent.window}, with SYN or RST: {arrived}"
        if (arrived.payload_bytes, arrived.tsval) != (sent.payload_bytes, sent.tsval):
            yield f"{arrived} was {sent}"


def _lost(connection: Connection) -> Iterator[str]:
    """All that the receiver has sent arrives, once, in order."""
    order = [segment.identity for segment in connection.sent]
    own = [segment for _, segment in connection.own()]
    if len(own) < len(order):
        yield f"only {len(own)} of {len(order)} segments arrived"
    for identity, segment in zip(order, own, strict=False):
        if segment.identity != identity:
            yield f"instead of {identity}: {segment}"
            return


def _made_up(connection: Connection) -> Iterator[str]:
    """The switch's own segments are pure acknowledgments, and say nothing that the receiver has not
    said before, of the window not more than it has said last."""
    said = iter([*connection.sent, None])
    latest = next(said)
    edge: int | None = None
    numbers: set[int] = set()
    acks: set[int] = set()
    stamps: set[int | None] = set()
    for segment in connection.updates():
        while latest is not None and latest.time_s <= segment.time_s:
            numbers |= {latest.seq, latest.end}
            acks.add(latest.ack)
            stamps.add(latest.tsval)
            if not latest.flags & (SYN | RST):
                edge = connection.edge(latest)
            latest = next(said)
        if segment.flags != ACK or segment.payload_bytes:
            yield f"no pure acknowledgment: {segment}"
        if segment.seq not in numbers or segment.ack not in acks or segment.tsval not in stamps:
            yield f"the receiver has said nothing of that: {segment}"
        if edge is None or ahead(connection.edge(segment), edge) > 0:
            yield f"more than the receiver has granted: {segment}"


def _out_of_time(connection: Connection) -> Iterator[str]:
    """Timestamps never go back, or the sender would drop what comes with an old one (RFC 7323,
    section 5.3)."""
    stamped = [s for s in connection.arrived if s.tsval is not None and not s.flags & RST]
    for before, segment in pairwise(stamped):
        if ahead(segment.tsval or 0, before.tsval or 0) < 0:
            yield f"a timestamp before {before.tsval}: {segment}"


def _retracted(connection: Connection) -> Iterator[str]:
    """The right edge moves left only by less than a unit of the window scale (RFC 7323, section
    2.4), or to leave a sender that has ended its answer a segment."""
    unit_bytes = 1 << connection.scale
    for step in follow(connection):
        if step.moved_bytes <= -unit_bytes and step.room_bytes < connection.mss_bytes:
            yield f"{-step.moved_bytes} bytes were taken back, {step.room_bytes} left: {step}"


def _strangled(connection: Connection) -> Iterator[str]:
    """A sender that has less room than a segment, and whose receiver has more, soon has that."""
    since_s: float | None = None
    for step in follow(connection):
        segment = step.segment
        if segment.flags & FIN:
            return
        if since_s is not None and segment.time_s - since_s > PERMITTED_WITHIN_S:
            yield f"less than a segment for {segment.time_s - since_s:.3f} s: {segment}"
            since_s = None
        if step.room_bytes >= min(connection.mss_bytes, step.granted_bytes):
            since_s = None
        elif since_s is None:
            since_s = segment.time_s


def parts(connection: Connection) -> tuple[int, list[Step]]:
    """How often the switch has moved the right edge of a sender, and when that was by anything but
    whole segments, and not to such a boundary either.

    Only where windows are not scaled they can be told to the byte.
    """
    by_the_switch = {id(b) for a, b in connection.own() if b.window < a.window}
    by_the_switch |= set(map(id, connection.updates()))
    moved = [
        step
        for step in follow(connection)
        if id(step.segment) in by_the_switch
        and step.moved_bytes
        and step.room_bytes < step.granted_bytes
    ]
    mss_bytes = connection.mss_bytes
    # What has left the sender last, the switch may not have seen yet.
    return len(moved), [s for s in moved if s.moved_bytes % mss_bytes and s.room_bytes % mss_bytes]
