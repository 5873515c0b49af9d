"""A function as the first process of its sandbox: what ``testbed.sandbox.call`` starts.

python -m testbed.called MODULE|SCRIPT FUNCTION ARGUMENTS FILE
"""

import importlib
import json
import runpy
import sys
from pathlib import Path

from testbed import sandbox


def main() -> int:
    """Entry point; returns the exit status."""
    sandbox.become_first_process()
    where, name, arguments, file = sys.argv[1:]
    if where.endswith(".py"):
        sys.path.insert(0, str(Path(where).parent))
        function = runpy.run_path(where)[name]
    else:
        function = getattr(importlib.import_module(where), name)
    Path(file).write_text(json.dumps(function(*json.loads(arguments))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
