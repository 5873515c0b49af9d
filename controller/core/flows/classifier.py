"""Burst or background (SDTCP section 3.3), and what is idle."""

from dataclasses import dataclass

from controller.core.flows.host_pairs import Meter
from controller.model.values import FlowClass

IDLE_AFTER_NS = 10**9
IDLE_AFTER_READINGS = 2


@dataclass(frozen=True, slots=True)
class Classifier:
    """A flow is a burst flow until its volume and its lifetime both exceed their bounds.

    The paper says what happens if both bounds are exceeded and if neither is; in between, a flow is
    treated as a burst flow: the class that is slowed down last. There, a background flow stays one.
    With `quiet_ns`, one that moves no more than `background_bytes` in that time, or is idle, starts
    anew as a burst flow.
    """

    background_bytes: int
    background_age_ns: int
    quiet_ns: int | None = None

    def classify(self, volume_bytes: int, lifetime_ns: int) -> FlowClass:
        if volume_bytes > self.background_bytes and lifetime_ns > self.background_age_ns:
            return FlowClass.BACKGROUND
        return FlowClass.BURST

    def read(self, meter: Meter, volume_bytes: int, now_ns: int) -> tuple[FlowClass, bool]:
        """Enter a reading of a flow's volume; returns the class it has by now and if it is idle."""
        if volume_bytes > meter.volume_bytes:
            meter.volume_bytes = volume_bytes
            meter.grown_ns = now_ns
            meter.still_readings = 0
        else:
            meter.still_readings += 1
        idle = (
            meter.still_readings >= IDLE_AFTER_READINGS and now_ns - meter.grown_ns >= IDLE_AFTER_NS
        )
        if meter.cls is FlowClass.BURST:
            return self._promoted(meter, now_ns), idle
        return self._demoted(meter, idle, now_ns), idle

    def _promoted(self, meter: Meter, now_ns: int) -> FlowClass:
        cls = self.classify(
            meter.volume_bytes - meter.counted_from_bytes, now_ns - meter.counted_from_ns
        )
        if cls is FlowClass.BACKGROUND:
            meter.mark_bytes, meter.mark_ns = meter.volume_bytes, now_ns
        return cls

    def _demoted(self, meter: Meter, idle: bool, now_ns: int) -> FlowClass:
        if self.quiet_ns is None:
            return FlowClass.BACKGROUND
        if meter.volume_bytes - meter.mark_bytes > self.background_bytes:
            meter.mark_bytes, meter.mark_ns = meter.volume_bytes, now_ns
        elif idle or now_ns - meter.mark_ns >= self.quiet_ns:
            meter.counted_from_bytes, meter.counted_from_ns = meter.volume_bytes, now_ns
            return FlowClass.BURST
        return FlowClass.BACKGROUND
