"""What a fetch says of itself is taken as it is, or refused; a process that hangs is told."""

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from experiments.traffic import fountain
from experiments.traffic.fountain import (
    AtpMode,
    Fetched,
    FountainError,
    Mode,
    Place,
    Rounds,
    Server,
)
from experiments.traffic.program import Command, ProgramError
from testbed import builds

FAKE = Path(__file__).with_name("fake_fountain.py")
DONE: dict[str, Any] = {
    "event": "done",
    "rounds": [{"seconds": 0.5, "bytes": 1_000_000}, {"seconds": 0.3, "bytes": 1_000_000}],
    "symbols_received": 2048,
    "symbols_needed": 2000,
    "symbols_lost": 10,
}


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build of what stands for fountain; returns its log's place."""
    command = tmp_path / "bin/fountain"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE} "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv(builds.TRANSPORT_PREFIX_VARIABLE, str(tmp_path))
    return tmp_path / "log"


@contextmanager
def serving(folder: Path, log: Path, count: int, **how: Any) -> Iterator[list[Server]]:
    socks = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    places = [Place(None, "127.0.0.1", sock.getsockname()[1]) for sock in socks]
    for sock in socks:
        sock.close()
    with fountain.servers(folder, places, log, **how) as servers:
        yield servers


def test_a_fetch_from_every_server_round_after_round(tmp_path: Path, fake: Path) -> None:
    (tmp_path / "64k").write_bytes(bytes(65536))
    with serving(tmp_path, fake, 3) as servers:
        argv = fountain.fetch_argv(servers, "64k", Mode("tfrc", 1024), rounds=4)
        fetched = fountain.fetch(argv, fake)
    assert fetched.round_bytes == (3 * 65536,) * 4
    assert fetched.overhead == pytest.approx(0.05, abs=0.01)
    assert fetched.goodput_mbps > 0
    assert fetched.said["event"] == "done"


def test_a_server_that_talks_is_never_held_up(tmp_path: Path, fake: Path) -> None:
    (tmp_path / "1k").write_bytes(bytes(1024))
    with serving(tmp_path, fake, 1, secure=False) as servers:
        argv = fountain.fetch_argv(servers, "1k", Mode(), rounds=3000)
        assert len(fountain.fetch(argv, fake).round_s) == 3000


@pytest.mark.usefixtures("fake")
def test_how_a_fetch_is_asked_for() -> None:
    servers = [Server("10.0.0.1:7000", 1, "aa"), Server("10.0.0.2:7001", 2, "bb")]
    argv = fountain.fetch_argv(servers, "64k", Mode("client", "mtu"), rounds=9)
    assert argv[1:4] == ["fetch", "10.0.0.1:7000/64k", "10.0.0.2:7001/64k"]
    assert {"--discard", "--barrier", "--json", "--rounds=9"} <= set(argv)
    assert {"--pacing=client", "--symbol-bytes=mtu"} <= set(argv)
    assert {"--fingerprint=aa", "--fingerprint=bb"} <= set(argv)
    assert "--insecure" not in argv


@pytest.mark.usefixtures("fake")
def test_how_it_is_asked_for_over_atp() -> None:
    servers = [Server("10.0.0.1:7000", 1, "aa"), Server("10.0.0.2:7001", 2, "bb")]
    argv = fountain.fetch_argv(servers, "8500b", AtpMode(parity=False), rounds=9)
    assert argv[1:4] == ["atp-get", "atp://10.0.0.1:7000/8500b", "atp://10.0.0.2:7001/8500b"]
    assert {"--discard", "--json", "--rounds=9", "--no-parity"} <= set(argv)
    assert {"--fingerprint=aa", "--fingerprint=bb"} <= set(argv)
    assert "--no-parity" not in fountain.fetch_argv(servers, "8500b", AtpMode(), rounds=9)


def test_the_last_message_of_each_server(tmp_path: Path, fake: Path) -> None:
    ends: list[dict[str, Any]] = []
    with serving(tmp_path, fake, 2, ends=ends):
        assert ends == []
    assert ends == [{"event": "stopped"}] * 2


@pytest.mark.parametrize(
    ("path", "complaint"),
    [("fail", "fountain fetch failed: fountain: the server has gone"), ("hang", "not ended after")],
)
def test_a_fetch_that_does_not_end_well(path: str, complaint: str, fake: Path) -> None:
    argv = fountain.fetch_argv([Server("127.0.0.1:1", 1, None)], path, Mode(), rounds=1)
    with pytest.raises(ProgramError, match=complaint):
        fountain.fetch(argv, fake, timeout_s=0.5)


def test_a_server_that_does_not_listen(tmp_path: Path, fake: Path) -> None:
    elsewhere = [Place(None, "192.0.2.1", 7000)]
    with (
        pytest.raises(ProgramError, match="Cannot assign requested address"),
        fountain.servers(tmp_path, elsewhere, fake),
    ):
        pass


def test_the_last_message_is_parsed() -> None:
    fetched = Fetched.from_message(DONE)
    assert fetched.round_s == (0.5, 0.3)
    assert fetched.goodput_mbps == pytest.approx(20)
    assert fetched.overhead == pytest.approx(0.024)
    plain = {"event": "done", "rounds": DONE["rounds"], "atp": {"timeouts": 0}}
    assert Rounds.from_message(plain).round_bytes == (1_000_000, 1_000_000)
    with pytest.raises(FountainError, match="symbols_received"):
        Fetched.from_message(plain)


@pytest.mark.parametrize(
    "change",
    [
        {"event": "progress"}, {"rounds": []}, {"rounds": [{"bytes": 1}]}, {"symbols_lost": None},
        {"rounds": [{"seconds": 0, "bytes": 1}]}, {"rounds": 3},
    ],
)  # fmt: skip
def test_another_message_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(FountainError, match="not the end of a fetch"):
        Fetched.from_message(DONE | change)


def test_where_the_command_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(builds.TRANSPORT_PREFIX_VARIABLE, raising=False)
    monkeypatch.setenv("WEIR_CACHE", str(tmp_path))
    with pytest.raises(FountainError, match="run 'make transport'"):
        fountain.find_fountain()
    (tmp_path / "transport-1/bin").mkdir(parents=True)
    (tmp_path / "transport-1/bin/fountain").touch()
    (tmp_path / "transport-1/.complete").touch()
    assert fountain.find_fountain() == tmp_path / "transport-1/bin/fountain"
    monkeypatch.setenv(builds.TRANSPORT_PREFIX_VARIABLE, str(tmp_path / "other"))
    with pytest.raises(FountainError, match="no bin/fountain in"):
        fountain.find_fountain()


def test_a_command_ends_when_it_is_told_to(tmp_path: Path) -> None:
    with Command(["sleep", "60"], name="sleep", log=tmp_path / "log") as process:
        assert process.running()
        assert process.terminate() == -15
        assert not process.running()
