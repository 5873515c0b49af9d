"""What becomes of a test in a sandbox of its own is what pytest says of it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from testbed import sandbox

TESTS = Path(__file__).with_name("outcomes.py")


def test_outcomes_come_out_of_worlds() -> None:
    try:
        sandbox.require()
    except sandbox.SandboxError as lacking:
        pytest.skip(str(lacking))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-rs", "-p", "no:cacheprovider", str(TESTS)],
        env={name: value for name, value in os.environ.items() if name != "WEIR_TEST_SANDBOX"},
        cwd=TESTS.parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    # The first word counts: fixtures are cleared away out here as well.
    outcomes = dict(reversed(re.findall(r"::(\w+) ([A-Z]+)", done.stdout)))
    assert outcomes == {
        "test_passes": "PASSED",
        "test_skips": "SKIPPED",
        "test_is_skipped_from_outside": "SKIPPED",
        "test_skips_in_a_fixture": "SKIPPED",
        "test_fails": "FAILED",
        "test_fails_in_the_end": "FAILED",
    }, done.stdout
    assert "not today" in done.stdout
    assert "something is lacking" in done.stdout
    assert "as it must" in done.stdout
    assert "when it was cleared away" in done.stdout
