"""Roles of several controllers at one switch (OpenFlow 1.3.5 section 6.3.5), packed and unpacked.

A switch obeys one MASTER, and sends SLAVEs only changes of its ports. A claim carries a generation.
A switch refuses claims that are older than the newest it has seen, so a master that was replaced
without noticing cannot take the switch back.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from controller.southbound.codec import openflow
from controller.southbound.codec.match import MalformedMessageError
from controller.southbound.codec.openflow import VERSION, Type

UNDEFINED = 2**64 - 1
"""The generation of a switch that has never seen any."""

_MESSAGE = struct.Struct("!BBHII4xQ")
_PLACE_BITS = 4
_FAILED_REQUEST, _STALE = 11, 0
_BAD_REQUEST, _IS_SLAVE = openflow.ERROR_BAD_REQUEST, 10
# Extension 191 to OpenFlow 1.3: ROLE_STATUS as 1.4 has it, after the experimenter's header.
_ONF, _ROLE_STATUS = 0x4F4E4600, 1911
_STATUS = struct.Struct("!IB3xQ")


class Role(IntEnum):
    NOCHANGE = 0
    EQUAL = 1
    MASTER = 2
    SLAVE = 3


class RoleReply(NamedTuple):
    """This controller's role from now on, and the newest generation that the switch has seen."""

    role: Role
    generation: int


class RoleRefused(NamedTuple):
    """A requested role is refused; `stale` if another controller has a newer generation."""

    stale: bool


class NotMaster(NamedTuple):
    """A request was refused, or the role was taken away: another controller is master."""


def role_request(role: Role, generation: int, xid: int) -> bytes:
    return _MESSAGE.pack(VERSION, Type.ROLE_REQUEST, _MESSAGE.size, xid, role, generation)


def unpack(message: bytes) -> RoleReply | RoleRefused | NotMaster | None:
    """What a message says about roles; None for other messages. Raises MalformedMessageError."""
    kind = message[1]
    if kind == Type.ROLE_REPLY:
        return _reply(message)
    if kind == Type.EXPERIMENTER:
        return _status(message)
    if kind != Type.ERROR:
        return None
    error = openflow.unpack_error(message)
    if error.kind == _FAILED_REQUEST:
        return RoleRefused(error.code == _STALE)
    if (error.kind, error.code) == (_BAD_REQUEST, _IS_SLAVE):
        return NotMaster()
    return None


def _reply(message: bytes) -> RoleReply:
    try:
        *_, role, generation = _MESSAGE.unpack(message)
        return RoleReply(Role(role), generation)
    except (struct.error, ValueError):
        raise MalformedMessageError("a role reply that cannot be read") from None


def _status(message: bytes) -> NotMaster | None:
    """A role status, which a switch sends when another controller's claim changes this role."""
    experimenter, exp_type, body = openflow.unpack_experimenter(message)
    if (experimenter, exp_type) != (_ONF, _ROLE_STATUS):
        return None
    try:
        role, _, _ = _STATUS.unpack(body)
    except struct.error:
        raise MalformedMessageError("a role status that cannot be read") from None
    return NotMaster() if role == Role.SLAVE else None


def newer(a: int, b: int) -> bool:
    """Whether generation `a` came after `b`; they wrap around (OpenFlow 1.3.5 section 6.3.5)."""
    return 0 < (a - b) % 2**64 < 2**63


def place_of(generation: int) -> int:
    """The place of the controller that has created a generation."""
    return generation & (1 << _PLACE_BITS) - 1


def next_generation(latest: int, place: int) -> int:
    """A generation newer than `latest`, unique to the controller at this place."""
    count = 0 if latest == UNDEFINED else (latest >> _PLACE_BITS) + 1
    return (count << _PLACE_BITS | place) % 2**64
