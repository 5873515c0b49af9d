"""Sets and gets values of redis, and remembers what the server has acknowledged.

    python -m experiments.soak.programs.keys --address ADDRESS --port N --seed N --state FILE
    python -m experiments.soak.programs.keys --address ADDRESS --port N --compare FILE

The first goes on until its stdin is closed; then it gets all keys and leaves in FILE what they are.
The second compares FILE with another way to the server. A client of our own, as redis' own ones
cannot remember: RESP 2 over ``--connections`` connections, each with keys of its own, so that what
a key has to be is never in doubt. Values follow from the key and a version.
"""

import argparse
import asyncio
import json
import math
import random
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_KEYS = 150
_PATIENCE_S = 120.0
_SAY_EVERY_S = 5.0
_MOST_FAULTS = 20
_MOST_PIPELINED = 16
_SMALL_BYTES, _LARGE_BYTES, _SHARE_OF_LARGE = 16_384, 1_000_000, 0.1
_MOST_PAUSE_S = 0.05
_RENEWED = 0.02
_BUFFER_BYTES = 1 << 20


@dataclass(frozen=True)
class Value:
    """A value by what it is made of. A number is one that is counted up."""

    size_bytes: int
    version: int
    number: bool = False

    def content(self, key: str) -> bytes:
        """Return its bytes."""
        if self.number:
            return str(self.version).encode()
        return random.Random(f"{key} {self.version}").randbytes(self.size_bytes)


class Redis(Exception):  # noqa: N818  (as the server calls it)
    """An error that the server answers with."""


