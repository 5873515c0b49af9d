"""What soaks of unmodified programs share: each program's check fails where it has to."""

import asyncio
import hashlib
import json
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments.soak.programs import iperf, keys, passing, ssh
from experiments.soak.programs.http import File, difference
from experiments.soak.programs.judging import panic
from experiments.soak.programs.keys import Keeper, Value, fault_of
from experiments.soak.programs.passing import Task
from experiments.soak.programs.postgres import Balance
from experiments.soak.programs.work import CheckError, Tally, Times, Worker


def test_a_panic_is_found_in_the_log() -> None:
    log = "a line\n\nthread 'atp' (99) panicked at src/outgoing.rs:38:37:\nno entry found for key\n"
    assert panic(log) == (
        "thread 'atp' (99) panicked at src/outgoing.rs:38:37: no entry found for key"
    )
    assert panic("h2:4880 is gone: silence\n") is None


@pytest.mark.parametrize(
    ("received", "complaint"),
    [
        (b"0123456789", None),
        (b"0123x56789", "original: 10 bytes came of 10; 1 bytes differ, the first at 4"),
        (b"01234", "original: 5 bytes came of 10; all that came is right"),
        (b"0123456789!", "original: 11 bytes came of 10; all that came is right"),
        (None, "original: there is no file"),
    ],
)
def test_a_file_is_right_to_the_last_byte(
    received: bytes | None, complaint: str | None, tmp_path: Path
) -> None:
    content = b"0123456789"
    (tmp_path / "original").write_bytes(content)
    wanted = File(tmp_path / "original", len(content), hashlib.sha256(content).hexdigest())
    if received is not None:
        (tmp_path / "received").write_bytes(received)
    assert difference(tmp_path / "received", wanted) == complaint


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({}, None),
        ({"accounts": 8}, "balances differ: accounts, tellers, branches and history have (8, 7"),
        ({"history": 6}, "balances differ"),
        ({"rows": 99}, "the history has 99 transactions, pgbench has done 100"),
        ({"reported": 99}, "the history has 100 transactions, pgbench has done 99"),
    ],
)
def test_an_account_that_does_not_balance_is_told(
    changes: dict[str, int], complaint: str | None
) -> None:
    fault = replace(Balance(7, 7, 7, 7, 100, 100), **changes).fault
    assert fault == complaint if complaint is None else (fault or "").startswith(complaint)


def test_a_key_has_what_was_acknowledged() -> None:
    value = Value(1000, 3)
    content = value.content("k")
    assert fault_of("k", value, content) is None
    assert fault_of("k", None, None) is None
    assert fault_of("k", value, None) == "k is lost: 1000 bytes were acknowledged"
    assert fault_of("k", None, b"") == "k was deleted, and is there"
    altered = content[:99] + bytes([content[99] ^ 1]) + content[100:]
    assert fault_of("k", value, altered) == (
        "k is altered: 1000 bytes of 1000, the first other one at 99"
    )
    assert fault_of("k", Value(1000, 2), content) is not None
    assert keys.restored(json.loads(json.dumps(keys.stored({"k": value, "l": None})))) == {
        "k": value,
        "l": None,
    }


class Server:
    """A redis that forgets, alters or takes back what it has acknowledged, once in 50 times."""

    def __init__(self, flaw: str | None) -> None:
        self._flaw = flaw
        self._values: dict[bytes, bytes] = {}
        self._asked = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                count = int((await reader.readuntil(b"\r\n"))[1:])
                words = []
                for _ in range(count):
                    size = int((await reader.readuntil(b"\r\n"))[1:])
                    words.append((await reader.readexactly(size + 2))[:-2])
                writer.write(self._answer(*words))
                await writer.drain()
        except (EOFError, ConnectionError):
            writer.close()

    def _answer(self, command: bytes, key: bytes, *rest: bytes) -> bytes:
        self._asked += 1
        now = self._asked % 50 == 0
        values = self._values
        if command == b"SET":
            values[key] = rest[0]
            if now and self._flaw == "forgets":
                del values[key]
            if now and self._flaw == "alters":
                values[key] += b"!"
            return b"+OK\r\n"
        if command == b"DEL":
            return b":%d\r\n" % (values.pop(key, None) is not None)
        if command == b"INCR":
            values[key] = str(int(values.get(key, b"0")) + 1).encode()
            return b":%s\r\n" % values[key]
        value = values.get(key)
        if now and self._flaw == "breaks off":
            return b"what?\r\n"
        return b"$-1\r\n" if value is None else b"$%d\r\n%s\r\n" % (len(value), value)


