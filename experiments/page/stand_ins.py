"""Stand-ins for browsers: they ask what the page asks, as often, and read what they are told.

python -m experiments.page.stand_ins SETTINGS

SETTINGS is JSON of ``Settings``. Each stand-in signs in, follows the stream of events, and asks
the questions of one of the views, each over a connection of its own, as browsers do. It takes what
is compressed, and says what it has already, but parses nothing. They end when standard input does;
a line of JSON then says how much they have asked. A line before says that all have signed in.
"""

import asyncio
import contextlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from experiments.page.recorded import STREAM, Question

_HOST = "127.0.0.1"


@dataclass(frozen=True)
class Settings:
    """``views`` has the questions of each view."""

    port: int
    secret: str
    count: int
    views: Sequence[Sequence[Mapping[str, Any]]]

    def written(self) -> str:
        return json.dumps(asdict(self))


@dataclass
class Tally:
    """What all have asked and read."""

    statuses: Counter[int] = field(default_factory=Counter)
    read_bytes: int = 0
    took_s: list[float] = field(default_factory=list)
    stream_bytes: int = 0
    streams_ended: int = 0


class _Connection:
    """One at a time is asked for; a connection that has been closed is opened again."""

    def __init__(self, port: int, cookie: str | None) -> None:
        self._port, self._cookie = port, cookie
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._tags: dict[str, str] = {}

    async def ask(
        self, path: str, body: bytes | None = None
    ) -> tuple[int, dict[str, str], asyncio.StreamReader]:
        """Status and head of the answer; its body is to be read. Raises OSError."""
        if self._writer is None or self._writer.is_closing():
            self._reader, self._writer = await asyncio.open_connection(_HOST, self._port)
        assert self._reader is not None
        head = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", f"Host: {_HOST}"]
        head += ["Accept: */*", "Accept-Encoding: gzip, deflate, br, zstd"]
        if self._cookie:
            head.append(f"Cookie: {self._cookie}")
        if path in self._tags:
            head.append(f"If-None-Match: {self._tags[path]}")
        if body is not None:
            head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        self._writer.write("\r\n".join((*head, "", "")).encode() + (body or b""))
        status_line, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        pairs = (line.split(": ", 1) for line in lines if line)
        told = {name.lower(): value for name, value in pairs}
        if "etag" in told:
            self._tags[path] = told["etag"]
        return int(status_line.split()[1]), told, self._reader

    async def read(self, path: str, tally: Tally, body: bytes | None = None) -> dict[str, str]:
        """Ask, and read it all."""
        begun_s = time.monotonic()
        status, told, reader = await self.ask(path, body)
        if status not in (204, 304):
            length = int(told["content-length"])
            await reader.readexactly(length)
            tally.read_bytes += length
        tally.took_s.append(time.monotonic() - begun_s)
        tally.statuses[status] += 1
        return told

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


async def _stand_in(settings: Settings, number: int, tally: Tally) -> None:
    first = _Connection(settings.port, None)
    told = await first.read("/v1/session", Tally(), json.dumps({"token": settings.secret}).encode())
    first.close()
    cookie = told["set-cookie"].split(";")[0]
    asked = [Question(**one) for one in settings.views[number % len(settings.views)]]
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_follow(settings.port, cookie, tally))
        for question in asked:
            tasks.create_task(_again(settings.port, cookie, question, tally))


async def _again(port: int, cookie: str, question: Question, tally: Tally) -> None:
    connection = _Connection(port, cookie)
    period_s = question.period_s
    if period_s is not None:
        await asyncio.sleep(random.uniform(0, period_s))
    while True:
        begun_s = time.monotonic()
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await connection.read(question.at(time.time()), tally)
        if period_s is None:
            connection.close()
            return
        await asyncio.sleep(max(0.0, begun_s + period_s - time.monotonic()))


async def _follow(port: int, cookie: str, tally: Tally) -> None:
    while True:
        connection = _Connection(port, cookie)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            _, _, reader = await connection.ask(STREAM)
            while data := await reader.read(1 << 16):
                tally.stream_bytes += len(data)
        connection.close()
        tally.streams_ended += 1
        await asyncio.sleep(1)


async def _main(settings: Settings) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def end() -> None:
        loop.remove_reader(sys.stdin)
        ended.set()

    loop.add_reader(sys.stdin, end)
    tally = Tally()
    tasks = [
        asyncio.create_task(_stand_in(settings, number, tally)) for number in range(settings.count)
    ]
    await asyncio.sleep(1)
    print(json.dumps({"step": "asking"}), flush=True)
    waiting = asyncio.create_task(ended.wait())
    begun_s = time.monotonic()
    await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
    passed_s = time.monotonic() - begun_s
    failed = next((task for task in tasks if task.done()), None)
    if failed is not None:
        failed.result()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    took_s = sorted(tally.took_s)
    print(
        json.dumps(
            {
                "requests_per_s": len(took_s) / passed_s,
                "refused": sum(n for status, n in tally.statuses.items() if status >= 400),
                "statuses": {str(status): n for status, n in tally.statuses.items()},
                "processor_share": time.process_time() / passed_s,
                "mb_per_s": (tally.read_bytes + tally.stream_bytes) / passed_s / 1e6,
                "stream_mb_per_s": tally.stream_bytes / passed_s / 1e6,
                "streams_ended": tally.streams_ended,
                "answer_p50_ms": took_s[len(took_s) // 2] * 1e3,
                "answer_p99_ms": took_s[len(took_s) * 99 // 100] * 1e3,
            }
        ),
        flush=True,
    )


def main() -> int:
    """Entry point."""
    asyncio.run(_main(Settings(**json.loads(sys.argv[1]))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
