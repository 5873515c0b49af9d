"""Of several measurements on a shared machine one counts, and so it is with tests."""

from collections.abc import Sequence

import pytest

import undisturbed


def test_what_was_disturbed_least_counts_whatever_it_has_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measured(shares: list[float]) -> tuple[str, float]:
        came = iter(shares)
        names = iter("abcdef")
        monkeypatch.setattr(undisturbed.Stolen, "share", lambda _: next(came))
        return undisturbed.least_disturbed(lambda: next(names))

    assert measured([0.002]) == ("a", 0.002)
    assert measured([0.05, 0.001]) == ("b", 0.001)
    assert measured([0.05, 0.03, 0.02, 0.04]) == ("c", 0.02)


@pytest.mark.parametrize(
    ("attempts", "found"),
    [
        ([(None, 0.4)], (None, None)),
        ([("wrong", 0.0)], ("wrong", None)),
        ([("slow", 0.2), (None, 0.2)], (None, None)),
        ([("slow", 0.2), ("wrong", 0.02)], ("wrong", None)),
        ([("slow", 0.2), ("slow", 0.05), ("slower", 0.1)], ("slower", 0.05)),
    ],
)
def test_a_failure_counts_if_the_machine_was_not_disturbed(
    attempts: Sequence[tuple[str | None, float]],
    found: tuple[str | None, float | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shares = iter([share for _, share in attempts])
    failures = iter([failure for failure, _ in attempts])
    monkeypatch.setattr(undisturbed.Stolen, "share", lambda _: next(shares))
    assert undisturbed.judged(lambda: next(failures)) == found
    assert list(failures) == []