@pytest.mark.parametrize(
    ("flaw", "complaint"),
    [
        (None, None),
        ("forgets", "is lost"),
        ("alters", "is altered"),
        ("breaks off", "no answer of redis"),
    ],
)
def test_a_server_that_does_not_keep_its_word_is_found(
    flaw: str | None, complaint: str | None
) -> None:
    counts: Counter[str] = Counter()
    faults: list[str] = []

    async def keep() -> None:
        server = await asyncio.start_server(Server(flaw).serve, "127.0.0.1", 0, limit=1 << 20)
        _, port = server.sockets[0].getsockname()
        stop = asyncio.Event()
        keeper = Keeper("k0", 1, counts, faults)
        kept = asyncio.create_task(keeper.keep("127.0.0.1", port, stop))
        async with asyncio.timeout(30):
            while counts["gets"] < 200 and not faults:
                await asyncio.sleep(0.01)
            stop.set()
            await kept
        server.close()

    asyncio.run(keep())
    if complaint is None:
        assert faults == []
        assert counts["kept"] > 50
    else:
        assert complaint in faults[0]


def test_a_worker_that_fails_is_a_fault_and_goes_on() -> None:
    tally = Tally()

    class Stopped:
        """Set after two steps; nobody waits."""

        steps = 0

        def is_set(self) -> bool:
            return self.steps == 2

        def wait(self, _seconds: float) -> None:
            pass

    stopped = Stopped()

    def step() -> None:
        stopped.steps += 1
        raise CheckError("it differs") if stopped.steps == 1 else ValueError("odd")

    Worker("curl0", step, tally, stopped).run()  # type: ignore[arg-type]
    assert tally.faults() == ["curl0: it differs", "curl0: ValueError: odd"]
    assert tally.counts()["faults"] == 2


def session(code: str, tmp_path: Path) -> ssh.Session:
    """A program of ours in the place of ssh; ``read`` and ``write`` are of a few bytes."""
    means = (
        "import os, sys, time\n"
        "read, write = lambda: os.read(0, 4096), lambda what: os.write(1, what)\n"
    )
    return ssh.Session([sys.executable, "-c", means + code], tmp_path / "log")


def test_a_session_gives_back_what_is_written(tmp_path: Path) -> None:
    with session("while got := read():\n for byte in got: write(bytes([byte]))", tmp_path) as one:
        assert 0 < one.ask(b"first") < 10
        one.ask(bytes(range(200)))
        one.end()


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("read(); write(b'fir5t'); read()", "b'first' came back as b'fir5t'"),
        ("read(); write(b'first!'); read()", "b'first' came back as b'first!'"),
        ("read(); write(b'fir'); time.sleep(60)", "no answer after 2 s"),
        ("read(); sys.exit('closed by 10.0.0.2')", "the session has ended: closed by 10.0.0.2"),
        ("write(read()); time.sleep(0.2); sys.exit('lost')", "ended with status 1: lost"),
        ("write(read()); read(); write(b'more')", "b'more' came at the end"),
    ],
)
def test_a_session_that_does_not_is_found(code: str, complaint: str, tmp_path: Path) -> None:
    with session(code, tmp_path) as one, pytest.raises(CheckError) as found:
        one.ask(b"first", patience_s=2 if "sleep(60)" in code else 50)
        one.end()
    assert complaint in str(found.value)


