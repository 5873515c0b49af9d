"""A measurement in a sandbox of its own, and its result."""

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from testbed import sandbox

# Exit statuses after an interrupt.
INTERRUPTED = (130, 143)


class Incomplete(Exception):  # noqa: N818  (what it carries is good)
    """``what`` of a group could not be measured; ``figures`` has the rest."""

    def __init__(self, figures: Mapping[str, float], what: Sequence[str]) -> None:
        super().__init__(f"failed: {', '.join(what)}")
        self.figures = figures
        self.what = what


class EndedError(RuntimeError):
    """A measurement failed; ``status`` is its exit status."""

    def __init__(self, what: str, status: int) -> None:
        super().__init__(f"{what}: ended with status {status}")
        self.status = status


def result(module: str, *words: str) -> Any:
    """Run ``python -m MODULE WORDS... FILE`` in a new sandbox; return the JSON in FILE.

    Raises EndedError if it does not end with status 0.
    """
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "result.json"
        status = sandbox.run([sys.executable, "-m", module, *words, str(file)])
        if status != 0:
            raise EndedError(" ".join((module, *words)), status)
        return json.loads(file.read_text())
