"""What the build of the operator's page says where it cannot build, and where it builds to."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
# What the script itself takes from the machine.
TOOLS = ("sh", "cat", "cut", "dirname", "find", "flock", "mkdir", "sha256sum", "sort", "xargs")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine without Node."""
    for name in ("bin", "cache"):
        (tmp_path / name).mkdir()
    for tool in TOOLS:
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool) or pytest.fail(tool))
    return tmp_path


def build(machine: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PATH": f"{machine}/bin", "WEIR_CACHE": f"{machine}/cache"}
    return subprocess.run(
        [TOP / "dashboards/web/build", *argv], env=env, capture_output=True, text=True, check=False
    )


def program(machine: Path, name: str, text: str) -> None:
    file = machine / "bin" / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def test_without_node_it_says_how_to_get_it(machine: Path) -> None:
    done = build(machine)
    assert done.returncode == 1
    assert "there is no node here" in done.stderr
    assert "tools/prepare page" in done.stderr


def test_node_without_npm_is_not_enough(machine: Path) -> None:
    program(machine, "node", "echo v20.1.0")
    assert "there is no npm here" in build(machine).stderr


def test_an_old_node_is_refused(machine: Path) -> None:
    program(machine, "node", "echo v16.20.2")
    program(machine, "npm", "exit 1")
    done = build(machine)
    assert done.returncode == 1
    assert "is v16.20.2, and the page needs 18 or newer" in done.stderr
    assert not [*(machine / "cache").glob("page-*")]


def test_packages_out_of_reach_are_told_and_not_taken_for_complete(machine: Path) -> None:
    for tool in ("cp", "rm", "touch"):
        (machine / "bin" / tool).symlink_to(shutil.which(tool) or pytest.fail(tool))
    program(machine, "node", "echo v18.20.4")
    program(machine, "npm", '[ "$1" = config ] && echo https://registry.example/ || exit 1')
    for _ in range(2):
        done = build(machine)
        assert done.returncode == 1
        assert "is https://registry.example/ within reach?" in done.stderr


def test_where_it_builds_to_takes_no_node(machine: Path) -> None:
    key = build(machine, "--key").stdout.strip()
    assert build(machine, "--prefix").stdout == f"{machine}/cache/page-{key}\n"
    assert build(machine, "--nothing").returncode == 2