@pytest.mark.parametrize("late_s", [0.0, 0.2])
def test_an_answer_that_is_late_is_a_fault(
    late_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "STALL_S", 0.1 if late_s else 60.0)
    code = (
        f"import os, time\nwhile got := os.read(0, 4096):\n time.sleep({late_s}); os.write(1, got)"
    )
    tally, stopped = Tally(), threading.Event()
    typist = ssh.Typist("stay", [sys.executable, "-c", code], tmp_path / "log", tally, stopped, "1")
    thread = threading.Thread(target=typist.stay)
    thread.start()
    while tally.counts()["stay.answers"] < 2:
        time.sleep(0.01)
    stopped.set()
    thread.join()
    counts = tally.counts()
    assert counts["stay.sessions"] == counts["stay.ended"] == 1
    assert counts["stay.echoed_bytes"] >= counts["stay.answers"]
    assert typist.answers.figures()["count"] == counts["stay.answers"]
    assert [": an answer took 0." in fault for fault in tally.faults()] == [True] * (
        counts["stay.answers"] if late_s else 0
    )


def reported(*bytes_of_intervals: int, short: int = 0) -> dict[str, Any]:
    """What iperf3 reports of a stream, whose last interval is short."""
    streams = [(1.0, count) for count in bytes_of_intervals] + [(0.01, short)]
    return {
        "intervals": [
            {"streams": [{"socket": 5, "sender": True, "seconds": seconds, "bytes": count}]}
            for seconds, count in streams
        ],
        "end": {"sum_received": {"bytes": sum(bytes_of_intervals)}},
    }


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (reported(9, 9, 0, 9), None),
        (reported(9, 0, 9, 0), None),
        (reported(9, 0, 0, 9), "up: not a byte in 2 intervals of a second"),
        (reported(0, 0, 0), "up: not a byte in 3 intervals of a second"),
        ({"error": "unable to connect"}, "up: unable to connect"),
    ],
)
def test_a_bulk_transfer_that_stands_still_is_found(
    said: dict[str, Any], complaint: str | None, tmp_path: Path
) -> None:
    tally = Tally()
    bulk = iperf.Bulk("10.0.0.2", 1, tmp_path, tally, 1, 20.0, threading.Event())
    if complaint is None:
        bulk.take("up", said)
        counts = tally.counts()
        assert (counts["iperf3.intervals"], counts["iperf3.runs"]) == (4, 1)
        assert counts["iperf3.carried"] == 9 * len(
            [0 for one in said["intervals"][:-1] if one["streams"][0]["bytes"]]
        )
    else:
        with pytest.raises(CheckError) as found:
            bulk.take("up", said)
        assert str(found.value) == complaint


def test_times_are_summed_up() -> None:
    times = Times()
    assert times.figures() == {}
    for count in range(1, 1001):
        times.add(count / 1000)
    assert times.figures() == {
        "count": 1000, "p50_ms": 500.0, "p99_ms": 990.0, "p99.9_ms": 999.0, "longest_ms": 1000.0,
    }  # fmt: skip


def test_time_passes_and_what_is_due_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(passing.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(passing.time, "sleep", lambda s: now.__setitem__(0, now[0] + s))
    done: list[tuple[str, float]] = []
    passing.pass_time(
        4.0,
        [
            Task(lambda s: done.append(("often", s)), 1.0),
            Task(lambda s: done.append(("late", s)), 9.0, 2.5),
        ],
    )
    assert done == [
        ("often", 0.0), ("often", 1.0), ("often", 2.0), ("late", 2.5), ("often", 3.0),
    ]  # fmt: skip


def test_time_passes_until_all_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(passing.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(passing.time, "sleep", lambda s: now.__setitem__(0, now[0] + s))
    planned = [1.0, 1.5]

    def slowly(_at_s: float) -> None:
        if planned:
            planned.pop()
            now[0] += 3.0

    passing.pass_time(2.0, [Task(slowly, 1.0, is_done=lambda: not planned)])
    assert planned == []
    assert now[0] == pytest.approx(6 + 2 * passing._TICK_S)
