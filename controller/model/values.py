"""The small values that several parts speak of: ports, classes of flows, holds, notices."""

import re
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NamedTuple

# Between two switches a frame takes one of so many paths; they may coincide.
N_PATH_IDS = 16

_SWITCH_ID_DIGITS = 16


def datapath_id(switch: int) -> str:
    """A datapath id for people, as Open vSwitch prints it: 16 hexadecimal digits."""
    return f"{switch:0{_SWITCH_ID_DIGITS}x}"


def switch_id(written: str) -> int:
    """A datapath id as people write it: as `datapath_id` prints it, or a number, decimal or with
    0x. Raises ValueError."""
    if re.fullmatch(f"[0-9a-fA-F]{{{_SWITCH_ID_DIGITS}}}", written):
        return int(written, 16)
    if len(written) <= 2 + 20 and re.fullmatch(r"0[xX][0-9a-fA-F]+|0|[1-9][0-9]*", written):
        return int(written, 0)
    raise ValueError(
        f"{written[:64]!r} is no datapath id; write its 16 hexadecimal digits, or a number"
    )


class PortId(NamedTuple):
    """An egress port of the fabric: datapath id and OpenFlow port number."""

    switch: int
    port: int

    def __str__(self) -> str:
        return f"{datapath_id(self.switch)}:{self.port}"


@dataclass(frozen=True, slots=True)
class Port:
    """A switch's own description of one of its ports; a speed of 0 is not known. One that is up but
    not `live` carries nothing: with LACP, its other end does not take part."""

    number: int
    name: str
    mac: bytes
    up: bool
    speed_bps: int = 0
    live: bool = True


class TunnelKind(IntEnum):
    """Kinds of tunnels, by the UDP ports that they are known by (RFC 7348, RFC 8926)."""

    VXLAN = 4789
    GENEVE = 6081

    @property
    def label(self) -> str:
        return "VXLAN" if self is TunnelKind.VXLAN else "Geneve"


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
