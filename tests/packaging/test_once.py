"""What has passed is not run again while nothing has changed; what has failed is."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
WEEK_S = 7 * 86_400

Once = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def once(tmp_path: Path) -> Once:
    def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [TOP / "tools/once", *words],
            env=os.environ | {"WEIR_CACHE": str(tmp_path), "FRESH": ""} | env,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def notes(tmp_path: Path) -> list[Path]:
    return [*(tmp_path / "passed").iterdir()]


def test_a_pass_is_believed_and_told(once: Once, tmp_path: Path) -> None:
    assert once("switch", "key", "echo", "ran").stdout == "ran\n"
    again = once("switch", "key", "echo", "ran")
    assert again.returncode == 0
    (note,) = notes(tmp_path)
    assert again.stdout.startswith("switch: not run, since it has passed with the same input on ")
    assert f"(key {note.name.removeprefix('switch-')}; FRESH=1 runs it)" in again.stdout


def test_a_failure_is_a_failure_each_time(once: Once, tmp_path: Path) -> None:
    for _ in range(2):
        assert once("switch", "key", "sh", "-c", "echo ran; exit 3").returncode == 3
    assert notes(tmp_path) == []


@pytest.mark.parametrize("words", [("other", "echo", "ran"), ("key", "echo", "ran", "too")])
def test_other_input_or_another_command_is_run(once: Once, words: tuple[str, ...]) -> None:
    once("switch", "key", "echo", "ran")
    assert once("switch", *words).stdout.startswith("ran")


def test_it_is_run_if_one_wants_it(once: Once) -> None:
    once("switch", "key", "echo", "ran")
    assert once("switch", "key", "echo", "ran", FRESH="1").stdout == "ran\n"


def test_a_failure_of_what_had_passed_is_not_covered_up(once: Once) -> None:
    flag = ("sh", "-c", '[ -z "$BROKEN" ]')
    assert once("switch", "key", *flag).returncode == 0
    assert once("switch", "key", *flag, FRESH="1", BROKEN="1").returncode == 1
    assert once("switch", "key", *flag, BROKEN="1").returncode == 1


def test_a_pass_is_believed_for_a_week(once: Once, tmp_path: Path) -> None:
    once("switch", "key", "echo", "ran")
    (note,) = notes(tmp_path)
    then_s = note.stat().st_mtime - WEEK_S - 86_400
    os.utime(note, (then_s, then_s))
    assert once("switch", "key", "echo", "ran").stdout == "ran\n"


def test_without_a_key_nothing_is_believed(once: Once) -> None:
    done = once("switch", "", "true")
    assert done.returncode == 2
    assert "its key is empty" in done.stderr


def test_words_are_missing(once: Once) -> None:
    done = once("switch", "key")
    assert done.returncode == 2
    assert "usage: tools/once NAME KEY COMMAND..." in done.stderr
