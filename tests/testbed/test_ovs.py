"""Which switch is taken."""

import os
from pathlib import Path

import pytest

from testbed.ovs import OvsError, find_prefix


def build(cache: Path, name: str, *, age_s: int, complete: bool = True) -> Path:
    prefix = cache / name
    (prefix / "sbin").mkdir(parents=True)
    (prefix / "sbin/ovs-vswitchd").touch()
    if complete:
        mark = prefix / ".complete"
        mark.touch()
        os.utime(mark, (10_000 - age_s, 10_000 - age_s))
    return prefix


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEIR_CACHE", str(tmp_path))
    monkeypatch.delenv("WEIR_OVS_PREFIX", raising=False)
    return tmp_path


def test_the_newest_complete_build(cache: Path) -> None:
    build(cache, "ovs-old", age_s=200)
    newest = build(cache, "ovs-new", age_s=100)
    build(cache, "ovs-half", age_s=0, complete=False)
    build(cache, "stock-ovs-3.1.0", age_s=0)
    assert find_prefix() == newest


def test_what_is_given_prevails_over_the_environment(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(cache, "ovs-new", age_s=0)
    from_environment, given = build(cache, "a", age_s=9), build(cache, "b", age_s=9)
    monkeypatch.setenv("WEIR_OVS_PREFIX", str(from_environment))
    assert find_prefix() == from_environment
    assert find_prefix(given) == given


def test_no_switch_tells_how_to_get_one(cache: Path) -> None:
    with pytest.raises(OvsError, match="make switch"):
        find_prefix()
    with pytest.raises(OvsError, match=r"no sbin/ovs-vswitchd under .*nowhere"):
        find_prefix(cache / "nowhere")
