"""Who is read in which turn of the main loop, so that no turn lasts long.

A turn is what the loop does between two looks at its input. Reading all that waits would take
longer the longer it has waited: after a pause, timers and other channels would wait once more.
"""

from collections.abc import Callable
from typing import Protocol

_LONG_NS = 5_000_000


class Reader(Protocol):
    """Reads a socket."""

    def read_some(self) -> bool:
        """Read and process a piece, until the turn is long. Returns whether more of it is at hand,
        so that no look at the input would tell."""


class Rota:
    """Lets readers read one after the other while the turn is short, the others in the next ones.
    Of those that wait, one reads in every turn, however long that is without it.

    `age_ns` tells how long the present turn has lasted; `soon` has something called in this turn
    or in the next one.
    """

    def __init__(
        self, age_ns: Callable[[], int], soon: Callable[[Callable[[], None]], object]
    ) -> None:
        self.age_ns = age_ns
        self._soon = soon
        self._waiting: dict[Reader, None] = {}  # Those for longest first.
        self._is_due = False

    def is_long(self) -> bool:
        """Whether the present turn has lasted so long that it should end."""
        return self.age_ns() >= _LONG_NS

    def has_input(self, reader: Reader) -> bool:
        """A reader has something to read: it does so now, or after those that wait already. Returns
        whether it has begun."""
        begins = not self._waiting and not self.is_long()
        if not begins or reader.read_some():
            self._wait(reader)
        return begins

    def _wait(self, reader: Reader) -> None:
        self._waiting.setdefault(reader)
        self._go_on_soon()

    def _go_on_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._soon(self._go_on)

    def _go_on(self) -> None:
        self._is_due = False
        for reader in list(self._waiting):
            del self._waiting[reader]
            if reader.read_some():
                self._waiting[reader] = None
            if self.is_long():
                break
        if self._waiting:
            self._go_on_soon()
