"""Makes one switch hold what it should hold, and keeps it so.

The session itself wants the static entries and the meters and entries of the budgets; the entries
that the core wants pass through here. After a reconnect the switch is read back, what is missing is
installed, and then stale entries are deleted. An audit does the same while the switch works.
"""

from collections.abc import Hashable, Iterable
from functools import partial
from typing import NamedTuple

from controller.model.entries import HeldEntry
from controller.southbound.codec import meters, openflow
from controller.southbound.codec.meters import MeterModCommand
from controller.southbound.codec.openflow import FlowEntry, FlowStats, Place
from controller.southbound.switch import pipeline
from controller.southbound.switch.budgets import Limits
from controller.southbound.switch.guard import Guard, MeterChange
from controller.southbound.switch.ledger import Ledger, Sent
from controller.southbound.switch.readback import ReadBack
from controller.southbound.switch.sender import Sender

_NOTHING_ASKED = -1


class Read(NamedTuple):
    """A part of an audit: the core's entries in it and, in the last part, how many of the session's
    own entries and meters were put right."""

    held: list[HeldEntry]
    restored: int
    removed: int
    more: bool


class Resync:
    """Changes nothing on the switch before `begin`."""

    def __init__(self, sender: Sender, limits: Limits, ports: Iterable[int]) -> None:
        self.guard = Guard(limits, ports)
        self.ledger = Ledger(lambda: sender.send(openflow.barrier_request))
        self._sender = sender
        self._begun = False
        self._own: dict[Place, FlowEntry] = {}
        self._held: list[HeldEntry] = []
        self._stale: dict[Place, FlowStats] = {}
        self._touched: set[int] = set()
        self._static_xid = _NOTHING_ASKED
        self._features_xid = sender.send(partial(meters.request, meters.FEATURES))
        self._ask()

    @property
    def questions(self) -> tuple[int, int]:
        """The transaction ids of requests that a switch without meters may refuse."""
        return self._features_xid, self._meters_xid

    def begin(self) -> list[HeldEntry]:
        """All questions are answered: install what is missing. Returns the core's entries that the
        switch holds."""
        self._begun = True
        self._read_back.finish()
        self._stale, held, self._held = self._read_back.stale, self._held, []
        self._change(self.guard.reconcile())
        self._want([*pipeline.STATIC, *self.guard.entries()])
        self._static_xid = self._sender.send(openflow.barrier_request)
        self._flows_xid = _NOTHING_ASKED
        return held

    def audit(self) -> None:
        """Read what the switch holds. An audit that is not finished is abandoned."""
        self._touched.clear()
        self.guard.forget_read()
        self._ask()

    def read_meters(self) -> None:
        """Ask what the meters have dropped."""
        if self._begun and self.guard.metered:
            self._sender.send(partial(meters.request, meters.STATS))

    def install(self, entries: Iterable[FlowEntry], tag: Hashable = None) -> None:
        """Add flow entries, or replace those at the same places."""
        for entry in entries:
            self._stale.pop(entry.place, None)
            xid = self._sender.send(partial(openflow.flow_mod, openflow.FlowModCommand.ADD, entry))
            self.ledger.sent(xid, Sent("add", entry, tag))

    def withdraw(self, entries: Iterable[FlowEntry]) -> None:
        """Delete flow entries."""
        for entry in entries:
            xid = self._sender.send(
                partial(openflow.flow_mod, openflow.FlowModCommand.DELETE_STRICT, entry)
            )
            self.ledger.sent(xid, Sent("delete", entry, None))

    def limit(self, limits: Limits) -> None:
        """Use these limits from now on."""
        changes = self.guard.limit(limits)
        if self._begun:
            self._change(changes)

    def port_there(self, port: int) -> None:
        """The switch has this port."""
        changes, entries = self.guard.add_port(port)
        if self._begun:
            self._change(changes)
            self._want(entries)

    def port_gone(self, port: int) -> None:
        changes, entries = self.guard.remove_port(port)
        if self._begun:
            for entry in entries:
                self._own.pop(entry.place, None)
            self.withdraw(entries)
            self._change(changes)

    # What the switch says

    def answered(self, barrier_xid: int) -> list[Hashable]:
        """A barrier was answered; returns the tags of what is in force now."""
        if barrier_xid == self._static_xid:
            self._remove(self._stale)
            self._stale = {}
        return self.ledger.answered(barrier_xid)

    def meters_told(self, kind: int, message: bytes, more: bool, xid: int) -> None:
        """How many meters the switch supports, or which it holds. Raises MalformedMessageError."""
        if kind == meters.FEATURES and xid == self._features_xid:
            self.guard.has_meters(meters.unpack_features(message))
        elif kind == meters.CONFIG and xid == self._meters_xid:
            self.guard.read_back(meters.unpack_config(message))
            self._meters_read = not more

    def entries_told(self, entries: list[FlowStats], more: bool, xid: int) -> Read | None:
        """A part of what the switch holds; None unless an audit asked for it."""
        if xid != self._flows_xid:
            return None
        held = self._read_back.take(entries)
        if not self._begun:
            self._held += held
            return None
        return Read(held, 0, 0, more) if more else self._audited(held)

    def _ask(self) -> None:
        self._meters_xid = self._sender.send(partial(meters.request, meters.CONFIG))
        self._meters_read = False
        self._read_back = ReadBack(self._own)
        ours = openflow.ALL_TABLES, pipeline.COOKIE, pipeline.COOKIE_MASK
        self._flows_xid = self._sender.send(partial(openflow.flow_stats_request, *ours))

    def _audited(self, held: list[HeldEntry]) -> Read:
        self._flows_xid = _NOTHING_ASKED
        self._read_back.finish()
        stale = self._read_back.stale
        changes = []
        if self._meters_read:
            changes = [
                (command, meter)
                for command, meter in self.guard.reconcile()
                if meter.number not in self._touched
            ]
        anew = {meter.number for command, meter in changes if command is MeterModCommand.ADD}
        # An entry goes on using the meter that was there when the entry came.
        lost = {entry.place: entry for entry in self.guard.entries_using(anew)}
        lost |= {place: e for place, e in self._read_back.missing.items() if place in self._own}
        self._remove(stale)
        self._change(changes)
        self._want(lost.values())
        n_removed = sum(command is MeterModCommand.DELETE for command, _ in changes)
        restored = len(lost) + len(changes) - n_removed
        return Read(held, restored, len(stale) + n_removed, more=False)

    def _want(self, entries: Iterable[FlowEntry]) -> None:
        """Install flow entries of the session's own."""
        for entry in entries:
            self._own[entry.place] = entry
            self.install([entry])

    def _remove(self, stale: dict[Place, FlowStats]) -> None:
        for stats in stale.values():
            self._sender.send(partial(openflow.delete_read_back, stats))

    def _change(self, changes: Iterable[MeterChange]) -> None:
        for command, meter in changes:
            self._touched.add(meter.number)
            xid = self._sender.send(partial(meters.meter_mod, command, meter))
            self.ledger.sent(xid, Sent(command.name.lower(), meter, None))
