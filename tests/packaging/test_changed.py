"""`make check` says what it has chosen and why, and what came of it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import steps

TOP = Path(__file__).resolve().parents[2]
_GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"} | {
    f"GIT_{who}_{what}": f"{what}@example.org".lower()
    for who in ("AUTHOR", "COMMITTER")
    for what in ("NAME", "EMAIL")
}


class Tree:
    """A small checkout with a source, its test, and a lint that only says what it was asked."""

    def __init__(self, top: Path) -> None:
        self.top = top
        for path in ("pyproject.toml", "tools/changed", "tools/affected.py", "tools/steps.py"):
            (top / path).parent.mkdir(exist_ok=True)
            shutil.copy(TOP / path, top / path)
        self.write(".gitignore", "build/\n")
        (top / "build").mkdir()
        (top / "build/venv").symlink_to(sys.prefix)
        self.write("tools/lint", '#!/bin/sh\necho "lint of $*"\n').chmod(0o755)
        self.write("experiments/__init__.py", "")
        self.write("experiments/mean.py", "def mean(a, b):\n    return (a + b) / 2\n")
        self.write(
            "tests/experiments/test_mean.py",
            "from experiments.mean import mean\n\n\ndef test_mean():\n    assert mean(1, 3) == 2\n",
        )
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit()

    def write(self, path: str, text: str) -> Path:
        file = self.top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def git(self, *words: str) -> None:
        subprocess.run(["git", *words], cwd=self.top, env=os.environ | _GIT, check=True)

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=More")

    def check(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/usr/bin/python3", self.top / "tools/changed", *words],
            env=os.environ | {"PYTHONPATH": str(self.top), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_an_environment_that_is_missing_is_told(tree: Tree) -> None:
    (tree.top / "build/venv").unlink()
    done = tree.check()
    assert done.returncode == 2
    assert done.stderr == "tools/changed: there is no build/venv: make venv\n"


def test_nothing_has_changed(tree: Tree) -> None:
    done = tree.check()
    assert done.returncode == 0
    assert done.stdout == "Nothing has changed since the last commit: nothing to check.\n"


def test_a_source_has_changed(tree: Tree) -> None:
    tree.write("experiments/mean.py", "def mean(a, b):\n    return a + (b - a) / 2\n")
    done = tree.check()
    said = done.stdout
    assert done.returncode == 0, said
    assert "since the last commit: 1 file. They concern 1 test file of 1:\n" in said
    assert "  experiments/mean.py: test_mean\n" in said
    assert "lint of format style types imports drawing\n" in said
    assert "1 passed" in said
    assert "unit tests       ok" in said


def test_what_it_breaks_is_found(tree: Tree) -> None:
    tree.write("experiments/mean.py", "def mean(a, b):\n    return a\n")
    done = tree.check()
    assert done.returncode == 1
    assert "1 failed" in done.stdout
    assert "check            FAILED" in done.stdout


def test_a_failing_lint_fails_it_and_tests_run_all_the_same(tree: Tree) -> None:
    tree.write("tools/lint", "#!/bin/sh\nexit 1\n")
    tree.commit()
    tree.write("experiments/mean.py", "def mean(a, b):\n    return b + (a - b) / 2\n")
    done = tree.check()
    assert done.returncode == 1
    assert "1 passed" in done.stdout


def test_a_branch_is_compared_with_what_it_left(tree: Tree) -> None:
    tree.git("checkout", "--quiet", "-b", "topic")
    tree.write("experiments/mean.py", "def mean(a, b):\n    return (b + a) / 2\n")
    tree.commit()
    tree.write("LICENSE", "Do as you like.\n")
    said = tree.check().stdout
    assert "Changed since where this branch left main: 2 files." in said
    assert "  no test, or none that is not named above: LICENSE\n" in said
    assert "experiments/mean.py" not in tree.check("HEAD").stdout


def test_a_new_test_counts_itself(tree: Tree) -> None:
    tree.write("tests/experiments/test_new.py", "def test_new():\n    assert True\n")
    said = tree.check().stdout
    assert "1 test file of 2:\n  tests/experiments/test_new.py\n" in said
    assert "1 passed" in said


def test_patches_bring_their_check(tree: Tree) -> None:
    tree.write("ovs-patches/0001-a.patch", "")
    assert "lint of format style types imports drawing patches\n" in tree.check().stdout


def test_a_commit_that_is_none_is_told(tree: Tree) -> None:
    done = tree.check("nonsense")
    assert done.returncode == 2
    assert done.stderr == "tools/changed: git knows no commit 'nonsense'\n"


def test_steps_run_all_and_show_what_failed(capsys: pytest.CaptureFixture[str]) -> None:
    passed = steps.run_all(
        [
            steps.Step("bad", ("sh", "-c", "echo why; exit 1")),
            steps.Step("good", ("sh", "-c", "echo nothing to see")),
        ]
    )
    said = capsys.readouterr().out
    assert not passed
    assert "bad              FAILED" in said
    assert "why" in said
    assert "good             ok" in said
    assert "nothing to see" not in said


def test_steps_of_a_lane_come_one_after_the_other(tmp_path: Path) -> None:
    first = f"[ ! -e {tmp_path}/here ]; touch {tmp_path}/here; rm {tmp_path}/here"
    lane = [steps.Step(str(n), ("sh", "-ec", first), "lane") for n in range(5)]
    assert steps.run_all(lane)


def test_an_unknown_check_is_told() -> None:
    done = subprocess.run(
        [TOP / "tools/lint", "nonsense"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no check 'nonsense'; there are drawing, format, imports" in done.stderr
