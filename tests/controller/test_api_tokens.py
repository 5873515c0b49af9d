"""Tokens: made, kept as digests, checked, followed in their file."""

import grp
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from controller.api.access.limits import RateLimit
from controller.api.access.tokens import RefusedError, Scope, TokenError, Tokens, line, make, read
from controller.cli import commands

NOW = datetime(2026, 11, 1, tzinfo=UTC)
READ, BOTH = frozenset({Scope.READ}), frozenset(Scope)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens.yaml"


def test_a_token_is_good_for_its_scopes_until_it_expires(file: Path) -> None:
    secret, made = make("a", READ, NOW + timedelta(days=1))
    file.write_text("tokens:\n" + line(made) + "\n")
    tokens = Tokens(file)
    assert tokens.check(secret, Scope.READ, NOW).name == "a"
    for shown, scope, now, reason in (
        (secret, Scope.ANNOUNCE, NOW, "scope"),
        (secret, Scope.READ, NOW + timedelta(days=1), "expired"),
        (secret + "x", Scope.READ, NOW, "unknown"),
        ("\udc80", Scope.READ, NOW, "unknown"),
        ("", Scope.READ, NOW, "unknown"),
        (None, Scope.READ, NOW, "missing"),
    ):
        with pytest.raises(RefusedError) as refused:
            tokens.check(shown, scope, now)
        assert refused.value.reason == reason
    assert secret not in file.read_text()


def test_a_file_is_followed_and_a_bad_one_changes_nothing(file: Path) -> None:
    first, made = make("a", READ, None)
    second, other = make("b", BOTH, None)
    file.write_text("tokens:\n" + line(made) + "\n")
    tokens = Tokens(file)
    assert not tokens.follow()
    file.write_text("tokens:\n" + line(other) + "\n")
    assert tokens.follow()
    assert tokens.check(second, Scope.ANNOUNCE, NOW).name == "b"
    with pytest.raises(RefusedError):
        tokens.check(first, Scope.READ, NOW)
    file.write_text("tokens: [")
    with pytest.raises(TokenError):
        tokens.follow()
    assert tokens.check(second, Scope.ANNOUNCE, NOW).name == "b"
    file.unlink()
    with pytest.raises(TokenError):
        tokens.follow()


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("tokens: [{name: a}]", "tokens.0.sha256: Field required"),
        ("tokens: [{name: a, sha256: 5, scopes: [read]}]", "tokens.0.sha256"),
        (f"tokens: [{{name: a, sha256: {'a' * 64}, scopes: []}}]", "tokens.0.scopes"),
        (f"tokens: [{{name: a, sha256: {'a' * 64}, scopes: [write]}}]", "tokens.0.scopes"),
        (f"tokens: [{{name: a b, sha256: {'a' * 64}, scopes: [read]}}]", "tokens.0.name"),
        (
            f"tokens: [{{name: a, sha256: {'a' * 64}, scopes: [read], expires: 2027-01-01}}]",
            "tokens.0.expires",
        ),
        ("words: []", "words: Extra inputs"),
        ("- a", "Input should be"),
        ("\t", "is no YAML"),
        ("tokens: [{expires: 2027-02-30}]", "day is out of range for month"),
        ("[" * 10_000, "is no YAML: maximum recursion depth"),
        (b"\xff", "codec can't decode"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(file: Path, written: str | bytes, says: str) -> None:
    file.write_bytes(written if isinstance(written, bytes) else written.encode())
    with pytest.raises(TokenError) as error:
        read(file)
    assert str(file) in str(error.value)
    assert says in str(error.value)


def test_no_name_twice(file: Path) -> None:
    lines = [line(make("a", READ, None)[1]) for _ in range(2)]
    file.write_text("tokens:\n" + "\n".join(lines))
    with pytest.raises(TokenError, match="a stands more than once"):
        read(file)


class TestCommand:
    def test_it_makes_tokens_that_work(
        self, file: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert commands.run(["token", str(file), "a"]) == 0
        secret = capsys.readouterr().out.strip()
        arguments = ["token", str(file), "b", "--scope", "announce", "--scope", "read"]
        assert commands.run([*arguments, "--days", "1", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        now = datetime.now(UTC)
        tokens = Tokens(file)
        assert tokens.check(secret, Scope.READ, now + timedelta(days=89)).name == "a"
        assert tokens.check(told["token"], Scope.ANNOUNCE, now).name == "b"
        with pytest.raises(RefusedError):
            tokens.check(told["token"], Scope.READ, now + timedelta(days=2))

    def test_a_new_file_is_for_its_owner_and_the_service(
        self, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert commands.run(["token", str(file), "a"]) == 0
        assert file.stat().st_mode & 0o777 in (0o600, 0o640)
        file.unlink()
        mine = grp.getgrgid(os.getegid())
        monkeypatch.setattr(grp, "getgrnam", {"weir": mine}.__getitem__)
        assert commands.run(["token", str(file), "a"]) == 0
        assert (file.stat().st_mode & 0o777, file.stat().st_gid) == (0o640, mine.gr_gid)

    @pytest.mark.skipif(os.geteuid() != 0, reason="changes the owner of a file")
    def test_a_file_keeps_its_owner_and_mode(self, file: Path) -> None:
        assert commands.run(["token", str(file), "a"]) == 0
        os.chown(file, 65_534, 65_533)
        file.chmod(0o644)
        assert commands.run(["token", str(file), "b"]) == 0
        status = file.stat()
        assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (65_534, 65_533, 0o644)

    def test_a_directory_that_is_not_there_is_told(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert commands.run(["token", str(tmp_path / "none" / "tokens.yaml"), "a"]) == 2
        assert f"there is no directory {tmp_path}/none" in capsys.readouterr().err

    def test_it_says_what_it_cannot_do(
        self, file: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert commands.run(["token", str(file), "a"]) == 0
        before = file.read_text()
        assert commands.run(["token", str(file), "a"]) == 2
        assert "has a token a" in capsys.readouterr().err
        assert commands.run(["token", str(file), "a b"]) == 2
        assert "NAME:" in capsys.readouterr().err
        assert file.read_text() == before
        file.write_text("tokens: []\n")
        assert commands.run(["token", str(file), "c"]) == 2
        assert "add this line" in capsys.readouterr().err
        assert file.read_text() == "tokens: []\n"
        assert commands.run(["token", str(file / "x"), "c"]) == 2
        assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_rate_is_kept_and_bursts_are_bounded() -> None:
    now = 0.0
    limit = RateLimit(10.0, lambda: now)
    assert sum(limit.wait_s("a") == 0 for _ in range(100)) == 20
    assert limit.wait_s("a") == pytest.approx(0.1)
    assert limit.wait_s("b") == 0
    now = 1.0
    assert sum(limit.wait_s("a") == 0 for _ in range(100)) == 10
    for key in range(20_000):
        limit.wait_s(key)
    assert len(limit._buckets) <= 10_000
