"""Work in the background: in order, in another thread, and all of it before the end."""

from collections.abc import Iterator

import eventlet
import pytest
from eventlet import patcher, tpool

from controller.ops import background
from controller.ops.background import Background

threading = patcher.original("threading")


class Bench:
    """`answers` lets the disk answer."""

    def __init__(self) -> None:
        self.failures = 0
        self.answers = threading.Event()
        self.background = Background(self._fail)
        self.done: list[object] = []
        self.threads: list[int] = []

    def _fail(self) -> None:
        self.failures += 1

    def write(self, what: str) -> None:
        def work() -> str:
            self.threads.append(threading.get_ident())
            assert self.answers.wait(30)
            return what

        self.background.do(work, self.done.append)


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.answers.set()
    bench.background.close()
    tpool.killall()


def go_on() -> None:
    for _ in range(20):
        eventlet.sleep(0)


def test_green_threads_go_on_while_it_waits_for_a_disk(bench: Bench) -> None:
    words = [f"line {number}" for number in range(50)]
    for word in words:
        bench.write(word)
    go_on()
    assert bench.done == []
    bench.answers.set()
    # Whoever ends it waits for all of it.
    bench.background.close()
    assert bench.done == words
    assert threading.get_ident() not in bench.threads


def test_a_disk_that_never_answers_holds_nobody_up_for_ever(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "_MOST_CLOSE_S", 0.05)
    bench.write("lost")
    bench.background.close()
    assert bench.done == []
    assert "what was to be written is lost" in caplog.text


@pytest.mark.parametrize("where", ["work", "done"])
def test_a_failure_ends_the_controller(bench: Bench, where: str) -> None:
    bench.answers.set()

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    if where == "work":
        bench.background.do(fail, bench.done.append)
    else:
        bench.background.do(lambda: None, fail)
    bench.background.close()
    assert bench.failures == 1
