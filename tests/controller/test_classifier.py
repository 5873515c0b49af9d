"""Burst until both bounds are exceeded (SDTCP section 3.3)."""

import pytest

from controller.core.flows.classifier import Classifier
from controller.model.values import FlowClass

SECOND = 10**9


@pytest.mark.parametrize(
    ("volume_bytes", "lifetime_ns", "expected"),
    [
        (0, 0, FlowClass.BURST),
        (10**6, 2 * SECOND, FlowClass.BURST),
        (10**6 + 1, SECOND, FlowClass.BURST),
        (10**9, SECOND // 2, FlowClass.BURST),
        (1000, 100 * SECOND, FlowClass.BURST),
        (10**6 + 1, SECOND + 1, FlowClass.BACKGROUND),
    ],
)
def test_both_bounds_must_be_exceeded(
    volume_bytes: int, lifetime_ns: int, expected: FlowClass
) -> None:
    assert Classifier(10**6, SECOND).classify(volume_bytes, lifetime_ns) is expected
