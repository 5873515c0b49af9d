"""One question for all who ask the same; answers are no older than is said."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from controller.api.sharing import Sharing
from controller.rpc.messages import CallError, Kind
from test_api import ServedApi
from test_overview import sample


class Asked:
    """A controller that takes so long for an answer, on a clock of its own."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.takes_s = 0.0
        self.asked: list[tuple[str, object]] = []
        self.fails = False
        self.wait: asyncio.Event | None = None
        self.sharing = Sharing(self, lambda: self.now_s)

    async def ask(self, method: str, params: Mapping[str, object] | None = None) -> bytes:
        self.asked.append((method, params))
        if self.wait is not None:
            await self.wait.wait()
        self.now_s += self.takes_s
        if self.fails:
            raise CallError(Kind.BUSY, "later")
        return b"%d" % len(self.asked)


def play(what: Callable[[Asked], Awaitable[None]]) -> None:
    async def run() -> None:
        await what(Asked())

    asyncio.run(run())


def test_who_asks_meanwhile_gets_the_same_answer() -> None:
    async def ask(world: Asked) -> None:
        world.wait = asyncio.Event()
        asking = [asyncio.create_task(world.sharing.ask("ports")) for _ in range(50)]
        other = asyncio.create_task(world.sharing.ask("ports", {"switch": 1}))
        await asyncio.sleep(0)
        # Who leaves ends nothing for the others.
        asking.pop(0).cancel()
        world.wait.set()
        assert len(set(await asyncio.gather(*asking))) == 1
        await other
        assert [params for _, params in world.asked] == [None, {"switch": 1}]

    play(ask)


def test_an_answer_is_given_until_it_is_too_old() -> None:
    async def ask(world: Asked) -> None:
        bodies = []
        for _ in range(6):
            bodies.append((await world.sharing.ask("ports", fresh_s=0.5)).body)
            world.now_s += 0.2
        assert bodies == [b"1", b"1", b"1", b"2", b"2", b"2"]
        # Another question, and an impatient one.
        assert (await world.sharing.ask("ports", {"switch": 1}, fresh_s=0.5)).body == b"3"
        assert (await world.sharing.ask("ports")).body == b"4"

    play(ask)


def test_what_is_expensive_is_asked_seldom_but_not_seldomer_than_every_ten_seconds() -> None:
    async def ask(world: Asked) -> None:
        world.takes_s = 0.2
        await world.sharing.ask("flows", fresh_s=0.5)
        world.now_s = 1.9
        assert (await world.sharing.ask("flows", fresh_s=0.5)).body == b"1"
        world.now_s = 2.1
        world.takes_s = 100.0
        assert (await world.sharing.ask("flows", fresh_s=0.5)).body == b"2"
        world.now_s = 2.1 + 10
        assert (await world.sharing.ask("flows", fresh_s=0.5)).body == b"3"

    play(ask)


def test_a_renewed_answer_is_that_of_all() -> None:
    async def ask(world: Asked) -> None:
        assert (await world.sharing.ask("ports", fresh_s=5)).body == b"1"
        assert await world.sharing.renew("ports") == b"2"
        assert (await world.sharing.ask("ports", fresh_s=5)).body == b"2"

    play(ask)


def test_after_a_change_nothing_older_is_given_not_even_what_is_on_its_way() -> None:
    async def ask(world: Asked) -> None:
        await world.sharing.ask("bypasses", fresh_s=5)
        world.wait = asyncio.Event()
        before = asyncio.create_task(world.sharing.ask("ports", fresh_s=5))
        await asyncio.sleep(0)
        world.sharing.clear()
        after = asyncio.create_task(world.sharing.ask("ports", fresh_s=5))
        await asyncio.sleep(0)
        world.wait.set()
        await before
        await after
        assert [method for method, _ in world.asked] == ["bypasses", "ports", "ports"]
        assert (await world.sharing.ask("bypasses", fresh_s=5)).body == b"4"
        # The later one is kept, though the earlier may have come after it.
        assert await world.sharing.ask("ports", fresh_s=5) is await after

    play(ask)


def test_an_error_is_told_to_all_and_not_kept() -> None:
    async def ask(world: Asked) -> None:
        world.fails = True
        asking = [world.sharing.ask("ports", fresh_s=5) for _ in range(3)]
        told = await asyncio.gather(*asking, return_exceptions=True)
        assert [type(one) for one in told] == [CallError] * 3
        world.fails = False
        assert (await world.sharing.ask("ports", fresh_s=5)).body == b"2"
        assert len(world.asked) == 2

    play(ask)


def test_so_many_answers_are_kept() -> None:
    async def ask(world: Asked) -> None:
        for switch in range(100):
            await world.sharing.ask("ports", {"switch": switch}, fresh_s=5)
        await world.sharing.ask("ports", {"switch": 99}, fresh_s=5)
        assert len(world.asked) == 100
        await world.sharing.ask("ports", {"switch": 0}, fresh_s=5)
        assert len(world.asked) == 101

    play(ask)


@pytest.fixture
def world(tmp_path: Path) -> ServedApi:
    return ServedApi(tmp_path)


def test_a_browser_gets_it_packed_and_is_told_its_age(world: ServedApi) -> None:
    packed = world.ask("/v1/ports", headers={"Accept-Encoding": "gzip"})
    plain = world.ask("/v1/ports", headers={"Accept-Encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.json() == plain.json()
    assert int(packed.headers["content-length"]) < int(plain.headers["content-length"]) / 2
    assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
    assert packed.headers["cache-control"] == "no-store"
    world.clock_s += 1.2
    assert world.ask("/v1/ports").headers["age"] == "1"
    world.clock_s += 1.2
    assert world.ask("/v1/ports").headers["age"] == "0"


def test_a_large_answer_is_packed_beside_the_loop() -> None:
    async def ask(world: Asked) -> None:
        answer = await world.sharing.ask("ports")
        answer.body = b"a port, and another " * 10_000
        first, second = await asyncio.gather(answer.packed(), answer.packed())
        assert first is second
        assert first is not None
        assert gzip.decompress(first) == answer.body

    play(ask)


def test_the_use_of_all_ports_is_that_of_the_last_sample(world: ServedApi) -> None:
    # Without a sample the controller is asked, which says nothing of rates.
    told = world.ask("/v1/ports/use").json()
    assert told["ids"]
    assert set(told["sent_bps"]) == {None}
    sample(world)
    world.clock_s += 1
    told = world.ask("/v1/ports/use").json()
    rows = [row for row in world.ask("/v1/ports").json()["ports"] if row["queues"]]
    assert told["ids"] == [f"{row['datapath_id']}:{row['port']}" for row in rows]
    assert told["levels"] == [row["queues"][0]["level"] for row in rows]
    assert told["rate_bps"] == [row["queues"][0]["rate_bps"] for row in rows]
    assert len(told["sent_bps"]) == len(rows)


def test_nothing_is_told_of_a_controller_that_is_gone(world: ServedApi) -> None:
    sample(world)
    world.controller.there = False
    world.clock_s += 2
    for path in ("/v1/ports/use", "/v1/topology", "/v1/ports", "/v1/flows"):
        assert "nobody listens" in world.problem(503, path)
