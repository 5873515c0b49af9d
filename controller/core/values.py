"""The small values that all the core speaks of: egress ports, classes of flows, holds, notices."""

from enum import Enum, IntEnum
from typing import NamedTuple


class PortId(NamedTuple):
    """An egress port of the fabric: datapath id and OpenFlow port number."""

    switch: int
    port: int

    def __str__(self) -> str:
        return f"{self.switch:x}:{self.port}"


class FlowClass(Enum):
    """SDTCP section 3.3: every flow is a burst flow until it has proved a background flow."""

    BURST = "burst"
    BACKGROUND = "background"

    # Classes are keys wherever windows are reckoned; an Enum's own hash is Python code.
    __hash__ = object.__hash__


class Hold(NamedTuple):
    """What a class of flows of an egress port is held to; all zero, it is released.

    `rate_bytes_per_s` is of the data that the receivers' segments let out, 0 does not pace them;
    `transit_bytes` how much of that data may be unacknowledged, 0 leaves it to the switch.
    """

    window_bytes: int
    rate_bytes_per_s: int = 0
    transit_bytes: int = 0


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
