"""`python -m controller` is the command `weir-controller`."""

import sys

from controller.runtime.launcher import main

if __name__ == "__main__":
    sys.exit(main())
