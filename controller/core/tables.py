"""What every switch is meant to hold, and the difference to what it does hold.

Entries that a switch already has are taken over without touching them; those that nothing claims
are withdrawn only when `sweep` is called, so that a fresh controller never breaks a working switch.
"""

from collections.abc import Callable
from typing import TypeVar

from controller.core.effects import Effect, Install, Withdraw
from controller.core.entries import Entry, EntryKey

E = TypeVar("E", bound=Entry)


class Tables:
    """Wanted entries per switch. Effects go to `emit`, only for switches that are connected."""

    def __init__(self, emit: Callable[[Effect], None]) -> None:
        self._emit = emit
        self._wanted: dict[int, dict[EntryKey, Entry]] = {}
        self._unclaimed: dict[int, dict[EntryKey, Entry]] = {}

    def connect(self, switch: int, held: list[Entry]) -> None:
        """A switch is there and holds these entries: install what it lacks."""
        unclaimed = self._unclaimed[switch] = {entry.key: entry for entry in held}
        for key, entry in self._wanted.setdefault(switch, {}).items():
            if unclaimed.pop(key, None) != entry:
                self._emit(Install(switch, entry))

    def disconnect(self, switch: int) -> None:
        self._unclaimed.pop(switch, None)

    def connected(self, switch: int) -> bool:
        return switch in self._unclaimed

    def sweep(self, switch: int, kind: type[object] = object) -> None:
        """Withdraw what the switch holds and nobody wants, of one kind or of all."""
        unclaimed = self._unclaimed.get(switch, {})
        for key, entry in list(unclaimed.items()):
            if isinstance(entry, kind):
                del unclaimed[key]
                self._emit(Withdraw(switch, entry))

    def switches(self) -> list[int]:
        """The switches that were ever connected."""
        return list(self._wanted)

    def entries(self, kind: type[E]) -> list[tuple[int, E]]:
        """The wanted entries of one kind, with their switches."""
        return [
            (switch, entry)
            for switch, entries in self._wanted.items()
            for entry in entries.values()
            if isinstance(entry, kind)
        ]

    def put(self, switch: int, entry: Entry) -> None:
        """Want this entry, in place of one with the same key."""
        wanted = self._wanted.setdefault(switch, {})
        if wanted.get(entry.key) == entry:
            return
        wanted[entry.key] = entry
        if self.connected(switch) and self._unclaimed[switch].pop(entry.key, None) != entry:
            self._emit(Install(switch, entry))

    def remove(self, switch: int, key: EntryKey) -> None:
        """No longer want the entry of this key, if there is one."""
        entry = self._wanted.get(switch, {}).pop(key, None)
        if entry is not None and self.connected(switch):
            self._emit(Withdraw(switch, entry))

    def vanished(self, switch: int, key: EntryKey) -> None:
        """The switch has removed this entry by itself."""
        self._wanted.get(switch, {}).pop(key, None)
        self._unclaimed.get(switch, {}).pop(key, None)
