"""Stands between the switches and the application where several controllers share the switches.

The application hears of those switches only at which this controller is master. At all others it
is SLAVE: connected, told of port changes, silent. Losing one switch to another master is losing
all: whoever took it has taken, or is taking, the rest.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from controller.ha.election import Election, Heartbeat, Rank
from controller.model.flow import SegmentFields
from controller.ops.failure import fatal
from controller.ops.logs import about
from controller.southbound.codec import roles
from controller.southbound.codec.openflow import MAX_PORT, Type, unpack_port_status
from controller.southbound.codec.roles import UNDEFINED, NotMaster, Role, RoleRefused, RoleReply
from controller.southbound.transport.channel import Channel, Listener, refuse_duplicate

LOG = logging.getLogger("weir.standby")

_OF_ROLES = frozenset({Type.ROLE_REPLY, Type.ERROR, Type.EXPERIMENTER})


@dataclass(slots=True)
class _Switch:
    """`passed` if the application has it. `ports` holds the last word on each port that changed,
    `generation` is what it told last."""

    channel: Channel
    asked: bool = False
    passed: bool = False
    complained: bool = False
    generation: int = UNDEFINED
    ports: dict[int, bytes] = field(default_factory=dict)


class Mastership:
    """The listener of all channels. `forget` is to drop all that the application knows; `beat` is
    to send a heartbeat at once; `record` writes to the event log. Every `period_ns` the master
    tells the switches so, and the others ask them."""

    def __init__(
        self,
        election: Election,
        listener: Listener,
        forget: Callable[[], None],
        beat: Callable[[], None],
        record: Callable[[str, dict[str, object]], None],
        period_ns: int,
        clock_ns: Callable[[], int],
        fail: Callable[[], object],
    ) -> None:
        self.election = election
        self.fail = fail
        self._listener = listener
        self._forget = forget
        self._beat = beat
        self._record = record
        self._period_ns = period_ns
        self._clock_ns = clock_ns
        self._switches: dict[int, _Switch] = {}
        self._xid = 0
        self._asserted_ns = 0

    @property
    def channels(self) -> dict[int, Channel]:
        """Of all connected switches, whoever is their master."""
        return {number: switch.channel for number, switch in self._switches.items()}

    # From the channels

    @fatal
    def connected(self, channel: Channel) -> None:
        previous = self._switches.get(channel.id)
        if previous is not None:
            refuse_duplicate(previous.channel, channel)
            return
        switch = self._switches[channel.id] = _Switch(channel)
        self._ask(switch)

    @fatal
    def disconnected(self, channel: Channel) -> None:
        switch = self._switches.get(channel.id)
        if switch is not None and switch.channel is channel:
            del self._switches[channel.id]
            if switch.passed:
                self._listener.disconnected(channel)
            else:
                LOG.info("disconnected", extra=about(switch=channel.id))

    @fatal
    def received(self, channel: Channel, message: bytes) -> None:
        switch = self._switches.get(channel.id)
        if switch is None or switch.channel is not channel:
            return
        kind = message[1]
        try:
            if kind in _OF_ROLES:
                said = roles.unpack(message)
                if said is not None:
                    self._told(switch, said)
                    return
            elif kind == Type.PORT_STATUS:
                _, port = unpack_port_status(message)
                if port.number < MAX_PORT:
                    switch.ports[port.number] = message
        except ValueError as error:
            LOG.warning("%s", error, extra=about(switch=channel.id))
            return
        if switch.passed:
            self._listener.received(channel, message)

    @fatal
    def received_segments(self, channel: Channel, copied: list[SegmentFields]) -> None:
        switch = self._switches.get(channel.id)
        if switch is not None and switch.passed and switch.channel is channel:
            self._listener.received_segments(channel, copied)

    # From the peers and the clock

    @fatal
    def heard(self, beat: Heartbeat) -> None:
        if self.election.heard(beat, self._clock_ns()):
            self._step_down(f"{beat.name} has taken over")

    @fatal
    def tend(self) -> None:
        """To be called often: take over when it is time."""
        now_ns = self._clock_ns()
        if self.election.due(now_ns):
            self._take_over(UNDEFINED)
        elif now_ns - self._asserted_ns >= self._period_ns:
            # By this a master that was replaced while it could hear nobody learns of it, and a
            # standby that a master is at work which it cannot hear.
            self._asserted_ns = now_ns
            self.election.renew()
            for switch in self._switches.values():
                if self.election.master:
                    self._claim(switch, Role.MASTER)
                else:
                    self._ask(switch)

    def hand_over(self) -> bool:
        """Ask for a successor. Returns whether there is anybody who can be one."""
        if not self.election.master or not self.election.live_peers(self._clock_ns()):
            return False
        self.election.leave()
        self._beat()
        return True

    # What follows

    def _take_over(self, seen: int) -> None:
        election = self.election
        self._asserted_ns = self._clock_ns()
        election.take_over(seen)
        LOG.warning(
            "%s is master now, generation %d, of %d connected switches",
            *(election.name, election.generation, len(self._switches)),
        )
        fields: dict[str, object] = {"rank": election.rank.value, "generation": election.generation}
        self._record("rank", fields)
        for switch in self._switches.values():
            self._claim(switch, Role.MASTER)
        self._beat()

    def _step_down(self, reason: str) -> None:
        planned = self.election.rank is Rank.LEAVING
        LOG.log(
            logging.INFO if planned else logging.ERROR,
            "%s is no longer master: %s",
            *(self.election.name, reason),
        )
        self.election.step_down(self._clock_ns())
        self._record("rank", {"rank": self.election.rank.value, "reason": reason})
        # First of all, or the application would go on at those switches that it is not told of yet.
        self._forget()
        for switch in self._switches.values():
            if switch.passed:
                switch.passed = False
                self._listener.disconnected(switch.channel)
            self._ask(switch)
        self._beat()

    def _told(self, switch: _Switch, said: RoleReply | RoleRefused | NotMaster) -> None:
        election, number = self.election, switch.channel.id
        match said:
            case RoleReply(role, generation):
                asked, switch.asked = switch.asked, False
                before, switch.generation = switch.generation, generation
                renewed = UNDEFINED not in (before, generation) and roles.newer(generation, before)
                if renewed and not election.master:
                    election.seen_at_work(self._clock_ns())
                self._placed(switch, role, generation, asked)
            case RoleRefused(stale=True) if election.master:
                self._step_down(f"switch {number} knows of a newer generation")
            case RoleRefused(stale=True):
                self._ask(switch)
            case RoleRefused() if not switch.complained:
                switch.complained = True
                LOG.error(
                    "does not do roles; it cannot have several controllers",
                    extra=about(switch=number),
                )
            case NotMaster() if switch.passed:
                self._step_down(f"switch {number} has another master")

    def _placed(self, switch: _Switch, role: Role, generation: int, asked: bool) -> None:
        """What role this controller has there."""
        election = self.election
        election.seen(generation)
        if not election.master:
            if asked and role is not Role.SLAVE:
                self._claim(switch, Role.SLAVE)
        elif role is Role.MASTER and election.mine(generation):
            if not switch.passed:
                switch.passed = True
                self._listener.connected(switch.channel)
                for message in switch.ports.values():
                    self._listener.received(switch.channel, message)
        elif asked and generation != UNDEFINED and roles.newer(generation, election.generation):
            # It was with a later master, of whom nobody has heard since.
            self._take_over(generation)
        elif asked:
            self._claim(switch, Role.MASTER)

    def _ask(self, switch: _Switch) -> None:
        switch.asked = True
        self._send(switch, Role.NOCHANGE, 0)

    def _claim(self, switch: _Switch, role: Role) -> None:
        generation = self.election.generation
        self._send(switch, role, 0 if generation == UNDEFINED else generation)

    def _send(self, switch: _Switch, role: Role, generation: int) -> None:
        self._xid += 1
        switch.channel.queue(roles.role_request(role, generation, self._xid & 0xFFFFFFFF))
        switch.channel.flush()
