"""Roles of several controllers at one switch (OpenFlow 1.3.5 section 6.3.5), packed and unpacked.

A switch takes orders from its one MASTER, and sends to SLAVEs only what changes of its ports. A
claim carries a generation; a switch refuses one that is older than the newest it has seen, so a
master that was replaced without its knowledge cannot come back by mistake.
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
    """The role that this controller has from now on, and the switch's newest generation."""

    role: Role
    generation: int


class RoleRefused(NamedTuple):
    """A role that was asked for is not given; `stale` if another one has claimed it since."""

    stale: bool


class NotMaster(NamedTuple):
    """An order was refused, or the role was taken away, because somebody else is master."""


def role_request(role: Role, generation: int, xid: int) -> bytes:
    return _MESSAGE.pack(VERSION, Type.ROLE_REQUEST, _MESSAGE.size, xid, role, generation)


def unpack(message: bytes) -> RoleReply | RoleRefused | NotMaster | None:
    """What a message says of roles, if it does. Raises MalformedMessageError."""
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
    """Sent by a switch whenever another controller changes this one's role."""
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
    """The place of the controller that has made a generation."""
    return generation & (1 << _PLACE_BITS) - 1


def next_generation(latest: int, place: int) -> int:
    """One newer than `latest` (or the first one), that only the controller at this place makes."""
    count = 0 if latest == UNDEFINED else (latest >> _PLACE_BITS) + 1
    return (count << _PLACE_BITS | place) % 2**64
