"""What the switches have counted between two answers of the controller about its ports."""

from collections.abc import Iterable
from typing import NamedTuple, Self

from controller.rpc.spans import LostReadingError, Row, Span, by_port, queue_of


class Answers(NamedTuple):
    """Answers of one class of sizes. `counts` are by time, as are `Turn.bounds_s`."""

    below_bytes: int | None
    number: float
    seconds: float
    counts: tuple[float, ...]

    @property
    def mean_s(self) -> float | None:
        return self.seconds / self.number if self.number else None

    def quantile_s(self, share: float, bounds_s: tuple[float, ...]) -> float | None:
        """By linear interpolation within a class of times; the last class counts as its bound."""
        left = share * sum(self.counts)
        if not left:
            return None
        edges = (0.0, *bounds_s)
        for low_s, high_s, count in zip(edges, bounds_s, self.counts, strict=False):
            if left <= count:
                return low_s + (high_s - low_s) * left / count
            left -= count
        return bounds_s[-1]


class Turn(NamedTuple):
    """Sums over ports, a second. Bytes are those that left; the rest is of sampled connections but
    for drops, queues and holds. `queue_bytes` is the length of all queues, as a mean."""

    bytes_per_s: float
    drops_per_s: float
    queue_bytes: float
    segments_per_s: float
    retransmitted_per_s: float
    timeouts_per_s: float
    answers: tuple[Answers, ...]
    bounds_s: tuple[float, ...]
    requests_per_s: float
    held_per_s: float
    held_s_per_s: float

    @property
    def mean_answer_s(self) -> float | None:
        number = sum(answers.number for answers in self.answers)
        return sum(answers.seconds for answers in self.answers) / number if number else None

    @classmethod
    def between(cls, first: Iterable[Row], others: Iterable[Iterable[Row]]) -> Self:
        """What happened between the first reading and the last of the others.

        Raises LostReadingError if a switch has not told anew, or has counted backwards.
        """
        begin, rest = by_port(first), [by_port(rows) for rows in others]
        end = rest[-1]
        if not end or begin.keys() != end.keys():
            raise LostReadingError("ports with a queue came or went")
        spans = [Span(begin[key], end[key]) for key in end]
        lengths = [sum(queue_of(row)["queue_bytes"] for row in ports.values()) for ports in rest]
        return cls(
            bytes_per_s=sum(span.queue("sent_bytes") for span in spans),
            drops_per_s=sum(span.queue("dropped_packets") for span in spans),
            queue_bytes=sum(lengths) / len(lengths),
            segments_per_s=sum(span.tcp("segments") for span in spans),
            retransmitted_per_s=sum(span.tcp("retransmitted") for span in spans),
            timeouts_per_s=sum(span.tcp("timeouts") for span in spans),
            answers=_answers(spans),
            bounds_s=tuple(next((s.end["tcp"]["bounds_s"] for s in spans if s.end["tcp"]), ())),
            requests_per_s=sum(span.account("requests") for span in spans),
            held_per_s=sum(span.account("held_requests") for span in spans),
            held_s_per_s=sum(span.account("held_s") for span in spans),
        )


def _answers_of(span: Span) -> list[Answers]:
    begin, end = span.begin["tcp"], span.end["tcp"]
    if not begin or not end:
        return []
    return [
        Answers(
            new["below_bytes"],
            span.rate(old["answers"], new["answers"]),
            span.rate(old["seconds"], new["seconds"]),
            tuple(map(span.rate, old["counts"], new["counts"])),
        )
        for old, new in zip(begin["answers"], end["answers"], strict=True)
    ]


def _answers(spans: Iterable[Span]) -> tuple[Answers, ...]:
    sums: dict[int | None, Answers] = {}
    for span in spans:
        for told in _answers_of(span):
            known = sums.get(told.below_bytes)
            sums[told.below_bytes] = (
                told
                if known is None
                else Answers(
                    told.below_bytes,
                    known.number + told.number,
                    known.seconds + told.seconds,
                    tuple(a + b for a, b in zip(known.counts, told.counts, strict=True)),
                )
            )
    return tuple(sums.values())
