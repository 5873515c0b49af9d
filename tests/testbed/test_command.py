"""A command that fails must stop whoever relied on it."""

import itertools

import pytest

from testbed.command import CommandError, run, wait_until


def test_output_is_returned() -> None:
    assert run(["cat"], stdin="what is said\n") == "what is said\n"


def test_failure_names_the_command_its_status_and_what_it_said() -> None:
    with pytest.raises(CommandError) as caught:
        run(["sh", "-c", "echo 'no such qdisc' >&2; exit 2"])
    assert caught.value.returncode == 2
    for part in ("sh -c", "status 2", "no such qdisc"):
        assert part in str(caught.value)


def test_missing_program() -> None:
    with pytest.raises(CommandError, match="weir-no-such-program"):
        run(["weir-no-such-program"])


def test_command_that_does_not_end() -> None:
    with pytest.raises(CommandError, match="did not end in time"):
        run(["sleep", "100"], timeout_s=0.05)


def test_wait_until_returns_once_the_condition_holds() -> None:
    tries = itertools.count()
    wait_until(lambda: next(tries) == 2, timeout_s=10, what="the third try", poll_s=0)
    assert next(tries) == 3


def test_wait_until_says_what_it_waited_for() -> None:
    times = itertools.count()
    with pytest.raises(TimeoutError, match="the moon rises: not so after 5 s"):
        wait_until(
            lambda: False, timeout_s=5, what="the moon rises", poll_s=0, clock=lambda: next(times)
        )
