"""Mininet changes how everybody logs; the test bed does not let it."""

import subprocess
import sys

PROGRAM = """
import logging
import testbed
import mininet.net
made = logging.getLogger("weir.made.later")
print(type(made).__name__, made.level, len(made.handlers))
"""


def test_loggers_made_after_mininet_are_as_any() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["Logger", "0", "0"]
