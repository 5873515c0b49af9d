"""The crates that others can use have what crates.io asks for, and need no others of ours."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

TRANSPORT = Path(__file__).parents[2] / "transport"
WORKSPACE = tomllib.loads((TRANSPORT / "Cargo.toml").read_text())["workspace"]
CRATES = {
    manifest["package"]["name"]: manifest
    for manifest in (
        tomllib.loads(path.read_text()) for path in sorted(TRANSPORT.glob("crates/*/Cargo.toml"))
    )
}


def _said(package: dict[str, Any], what: str) -> Any:
    said = package.get(what)
    return WORKSPACE["package"][what] if said == {"workspace": True} else said


PUBLISHED = [
    name for name, crate in CRATES.items() if _said(crate["package"], "publish") is not False
]


def test_the_library_is_published_with_all_that_it_needs() -> None:
    assert {"weir-transport", "weir-udp", "weir-proto", "weir-codec", "weir-wire"} <= {*PUBLISHED}


@pytest.mark.parametrize("name", PUBLISHED)
def test_crate(name: str) -> None:
    package = CRATES[name]["package"]
    assert 20 <= len(package["description"]) <= 200
    for what in ("license", "keywords", "categories", "rust-version"):
        assert _said(package, what), what
    at = TRANSPORT if package["readme"] == {"workspace": True} else TRANSPORT / "crates/transport"
    assert (at / _said(package, "readme")).is_file()


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_a_crate_needs_of_ours_is_published_and_has_a_version(name: str) -> None:
    crate = CRATES[name]
    for alias in crate["dependencies"]:
        ours = WORKSPACE["dependencies"].get(alias)
        if isinstance(ours, dict) and "path" in ours:
            assert ours["package"] in PUBLISHED
            assert ours["version"] == WORKSPACE["package"]["version"]
