"""The room in the buffer of an egress port, as it goes from a class of flows to the other.

The pacers of both classes have bounds of what is in transit, which together the buffer holds. Where
flows are found to be background flows all at once, they take their room with them: the other
register has it at its disposal at once, while what the first one has let out is on its way yet. So
room that a class is to leave is given to the other one when that has left.
"""

from collections.abc import Mapping

from controller.core.port_flows import PortCounts
from controller.core.values import FlowClass, Hold
from controller.core.windows import DEFAULT_MSS_BYTES, LEAST_TRANSIT_BYTES, PortLimits

# A switch has carried out what it was told by then, and what was let out before has arrived.
CARRIED_OUT_NS = 10 * 10**6


class Room:
    """That of one port. `waits_until_ns` is when `fit` should be asked again, if at all."""

    def __init__(self) -> None:
        self.waits_until_ns: int | None = None
        self._bounds: dict[FlowClass, int] = {}
        self._leaving: dict[FlowClass, tuple[int, int]] = {}  # the former bound, until when
        self._gained: set[FlowClass] = set()

    def moved(self, before: PortCounts, after: PortCounts) -> None:
        """What one class has gained while the other has lost some has changed its register."""
        if after.background > before.background and after.burst < before.burst:
            self._gained.add(FlowClass.BACKGROUND)
        elif after.background < before.background and after.burst > before.burst:
            self._gained.add(FlowClass.BURST)

    def fit(
        self,
        wanted: Mapping[FlowClass, Hold],
        counts: PortCounts,
        limits: PortLimits,
        floor_segments: int,
        now_ns: int,
    ) -> Mapping[FlowClass, Hold]:
        """What can be in force now of what is wanted for these flows.

        Of flows that come from another register, a register does not know how much of their windows
        is open; so as long as a class that has taken over flows waits for room, it has the least.
        """
        if not self._leaving and self._bounds == {c: h.transit_bytes for c, h in wanted.items()}:
            self._gained.clear()
            return wanted
        self._see(wanted, limits, now_ns)
        self.waits_until_ns = None
        fitting = dict(wanted)
        if self._leaving:
            total_bytes = sum(hold.transit_bytes for hold in wanted.values())
            taken_bytes = {
                cls: max(hold.transit_bytes, self._leaving.get(cls, (0, 0))[0])
                for cls, hold in wanted.items()
            }
            least_bytes = floor_segments * (counts.mss_bytes or DEFAULT_MSS_BYTES)
            for cls, hold in wanted.items():
                others_bytes = sum(taken_bytes.values()) - taken_bytes[cls]
                room_bytes = max(total_bytes - others_bytes, self._bounds.get(cls, 0))
                room_bytes = max(room_bytes, LEAST_TRANSIT_BYTES)
                if hold.transit_bytes > room_bytes:
                    window_bytes = hold.window_bytes
                    if cls in self._gained:
                        window_bytes = min(window_bytes, least_bytes)
                    fitting[cls] = Hold(window_bytes, hold.rate_bytes_per_s, room_bytes)
                    self.waits_until_ns = max(until_ns for _, until_ns in self._leaving.values())
        if self.waits_until_ns is None:
            self._gained.clear()
        self._bounds = {cls: hold.transit_bytes for cls, hold in fitting.items()}
        return fitting

    def _see(
        self,
        wanted: Mapping[FlowClass, Hold],
        limits: PortLimits,
        now_ns: int,
    ) -> None:
        for cls, (_, until_ns) in list(self._leaving.items()):
            if now_ns >= until_ns:
                del self._leaving[cls]
        drain_ns = 8 * 10**9 * limits.buffer_bytes // limits.capacity_bps + CARRIED_OUT_NS
        for cls, former_bytes in self._bounds.items():
            if former_bytes > wanted[cls].transit_bytes:
                leaving_bytes, _ = self._leaving.get(cls, (0, 0))
                self._leaving[cls] = max(former_bytes, leaving_bytes), now_ns + drain_ns
