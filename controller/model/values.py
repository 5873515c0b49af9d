"""The small values that several parts speak of: ports, classes of flows, holds, notices."""

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NamedTuple

# A frame's path is one of so many.
N_PATH_IDS = 16


class PortId(NamedTuple):
    """An egress port of the fabric: datapath id and OpenFlow port number."""

    switch: int
    port: int

    def __str__(self) -> str:
        return f"{self.switch:x}:{self.port}"


@dataclass(frozen=True, slots=True)
class Port:
    """A switch's own description of one of its ports; a speed of 0 is not known."""

    number: int
    name: str
    mac: bytes
    up: bool
    speed_bps: int = 0


class FlowClass(Enum):
    """SDTCP section 3.3: every flow is a burst flow until it has proved a background flow."""

    BURST = "burst"
    BACKGROUND = "background"

    # Classes are keys wherever windows are reckoned; an Enum's own hash is Python code.
    __hash__ = object.__hash__


def class_of(register: int) -> FlowClass:
    """The class whose window a register holds: of the pair of a port, the odd one is for background
    flows."""
    return FlowClass.BACKGROUND if register & 1 else FlowClass.BURST


class Credit(NamedTuple):
    """The part of a class of flows in the account of credit that a switch keeps for an egress port.

    `bound_bytes` is of frames, queued and expected, for which credit is given, 0 leaves it to the
    switch. No request is held for longer than `max_hold_ms`. Classes share the port by `weight`.
    """

    bound_bytes: int
    max_hold_ms: int
    weight: int


class Hold(NamedTuple):
    """What a class of flows of an egress port is held to; without either, it is released.

    `window_bytes` is the largest window, 0 sets no limit; `credit` is None without an account.
    """

    window_bytes: int
    credit: Credit | None = None


RELEASED = Hold(0)


class Notice(IntEnum):
    """What a switch says of an egress queue (SDTCP section 3.2); numbered as on the wire."""

    CN_L = 0
    CN_M = 1
    CN_H = 2
    CR = 3

    @property
    def label(self) -> str:
        return self.name.replace("_", "-")
