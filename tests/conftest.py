"""Tests that build networks run as the first process of a world of their own.

A test with the marker ``netns`` is run by a second pytest inside new network, process and mount
namespaces (testbed.isolation), so whatever it leaves behind ends with it.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from testbed import dctcp, isolation

_INSIDE = "WEIR_TEST_WORLD"

# A shell script has its background jobs ignore it, and what is tested here would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a ``netns`` test in a new world, unless this process is one already."""
    if pyfuncitem.get_closest_marker("netns") is None or os.environ.get(_INSIDE):
        return None
    try:
        isolation.require()
    except isolation.IsolationError as lacking:
        pytest.skip(str(lacking))
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", "-x"]
    inner = subprocess.run(
        [sys.executable, __file__, *argv, f"{pyfuncitem.path}::{_name(pyfuncitem)}"],
        env=os.environ | {_INSIDE: "1"},
        cwd=pyfuncitem.config.rootpath,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if inner.returncode != 0:
        pytest.fail(
            f"in its world (status {inner.returncode}):\n{inner.stdout}{inner.stderr}",
            pytrace=False,
        )
    return True


def _name(item: pytest.Function) -> str:
    return item.nodeid.partition("::")[2]


@pytest.fixture(scope="session")
def stock_prefix() -> Path:
    """Debian's unpatched switch."""
    script = Path(__file__).parents[1] / "ovs-patches" / "stock"
    return Path(subprocess.check_output([script], text=True).strip())


@pytest.fixture
def dctcp_kernel() -> None:
    """Skips where the kernel cannot have DCTCP; that it has not been built is a failure."""
    try:
        dctcp.require()
    except dctcp.KernelLacksError as lacking:
        pytest.skip(str(lacking))


if __name__ == "__main__":
    # isolation.run must be called from a main thread, which pytest's timeout may not leave us.
    sys.exit(isolation.run(sys.argv[1:]))
