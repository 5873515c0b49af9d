"""Flows that switches still hold entries of, and that a restarted controller has not seen yet.

Flow counters and flow windows outlive the controller. What they tell of a connection is kept here
until the connection is known again.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from controller.model.entries import FlowCounter, FlowWindow, HeldEntry
from controller.model.flow import FlowKey
from controller.model.values import FlowClass, class_of


@dataclass(frozen=True, slots=True)
class SurvivingFlow:
    """A flow, by its counter on a switch."""

    forward: bool
    volume_bytes: int
    age_ns: int
    path_id: int | None


class SurvivingFlows:
    """Flows with entries on switches, by the direction of their data."""

    def __init__(self) -> None:
        self._counters: dict[FlowKey, SurvivingFlow] = {}
        self._windows: dict[FlowKey, tuple[FlowClass, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._counters or self._windows)

    def remember(self, held: Iterable[HeldEntry]) -> None:
        for one in held:
            match one.entry:
                case FlowCounter(flow, forward, path_id):
                    self._counters[flow] = SurvivingFlow(
                        forward, one.volume_bytes, one.age_ns, path_id
                    )
                case FlowWindow(_, segments, register, window_scale):
                    self._windows[segments.reverse] = class_of(register), window_scale

    def initiators(self) -> list[FlowKey]:
        """The initiators' flows that were not claimed yet."""
        return [flow for flow, remembered in self._counters.items() if remembered.forward]

    def claim(self, flow: FlowKey) -> tuple[SurvivingFlow | None, FlowClass, int | None]:
        """What is remembered of a flow, its class, and its window scale if it has a FlowWindow. The
        flow is then forgotten here."""
        cls, window_scale = self._windows.pop(flow, (FlowClass.BURST, None))
        return self._counters.pop(flow, None), cls, window_scale

    def clear(self) -> None:
        self._counters.clear()
        self._windows.clear()
