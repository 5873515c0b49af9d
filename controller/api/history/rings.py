"""Series of a port over the last hour and day, in a buffer of fixed size. Pure."""

import math
import struct
from collections.abc import Iterable, Sequence

from controller.api.history.rates import N_SERIES, UNKNOWN, Rates

HOUR_STEP_S, DAY_STEP_S = 1, 10
_HOUR_STEPS, _DAY_STEPS = 3600, 8640
_PER_DAY_STEP = DAY_STEP_S // HOUR_STEP_S

_STEP = struct.Struct(f"={N_SERIES}f")
_BOUNDS = struct.Struct("=2q")
# The buffer of another release is not taken for one of this.
_KIND = struct.pack("=8sHHI", b"weirhist", 1, N_SERIES, _HOUR_STEPS + _DAY_STEPS)

_DAY_AT = len(_KIND) + _BOUNDS.size + _HOUR_STEPS * _STEP.size
SIZE_BYTES = _DAY_AT + _BOUNDS.size + _DAY_STEPS * _STEP.size
_UNKNOWN_STEPS = _STEP.pack(*UNKNOWN) * _DAY_STEPS

Column = list[float | None]


class Record:
    """An hour at 1 s and a day at 10 s. The buffer has `SIZE_BYTES`, and is zero or that of an
    earlier record, which goes on."""

    def __init__(self, buffer: memoryview) -> None:
        if buffer[: len(_KIND)] != _KIND:
            buffer[: len(_KIND)] = _KIND
            buffer[len(_KIND) : len(_KIND) + _BOUNDS.size] = bytes(_BOUNDS.size)
            buffer[_DAY_AT : _DAY_AT + _BOUNDS.size] = bytes(_BOUNDS.size)
        self.hour = Ring(buffer[len(_KIND) : _DAY_AT])
        self.day = Ring(buffer[_DAY_AT:])

    def put(self, second: int, rates: Rates) -> None:
        """The rates of a second. Those of seconds that were left out are not known, and those of
        later ones are forgotten: the clock has been set back."""
        step = second // _PER_DAY_STEP
        self.day.cut(step)
        self._sum_up(step)
        self.day.reach(step)
        self.hour.put(second, rates)

    def _sum_up(self, now: int) -> None:
        """Put the means of the steps of the day that are over."""
        begin = max(self.day.end, self.hour.begin // _PER_DAY_STEP)
        for step in range(begin, min(now, -(-self.hour.end // _PER_DAY_STEP))):
            first = step * _PER_DAY_STEP
            self.day.put(step, map(_mean, self.hour.columns(first, first + _PER_DAY_STEP)))


class Ring:
    """The last steps of all series, by number; `begin` to `end` are known."""

    def __init__(self, buffer: memoryview) -> None:
        self._bounds = buffer[: _BOUNDS.size]
        self._steps = buffer[_BOUNDS.size :]
        self._values = self._steps.cast("f")
        self._size = len(self._steps) // _STEP.size
        self.begin, self.end = _BOUNDS.unpack(self._bounds)
        if not 0 <= self.begin <= self.end <= self.begin + self._size:
            self.begin = self.end = 0

    def put(self, step: int, values: Iterable[float]) -> None:
        """Steps that were left out are not known, and later ones are forgotten."""
        self.cut(step)
        self.reach(step)
        _STEP.pack_into(self._steps, step % self._size * _STEP.size, *values)
        self._know(max(self.begin, step + 1 - self._size), step + 1)

    def cut(self, step: int) -> None:
        """Forget this step and later ones."""
        if step < self.end:
            self._know(min(self.begin, step), step)

    def reach(self, step: int) -> None:
        """Go on with this step; those before it that were left out are not known."""
        if step >= self.end + self._size:
            self._know(step, step)
        elif step > self.end:
            for low, high in self._pieces(self.end, step):
                size_bytes = (high - low) * _STEP.size
                self._steps[low * _STEP.size :][:size_bytes] = _UNKNOWN_STEPS[:size_bytes]
            self._know(max(self.begin, step - self._size), step)

    def _know(self, begin: int, end: int) -> None:
        self.begin, self.end = begin, end
        _BOUNDS.pack_into(self._bounds, 0, begin, end)

    def columns(self, first: int, last: int) -> Sequence[Column]:
        """Each series, from step `first` on and before `last`. None: not known."""
        begin, end = max(first, self.begin), min(last, self.end)
        if begin >= end:
            return [[None] * max(0, last - first) for _ in range(N_SERIES)]
        before, after = [None] * (begin - first), [None] * (last - end)
        return [[*before, *self._column(n, begin, end), *after] for n in range(N_SERIES)]

    def _column(self, number: int, begin: int, end: int) -> Column:
        return [
            value if math.isfinite(value) else None
            for low, high in self._pieces(begin, end)
            for value in self._values[low * N_SERIES + number : high * N_SERIES : N_SERIES].tolist()
        ]

    def _pieces(self, begin: int, end: int) -> list[tuple[int, int]]:
        """Where steps lie: at one place, or at two."""
        low, high = begin % self._size, (end - 1) % self._size + 1
        return [(low, high)] if low < high else [(low, self._size), (0, high)]


def _mean(column: Column) -> float:
    known = [value for value in column if value is not None]
    return sum(known) / len(known) if known else math.nan
