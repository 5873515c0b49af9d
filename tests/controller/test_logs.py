"""The log: what it is about stands in one form, repeats are counted, nothing breaks a line."""

import io
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.ops import logs
from controller.ops.logs import about

LOG = logging.getLogger("weir.session")


class CapturedLog:
    """A log whose lines and whose clock the test has."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.stream = io.StringIO()

    def configure(self, level: str = "info", *, as_json: bool = False, **levels: str) -> None:
        logs.configure(self.stream, level, levels, as_json, lambda: self.now_s)

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()


@pytest.fixture
def world() -> Iterator[CapturedLog]:
    root, ours = logging.getLogger(), logging.getLogger("weir")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    root.handlers = []
    yield CapturedLog()
    for name in list(logging.Logger.manager.loggerDict):
        if name.startswith("weir."):
            logging.getLogger(name).setLevel(logging.NOTSET)
    root.handlers = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


def test_a_line_names_what_it_is_about(world: CapturedLog) -> None:
    world.configure()
    LOG.warning("notice %d is late", 5, extra=about(switch=1, port=3))
    LOG.info("nothing in particular")
    first, second = world.lines
    assert first.endswith(" WARNING weir.session: switch=0000000000000001 port=3 notice 5 is late")
    assert second.endswith(" INFO    weir.session: nothing in particular")


def test_the_same_as_json(world: CapturedLog) -> None:
    world.configure(as_json=True)
    try:
        raise ValueError("no\nway")
    except ValueError:
        LOG.exception("failed", extra=about(flow="10.0.0.1:5>10.0.0.2:80"))
    (line,) = world.lines
    told = json.loads(line)
    assert told["level"] == "error"
    assert told["component"] == "weir.session"
    assert told["message"] == "failed"
    assert told["flow"] == "10.0.0.1:5>10.0.0.2:80"
    assert "ValueError: no\nway" in told["exception"]
    assert told["time"].endswith("+00:00")


def test_components_have_levels_of_their_own(world: CapturedLog) -> None:
    world.configure("warning", session="debug")
    LOG.debug("seen")
    logging.getLogger("weir.app").info("not seen")
    logging.getLogger("ryu").info("not seen")
    assert len(world.lines) == 1
    # What is configured anew is not added to what was before.
    world.configure("warning")
    LOG.debug("not seen")
    assert len(world.lines) == 1


def test_repeats_are_counted(world: CapturedLog) -> None:
    world.configure()
    for number in range(100):
        LOG.warning("refused %d", number, extra=about(switch=1))
        LOG.warning("refused %d", number, extra=about(switch=2))
    assert len(world.lines) == 10
    world.now_s += 11
    LOG.warning("something else")
    assert [line.partition("weir.session: ")[2] for line in world.lines[10:]] == [
        "switch=0000000000000001 refused 99 (and 95 more like it were left out)",
        "switch=0000000000000002 refused 99 (and 95 more like it were left out)",
        "something else",
    ]
    LOG.warning("refused %d", 100, extra=about(switch=1))
    assert world.lines[-1].endswith("switch=0000000000000001 refused 100")


def test_what_was_left_out_is_told_in_the_end(world: CapturedLog) -> None:
    world.configure()
    for _ in range(7):
        LOG.warning("again")
    logging.getLogger().handlers[0].close()
    assert world.lines[-1].endswith("again (and 2 more like it were left out)")


def test_whoever_debugs_sees_everything(world: CapturedLog) -> None:
    world.configure("debug")
    for _ in range(20):
        LOG.debug("again")
    assert len(world.lines) == 20


def test_last_words_are_never_left_out(world: CapturedLog) -> None:
    world.configure()
    for _ in range(20):
        LOG.critical("the end")
    assert len(world.lines) == 20


def test_kinds_do_not_pile_up(world: CapturedLog) -> None:
    world.configure()
    for switch in range(5000):
        LOG.warning("refused", extra=about(switch=switch))
    (handler,) = logging.getLogger().handlers
    assert isinstance(handler, logs.Handler)
    assert len(handler._kinds) <= 1024


@given(st.text(), st.text())
def test_nobody_else_begins_a_line(message: str, flow: str) -> None:
    record = logging.makeLogRecord({"msg": message, "name": "weir.x", **about(flow=flow)})
    assert len(logs.TextFormatter().format(record).splitlines()) == 1
    told = json.loads(logs.JsonFormatter().format(record))
    assert (told["message"], told["flow"]) == (message, flow)


@pytest.mark.usefixtures("world")
def test_a_journal_is_told_the_priority(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "journal").open("w+") as stream:
        at = os.fstat(stream.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{at.st_dev}:{at.st_ino}")
        logs.configure(stream, "info", {}, False, lambda: 0.0)
        LOG.error("gone", extra=about(switch=3))
        stream.seek(0)
        assert stream.read() == "<3>weir.session: switch=0000000000000003 gone\n"
