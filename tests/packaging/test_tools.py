"""The toolchain for transport/ is one that is new enough, or it is told what is missing."""

import os
import subprocess
import tomllib
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
# What the workspace says that it needs.
NEEDED = tomllib.loads((TOP / "transport/Cargo.toml").read_text())["workspace"]["package"][
    "rust-version"
]


def toolchain(folder: Path, version: str) -> Path:
    """A folder with a cargo of this version, and its compiler."""
    folder.mkdir()
    for name in ("cargo", "rustc"):
        program = folder / name
        program.write_text(f'#!/bin/sh\necho "{name} {version} (of a test)"\n')
        program.chmod(0o755)
    return folder


def found(tmp_path: Path, *on_path: Path) -> subprocess.CompletedProcess[str]:
    """What tools/cargo takes, with these folders on the path before the system's."""
    path = ":".join(map(str, (*on_path, "/usr/bin", "/bin")))
    return subprocess.run(
        [TOP / "tools/cargo", "--toolchain"],
        env=os.environ
        | {"PATH": path, "HOME": str(tmp_path), "CARGO_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("version", [f"{NEEDED}.0", "1.100.1", "2.0.0"])
def test_a_new_enough_toolchain_is_taken(tmp_path: Path, version: str) -> None:
    given = toolchain(tmp_path / "given", version)
    done = found(tmp_path, given)
    assert done.stdout.splitlines() == [str(given), f"rustc {version} (of a test)"]


def test_an_old_one_is_passed_over_for_what_cargo_itself_has_installed(tmp_path: Path) -> None:
    old = toolchain(tmp_path / "old", "1.63.0")
    (tmp_path / "home").mkdir()
    own = toolchain(tmp_path / "home/bin", "1.95.0")
    assert found(tmp_path, old).stdout.splitlines()[0] == str(own)


@pytest.mark.skipif(Path("/usr/bin/cargo").exists(), reason="the system has a cargo of its own")
def test_without_one_it_says_what_would_help(tmp_path: Path) -> None:
    done = found(tmp_path, toolchain(tmp_path / "old", "1.9.0"))
    assert done.returncode == 1
    assert f"no cargo {NEEDED} or newer" in done.stderr
    assert "tools/prepare packages rust" in done.stderr


def test_an_unknown_word_for_the_build_is_told() -> None:
    done = subprocess.run(
        [TOP / "transport/build", "--what"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr
