"""The soak of atp-proxy: each of its checks fails where it has to, and a short one passes."""

import asyncio
import hashlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments import cli
from experiments.soak import SUMMARY
from experiments.soak.atp import keys
from experiments.soak.atp.http import File, difference
from experiments.soak.atp.keys import Keeper, Value, fault_of
from experiments.soak.atp.postgres import Balance
from experiments.soak.atp.verdict import NEEDED, Pair, ProxyEnd, Run, judge, panic
from experiments.soak.atp.work import CheckError, Tally, Worker
from experiments.soak.trend import Sample
from testbed.bottleneck import Counts

LOST = Counts(seen=100_000, lost=1000, red=10)
COUNTERS = {
    "event": "stopped", "opened": 500, "closed": 500, "failed": 0, "reconnected": 0,
    "to_atp_bytes": 7000, "from_atp_bytes": 9000, "atp": {"packets": 50},
}  # fmt: skip
OTHER_COUNTERS = COUNTERS | {"to_atp_bytes": 9000, "from_atp_bytes": 7000}


def proxy(name: str, counters: dict[str, Any], **changes: Any) -> ProxyEnd:
    samples = [Sample(10.0 * n, 20_000 + 100 * (n % 7), 30, 3) for n in range(361)]
    return replace(ProxyEnd(name, samples, counters, {}, (), 11, 12, 0, None), **changes)


def a_run(near: dict[str, Any] | None = None, **changes: Any) -> Run:
    """A soak that has nothing wrong, but for what is changed, the near proxy among it."""
    pair = Pair("http", proxy("http near", COUNTERS), proxy("http far", OTHER_COUNTERS), 5)
    pair = replace(pair, near=replace(pair.near, **(near or {})))
    link = {"random.there": LOST, "random.back": LOST, "bursts.there": LOST}
    run = Run(dict.fromkeys(NEEDED, 9), link, 0.01, [pair], [])
    return replace(run, **changes)


def test_a_run_without_a_fault_passes_and_says_what_it_has_checked() -> None:
    figures, faults = judge(a_run())
    assert faults == []
    checked = [name for name in NEEDED if name.endswith("_bytes")]
    assert figures["checked_bytes"] == 9 * len(checked)
    assert figures["link.lost"] == 3000
    assert figures["http.near.atp.packets"] == 50


@pytest.mark.parametrize("missing", NEEDED)
def test_a_run_that_has_not_checked_something_fails(missing: str) -> None:
    counts = dict.fromkeys(NEEDED, 9) | {missing: 0}
    assert judge(a_run(counts=counts))[1] == [f"nothing was checked: no {missing}"]


@pytest.mark.parametrize(
    ("link", "complaint"),
    [
        ({}, "no packet was seen on the link"),
        (
            {"random.there": LOST, "random.back": Counts(100_000, 0, 7)},
            "no packet was lost, random.back, of 100000: this proves nothing",
        ),
        ({"random.back": Counts(100_000, 100, 0)}, "0.10% were lost, random.back, instead"),
        ({"random.back": Counts(100_000, 3000, 0)}, "3.00% were lost, random.back, instead"),
    ],
)
def test_a_run_in_which_nothing_was_lost_fails(link: dict[str, Counts], complaint: str) -> None:
    (fault,) = judge(a_run(link=link))[1]
    assert fault.startswith(complaint)


def test_what_was_found_on_the_way_fails_the_run() -> None:
    assert judge(a_run(faults=["curl0: 7_300000: there is no file"]))[1] == [
        "curl0: 7_300000: there is no file"
    ]


@pytest.mark.parametrize(
    ("near", "complaint"),
    [
        ({"left_connections": 3}, "http near proxy: 3 connections of 500 are left"),
        ({"counters": COUNTERS | {"closed": 499}}, "http near proxy: 1 connections of 500"),
        ({"left_descriptors": 40}, "http near proxy: 40 descriptors are open after all"),
        ({"lost": ("silence",)}, "http near proxy lost its connection: silence"),
        ({"counters": COUNTERS | {"reconnected": 1}}, "http near proxy connected anew 1 times"),
        ({"counters": COUNTERS | {"failed": 6}}, "http near proxy: 6 connections broke"),
        ({"counters": COUNTERS | {"to_atp_bytes": 7001}}, "http: 7000 bytes of requests came"),
        ({"counters": COUNTERS | {"from_atp_bytes": 9001}}, "http: 9001 bytes of answers came"),
        ({"failure": "ended with status 101"}, "http near proxy: ended with status 101"),
        ({"counters": {}}, "http near proxy: no counters"),
        ({"samples": ()}, "http near proxy: too short to tell"),
    ],
)
def test_what_a_proxy_leaves_fails_the_run(near: dict[str, Any], complaint: str) -> None:
    (fault,) = judge(a_run(near))[1]
    assert fault.startswith(complaint)


@pytest.mark.parametrize(
    ("rss_kb", "descriptors", "complaint"),
    [
        (lambda n: 20_000 + 10 * n, lambda _n: 30, "memory grows by 3600 kB an hour"),
        (lambda _n: 20_000, lambda n: 30 + n // 4, "descriptors grow"),
        (lambda n: min(20_000, 5000 + 200 * n), lambda _n: 30, None),
    ],
)
def test_resources_that_grow_fail_the_run(
    rss_kb: Callable[[int], int], descriptors: Callable[[int], int], complaint: str | None
) -> None:
    samples = [Sample(10.0 * n, rss_kb(n), descriptors(n), 3) for n in range(361)]
    faults = judge(a_run({"samples": samples}))[1]
    assert [complaint in fault for fault in faults] == [True] if complaint else faults == []


def test_a_panic_is_found_in_the_log() -> None:
    log = "a line\n\nthread 'atp' (99) panicked at src/outgoing.rs:38:37:\nno entry found for key\n"
    assert panic(log) == (
        "thread 'atp' (99) panicked at src/outgoing.rs:38:37: no entry found for key"
    )
    assert panic("h2:4880 is gone: silence\n") is None


def test_a_broken_connection_may_have_carried_less() -> None:
    broken = COUNTERS | {"failed": 1, "to_atp_bytes": 7500}
    assert judge(a_run({"counters": broken}))[1] == []


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


def test_wrong_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["soak", "atp", "--minutes", "0"]) == 2
    assert "--minutes must be more than 0, not 0" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.netns
def test_a_short_soak(tmp_path: Path) -> None:
    """Too short to tell whether memory grows; everything that happens in one, happens."""
    command = [sys.executable, "-m", "experiments.cli", "soak", "atp", "--seed", "1"]
    done = subprocess.run(
        [*command, "--minutes", "0.15", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    summary = json.loads((tmp_path / SUMMARY).read_text())
    faults = [fault for fault in summary["faults"] if "too short to tell" not in fault]
    assert faults == [], done.stderr
    assert summary["link.lost"] > 100
    assert summary["http.near.opened"] == summary["http.far.opened"] > 10
