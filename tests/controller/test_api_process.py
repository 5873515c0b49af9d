"""The API's process is started again, also when the machine refuses to start one."""

import errno
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from controller.api.settings import Lines
from controller.config.sections.log import Log
from controller.config.sections.northbound import Northbound
from controller.runtime import api_process


class FakeChild:
    """A process that keeps what it is told, until it is told to `fail` at a line."""

    def __init__(self) -> None:
        self.stdin = self
        self.told: list[dict[str, Any]] = []
        self.returncode: int | None = None

    def write(self, line: bytes) -> None:
        if self.returncode is not None:
            raise BrokenPipeError
        self.told.append(json.loads(line))

    def flush(self) -> None:
        pass

    close = flush

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float) -> None:
        pass


def test_how_to_log_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    process = api_process.ApiProcess(Northbound(), Log(level="warning"))
    children: list[FakeChild] = []

    def start(*_: Any, **__: Any) -> FakeChild:
        children.append(FakeChild())
        return children[-1]

    def steps() -> Iterator[None]:
        yield
        process.log_as(Log(level="warning", levels={"northbound": "debug"}, format="json"))
        yield
        # What does not concern the process.
        process.log_as(Log(level="error", levels={"northbound": "debug"}, format="json"))
        yield
        process.log_as(Log(level="error"))
        children[0].returncode = 1
        yield
        # Between two of them.
        yield
        process.stop()
        yield

    step = steps()
    monkeypatch.setattr(api_process, "Popen", start)
    process.run(lambda _: next(step))
    process.close()
    first, second = children
    assert first.told[0]["log"] == {"level": "warning", "as_json": False}
    assert first.told[1:] == [{"level": "debug", "as_json": True}]
    assert [told["log"] for told in second.told] == [{"level": "error", "as_json": False}]


def test_lines_are_read_whole_whenever_they_come() -> None:
    reading, writing = os.pipe()
    lines = Lines(reading)
    for written, whole in ((b"on", []), (b"e\ntwo\nth", [b"one", b"two"]), (b"ree\n", [b"three"])):
        os.write(writing, written)
        assert lines.wait()
        assert list(lines) == whole
    os.close(writing)
    assert not lines.wait()
    os.close(reading)


def test_a_process_that_cannot_be_started_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    process = api_process.ApiProcess(Northbound(), Log())
    pauses_s: list[float] = []

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EAGAIN, "no more processes")

    def sleep(seconds: float) -> None:
        pauses_s.append(seconds)
        if len(pauses_s) == 2:
            process.stop()

    monkeypatch.setattr(api_process, "Popen", refuse)
    process.run(sleep)
    process.close()
    assert pauses_s == [1, 2]
    assert "could not be started: no more processes" in caplog.text
