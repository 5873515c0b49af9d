"""Tests with every outcome, for test_outcomes.py; not collected by themselves."""

import pytest

pytestmark = pytest.mark.netns


def test_passes() -> None:
    pass


def test_skips() -> None:
    pytest.skip("not today")


@pytest.mark.skipif(True, reason="never")
def test_is_skipped_from_outside() -> None:
    pass


@pytest.fixture
def lacking() -> None:
    pytest.skip("something is lacking")


def test_skips_in_a_fixture(lacking: None) -> None:
    pass


def test_fails() -> None:
    raise AssertionError("as it must")


@pytest.fixture
def broken():
    yield
    raise AssertionError("when it was cleared away")


def test_fails_in_the_end(broken: None) -> None:
    pass
