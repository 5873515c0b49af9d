"""Whether a flow is a burst or a background flow (SDTCP section 3.3), and whether it is idle."""

from dataclasses import dataclass

from controller.core.flows.host_pairs import FlowRecord
from controller.model.values import FlowClass

IDLE_AFTER_NS = 10**9
IDLE_AFTER_READINGS = 2


@dataclass(frozen=True, slots=True)
class Classifier:
    """A flow is a burst flow until its volume and its lifetime both exceed their bounds.

    The paper does not say what happens if only one bound is exceeded; here such a flow is a burst
    flow, the class that is slowed down last. In the paper a background flow stays one. With
    `quiet_ns`, a background flow that is idle, or moves no more than `background_bytes` in that
    time, becomes a burst flow again.
    """

    background_bytes: int
    background_age_ns: int
    quiet_ns: int | None = None

    def classify(self, volume_bytes: int, lifetime_ns: int) -> FlowClass:
        if volume_bytes > self.background_bytes and lifetime_ns > self.background_age_ns:
            return FlowClass.BACKGROUND
        return FlowClass.BURST

    def read(self, record: FlowRecord, volume_bytes: int, now_ns: int) -> tuple[FlowClass, bool]:
        """Enter a reading of a flow's volume; returns its class now and whether it is idle."""
        if volume_bytes > record.volume_bytes:
            record.volume_bytes = volume_bytes
            record.grown_ns = now_ns
            record.still_readings = 0
        else:
            record.still_readings += 1
        idle = (
            record.still_readings >= IDLE_AFTER_READINGS
            and now_ns - record.grown_ns >= IDLE_AFTER_NS
        )
        if record.cls is FlowClass.BURST:
            return self._promoted(record, now_ns), idle
        return self._demoted(record, idle, now_ns), idle

    def _promoted(self, record: FlowRecord, now_ns: int) -> FlowClass:
        cls = self.classify(
            record.volume_bytes - record.counted_from_bytes, now_ns - record.counted_from_ns
        )
        if cls is FlowClass.BACKGROUND:
            record.mark_bytes, record.mark_ns = record.volume_bytes, now_ns
        return cls

    def _demoted(self, record: FlowRecord, idle: bool, now_ns: int) -> FlowClass:
        if self.quiet_ns is None:
            return FlowClass.BACKGROUND
        if record.volume_bytes - record.mark_bytes > self.background_bytes:
            record.mark_bytes, record.mark_ns = record.volume_bytes, now_ns
        elif idle or now_ns - record.mark_ns >= self.quiet_ns:
            record.counted_from_bytes, record.counted_from_ns = record.volume_bytes, now_ns
            return FlowClass.BURST
        return FlowClass.BACKGROUND
