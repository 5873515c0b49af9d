"""Mastership of switches that several controllers share: between the channels and the application.

The application sees only the switches of which this controller is master. At the others it is
SLAVE: connected and told of port changes, but silent. If another controller takes one switch, this
one gives up all of them, since the other is taking the rest, too.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from controller.ha.election import Election, Heartbeat, Rank
from controller.model.flow import SegmentFields
from controller.model.values import datapath_id
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
    """`passed` if the application has the switch. `ports` holds the latest PORT_STATUS of each port
    that changed, `generation` is what the switch reported last."""

    channel: Channel
    asked: bool = False
    passed: bool = False
    complained: bool = False
    generation: int = UNDEFINED
    ports: dict[int, bytes] = field(default_factory=dict)


class Mastership:
    """The listener of all channels.

    `forget` makes the application forget all that it knows, `beat` sends a heartbeat at once, and
    `record` writes to the event log. Every `period_ns` the master claims the switches again, and
    standbys ask them for their generation.
    """

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
        """The channels of all connected switches, whoever is their master."""
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
        """Take over when it is time. To be called often."""
        now_ns = self._clock_ns()
        if self.election.due(now_ns):
            self._take_over(UNDEFINED)
        elif now_ns - self._asserted_ns >= self._period_ns:
            # So a master that was replaced while it was isolated learns of that, and a standby
            # learns of a master that it cannot hear.
            self._asserted_ns = now_ns
            self.election.renew()
            for switch in self._switches.values():
                if self.election.master:
                    self._claim(switch, Role.MASTER)
                else:
                    self._ask(switch)

    def hand_over(self) -> bool:
        """Let a standby take over. Returns whether there is one."""
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
        # First of all: the application must not go on with any switch meanwhile.
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
                self._step_down(f"switch {datapath_id(number)} knows of a newer generation")
            case RoleRefused(stale=True):
                self._ask(switch)
            case RoleRefused() if not switch.complained:
                switch.complained = True
                LOG.error(
                    "does not support roles, so it cannot have several controllers",
                    extra=about(switch=number),
                )
            case NotMaster() if switch.passed:
                self._step_down(f"switch {datapath_id(number)} has another master")

    def _placed(self, switch: _Switch, role: Role, generation: int, asked: bool) -> None:
        """A switch has told this controller's role there."""
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
            # It had a later master, which is not heard of any more.
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
