"""Open vSwitch's own test suites: run groups of them, and hold two trees against each other.

Suites run in namespaces of their own: what a group leaves behind goes with them, and no group
depends on what this machine's network does with odd addresses.
"""

import hashlib
import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from trees import JOBS, CheckError, Tree

_GROUP = re.compile(
    r"^\s*(?P<number>\d+): (?P<title>.*?)\s+"
    r"(?P<outcome>ok|FAILED|skipped|expected failure|UNEXPECTED PASS)( \(.*\))?$"
)
_WORLD = (
    "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--",
    "sh", "-c", 'ip link set lo up && exec "$@"', "sh",
)  # fmt: skip
_BAD = ("FAILED", "UNEXPECTED PASS")
_SAY_EVERY = 100


@dataclass(frozen=True)
class Result:
    """What came of some groups: the outcome of each title.

    Titles that occur again get a number, since groups are compared by title: numbers shift with
    every group that a patch adds.
    """

    outcomes: dict[str, str]
    logs: dict[str, Path]

    @property
    def failed(self) -> set[str]:
        """Titles of what failed, twice."""
        return {title for title, outcome in self.outcomes.items() if outcome in _BAD}

    def counts(self) -> dict[str, int]:
        """How many passed, failed, were skipped."""
        passed = sum(outcome in ("ok", "expected failure") for outcome in self.outcomes.values())
        skipped = sum(outcome == "skipped" for outcome in self.outcomes.values())
        return {"passed": passed, "failed": len(self.failed), "skipped": skipped}


def run(
    tree: Tree,
    target: str,
    keywords: Sequence[str],
    progress: Callable[[str], None],
    *,
    jobs: int = JOBS,
) -> Result:
    """Run the groups with one of ``keywords`` (all if there are none) of a suite of ``tree``.

    ``target`` is its make target. What fails is run alone once more before it counts: on a loaded
    machine some of Open vSwitch's timed groups fail. Raises CheckError if nothing ran at all.
    """
    tree.require()
    chosen = [word for keyword in keywords for word in ("-k", keyword)]
    groups = _groups(tree, target, [f"-j{jobs}", *chosen], progress)
    if not groups:
        raise CheckError(f"make {target} ran no group of {' '.join(keywords) or 'all'}")
    again = [number for number, (_, outcome) in groups.items() if outcome in _BAD]
    if again:
        progress(f"{len(again)} failed; once more, alone: {' '.join(map(str, again))}")
        groups |= _groups(tree, target, list(map(str, again)), progress)
        for number in again:
            if groups[number][1] not in _BAD:
                progress(f"passed only when run again: {groups[number][0]}")
    seen: Counter[str] = Counter()
    outcomes, logs = {}, {}
    for number, (title, outcome) in sorted(groups.items()):
        seen[title] += 1
        name = title if seen[title] == 1 else f"{title} #{seen[title]}"
        outcomes[name] = outcome
        logs[name] = _log(tree, target, number)
    return Result(outcomes, logs)


def unpatched(keywords: Sequence[str], progress: Callable[[str], None]) -> Result:
    """The result of unpatched Open vSwitch, remembered beside its build."""
    tree = Tree("--unpatched")
    tree.require()
    key = hashlib.sha256(" ".join(sorted(keywords)).encode()).hexdigest()[:12]
    file = tree.prefix / f"results-{key}.json"
    if file.exists():
        return Result(json.loads(file.read_text()), {})
    result = run(tree, "check", keywords, progress)
    partial = file.with_suffix(".new")
    partial.write_text(json.dumps(result.outcomes, indent=1))
    partial.rename(file)
    return result


def keep_logs(result: Result, titles: set[str], out: Path) -> None:
    """Copy the logs of failed groups to where they outlive the next run."""
    shutil.rmtree(out, ignore_errors=True)
    for title in titles:
        if result.logs[title].exists():
            out.mkdir(parents=True, exist_ok=True)
            name = re.sub(r"[^A-Za-z0-9]+", "-", title)
            shutil.copy(result.logs[title], out / f"{name}.log")


def _suite(target: str) -> str:
    return {"check": "testsuite", "check-system-userspace": "system-userspace-testsuite"}[target]


def _directory(tree: Tree, target: str) -> Path:
    return tree.source / "tests" / f"{_suite(target)}.dir"


def _log(tree: Tree, target: str, number: int) -> Path:
    """Of a group that has failed; those of others are gone. Numbers of directories have as many
    digits as that of the last group of the suite."""
    directory = _directory(tree, target)
    for one in directory.glob(f"*{number}"):
        if one.name.isdecimal() and int(one.name) == number:
            directory = one
    return directory / f"{_suite(target)}.log"


def _groups(
    tree: Tree, target: str, flags: Sequence[str], progress: Callable[[str], None]
) -> dict[int, tuple[str, str]]:
    make = ["make", "-C", str(tree.source), target, f"TESTSUITEFLAGS={' '.join(flags)}"]
    groups = {}
    with subprocess.Popen(
        [*_WORLD, *make],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as suite:
        assert suite.stdout is not None
        for line in suite.stdout:
            if found := _GROUP.match(line.rstrip()):
                groups[int(found["number"])] = (found["title"], found["outcome"])
                if len(groups) % _SAY_EVERY == 0:
                    progress(f"{len(groups)} groups")
    return groups
