"""The schedule of audits: each switch once in an interval, one switch at a time."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from controller.core.desired.tables import Applied, Tables
from controller.model.effects import Audit, Effect, Record, Warn
from controller.model.entries import Entry

# A switch that has not answered by then is skipped until its turn comes again.
_PATIENCE_NS = 30 * 10**9


class SyncState(NamedTuple):
    """How far a switch holds what is wanted.

    `audited_ns` is when it was last audited, None if it was not since it connected; `restored` and
    `removed` count what was put right then.
    """

    applied: Applied
    audited_ns: int | None
    restored: int
    removed: int


class Audits:
    """Reads once in `interval_ns` what each switch holds, and puts right what is different."""

    def __init__(self, interval_ns: int, tables: Tables, emit: Callable[[Effect], None]) -> None:
        self.interval_ns = interval_ns
        self._tables = tables
        self._emit = emit
        self._due_ns: dict[int, int] = {}
        self._last: dict[int, tuple[int, int, int]] = {}
        self._asked: int | None = None
        self._give_up_ns = 0
        self._not_before_ns = 0

    def reconfigure(self, interval_ns: int, now_ns: int) -> None:
        """Use this interval from now on: no audit is further away."""
        self.interval_ns = interval_ns
        self._due_ns = {
            switch: min(due_ns, now_ns + interval_ns) for switch, due_ns in self._due_ns.items()
        }
        self._not_before_ns = min(self._not_before_ns, now_ns + interval_ns)

    def connect(self, switch: int, now_ns: int) -> None:
        """A switch has just reported what it holds, so its first audit is an interval away."""
        self._due_ns[switch] = now_ns + self.interval_ns

    def disconnect(self, switch: int) -> None:
        self._due_ns.pop(switch, None)
        self._last.pop(switch, None)
        if self._asked == switch:
            self._asked = None

    def tend(self, now_ns: int) -> None:
        """Audit the switch that has waited longest, if one is due and no audit is under way."""
        if self._asked is not None:
            if now_ns < self._give_up_ns:
                return
            self._tables.give_up_audit(self._asked)
            self._asked = None
        switch = min(self._due_ns, key=self._due_ns.__getitem__, default=None)
        if switch is None or now_ns < max(self._due_ns[switch], self._not_before_ns):
            return
        self._not_before_ns = now_ns + self.interval_ns // (2 * len(self._due_ns))
        self._due_ns[switch] = now_ns + self.interval_ns
        self._asked, self._give_up_ns = switch, now_ns + _PATIENCE_NS
        self._tables.begin_audit(switch)
        self._emit(Audit(switch))

    def read(self, switch: int, held: Iterable[Entry]) -> None:
        """A part of what the switch holds."""
        self._tables.audit(switch, held)

    def end(self, switch: int, restored: int, removed: int, now_ns: int) -> None:
        """The audit has ended; the session has put right so many entries of its own."""
        if self._asked == switch:
            self._asked = None
        found = self._tables.end_audit(switch)
        if found is None:
            return
        restored, removed = restored + found.restored, removed + found.removed
        self._last[switch] = now_ns, restored, removed
        applied = self._tables.applied(switch)
        fields: dict[str, object] = {
            "switch": switch,
            "wanted": applied.wanted,
            "confirmed": applied.confirmed,
            "refused": applied.refused,
            "restored": restored,
            "removed": removed,
        }
        self._emit(Record("switch_audited", fields))
        if restored or removed:
            text = f"lacked {restored} entries and held {removed} that are not wanted: put right"
            self._emit(Warn(switch, text))

    def sync_state(self, switch: int) -> SyncState:
        """How far the switch holds what is wanted."""
        audited_ns, restored, removed = self._last.get(switch, (None, 0, 0))
        return SyncState(self._tables.applied(switch), audited_ns, restored, removed)
