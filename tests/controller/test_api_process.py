"""The API's process is started again, also when the machine refuses to start one."""

import errno
from typing import Any

import pytest

from controller.config.sections.log import Log
from controller.config.sections.northbound import Northbound
from controller.runtime import api_process


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
