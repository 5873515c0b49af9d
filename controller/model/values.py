"""The small values that several parts speak of: ports, classes of flows, holds, notices."""

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NamedTuple

# Between two switches a frame takes one of so many paths; they may coincide.
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
    """SDTCP section 3.3. Every flow begins as a burst flow."""

    BURST = "burst"
    BACKGROUND = "background"

    # Classes are keys of dictionaries on hot paths, and an Enum's own hash is slow.
    __hash__ = object.__hash__


def class_of(register: int) -> FlowClass:
    """The class that a register is for: each port has a pair, the odd one for background flows."""
    return FlowClass.BACKGROUND if register & 1 else FlowClass.BURST


class Credit(NamedTuple):
    """The terms of a flow class in the account of credit that a switch keeps for an egress port.

    Credit is given for up to `bound_bytes` of frames, queued and expected; 0 leaves the bound to
    the switch. A request is held for `max_hold_ms` at most. Classes share the port by `weight`.
    """

    bound_bytes: int
    max_hold_ms: int
    weight: int


class Hold(NamedTuple):
    """What a flow class of an egress port is held to.

    `window_bytes` is the largest window, 0 if there is no limit. `credit` is None if the switch
    keeps no account of credit for the port. Without either, the class is released.
    """

    window_bytes: int
    credit: Credit | None = None


RELEASED = Hold(0)


class Notice(IntEnum):
    """A switch's notice of an egress queue (SDTCP section 3.2); numbered as on the wire."""

    CN_L = 0
    CN_M = 1
    CN_H = 2
    CR = 3

    @property
    def label(self) -> str:
        return self.name.replace("_", "-")
