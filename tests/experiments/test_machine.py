"""What a measurement says of the code that made it."""

import subprocess
from pathlib import Path

from experiments.measure import machine


def test_what_decides_a_run_changes_the_code(tmp_path: Path) -> None:
    (tmp_path / "package" / "__pycache__").mkdir(parents=True)
    source, data = tmp_path / "package" / "a.py", tmp_path / "package" / "sizes.csv"
    source.write_text("x = 1\n")
    data.write_text("1\n")
    before = machine._digest([tmp_path / "package"])
    assert len(before) == 12
    (tmp_path / "package" / "__pycache__" / "a.pyc").write_bytes(b"1")
    assert machine._digest([tmp_path / "package"]) == before
    data.write_text("2\n")
    changed = machine._digest([tmp_path / "package"])
    assert changed != before
    source.rename(tmp_path / "package" / "b.py")
    assert machine._digest([tmp_path / "package"]) not in (before, changed)


def test_what_is_named_is_there() -> None:
    experiments = Path(machine.__file__).parents[1]
    assert [name for name in machine._DECISIVE if not (experiments / name).exists()] == []
    assert machine.code() != machine.code("bench")


def test_changes_make_a_commit_dirty_but_kept_results_do_not(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        who = ["-c", "user.name=weir", "-c", "user.email=weir@example.invalid"]
        return subprocess.check_output(["git", *who, "-C", tmp_path, *words], text=True)

    figure = tmp_path / "experiments/figures/sdtcp/fig9"
    figure.mkdir(parents=True)
    files = [figure / name for name in ("results.csv", "provenance.json", "figure.toml")]
    for file in files:
        file.write_text("1\n")
    assert machine._commit(tmp_path / "nowhere") is None
    git("init", "-q")
    git("add", "-A")
    git("commit", "-q", "-m", "one")
    clean = git("rev-parse", "HEAD")[:12]
    assert machine._commit(tmp_path) == clean
    for file in files[:2]:
        file.write_text("2\n")
    (tmp_path / "untracked").write_text("1\n")
    assert machine._commit(tmp_path) == clean
    files[2].write_text("2\n")
    assert machine._commit(tmp_path) == f"{clean}-dirty"
