"""What `weir-controller check` finds beyond the file itself."""

import os
import socket
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certificates import Authority
from controller.api.access.tokens import Scope, line, make
from controller.config import reading
from controller.config.errors import ConfigError
from controller.config.readiness import Report, inspect

NOW = datetime.now(UTC)
DAY = timedelta(days=1)


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that every user may enter."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


class Setup:
    """A configuration with everything, all of it good for 30 days."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.pair = self.authority.issue("c1")
        self.crl = self.authority.revoke()
        self.tokens = folder / "tokens.yaml"
        self.tokens.write_text("tokens:\n")
        self.add_token("dashboard", 90 * DAY)
        for secret in (self.pair.key, self.tokens):
            secret.chmod(0o600)
        self.page = folder
        (folder / "index.html").write_text("the page")
        self.events = folder / "events.jsonl"
        self.port = free_port()
        # Certificates begin in the second in which they were made.
        self.now = datetime.now(UTC) + timedelta(seconds=1)

    def add_token(self, name: str, good_for: timedelta) -> None:
        _, token = make(name, frozenset({Scope.READ}), NOW + good_for)
        with self.tokens.open("a") as file:
            file.write(line(token) + "\n")

    def inspect(self, now: datetime | None = None, user: str | None = None) -> Report:
        pair = self.pair
        config = reading.parse(
            f"openflow: {{listen: 'ssl:127.0.0.1:{self.port}'}}\n"
            f"tls: {{key: {pair.key}, certificate: {pair.certificate},"
            f" ca: {self.authority.certificate}, crl: {self.crl}}}\n"
            f"northbound: {{api: {{tokens: {self.tokens}, page: {self.page},"
            f" listen: '127.0.0.1:{free_port()}'}}}}\n"
            f"log: {{events: {self.events}}}\n"
        )
        return inspect(config, now or self.now, user)


@pytest.fixture
def setup(folder: Path) -> Setup:
    return Setup(folder)


def test_nothing_is_found_where_nothing_is_wrong(setup: Setup) -> None:
    assert setup.inspect(NOW + DAY) == Report([], [])


class TestHowLong:
    def test_what_ends_within_two_weeks_is_a_warning(self, setup: Setup) -> None:
        setup.add_token("old", 20 * DAY)
        found = setup.inspect(NOW + 17 * DAY)
        assert found.problems == []
        told = "\n".join(found.warnings)
        assert "tls.certificate: certificate CN=c1 of" in told
        assert "tls.ca: certificate CN=ca of" in told
        assert "tls.crl: crl CN=ca of" in told
        assert "northbound.api.tokens: token old of" in told
        assert "dashboard" not in told
        assert len(found.warnings) == 4

    def test_what_has_ended_is_a_problem(self, setup: Setup) -> None:
        setup.pair = setup.authority.issue("c2", days=-1)
        setup.pair.key.chmod(0o600)
        setup.add_token("old", -DAY)
        found = setup.inspect()
        assert len(found.problems) == 2
        assert "tls.certificate: certificate CN=c2 of" in found.problems[0]
        assert "has been good until" in found.problems[0]
        assert "token old of" in found.problems[1]

    def test_a_revocation_list_that_has_ended_is_a_problem(self, setup: Setup) -> None:
        found = setup.inspect(NOW + 31 * DAY)
        assert any(problem.startswith("tls.crl: crl CN=ca of") for problem in found.problems)

    def test_what_is_not_good_yet_asks_for_the_clock(self, setup: Setup) -> None:
        found = setup.inspect(NOW - 365 * DAY)
        assert "is not good before" in found.problems[0]
        assert "is the clock right?" in found.problems[0]


class TestWhoMay:
    def test_secrets_that_everybody_may_read_are_warned_of(self, setup: Setup) -> None:
        setup.pair.key.chmod(0o644)
        setup.tokens.chmod(0o666)
        found = setup.inspect()
        assert found.problems == []
        first, second = found.warnings
        assert first.startswith(f"tls.key: everybody on this machine may read {setup.pair.key}")
        assert second.startswith("northbound.api.tokens: everybody on this machine may read")

    def test_what_everybody_may_write_is_warned_of(self, setup: Setup) -> None:
        setup.authority.certificate.chmod(0o666)
        (warning,) = setup.inspect().warnings
        assert warning.startswith("tls.ca: everybody on this machine may write")

    def test_a_page_that_is_not_there_is_a_problem(self, setup: Setup) -> None:
        setup.page = setup.folder / "none"
        (problem,) = setup.inspect().problems
        assert problem == (
            f"northbound.api.page: {setup.page}/index.html cannot be read: No such file or "
            "directory; name what dashboards/web/build --prefix prints"
        )

    @pytest.mark.skipif(os.geteuid() != 0, reason="looks as another user")
    def test_files_are_looked_at_as_the_service_would_see_them(self, setup: Setup) -> None:
        found = setup.inspect(user="nobody")
        told = "\n".join(found.problems)
        assert (
            f"tls.key: {setup.pair.key} cannot be read by nobody; it is of root, mode 0600" in told
        )
        assert f"northbound.api.tokens: {setup.tokens} cannot be read by nobody" in told
        assert f"log.events: {setup.events} cannot be written: Permission denied" in told
        assert len(found.problems) == 3
        for path in (setup.pair.key, setup.tokens):
            os.chown(path, 65_534, 65_534)
        setup.folder.chmod(0o777)
        assert setup.inspect(user="nobody").problems == []

    @pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
    def test_only_root_may_look_as_another(self, setup: Setup) -> None:
        os.seteuid(65_534)
        try:
            with pytest.raises(ConfigError, match="only root can look as daemon"):
                setup.inspect(user="daemon")
        finally:
            os.seteuid(0)

    def test_a_user_that_is_not_there_is_told(self, setup: Setup) -> None:
        with pytest.raises(ConfigError, match="there is no user wier"):
            setup.inspect(user="wier")


class TestWhere:
    def test_a_directory_that_is_not_there_is_a_problem(self, setup: Setup) -> None:
        setup.events = setup.folder / "none" / "events.jsonl"
        (problem,) = setup.inspect().problems
        assert problem.startswith(f"log.events: there is no directory {setup.folder}/none; make it")

    def test_files_that_are_not_there_are_problems_all_at_once(self, setup: Setup) -> None:
        setup.crl.unlink()
        setup.tokens.unlink()
        found = setup.inspect()
        assert sorted(problem.partition(":")[0] for problem in found.problems) == [
            "northbound.api.tokens",
            "tls.crl",
        ]

    def test_a_token_file_that_cannot_be_used_is_a_problem(self, setup: Setup) -> None:
        setup.tokens.write_text("tokens: [{name: a}]\n")
        (problem,) = setup.inspect().problems
        assert "northbound.api.tokens" in problem
        assert "sha256: Field required" in problem

    def test_an_address_that_is_taken_is_warned_of(self, setup: Setup) -> None:
        with socket.create_server(("127.0.0.1", setup.port)):
            (warning,) = setup.inspect().warnings
        assert warning.startswith(f"openflow.listen: something listens on 127.0.0.1:{setup.port}")

    def test_an_address_that_is_not_of_this_machine_is_warned_of(self) -> None:
        config = reading.parse("openflow: {listen: 'tcp:192.0.2.1:6653'}")
        (warning,) = inspect(config, NOW).warnings
        assert warning.startswith("openflow.listen: cannot listen on 192.0.2.1:6653")
