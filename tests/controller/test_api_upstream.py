"""The API's way to the controller: connections that are handed over, and what comes of them."""

import asyncio
import functools
import json
import socket
import threading
from collections.abc import Callable, Mapping

import pytest

from controller.api.upstream import NoAnswerError, UnavailableError, Upstream
from controller.rpc import handover, messages
from controller.rpc.messages import CallError, Kind

Attend = Callable[[socket.socket], None]


class Controller:
    """One that lets in one connection after the other, and does always the same."""

    def __init__(self, attend: Attend) -> None:
        self._end, self._through = handover.pair()
        self._attend = attend
        self.requests: list[bytes] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Upstream:
        self._thread.start()
        return Upstream(functools.partial(handover.connect, self._through))

    def __exit__(self, *_: object) -> None:
        self._through.close()
        self._thread.join(5)
        self._end.close()

    def _serve(self) -> None:
        while (descriptor := handover.accept(self._end)) is not None:
            with socket.socket(fileno=descriptor) as peer:
                self.requests.append(peer.recv(4096))
                self._attend(peer)


def says(*lines: bytes) -> Attend:
    return lambda peer: peer.sendall(b"".join(lines))


def is_silent(peer: socket.socket) -> None:
    while peer.recv(1):
        pass


LISTING = (
    messages.result({"scheme": "weir"}, "ports"),
    messages.piece([b'{"port": 1}', b'{"port": 2}']),
    messages.piece([b'{"port": 3}']),
    messages.END,
)


def test_an_answer_is_put_together() -> None:
    controller = Controller(says(*LISTING))
    with controller as upstream:
        answer = asyncio.run(upstream.ask("ports", {"switch": 1, "port": None}))
    ports = [{"port": 1}, {"port": 2}, {"port": 3}]
    assert json.loads(answer) == {"scheme": "weir", "ports": ports}
    assert json.loads(controller.requests[0]) == {"method": "ports", "params": {"switch": 1}}


def test_many_may_ask_at_once() -> None:
    async def ask(upstream: Upstream) -> list[bytes]:
        return await asyncio.gather(*(upstream.ask("ports") for _ in range(200)))

    with Controller(says(*LISTING)) as upstream:
        answers = asyncio.run(ask(upstream))
    assert len(answers) == 200
    assert len(set(answers)) == 1


@pytest.mark.parametrize("before", [(), LISTING[:2]], ids=["at once", "midway"])
def test_an_error_is_told(before: tuple[bytes, ...]) -> None:
    refusal = messages.error(Kind.UNKNOWN, "no host")
    with (
        Controller(says(*before, refusal)) as upstream,
        pytest.raises(CallError, match="no host") as error,
    ):
        asyncio.run(upstream.ask("bandwidth"))
    assert error.value.kind == Kind.UNKNOWN


@pytest.mark.parametrize(
    "lines",
    [
        (),
        (b"HTTP/1.1 200 OK\r\n\r\n",),
        (b'{"end": true}\n',),
        (LISTING[0], b'{"end": false}\n'),
        LISTING[:2],
        (LISTING[0], b"[1, 2"),
    ],
)
def test_what_is_no_whole_answer_is_none(lines: tuple[bytes, ...]) -> None:
    with Controller(says(*lines)) as upstream, pytest.raises(NoAnswerError):
        asyncio.run(upstream.ask("ports"))


def test_who_does_not_answer_in_time_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.api.upstream._TIMEOUT_S", 0.05)
    with Controller(is_silent) as upstream, pytest.raises(NoAnswerError, match="in time"):
        asyncio.run(upstream.ask("ports"))


def test_nobody_is_there() -> None:
    end, through = handover.pair()
    end.close()
    with through, pytest.raises(UnavailableError) as error:
        asyncio.run(Upstream(functools.partial(handover.connect, through)).ask("ports"))
    # So it has done nothing that it was asked for.
    assert not isinstance(error.value, NoAnswerError)


def test_a_stream_is_followed_to_its_end() -> None:
    rows = messages.piece([b'{"n": 1}', b'{"n": 2}'])
    # An empty piece is no end.
    pieces = rows, messages.piece(()), messages.piece([b'{"n": 3}'])
    told: list[object] = []
    heads: list[Mapping[str, object]] = []

    async def follow(upstream: Upstream) -> None:
        async for rows in upstream.follow("follow_events", {"limit": 0}, heads.append):
            told.append(rows)  # noqa: PERF401 - it ends by an error

    with (
        Controller(says(messages.result({"run": "a"}, "events"), *pieces)) as upstream,
        pytest.raises(UnavailableError, match="ended"),
    ):
        asyncio.run(follow(upstream))
    assert told == [[{"n": 1}, {"n": 2}], [], [{"n": 3}]]
    assert heads == [{"run": "a"}]


def test_a_stream_that_is_refused_is_not_there() -> None:
    async def follow(upstream: Upstream) -> None:
        async for _ in upstream.follow("follow_events"):
            pass

    refusal = messages.error(Kind.BUSY, "32 follow already")
    with (
        Controller(says(refusal)) as upstream,
        pytest.raises(UnavailableError, match="32 follow already"),
    ):
        asyncio.run(follow(upstream))
