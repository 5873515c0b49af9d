"""The version is that of controller/__init__.py, everywhere.

To change it: there, in transport/Cargo.toml (then `tools/cargo check`, for Cargo.lock), and as the
first heading of CHANGELOG.md. All others take it from there.
"""

import re
import subprocess
import sys
import tomllib
from distutils.core import run_setup
from pathlib import Path
from typing import Any

import pytest

from controller import __version__

TOP = Path(__file__).resolve().parents[2]
TRANSPORT = TOP / "transport"
MANIFESTS = sorted((TRANSPORT / "crates").glob("*/Cargo.toml"))


def toml(file: Path) -> Any:
    return tomllib.loads(file.read_text())


def test_python_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(TOP)
    assert run_setup("setup.py", stop_after="init").metadata.version == __version__


def test_workspace_of_the_crates() -> None:
    assert toml(TRANSPORT / "Cargo.toml")["workspace"]["package"]["version"] == __version__


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest.parent.name)
def test_crate(manifest: Path) -> None:
    assert toml(manifest)["package"]["version"] == {"workspace": True}


def test_locked_crates() -> None:
    ours = [each for each in toml(TRANSPORT / "Cargo.lock")["package"] if "source" not in each]
    assert {each["version"] for each in ours} == {__version__}
    assert len(ours) == len(MANIFESTS)


def test_bindings_take_that_of_their_crate() -> None:
    project = toml(TRANSPORT / "crates/python/pyproject.toml")["project"]
    assert project["dynamic"] == ["version"]


def test_latest_change() -> None:
    first = re.search(r"(?m)^## (\S+)", (TOP / "CHANGELOG.md").read_text())
    assert first is not None
    assert first[1] == __version__


def test_debian_packages() -> None:
    told = subprocess.check_output([TOP / "packaging/build", "--version"], text=True)
    assert re.match(rf"{re.escape(__version__)}([~+]|$)", told)
    assert not (TOP / "packaging/debian/changelog").exists(), "packaging/build writes it"


def test_man_pages(tmp_path: Path) -> None:
    subprocess.run([sys.executable, TOP / "tools/manual", tmp_path], cwd=TOP, check=True)
    for page in (tmp_path / "man").iterdir():
        assert f'"Weir {__version__}"' in page.read_text(), page.name
