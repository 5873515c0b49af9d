"""One group of a benchmark, as the first process of its sandbox.

python -m experiments.bench.in_sandbox GROUP MODULE ARGUMENTS FILE
"""

import importlib
import json
import sys
import time
import traceback
from pathlib import Path

from experiments.bench.sandboxed import Incomplete
from testbed import sandbox


def main() -> int:
    """Entry point; returns the exit status."""
    sandbox.become_first_process()
    group, module, arguments, file = sys.argv[1:]
    begun = time.monotonic()
    failed: list[str] = []

    def progress(line: str) -> None:
        print(f"{group:10} {time.monotonic() - begun:4.0f} s  {line}", file=sys.stderr, flush=True)

    try:
        measure = importlib.import_module(module).run
        figures = measure(progress, **json.loads(arguments))
    except Incomplete as incomplete:
        figures, failed = incomplete.figures, list(incomplete.what)
    except Exception:
        # Whatever it was, the other groups are still to be measured.
        traceback.print_exc()
        return 1
    Path(file).write_text(json.dumps({"figures": figures, "failed": failed}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
