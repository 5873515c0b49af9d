"""Schemes, workloads and topologies from outside the tree."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs/extending.md").read_text()
EXAMPLES = dict(re.findall(r"(?ms)^```python\n# (\S+)\n(.*?)^```$", PAGE))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The examples of docs/extending.md, but for the scheme that needs a regulation of its own."""
    for path, code in EXAMPLES.items():
        if not path.endswith("equal.py"):
            (tmp_path / Path(path).name).write_text(code)
    return tmp_path


def command(*words: str, extensions: str = "") -> subprocess.CompletedProcess[str]:
    environment = os.environ | ({"WEIR_EXTENSIONS": extensions} if extensions else {})
    argv = [sys.executable, "-m", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)


def test_a_folder_is_read(folder: Path) -> None:
    shown = command("experiments.cli", "--with", str(folder), "run", "--help").stdout
    for part in ("  tuned        TCP Reno", "  echo         a byte to each", "  line         h1.."):
        assert part in shown
    assert "tail" in command("experiments.cli", "bench", "--help", extensions=str(folder)).stdout
    assert "  line " in command("testbed.lab", "--help", extensions=str(folder)).stdout


def test_a_file_is_read_once_even_if_it_is_named_twice(folder: Path) -> None:
    file = str(folder / "tuned.py")
    done = command("experiments.cli", "--with", file, "--with", file, "run", "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("TCP Reno, least timeout 10 ms") == 1


def test_without_it_there_is_no_such_scheme() -> None:
    done = command("experiments.cli", "run", "--scheme", "tuned")
    assert done.returncode == 2
    assert "no scheme 'tuned'" in done.stderr


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError: No module named 'nothing_of_"),
        (
            "from experiments.schemes import *\nSCHEMES.add(Scheme('weir', 'W', 'mine'))",
            "two things of the kind scheme are called 'weir'",
        ),
    ],
)
def test_a_mistake_in_it_is_told_with_its_name(code: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(code)
    done = command("experiments.cli", "--with", str(file), "list")
    assert done.returncode == 2
    assert said in done.stderr
    assert str(file) in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    done = command("experiments.cli", "list", extensions=str(tmp_path / "none.py"))
    assert done.returncode == 2
    assert "WEIR_EXTENSIONS names" in done.stderr


def test_an_installed_package_offers_its_modules(folder: Path) -> None:
    info = folder / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[weir.extensions]\ntuned = tuned\n")
    argv = [sys.executable, "-m", "experiments.cli", "run", "--help"]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
    assert "TCP Reno, least timeout 10 ms" in done.stdout


def test_what_it_has_is_part_of_the_code_that_decides_a_run(folder: Path) -> None:
    ask = ("-c", "from experiments.measure.machine import code; print(code())")

    def code(extensions: str) -> str:
        environment = os.environ | {"WEIR_EXTENSIONS": extensions}
        return subprocess.check_output([sys.executable, *ask], env=environment, text=True)

    file = folder / "tuned.py"
    before = code(str(file))
    assert code("") != before == code(str(file))
    file.write_text(f"{file.read_text()}\n# Changed.\n")
    assert code(str(file)) != before
