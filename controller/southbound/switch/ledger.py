"""Changes that were sent to a switch and are not confirmed yet.

A barrier reply confirms that all earlier messages were carried out or refused (OpenFlow 1.3.5
section 6.1.2), and a refusal names its message by the transaction id. One barrier is under way at a
time, so a batch costs two barriers, however large it is.
"""

from collections.abc import Callable, Hashable
from typing import NamedTuple

from controller.southbound.codec import match
from controller.southbound.codec.match import Field
from controller.southbound.codec.meters import Meter
from controller.southbound.codec.openflow import FlowEntry

# A switch that never answers must not fill the controller's memory; an audit finds what is missing.
_LIMIT = 65_536

_NAMES = {value: name.lower() for name, value in vars(match).items() if isinstance(value, Field)}


class Sent(NamedTuple):
    """A change. `tag` is the key of the entry that it belongs to, None for the session's own."""

    verb: str
    what: FlowEntry | Meter
    tag: Hashable

    def __str__(self) -> str:
        """In words."""
        if isinstance(self.what, Meter):
            return f"{self.verb} meter {self.what.number} of {self.what.rate_pps} packets/s"
        entry = self.what
        fields = ", ".join(
            f"{_NAMES.get(field, field)}={value.hex()}" + (f"/{mask.hex()}" if mask else "")
            for field, value, mask in entry.match
        )
        actions = f"actions {entry.actions.hex()}" if entry.actions else "no actions"
        goto = "" if entry.goto is None else f", then table {int(entry.goto)}"
        return (
            f"{self.verb} entry in table {int(entry.table)} priority {entry.priority} "
            f"match ({fields}) {actions}{goto}"
        )


class Ledger:
    """Changes by transaction id. `barrier` sends a barrier and returns its transaction id."""

    def __init__(self, barrier: Callable[[], int]) -> None:
        self._barrier = barrier
        self._barrier_xid: int | None = None
        self._before: dict[int, Sent] = {}
        self._after: dict[int, Sent] = {}
        self._open: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._before) + len(self._after)

    def sent(self, xid: int, sent: Sent) -> None:
        """A change was sent with this transaction id."""
        if len(self._after) >= _LIMIT:
            return
        self._after[xid] = sent
        if sent.tag is not None:
            self._open[sent.tag] = self._open.get(sent.tag, 0) + 1
        if self._barrier_xid is None:
            self._confirm()

    def answered(self, xid: int) -> list[Hashable]:
        """A barrier was answered; returns the tags that have no change under way any more."""
        if xid != self._barrier_xid:
            return []
        before, self._before, self._barrier_xid = self._before, {}, None
        settled = [sent.tag for sent in before.values() if self._settle(sent.tag)]
        if self._after:
            self._confirm()
        return settled

    def refused(self, xid: int) -> Sent | None:
        """The switch has refused a change; returns it, None if it is not known."""
        sent = self._before.pop(xid, None) or self._after.pop(xid, None)
        if sent is not None:
            self._settle(sent.tag)
        return sent

    def _settle(self, tag: Hashable) -> bool:
        """One change of this tag is done; returns whether it was the last."""
        if tag is None:
            return False
        self._open[tag] -= 1
        if self._open[tag]:
            return False
        del self._open[tag]
        return True

    def _confirm(self) -> None:
        self._before, self._after = self._after, {}
        self._barrier_xid = self._barrier()