def request(*words: bytes) -> bytes:
    """Return a command as RESP has it."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        parts += [b"$%d\r\n" % len(word), word, b"\r\n"]
    return b"".join(parts)


async def reply(reader: asyncio.StreamReader) -> bytes | int | None:
    """Read an answer. Raises Redis if it is an error, ValueError if it is none of RESP."""
    line = await reader.readuntil(b"\r\n")
    kind, rest = line[:1], line[1:-2]
    match kind:
        case b"+":
            return rest
        case b":":
            return int(rest)
        case b"-":
            raise Redis(rest.decode(errors="replace"))
        case b"$" if rest == b"-1":
            return None
        case b"$":
            content = await reader.readexactly(int(rest) + 2)
            if content[-2:] != b"\r\n":
                raise ValueError(f"a string of {rest!r} bytes ends with {content[-2:]!r}")
            return content[:-2]
    raise ValueError(f"no answer of redis: {line[:80]!r}")


def fault_of(key: str, value: Value | None, found: bytes | int | None) -> str | None:
    """Describe how what a key has differs from what was acknowledged; None if it does not."""
    wanted = None if value is None else value.content(key)
    if found == wanted:
        return None
    if wanted is None:
        return f"{key} was deleted, and is there"
    if found is None:
        return f"{key} is lost: {len(wanted)} bytes were acknowledged"
    if not isinstance(found, bytes):
        return f"{key} is {found}, not a value"
    pairs = enumerate(zip(wanted, found, strict=False))
    first = next((at for at, (one, other) in pairs if one != other), min(len(wanted), len(found)))
    return f"{key} is altered: {len(found)} bytes of {len(wanted)}, the first other one at {first}"


@dataclass(frozen=True)
class Step:
    """A command, and what it makes of the key if it is acknowledged."""

    kind: str
    key: str
    value: Value | None = None

    def words(self) -> tuple[bytes, ...]:
        """Return the words of the command."""
        key = self.key.encode()
        if self.kind == "set":
            assert self.value is not None
            return (b"SET", key, self.value.content(self.key))
        return (self.kind.upper().encode(), key)


class Keeper:
    """One connection after the other, and the keys that are theirs."""

    def __init__(self, name: str, seed: int, counts: Counter[str], faults: list[str]) -> None:
        self._name = name
        self._rng = random.Random(f"{seed} {name}")
        self._counts = counts
        self._faults = faults
        self._version = 0
        self.known: dict[str, Value | None] = {}

    async def keep(self, address: str, port: int, stop: asyncio.Event) -> None:
        """Set, get and delete until ``stop``; then get all keys."""
        while not stop.is_set():
            await self._connected(address, port, stop)
        everything = [Step("get", key) for key in self.known]
        try:
            await self._once(address, port, everything)
            self._counts["kept"] += len(everything)
        except (OSError, EOFError, ValueError, Redis, TimeoutError) as broken:
            self._fault(f"at the end, {broken!r}")

    async def _once(self, address: str, port: int, steps: Sequence[Step]) -> None:
        reader, writer = await asyncio.open_connection(address, port, limit=_BUFFER_BYTES)
        try:
            for begin in range(0, len(steps), _MOST_PIPELINED):
                await self._exchange(reader, writer, steps[begin : begin + _MOST_PIPELINED])
        finally:
            writer.close()

    async def _connected(self, address: str, port: int, stop: asyncio.Event) -> None:
        steps: list[Step] = []
        try:
            reader, writer = await asyncio.open_connection(address, port, limit=_BUFFER_BYTES)
            self._counts["connections"] += 1
            try:
                while not stop.is_set() and self._rng.random() > _RENEWED:
                    steps = self._draw()
                    await self._exchange(reader, writer, steps)
                    steps = []
                    await asyncio.sleep(self._rng.uniform(0, _MOST_PAUSE_S))
            finally:
                writer.close()
        except (OSError, EOFError, ValueError, Redis, TimeoutError) as broken:
            self._fault(f"connection broke: {broken!r}")
            # What was not acknowledged may be either way.
            for step in steps:
                self.known.pop(step.key, None)
            await asyncio.sleep(1)

    def _draw(self) -> list[Step]:
        steps = []
        for _ in range(self._rng.randint(1, _MOST_PIPELINED)):
            key = f"soak:{self._name}:{self._rng.randrange(_KEYS)}"
            kind = self._rng.choices(("set", "get", "del", "incr"), (40, 45, 5, 10))[0]
            if kind == "incr":
                key = f"soak:{self._name}:counter{self._rng.randrange(10)}"
            value = None
            if kind == "set":
                self._version += 1
                most = _LARGE_BYTES if self._rng.random() < _SHARE_OF_LARGE else _SMALL_BYTES
                size = round(math.exp(self._rng.uniform(0, math.log(most)))) - 1
                value = Value(size, self._version)
            steps.append(Step(kind, key, value))
        return steps

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, steps: Sequence[Step]
    ) -> None:
        """Send all, and hold each answer against what is known when it comes."""

        async def send() -> None:
            writer.write(b"".join(request(*step.words()) for step in steps))
            await writer.drain()

        async def receive() -> None:
            for step in steps:
                self._take(step, await reply(reader))

        async with asyncio.timeout(_PATIENCE_S):
            await asyncio.gather(send(), receive())

    def _take(self, step: Step, found: bytes | int | None) -> None:
        before = self.known.get(step.key)
        if step.kind == "set":
            assert step.value is not None
            if found != b"OK":
                raise ValueError(f"SET is answered with {found!r}")
            self.known[step.key] = step.value
            self._counts["set_bytes"] += step.value.size_bytes
        elif step.kind == "get":
            if step.key in self.known:
                if wrong := fault_of(step.key, before, found):
                    self._fault(wrong)
                elif isinstance(found, bytes):
                    self._counts["got_bytes"] += len(found)
        elif step.kind == "del":
            if step.key in self.known and found != (before is not None):
                self._fault(f"{step.key}: DEL is answered with {found!r}, it had {before}")
            self.known[step.key] = None
        else:
            number = (before.version if before else 0) + 1
            # What was in doubt when a connection broke is what the server says.
            if step.key in self.known and found != number:
                self._fault(f"{step.key}: INCR is answered with {found!r}, not {number}")
            self.known[step.key] = Value(0, int(found or 0), number=True)
        self._counts[f"{step.kind}s"] += 1

    def _fault(self, text: str) -> None:
        self._counts["faults"] += 1
        if len(self._faults) < _MOST_FAULTS:
            self._faults.append(f"{self._name}: {text}")


def say(event: str, counts: Counter[str], faults: Sequence[str]) -> None:
    """Tell the soak."""
    print(json.dumps({"event": event, "counts": counts, "faults": faults}), flush=True)


async def keep(args: argparse.Namespace) -> None:
    """Keep values until stdin is closed; tell counts now and then, and at the end."""
    counts: Counter[str] = Counter()
    faults: list[str] = []
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def ended() -> None:
        loop.remove_reader(sys.stdin)
        stop.set()

    loop.add_reader(sys.stdin, ended)
    keepers = [Keeper(f"k{n}", args.seed, counts, faults) for n in range(args.connections)]
    kept = asyncio.gather(*(keeper.keep(args.address, args.port, stop) for keeper in keepers))
    while not kept.done():
        say("counts", counts, faults)
        await asyncio.wait([kept], timeout=_SAY_EVERY_S)
    kept.result()
    known = {key: value for keeper in keepers for key, value in keeper.known.items()}
    Path(args.state).write_text(json.dumps(stored(known)))
    say("done", counts, faults)


def stored(known: dict[str, Value | None]) -> dict[str, Any]:
    """Return what is known of keys as JSON has it."""
    return {
        key: value and [value.size_bytes, value.version, value.number]
        for key, value in known.items()
    }


def restored(state: dict[str, Any]) -> dict[str, Value | None]:
    """Return what ``stored`` was given."""
    return {key: value and Value(*value) for key, value in state.items()}


async def compare(args: argparse.Namespace) -> None:
    """Get all keys of a state, and tell which are not as it says."""
    known = restored(json.loads(Path(args.compare).read_text()))
    reader, writer = await asyncio.open_connection(args.address, args.port, limit=_BUFFER_BYTES)
    counts: Counter[str] = Counter()
    faults: list[str] = []
    for key, value in known.items():
        writer.write(request(b"GET", key.encode()))
        found = await reply(reader)
        counts["compared"] += 1
        counts["compared_bytes"] += len(found) if isinstance(found, bytes) else 0
        if wrong := fault_of(key, value, found):
            counts["faults"] += 1
            faults.append(wrong)
    writer.close()
    say("done", counts, faults[:_MOST_FAULTS])


def main(argv: Iterable[str] | None = None) -> None:
    """Entry point."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--state")
    parser.add_argument("--compare")
    args = parser.parse_args(None if argv is None else list(argv))
    asyncio.run(compare(args) if args.compare else keep(args))


if __name__ == "__main__":
    main()
