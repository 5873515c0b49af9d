"""Which switch is taken, and how it is asked."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest

from testbed import ovs
from testbed.command import CommandError
from testbed.ovs import Ovs, OvsError, find_prefix


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


@contextmanager
def asked(tmp_path: Path, *pieces: bytes, ends: bool = True) -> Iterator[Ovs]:
    """A switch that answers one question with these pieces, and then ends or says nothing more."""
    made = Ovs(tmp_path, tmp_path)
    made._daemons += (Mock(pid=1), Mock(pid=2))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(f"{tmp_path}/ovs-vswitchd.2.ctl")
        listening.listen()

        def answer() -> None:
            asking, _ = listening.accept()
            asking.recv(4096)
            for piece in pieces:
                asking.sendall(piece)
            if not ends:
                asking.recv(1)
            asking.close()

        answering = threading.Thread(target=answer)
        answering.start()
        yield made
        answering.join()


def test_an_answer_may_come_in_pieces(tmp_path: Path) -> None:
    pieces = b'{"id":0,"error":null,', b'"result":"{a}', b' b\\n"}'
    with asked(tmp_path, *pieces) as switch:
        assert switch.appctl("version") == "{a} b\n"


def test_a_refusal_says_what_was_asked(tmp_path: Path) -> None:
    with (
        asked(tmp_path, b'{"id":0,"error":"no such port","result":null}') as switch,
        pytest.raises(CommandError, match=r"ovs-appctl qos/show x ended with .* no such port"),
    ):
        switch.appctl("qos/show", "x")


def test_half_an_answer_is_none(tmp_path: Path) -> None:
    with (
        asked(tmp_path, b'{"id":0,') as switch,
        pytest.raises(CommandError, match="8 bytes are no whole answer"),
    ):
        switch.appctl("version")


def test_no_answer_in_time_is_told_from_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ovs, "_APPCTL_TIMEOUT_S", 0.2)
    with (
        asked(tmp_path, b'{"id":0,', ends=False) as switch,
        pytest.raises(CommandError, match="did not end in time") as late,
    ):
        switch.appctl("version")
    assert late.value.returncode is None


def test_a_switch_that_does_not_run(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="ovs-vswitchd is not running"):
        Ovs(tmp_path, tmp_path).appctl("version")
