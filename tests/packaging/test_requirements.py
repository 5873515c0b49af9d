"""What is pinned in requirements/ is what setup.py asks for, with all that this needs in turn."""

import re
from distutils.core import run_setup
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TOP = Path(__file__).resolve().parents[2]
FOLDER = TOP / "requirements"
DEVELOPMENT_EXTRAS = ("experiments", "test")


def blocks(name: str) -> list[str]:
    """What a file says of each package, in its order."""
    text = (FOLDER / f"{name}.txt").read_text()
    return [part for part in re.split(r"(?m)^(?=\S)", text) if not part.startswith("#") and part]


def pins(name: str) -> dict[str, str]:
    return dict(block.split()[0].split("==", 1) for block in blocks(name))


RUNTIME, DEVELOPMENT, BUILD = map(pins, ("runtime", "development", "build"))
# What single targets need besides.
OTHERS = {name: pins(name) for name in ("browser", "fuzz")}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What setup.py says."""
    monkeypatch.chdir(TOP)
    return run_setup("setup.py", stop_after="init")


def lacking(requirements: list[str], pinned: dict[str, str]) -> list[str]:
    """Those that no pin fulfils."""
    parsed = [Requirement(text) for text in requirements]
    return [
        str(wanted)
        for wanted in parsed
        if not wanted.specifier.contains(pinned.get(canonicalize_name(wanted.name), "0"))
    ]


def closure(requirements: list[str]) -> set[str]:
    """All packages that these need, by what the installed ones say."""
    found: set[str] = set()
    left = [Requirement(text) for text in requirements]
    while left:
        wanted = left.pop()
        name = canonicalize_name(wanted.name)
        extras = {"", *wanted.extras}
        if name in found and extras == {""}:
            continue
        found.add(name)
        for text in metadata.requires(name) or []:
            needed = Requirement(text)
            if needed.marker is None or any(
                needed.marker.evaluate({"extra": extra}) for extra in extras
            ):
                left.append(needed)
    return found


def test_the_pins_are_those_that_setup_py_asks_for(asked: Any) -> None:
    assert lacking(asked.install_requires, RUNTIME) == []
    for extra in DEVELOPMENT_EXTRAS:
        assert lacking(asked.extras_require[extra], RUNTIME | DEVELOPMENT) == [], extra
    for extra, pinned in OTHERS.items():
        assert lacking(asked.extras_require[extra], pinned) == [], extra
    assert {*asked.extras_require} == {*DEVELOPMENT_EXTRAS, *OTHERS}


def test_all_that_is_needed_is_pinned_and_nothing_else(asked: Any) -> None:
    extras = chain.from_iterable(asked.extras_require[name] for name in DEVELOPMENT_EXTRAS)
    runtime = closure(asked.install_requires)
    assert {*RUNTIME} == runtime
    assert {*DEVELOPMENT} == closure([*extras]) - runtime


def test_what_builds_the_sources_of_others_is_pinned_too() -> None:
    asked = [
        line for line in (FOLDER / "build.in").read_text().splitlines() if not line.startswith("#")
    ]
    assert lacking(asked, BUILD) == []


def test_files_agree_on_versions() -> None:
    assert not RUNTIME.keys() & DEVELOPMENT.keys()
    for pinned in OTHERS.values():
        assert not (RUNTIME | DEVELOPMENT).keys() & pinned.keys()
    shared = BUILD.keys() & (RUNTIME | DEVELOPMENT).keys()
    assert {name: BUILD[name] for name in shared} == {
        name: (RUNTIME | DEVELOPMENT)[name] for name in shared
    }


@pytest.mark.parametrize("name", ["build", "runtime", "development", *OTHERS])
def test_every_pin_has_hashes(name: str) -> None:
    assert [block for block in blocks(name) if "--hash=sha256:" not in block] == []


def test_the_environment_is_the_pinned_one() -> None:
    pinned = RUNTIME | DEVELOPMENT
    assert {name: metadata.version(name) for name in pinned} == pinned
