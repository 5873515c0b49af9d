"""Tests that build networks run as the first process of a sandbox of their own.

A test with the marker ``netns`` is run by a second pytest inside new network, process and mount
namespaces (testbed.sandbox), so whatever it leaves behind ends with it. What became of it there
is what becomes of it here: passed, skipped with its reason, or failed. One that fails while the
machine is disturbed is run again; if it never is undisturbed, one that measures time
(``timing``) is skipped, as it cannot be judged.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

import undisturbed
from testbed import dctcp, sandbox

# In a sandbox: the file that the outcome is left in.
_SANDBOX = "WEIR_TEST_SANDBOX"

# sandbox.run must be called from a main thread, which pytest's timeout may not leave us.
_IN_SANDBOX = "import sys; from testbed import sandbox; sys.exit(sandbox.run(sys.argv[1:]))"

# What builds networks may take that long; everything else has pyproject.toml's --timeout.
_NETWORKS_TIMEOUT_S = 300
# Twice what the marker "slow" is for: on a busy machine others come near it.
_SLOW_S = 20

# A shell script has its background jobs ignore it, and what is tested here would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure() -> None:
    """Let examples of properties take their time: on a busy machine, how long one takes says
    nothing, and each test has its --timeout."""
    if not os.environ.get(_SANDBOX):
        # Nothing there uses it, and it takes long to import.
        from hypothesis import settings

        settings.register_profile("weir", deadline=None)
        settings.load_profile("weir")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests that build networks their time, unless they say themselves what they need, for
    each attempt, and have them come first, the longest ahead.

    Side by side, they wait while others compute, and no long one is left over in the end.
    """
    for item in items:
        if item.get_closest_marker("netns"):
            own = item.get_closest_marker("timeout")
            timeout_s = own.args[0] if own else _NETWORKS_TIMEOUT_S
            attempts = 1 if os.environ.get(_SANDBOX) else undisturbed.MOST_ATTEMPTS
            item.add_marker(pytest.mark.timeout(attempts * timeout_s), append=False)
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    if not item.get_closest_marker("netns"):
        # Those of a module stay together, since they may share a fixture.
        return 2
    return 0 if _is_slow(item.keywords) else 1


def _is_slow(keywords: Mapping[str, object]) -> bool:
    return "slow" in keywords or "long" in keywords


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what ought to have the marker ``slow``."""
    for report in terminalreporter.getreports("passed"):
        if report.duration > _SLOW_S and not _is_slow(report.keywords):
            terminalreporter.line(f"{report.duration:.0f} s, and not marked slow: {report.nodeid}")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a ``netns`` test in a new sandbox, unless this process is one already."""
    if pyfuncitem.get_closest_marker("netns") is None or os.environ.get(_SANDBOX):
        return None
    try:
        sandbox.require()
    except sandbox.SandboxError as lacking:
        pytest.skip(str(lacking))
    failure, disturbed = undisturbed.judged(lambda: _run_in_sandbox(pyfuncitem))
    if disturbed is not None and pyfuncitem.get_closest_marker("timing"):
        pytest.skip(
            f"not judged: {disturbed:.0%} of the processors' time stolen, or more:\n{failure}"
        )
    if failure is not None:
        pytest.fail(failure, pytrace=False)
    return True


def _run_in_sandbox(item: pytest.Function) -> str | None:
    """Return how the test has failed, if it has. Skips what is skipped there."""
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", "-x"]
    tells = item.config.getoption("capture") == "no"
    if tells:
        argv.append("--capture=no")
    # Most of the time that pytest needs to start is its plugins'.
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "pytest_timeout"}
    with tempfile.NamedTemporaryFile("r") as left:
        inner = subprocess.run(
            [sys.executable, "-c", _IN_SANDBOX, *argv, f"{item.path}::{_name(item)}"],
            env=os.environ | alone | {_SANDBOX: left.name},
            cwd=item.config.rootpath,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        outcome = json.loads(left.read() or "{}")
    if inner.returncode == 0 and outcome.get("outcome") == "skipped":
        pytest.skip(outcome["reason"])
    if inner.returncode == 0 and outcome.get("outcome") == "passed":
        if tells:
            print(inner.stdout, end="")
        return None
    return f"in its sandbox (status {inner.returncode}):\n{inner.stdout}{inner.stderr}"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """In a sandbox, leave what became of the test to whoever has started it."""
    left = os.environ.get(_SANDBOX)
    if left and (report.when == "call" or report.outcome != "passed"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        outcome = {"outcome": report.outcome, "reason": reason.removeprefix("Skipped: ")}
        Path(left).write_text(json.dumps(outcome))


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
