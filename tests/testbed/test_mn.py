"""Mininet's own command with Weir's parts, as a user would type it."""

import subprocess
from pathlib import Path

import pytest

CUSTOM = Path(__file__).parents[2] / "mininet" / "custom.py"

pytestmark = [pytest.mark.netns, pytest.mark.switch]


def mn(*args: str) -> str:
    done = subprocess.run(
        ["mn", "--custom", str(CUSTOM), *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


@pytest.mark.parametrize(
    ("topology", "controller"),
    [
        ("fig8,3", "weir"),
        ("star,2,rate=50", "none"),
        ("tree,2", "weir"),
        ("leaf-spine,3,leaves=3,hosts=2", "weir"),
    ],
)
def test_everybody_reaches_everybody(topology: str, controller: str) -> None:
    parts = ("--switch", "weir", "--link", "weir", "--controller", controller)
    # The first round is also how the controller comes to know where everybody is.
    said = mn("--topo", topology, *parts, "--test", "pingall,pingall")
    assert said.count("*** Results: 0% dropped") >= 1
    assert said.rindex("*** Results:") == said.rindex("*** Results: 0% dropped")


def test_links_of_other_kinds_are_refused() -> None:
    parts = ("--switch", "weir", "--link", "tc,bw=10", "--controller", "weir")
    said = mn("--topo", "single,2", *parts)
    assert "s1: s1-eth1, s1-eth2 would not be forwarded to: --switch weir needs --link weir" in said


def test_what_is_wrong_is_said_and_nothing_is_left() -> None:
    left = Path("/tmp/weir-test-mn.log")  # mn's own cleaning up would remove it
    left.touch()
    try:
        said = mn("--topo", "fig8,0", "--controller", "weir")
        assert "senders must be at least 1, not 0" in said
        assert left.exists()
    finally:
        left.unlink()
    assert "s1-eth" not in Path("/proc/net/dev").read_text()
