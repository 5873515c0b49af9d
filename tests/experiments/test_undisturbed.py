"""Of several measurements on a shared machine one counts."""

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
