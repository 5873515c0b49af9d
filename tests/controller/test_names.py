"""Hosts are asked for by name, too: by what the controller's machine can look up."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from controller.api import names
from controller.api.names import BusyError, Names, UnknownNameError, is_name
from test_api import ServedApi

T = TypeVar("T")

BOOK = {
    "web1": ["10.0.0.1"],
    "web2.example": ["fd00::2", "10.0.0.2", "10.0.0.2"],
    "six": ["fd00::6"],
}


class Looked:
    """Names in a book, which counts how often it is looked into."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.asked: list[str] = []
        self.silent = asyncio.Event()
        self.names = Names(lambda: self.now_s, self.resolve)

    async def resolve(self, name: str) -> list[str]:
        self.asked.append(name)
        if name == "slow":
            await asyncio.Event().wait()
        if name not in BOOK:
            raise OSError("Name or service not known")
        return BOOK[name]


def run(work: Awaitable[T]) -> T:
    async def within() -> T:
        return await work

    return asyncio.run(within())


@pytest.mark.parametrize(
    "name", ["web1", "WEB1.", "a-b.c_d.example", "1.web", "x" * 63, "3com.example", "_srv"]
)
def test_what_may_be_a_name(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "a..b", "-a", "a-", "a b", "a\n", "a/b", "ä", "x" * 64, "a." * 130),
        *("10.0.0.1", "10.0.0.300", "10", "1.2.", "fd00::1"),
    ],
)
def test_what_may_not(text: str) -> None:
    assert not is_name(text)


def test_addresses_are_paired_by_their_family() -> None:
    looked = Looked()
    assert run(looked.names.pairs("web1", "web2.example")) == [("10.0.0.1", "10.0.0.2")]
    assert run(looked.names.pairs("fd00::9", "Web2.example")) == [("fd00::9", "fd00::2")]
    assert looked.asked == ["web1", "web2.example"]
    with pytest.raises(UnknownNameError, match="web1 and six have no addresses of the same family"):
        run(looked.names.pairs("web1", "six"))


def test_an_address_is_not_looked_up() -> None:
    looked = Looked()
    assert run(looked.names.addresses("10.0.0.9")) == ["10.0.0.9"]
    assert looked.asked == []


def test_answers_are_kept_for_a_while_and_so_are_refusals() -> None:
    looked = Looked()
    for _ in range(3):
        assert run(looked.names.addresses("web1")) == ["10.0.0.1"]
        with pytest.raises(UnknownNameError, match="enter the name in DNS or in /etc/hosts"):
            run(looked.names.addresses("nobody"))
    assert looked.asked == ["web1", "nobody"]
    looked.now_s = 30
    run(looked.names.addresses("web1"))
    assert looked.asked == ["web1", "nobody", "web1"]


def test_no_more_is_kept_than_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "_MOST", 2)
    looked = Looked()
    for name in ("web1", "six", "web2.example", "web1"):
        run(looked.names.addresses(name))
    assert looked.asked == ["web1", "six", "web2.example", "web1"]


def test_a_resolver_that_is_silent_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "_PATIENCE_S", 0.01)
    looked = Looked()
    with pytest.raises(UnknownNameError, match=r"within 0\.01 s; write the host's address"):
        run(looked.names.addresses("slow"))
    # It may answer the next time.
    assert looked.asked == ["slow"]
    with pytest.raises(UnknownNameError):
        run(looked.names.addresses("slow"))
    assert looked.asked == ["slow", "slow"]


def test_only_so_many_wait_at_once() -> None:
    looked = Looked()

    async def crowd() -> list[Any]:
        asking = [asyncio.create_task(looked.names.addresses("slow")) for _ in range(16)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await looked.names.addresses("web1")
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        return await looked.names.addresses("web1")

    assert run(crowd()) == ["10.0.0.1"]


def test_the_resolver_of_this_machine_is_asked() -> None:
    assert "127.0.0.1" in run(Names(lambda: 0.0).addresses("localhost"))


def test_a_path_is_asked_for_by_names(tmp_path: Path) -> None:
    world = ServedApi(tmp_path)
    looked = Looked()
    world.api.names = looked.names
    path = "/v1/bandwidth?src=web1&dst="
    told = world.ask(path + "web2.example").json()
    assert (told["src"], told["dst"]) == ("10.0.0.1", "10.0.0.2")
    BOOK["moved"] = ["10.0.0.9", "10.0.0.2"]
    assert world.ask(path + "moved").json()["dst"] == "10.0.0.2"
    BOOK["gone"] = ["10.0.0.9"]
    assert "no host" in world.problem(404, path + "gone")
    assert "no address of nobody is known" in world.problem(404, path + "nobody")
    assert "same family" in world.problem(404, path + "six")
    for wrong in ("10.0.0.300", "a%20b", "%00", "a..b"):
        detail = world.problem(422, path + wrong)
        assert "is no address and no name; write e.g. 10.0.0.1" in detail
