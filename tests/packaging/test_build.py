"""What packaging/build says of itself, and how its versions are ordered."""

import re
import subprocess
from pathlib import Path

import pytest

from controller import __version__

TOP = Path(__file__).resolve().parents[2]


def told(*argv: str) -> str:
    return subprocess.run(
        [str(TOP / "packaging/build"), *argv], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_version_is_that_of_the_python_package_and_of_the_commit() -> None:
    of_the_commit = r"([~+]r\d+\.g[0-9a-f]{8}(\.changed)?)?"
    assert re.fullmatch(re.escape(__version__) + of_the_commit, told("--version"))


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("0.1.0~r158.g0b134963", "0.1.0~r159.g0b134963"),
        ("0.1.0~r158.gffffffff", "0.1.0"),
        ("0.1.0", "0.1.0+r170.g0b134963"),
        ("0.1.0+r170.gffffffff", "0.2.0~r171.g0b134963"),
    ],
)
def test_versions_are_in_the_order_of_commits(earlier: str, later: str) -> None:
    subprocess.run(["dpkg", "--compare-versions", earlier, "lt", later], check=True)


def test_the_same_input_has_the_same_place() -> None:
    assert told("--out") == told("--out")
    assert re.search(r"/packages-[0-9a-f]{12}$", told("--out"))


def test_other_arguments_are_refused() -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        told("--prefix")
    assert refused.value.returncode == 2
