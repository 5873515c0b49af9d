"""What every switch should hold, and the difference to what it holds.

Entries that a switch holds already are kept. Those that nobody wants are withdrawn only by `sweep`,
so a controller that has just started does not break a working switch. An entry is confirmed when
the switch has acknowledged it or an audit has found it.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from controller.model.effects import Effect, Install, Withdraw
from controller.model.entries import ControllerAnswers, Entry, EntryKey, GroupsFollowed, Relearn

E = TypeVar("E", bound=Entry)

# Switches remove these themselves.
_LEASED = (Relearn, ControllerAnswers, GroupsFollowed)


class Applied(NamedTuple):
    """How many entries a switch should hold, and how many of them are confirmed or refused. The
    others are on their way, or wait for the switch to reconnect."""

    wanted: int
    confirmed: int
    refused: int


class AuditResult(NamedTuple):
    """How many entries an audit has put right: those missing or different, and those unwanted."""

    restored: int
    removed: int


class _Audit:
    """An audit under way. Entries that were changed since it began are not judged."""

    def __init__(self, wanted: Iterable[EntryKey]) -> None:
        self.unseen = set(wanted)
        self.touched: set[EntryKey] = set()
        self.restored = self.removed = 0


class Tables:
    """The wanted entries of each switch. Effects are emitted for connected switches only."""

    def __init__(self, emit: Callable[[Effect], None]) -> None:
        self._emit = emit
        self._wanted: dict[int, dict[EntryKey, Entry]] = {}
        self._unclaimed: dict[int, dict[EntryKey, Entry]] = {}
        self._never_sent: dict[int, set[EntryKey]] = {}
        self._unconfirmed: dict[int, set[Hashable]] = {}
        self._refused: dict[int, set[Hashable]] = {}
        self._audits: dict[int, _Audit] = {}

    def missing(self, switch: int, held: Mapping[EntryKey, Entry], kind: type[E]) -> list[E]:
        """The entries of a kind that were installed before the channel was lost and that the switch
        no longer holds: it has removed them itself."""
        never_sent = self._never_sent.get(switch, set())
        return [
            entry
            for key, entry in self._wanted.get(switch, {}).items()
            if isinstance(entry, kind) and key not in held and key not in never_sent
        ]

    def connect(self, switch: int, held: Mapping[EntryKey, Entry]) -> None:
        """A switch is connected and holds these entries: install what it lacks."""
        unclaimed = self._unclaimed[switch] = {
            key: entry for key, entry in held.items() if not isinstance(entry, _LEASED)
        }
        self._never_sent.pop(switch, None)
        self._unconfirmed[switch], self._refused[switch] = set(), set()
        for key, entry in self._wanted.setdefault(switch, {}).items():
            if unclaimed.pop(key, None) != entry:
                self._install(switch, entry)

    def disconnect(self, switch: int) -> None:
        self._unclaimed.pop(switch, None)
        self._audits.pop(switch, None)

    def forget(self, switch: int) -> None:
        """A switch is gone for good."""
        for entries in (
            *(self._wanted, self._unclaimed, self._never_sent),
            *(self._unconfirmed, self._refused, self._audits),
        ):
            entries.pop(switch, None)

    def connected(self, switch: int) -> bool:
        return switch in self._unclaimed

    def sweep(
        self, switch: int, kind: type[E] | None = None, which: Callable[[E], bool] | None = None
    ) -> None:
        """Withdraw entries that the switch holds and nobody wants: all, or of one kind those for
        which `which` is true."""
        unclaimed = self._unclaimed.get(switch, {})
        for key, entry in list(unclaimed.items()):
            if kind is None or (isinstance(entry, kind) and (which is None or which(entry))):
                del unclaimed[key]
                self._touch(switch, key)
                self._emit(Withdraw(switch, entry))

    @property
    def n_switches(self) -> int:
        return len(self._wanted)

    def switches(self) -> list[int]:
        """The switches that were ever connected."""
        return list(self._wanted)

    def entries(self, kind: type[E]) -> list[tuple[int, E]]:
        """The wanted entries of a kind, with their switches."""
        return [
            (switch, entry)
            for switch, entries in self._wanted.items()
            for entry in entries.values()
            if isinstance(entry, kind)
        ]

    def put(self, switch: int, entry: Entry) -> None:
        """Want this entry; it replaces one with the same key."""
        wanted = self._wanted.setdefault(switch, {})
        if wanted.get(entry.key) == entry:
            return
        is_new = entry.key not in wanted
        wanted[entry.key] = entry
        if not self.connected(switch):
            if is_new:
                self._never_sent.setdefault(switch, set()).add(entry.key)
            return
        self._touch(switch, entry.key)
        if self._unclaimed[switch].pop(entry.key, None) != entry:
            self._install(switch, entry)

    def remove(self, switch: int, key: EntryKey) -> None:
        """Stop wanting the entry of this key, if there is one."""
        entry = self._wanted.get(switch, {}).pop(key, None)
        if entry is None:
            return
        if self.connected(switch):
            self._touch(switch, key)
            self._forget(switch, key)
            self._emit(Withdraw(switch, entry))
        else:
            self._never_sent.get(switch, set()).discard(key)

    def vanished(self, switch: int, key: EntryKey) -> None:
        """The switch has removed this entry itself."""
        self._wanted.get(switch, {}).pop(key, None)
        self._unclaimed.get(switch, {}).pop(key, None)
        self._touch(switch, key)
        self._forget(switch, key)

    # Confirmation

    def acknowledged(self, switch: int, keys: Iterable[Hashable]) -> None:
        """The switch has installed the latest entries of these keys."""
        if self.connected(switch):
            self._unconfirmed[switch].difference_update(keys)

    def refused(self, switch: int, key: Hashable) -> None:
        """The switch has refused the entry; the next audit tries again."""
        if self.connected(switch) and key in self._unconfirmed[switch]:
            self._unconfirmed[switch].discard(key)
            self._refused[switch].add(key)

    def applied(self, switch: int) -> Applied:
        """How far the switch holds what is wanted."""
        wanted = len(self._wanted.get(switch, {}))
        if not self.connected(switch):
            return Applied(wanted, 0, 0)
        refused = len(self._refused[switch])
        return Applied(wanted, wanted - len(self._unconfirmed[switch]) - refused, refused)

    def begin_audit(self, switch: int) -> None:
        """An audit begins; entries that change from now on are not judged by it."""
        self._audits[switch] = _Audit(self._wanted.get(switch, {}))

    def give_up_audit(self, switch: int) -> None:
        """The switch has not answered the audit."""
        self._audits.pop(switch, None)

    def audit(self, switch: int, held: Iterable[Entry]) -> None:
        """A part of what the switch holds: withdraw entries that nobody wants."""
        audit = self._audits.get(switch)
        if audit is None:
            return
        wanted, unclaimed = self._wanted.get(switch, {}), self._unclaimed[switch]
        for entry in held:
            key = entry.key
            if key in audit.touched:
                continue
            if wanted.get(key) == entry:
                audit.unseen.discard(key)
                self._forget(switch, key)
            elif key not in wanted and key not in unclaimed and not isinstance(entry, _LEASED):
                audit.removed += 1
                self._emit(Withdraw(switch, entry))

    def end_audit(self, switch: int) -> AuditResult | None:
        """The audit is complete: install what is missing or different. None without an audit."""
        audit = self._audits.pop(switch, None)
        if audit is None:
            return None
        wanted, refused = self._wanted.get(switch, {}), self._refused[switch]
        for key in audit.unseen - audit.touched:
            audit.restored += key not in refused
            refused.discard(key)
            self._install(switch, wanted[key])
        return AuditResult(audit.restored, audit.removed)

    def _install(self, switch: int, entry: Entry) -> None:
        self._refused[switch].discard(entry.key)
        self._unconfirmed[switch].add(entry.key)
        self._emit(Install(switch, entry))

    def _touch(self, switch: int, key: EntryKey) -> None:
        audit = self._audits.get(switch)
        if audit is not None:
            audit.touched.add(key)

    def _forget(self, switch: int, key: EntryKey) -> None:
        """The entry is confirmed, or no longer wanted."""
        if self.connected(switch):
            self._unconfirmed[switch].discard(key)
            self._refused[switch].discard(key)
