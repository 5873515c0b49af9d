"""The HTTP server lets go of peers that do not say what they want, and of no others."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated

import pytest
from fastapi import Body, FastAPI
from fastapi.responses import StreamingResponse

from controller.api.server import Server

Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]
ASK, STREAM = (f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode() for path in ("/", "/stream"))


def application(go_on: asyncio.Event) -> FastAPI:
    app = FastAPI()

    @app.get("/")
    async def root() -> str:
        return "here"

    @app.put("/")
    async def put(_: Annotated[bytes, Body()]) -> None: ...

    @app.get("/stream")
    async def stream() -> StreamingResponse:
        async def told() -> AsyncIterator[bytes]:
            yield b"first"
            await go_on.wait()
            yield b"second"

        return StreamingResponse(told())

    return app


def served(talk: Callable[[Callable[[], Awaitable[Peer]], asyncio.Event], Awaitable[None]]) -> None:
    async def run() -> None:
        go_on = asyncio.Event()
        with socket.create_server(("127.0.0.1", 0)) as listening:
            server = Server(application(go_on), 10)
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            try:
                async with asyncio.timeout(20):
                    await talk(lambda: asyncio.open_connection(*listening.getsockname()), go_on)
            finally:
                server.should_exit = True
                await serving

    asyncio.run(run())


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.api.server._REQUEST_S", 0.2)


PUT = b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n123"


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET / HT", ASK + b"GET", PUT, ASK + PUT],
    ids=["nothing", "a part", "two", "a part of a body", "two, a part of a body"],
)
def test_who_does_not_say_what_it_wants_is_let_go(sent: bytes) -> None:
    async def talk(connect: Callable[[], Awaitable[Peer]], _: asyncio.Event) -> None:
        reader, writer = await connect()
        writer.write(sent)
        told = await reader.read()
        assert (b"here" in told) == sent.startswith(ASK)
        writer.close()

    served(talk)


def test_who_says_too_much_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.api.server._REQUEST_S", 100.0)

    async def talk(connect: Callable[[], Awaitable[Peer]], _: asyncio.Event) -> None:
        reader, writer = await connect()
        writer.write(b"GET / HTTP/1.1\r\nX: " + b"y" * 1_000_000)
        # What it has not read is lost, and we may be told so.
        with contextlib.suppress(ConnectionResetError):
            assert not await reader.read()
        writer.close()

    served(talk)


@pytest.mark.parametrize("before", [0, 1], ids=["alone", "after another"])
def test_who_listens_is_not(before: int) -> None:
    async def talk(connect: Callable[[], Awaitable[Peer]], go_on: asyncio.Event) -> None:
        reader, writer = await connect()
        writer.write(before * ASK + STREAM)
        await reader.readuntil(b"first")
        # Longer than the other one, which says nothing, is waited for.
        other, other_writer = await connect()
        assert not await other.read()
        go_on.set()
        await reader.readuntil(b"second")
        writer.close()
        other_writer.close()

    served(talk)
