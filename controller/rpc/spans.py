"""What a port has counted between two answers of the controller to `ports`."""

from collections.abc import Iterable, Mapping
from typing import Any

from controller.model.values import PortId, datapath_id

Row = Mapping[str, Any]
"""A port, as method `ports` tells of it (`controller.northbound.views.PortView`)."""


class LostReadingError(Exception):
    """A reading cannot be used; the message says why."""


class Span:
    """A port at the begin and the end of a time, which is measured by its switch."""

    def __init__(self, begin: Row, end: Row) -> None:
        """Raises LostReadingError if the switch has not told anew."""
        self.begin, self.end = begin, end
        times_ns = [queue_of(row)["switch_time_ns"] for row in (begin, end)]
        self.seconds = (times_ns[1] - times_ns[0]) / 1e9
        if self.seconds <= 0:
            switch = datapath_id(end["switch"])
            raise LostReadingError(f"switch {switch} does not tell how its queues are")

    def queue(self, name: str) -> float:
        return self.rate(queue_of(self.begin)[name], queue_of(self.end)[name])

    def tcp(self, name: str) -> float:
        begin, end = self.begin["tcp"], self.end["tcp"]
        return self.rate(begin[name], end[name]) if begin and end else 0.0

    def answers(self, name: str) -> float:
        """The sum over all sizes of answers: `answers`, or the `seconds` that they took."""
        begin, end = self.begin["tcp"], self.end["tcp"]
        if not begin or not end:
            return 0.0
        sums = [sum(answers[name] for answers in row["answers"]) for row in (begin, end)]
        return self.rate(*sums)

    def account(self, name: str) -> float:
        begin, end = queue_of(self.begin)["account"], queue_of(self.end)["account"]
        if not end:
            return 0.0
        return self.rate(begin[name] if begin else 0.0, end[name])

    def rate(self, begin: float, end: float) -> float:
        """A second. Raises LostReadingError if a counter has fallen."""
        if end < begin:
            switch = datapath_id(self.end["switch"])
            raise LostReadingError(
                f"port {self.end['name']} of switch {switch} counts from 0 again"
            )
        return float((end - begin) / self.seconds)


def by_port(rows: Iterable[Row]) -> dict[PortId, Row]:
    """The ports that have a queue."""
    return {PortId(row["switch"], row["port"]): row for row in rows if row["queues"]}


def queue_of(row: Row) -> Row:
    """The queue of a port that has one."""
    queue: Row = row["queues"][0]
    return queue
