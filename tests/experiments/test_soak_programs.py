"""What soaks of unmodified programs share: each program's check fails where it has to."""

import asyncio
import hashlib
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.soak.programs import keys, passing
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
