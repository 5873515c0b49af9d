"""The audit log: what it keeps, for how long, and what it does with files that are not its own."""

import errno
import json
import logging
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controller.northbound.views import AuditEntryView
from controller.runtime import audit_file
from controller.runtime.audit_log import AuditLog, Do


class Log:
    """An audit log whose clock goes on by a second with each entry."""

    def __init__(self, path: Path | None, most_bytes: int = 1000, *do: Do) -> None:
        self.now_s = 1.7e9
        self.path = path
        self.log = AuditLog(path, lambda: self.now_s, most_bytes, *do)

    def add(self, by: str = "me", detail: str = "") -> bool:
        """Returns whether it is in the file."""
        self.now_s += 1
        entry = self.log.add("off", by, detail=detail)
        assert entry["at_s"] == self.now_s
        if self.path is None or not self.path.is_file():
            return False
        whole = [line for line in self.path.read_text().splitlines() if line.endswith("}")]
        return any(f'"id":"{entry["id"]}"' in line for line in whole)

    def path_bytes(self) -> bytes:
        assert self.path is not None
        return self.path.read_bytes()

    def entries(self, limit: int = 1000, before: str | None = None) -> list[AuditEntryView]:
        return list(self.log.page(limit, before).entries)

    def ids(self) -> list[int]:
        return [int(entry["id"]) for entry in self.entries()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def test_entries_are_told_newest_first_and_by_the_page(path: Path) -> None:
    log = Log(path, 10**6)
    assert log.log.page(5, None)[1] is None
    for number in range(12):
        assert log.add(f"user {number}")
    seen: list[AuditEntryView] = []
    before: str | None = None
    for n_shown, last in ((5, False), (5, False), (2, True)):
        page = log.log.page(5, before)
        shown, before = list(page.entries), page.next_before
        assert len(shown) == n_shown
        assert (before is None) is last
        seen += shown
    assert [entry["by"] for entry in seen] == [f"user {n}" for n in range(11, -1, -1)]
    assert seen == log.entries()
    assert log.entries(before="1") == []


def test_it_goes_on_after_a_restart(path: Path) -> None:
    log = Log(path)
    log.add()
    log.add(detail='quoted "text"\nof two lines')
    again = Log(path)
    assert again.entries() == log.entries()
    again.add()
    assert again.ids() == [3, 2, 1]
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ["1", "2", "3"]


def test_it_is_turned_over_and_one_former_file_is_kept(path: Path) -> None:
    log = Log(path)
    for _ in range(50):
        log.add()
    former = path.with_name("audit.jsonl.1")
    assert {one.name for one in path.parent.iterdir()} == {path.name, former.name}
    assert path.stat().st_size <= 1000
    assert 500 < former.stat().st_size <= 1000
    ids = log.ids()
    assert ids == list(range(50, 50 - len(ids), -1))
    assert Log(path).ids() == ids
    assert 10 < len(ids) < 30


def test_without_a_directory_it_ends_with_the_controller() -> None:
    log = Log(None)
    for _ in range(50):
        assert not log.add()
    ids = log.ids()
    assert ids[0] == 50
    assert 10 < len(ids) < 30


def test_what_is_no_entry_is_left_out_and_logged(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log(path)
    log.add()
    log.add()
    whole = path.read_text()
    nonsense = '{"id": "7"}\nnull\n\xff\n' + whole.splitlines()[0] + '\n{"id": "3", "at'
    path.write_text(whole + nonsense)
    caplog.set_level(logging.ERROR)
    again = Log(path)
    assert again.entries() == log.entries()
    assert "5 lines of the audit log" in caplog.text
    # The line that was torn off does not spoil the next one.
    assert again.add("after")
    assert Log(path).entries() == again.entries()
    assert again.entries()[0]["by"] == "after"


def test_a_file_that_cannot_be_used_stops_nobody(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.mkdir()
    log = Log(path)
    assert not log.add("me")
    assert log.entries()[0]["by"] == "me"
    assert "the audit log cannot be read" in caplog.text
    assert "the audit log is not kept: cannot write" in caplog.text
    path.rmdir()
    assert log.add()


@pytest.fixture
def full(path: Path) -> Iterator[Callable[[int], None]]:
    """Let no file be larger than the log is now, and so many bytes; -1 is no limit."""
    _, hard = limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(more: int) -> None:
        most = limits[0] if more < 0 else path.stat().st_size + more
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_what_a_full_disk_did_not_take_is_written_later(
    path: Path, full: Callable[[int], None]
) -> None:
    log = Log(path, 10**6)
    assert log.add("one")
    written = path.read_bytes()
    full(30)
    assert not log.add("two")
    assert not log.add("three")
    assert path.read_bytes() == written
    full(-1)
    assert log.add("four")
    again = Log(path)
    assert again.entries() == log.entries()
    assert [entry["by"] for entry in again.entries()] == ["four", "three", "two", "one"]


def test_entries_of_one_request_are_written_at_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(path, 10**6)
    flushed: list[int] = []
    monkeypatch.setattr("os.fsync", flushed.append)
    log.log.add_each("on", "me", [f"port {n}" for n in range(50)])
    assert len(flushed) == 1
    assert Log(path, 10**6).entries() == log.entries()
    assert [entry["detail"] for entry in log.entries(2)] == ["port 49", "port 48"]
    log.log.add_each("on", "me", [])
    assert len(flushed) == 1


def test_a_part_of_a_line_that_cannot_be_taken_back_spoils_no_other(
    path: Path, full: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "broken")

    log = Log(path, 10**6)
    log.add("one")
    full(30)
    with monkeypatch.context() as patched:
        patched.setattr(audit_file, "_take_back", refuse)
        assert not log.add("two")
    full(-1)
    assert log.add("three")
    assert Log(path).entries() == log.entries()


def test_a_file_that_is_full_is_turned_over_as_soon_as_that_is_possible(path: Path) -> None:
    log = Log(path)
    former = path.with_name("audit.jsonl.1")
    former.mkdir()
    kept = [log.add() for _ in range(40)]
    assert kept[0]
    assert not kept[-1]
    former.rmdir()
    assert log.add()
    assert former.is_file()
    assert Log(path).ids()[:5] == [41, 40, 39, 38, 37]
    assert path.stat().st_size < 2000


def test_a_page_has_an_end_whatever_its_entries(path: Path) -> None:
    log = Log(path, 10**9)
    for _ in range(5):
        log.add(detail="x" * 600_000)
    page = log.log.page(1000, None)
    assert len(list(page.entries)) == 2
    assert page.next_before == "4"
    assert len(log.entries(before="4")) == 2


def test_an_entry_that_was_lost_is_there_again(path: Path) -> None:
    log = Log(path)
    log.add()
    kept = log.log.add("settings", "ada")
    lost = {**kept, "id": "41"}
    log.log.restore(lost)  # type: ignore[arg-type]
    log.log.restore(kept)
    log.add()
    assert log.ids() == [42, 41, 2, 1]
    assert Log(path).entries() == log.entries()


class Later:
    """What is to be done in another thread, when the test says so."""

    def __init__(self) -> None:
        self.works: list[Callable[[], object]] = []

    def __call__(
        self, work: Callable[[], OSError | None], done: Callable[[OSError | None], object]
    ) -> None:
        self.works.append(lambda: done(work()))

    def go_on(self) -> None:
        works, self.works = self.works, []
        for work in works:
            work()


def test_whoever_adds_an_entry_does_not_wait_for_the_disk(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = Later()
    log = Log(path, 10**6, later)
    flushed: list[int] = []
    monkeypatch.setattr("os.fsync", flushed.append)
    assert [log.add(f"user {n}") for n in range(100)] == [False] * 100
    # It is told as if it was there.
    assert log.ids() == list(range(100, 0, -1))
    assert (flushed, path.exists()) == ([], False)
    later.go_on()
    assert len(flushed) == 1
    assert Log(path, 10**6).entries() == log.entries()
    log.add("one more")
    later.go_on()
    assert Log(path, 10**6).entries() == log.entries()


def test_what_waits_is_turned_over_where_it_is_due(path: Path) -> None:
    later, at_once = Later(), Log(path.with_name("peer.jsonl"))
    log = Log(path, 1000, later)
    for number in range(60):
        log.add()
        at_once.add()
        if number % 23 == 0:
            later.go_on()
    later.go_on()
    assert path.read_bytes() == at_once.path_bytes()
    assert Log(path).entries() == log.entries() == at_once.entries()


def test_a_disk_that_is_full_while_entries_wait(path: Path, full: Callable[[int], None]) -> None:
    later = Later()
    log = Log(path, 10**6, later)
    log.add("one")
    later.go_on()
    full(30)
    log.add("two")
    later.go_on()
    log.add("three")
    full(-1)
    assert [entry["by"] for entry in Log(path).entries()] == ["one"]
    later.go_on()
    assert [entry["by"] for entry in Log(path).entries()] == ["three", "two", "one"]
