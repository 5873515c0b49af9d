"""Burst or background (SDTCP section 3.3)."""

from dataclasses import dataclass

from controller.core.values import FlowClass


@dataclass(frozen=True, slots=True)
class Classifier:
    """A flow is a burst flow until its volume and its lifetime both exceed their bounds.

    The paper says what happens if both bounds are exceeded and if neither is; in between, a flow is
    treated as a burst flow: the class that is slowed down last.
    """

    background_bytes: int
    background_age_ns: int

    def classify(self, volume_bytes: int, lifetime_ns: int) -> FlowClass:
        if volume_bytes > self.background_bytes and lifetime_ns > self.background_age_ns:
            return FlowClass.BACKGROUND
        return FlowClass.BURST
