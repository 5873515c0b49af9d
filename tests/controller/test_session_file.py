"""Sessions outlast a restart of the API's process, in a file that holds digests only."""

import json
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from controller.api.access import session_file
from controller.api.access.access import Access
from controller.api.access.session_file import SessionFile
from controller.api.access.sessions import LIFETIME_S, Sessions
from test_api import NOW, ServedApi
from test_api_sessions import NOBODY, cookie, sign_in


class Machine:
    """A machine, on which processes are started one after the other."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / session_file.NAME
        self.now, self.clock_s = NOW, 1000.0

    def start(self, **most: int) -> Sessions:
        """The sessions of a process that has just been started."""
        file = SessionFile(self.path, lambda: self.now)
        return Sessions(lambda: self.clock_s, file=file, **most)

    def passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.clock_s += seconds


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


TOKEN, OTHER = bytes(32), bytes([1] * 32)


def test_a_session_goes_on_in_the_next_process(machine: Machine) -> None:
    before = machine.start()
    first, second = before.begin(TOKEN), before.begin(OTHER)
    before.end(second)
    after = machine.start()
    assert after.find(first) == TOKEN
    assert after.find(second) is None
    assert len(after) == 1


def test_it_ends_when_it_would_have_ended(machine: Machine) -> None:
    secret = machine.start().begin(TOKEN)
    machine.passes(LIFETIME_S - 1)
    machine.clock_s = 5.0  # The machine has been started again.
    assert machine.start().find(secret) == TOKEN
    after = machine.start()
    machine.passes(1)
    assert after.find(secret) is None
    assert len(machine.start()) == 0


def test_a_clock_that_is_set_back_makes_no_session_longer(machine: Machine) -> None:
    secret = machine.start().begin(TOKEN)
    machine.now -= timedelta(days=30)
    after = machine.start()
    machine.passes(LIFETIME_S)
    assert after.find(secret) is None


def test_what_is_over_leaves_the_file(machine: Machine) -> None:
    sessions = machine.start()
    sessions.begin(TOKEN)
    machine.passes(LIFETIME_S)
    sessions.begin(OTHER)
    kept = json.loads(machine.path.read_text())["sessions"]
    assert [one["token_sha256"] for one in kept] == [OTHER.hex()]


def test_the_file_is_its_owners_alone_and_holds_no_secret(machine: Machine) -> None:
    secret = machine.start().begin(TOKEN)
    assert stat.S_IMODE(machine.path.stat().st_mode) == 0o600
    assert secret not in machine.path.read_text()
    # What was left of a write that was cut short is no obstacle, whatever its mode.
    machine.path.with_suffix(".new").write_text("{")
    machine.path.with_suffix(".new").chmod(0o666)
    machine.start().begin(TOKEN)
    assert stat.S_IMODE(machine.path.stat().st_mode) == 0o600
    assert len(machine.start()) == 2


GOOD = {"sha256": "0" * 64, "token_sha256": "0" * 64, "ends": "2027-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    "written",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b'{"sessions": 1}',
        b'{"sessions": []' + b" " * 5_000_000 + b"}",
        json.dumps({"sessions": [GOOD | {"sha256": "0"}]}).encode(),
        json.dumps({"sessions": [GOOD | {"ends": "2027-01-01T00:00:00"}]}).encode(),
        json.dumps({"sessions": [GOOD | {"ends": "0001-01-01T00:00:00+14:00"}]}).encode()[:-1],
        json.dumps({"sessions": [GOOD | {"name": "me"}]}).encode(),
    ],
)
def test_a_broken_file_is_told_and_written_anew(
    machine: Machine, caplog: pytest.LogCaptureFixture, written: bytes
) -> None:
    machine.path.write_bytes(written)
    sessions = machine.start()
    assert len(sessions) == 0
    assert "sessions.json cannot be used" in caplog.text
    secret = sessions.begin(TOKEN)
    assert machine.start().find(secret) == TOKEN


def test_ends_at_the_ends_of_time_are_no_trouble(machine: Machine) -> None:
    ends = ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"]
    kept = [GOOD | {"sha256": f"{n:064x}", "ends": end} for n, end in enumerate(ends)]
    machine.path.write_text(json.dumps({"sessions": kept}))
    assert len(machine.start()) == 1


def test_more_than_there_may_be_are_not_taken(machine: Machine) -> None:
    kept = [GOOD | {"sha256": f"{n:064x}", "token_sha256": f"{n % 2:064x}"} for n in range(30)]
    machine.path.write_text(json.dumps({"sessions": kept}))
    assert len(machine.start(of_token=4)) == 8
    assert len(machine.start(most=5)) == 5


def test_a_directory_that_cannot_be_written_is_told_once_and_harms_nobody(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    machine.path.mkdir()
    sessions = machine.start()
    first, second = sessions.begin(TOKEN), sessions.begin(TOKEN)
    assert sessions.find(first) == sessions.find(second) == TOKEN
    assert caplog.text.count("cannot be written") == 1


def restarted(world: ServedApi, directory: Path) -> None:
    """Let another process take over."""
    file = SessionFile(directory / session_file.NAME, lambda: world.now)
    rate: Any = world.api.settings.rate
    world.api.access = Access(
        *(world.api.tokens, rate, world.api.metrics.refused),
        *(lambda: world.now, lambda: world.clock_s, file),
    )


def test_who_is_signed_in_stays_so_unless_the_token_is_revoked_meanwhile(tmp_path: Path) -> None:
    world = ServedApi(tmp_path)
    restarted(world, tmp_path)
    reader, operator = (cookie(sign_in(world, name)) for name in ("reader", "operator"))
    lines = world.tokens.read_text().splitlines(keepends=True)
    world.tokens.write_text("".join(line for line in lines if "name: reader" not in line))
    assert world.api.tokens.follow()
    restarted(world, tmp_path)
    assert world.ask("/v1/session", name="", headers=operator).json()["name"] == "operator"
    assert world.ask("/v1/session", name="", headers=reader).json() == NOBODY
    assert "not known" in world.problem(401, "/v1/ports", name="", headers=reader)
