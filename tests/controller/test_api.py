"""The HTTP API over a controller that is none: who may ask what, and what is answered."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from controller.api import metrics
from controller.api.access.tokens import Scope, line
from controller.api.access.tokens import make as make_token
from controller.api.app import make
from controller.api.hub import FullError, Hub
from controller.api.settings import ApiSettings
from controller.api.state import Api
from controller.api.upstream import UnavailableError
from controller.northbound.dispatcher import Dispatcher
from controller.northbound.handlers import Handlers
from controller.northbound.scheduler import Scheduler
from controller.rpc.messages import Assembly, CallError, Kind, request
from fake_source import Told

NOW = datetime(2026, 11, 1, tzinfo=UTC)
FLOW = {"src": "10.0.0.1", "dst": "10.0.0.2", "most_bps": 1000}


class Controller:
    """`upstream.Upstream`, over the RPC without a socket."""

    def __init__(self) -> None:
        self.told = Told()
        self.there = True
        scheduler = Scheduler(lambda: 0, lambda: None)
        handlers = Handlers(
            self.told,
            self.told,
            self.told,
            self.told.changing,
            scheduler.checkpoint,
            lambda _: None,
        )
        self.dispatcher = Dispatcher(handlers, scheduler)

    async def ask(self, method: str, params: Mapping[str, object] | None = None) -> bytes:
        if not self.there:
            raise UnavailableError("nobody listens")
        answer = Assembly()
        for written in self.dispatcher.answer(request(method, params)):
            answer.take(written)
        return answer.body

    async def follow(self, *_: object) -> AsyncIterator[list[dict[str, object]]]:
        yield []
        await asyncio.Event().wait()


_SCOPES = {
    "reader": [Scope.READ],
    "sender": [Scope.ANNOUNCE],
    "neighbour": [Scope.ANNOUNCE],
    "operator": [Scope.READ, Scope.REGULATE],
}


class ServedApi:
    """The API on the test's clock, with a token of each kind, and a controller without a socket."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.now, self.clock_s = NOW, 0.0
        self.secrets: dict[str, str] = {}
        self.tokens = directory / "tokens.yaml"
        self.tokens.write_text("tokens:\n")
        expires = NOW + timedelta(days=1)
        for name, scopes in _SCOPES.items():
            self.secrets[name], token = make_token(name, frozenset(scopes), expires)
            with self.tokens.open("a") as file:
                file.write(line(token) + "\n")
        self.controller = Controller()
        given = ApiSettings(host="127.0.0.1", port=1, tokens=self.tokens, **settings)
        upstream: Any = self.controller
        self.api = Api(given, upstream, lambda: self.now, lambda: self.clock_s)
        self.app = make(self.api)

    def ask(
        self, path: str, method: str = "GET", name: str = "reader", **more: Any
    ) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.secrets[name]}"} if name else {}
        headers |= more.pop("headers", {})
        return run(self._ask(path, method, headers, more))

    async def _ask(
        self, path: str, method: str, headers: dict[str, str], more: dict[str, Any]
    ) -> httpx.Response:
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
            return await client.request(method, path, headers=headers, **more)

    def problem(self, status: int, path: str, method: str = "GET", **more: Any) -> str:
        response = self.ask(path, method, **more)
        assert response.headers["content-type"] == "application/problem+json"
        told = response.json()
        assert told["status"] == response.status_code == status, told
        assert told["title"]
        return str(told["detail"])

    def counted(self, name: str) -> dict[str, float]:
        return {
            ",".join(sample.labels.values()): sample.value
            for family in self.api.metrics.registry.collect()
            for sample in family.samples
            if sample.name == name
        }


def run(work: Awaitable[httpx.Response]) -> httpx.Response:
    async def within() -> httpx.Response:
        return await work

    return asyncio.run(within())


@pytest.fixture
def world(tmp_path: Path) -> ServedApi:
    return ServedApi(tmp_path)


READING = [
    "/v1/bandwidth?src=10.0.0.1&dst=fd00::1",
    "/v1/fountains",
    "/v1/overview",
    "/v1/history?from=1790000000.5&to=1790000100",
    "/v1/incident",
    "/v1/events/recorded",
    "/v1/topology",
    "/v1/switches",
    "/v1/ports?switch=1",
    "/v1/ports/use",
    "/v1/regulation",
    "/v1/bypasses",
    "/v1/flows?host=10.0.0.1&class=burst&limit=5&offset=2&tcp_port=80&switch=1&port=2",
    "/v1/flows/one?src=10.0.0.1&src_port=1024&dst=10.0.0.2&dst_port=80",
    "/v1/events?after=0",
    "/v1/settings",
    "/v1/audit?limit=5&before=3",
    "/metrics",
]


def test_regulation_is_turned_off_and_on(world: ServedApi) -> None:
    asked = {"switch": 1, "port": "eth2", "for_s": 60}
    told = world.ask("/v1/bypasses", "PUT", "operator", json=asked)
    place = {"switch": 1, "datapath_id": "0000000000000001", "port": "eth2"}
    bypass = {**place, "left_s": 60, "by": "token operator"}
    assert told.json() == {"off": bypass, "kept": True, "unaware": []}
    assert world.ask("/v1/bypasses").json() == {"bypasses": [bypass]}
    told = world.ask("/v1/bypasses?switch=1&port=eth2", "DELETE", "operator")
    assert told.json() == {"on": [bypass], "still_off": [], "kept": True, "unaware": []}
    assert world.ask("/v1/bypasses", "PUT", "operator", json={}).status_code == 200
    assert world.ask("/v1/bypasses").json()["bypasses"][0]["switch"] is None


@pytest.mark.parametrize("path", ["switches", "ports", "regulation", "flows"])
def test_a_switch_that_is_not_there_is_not_one_with_nothing_to_list(
    world: ServedApi, path: str
) -> None:
    told = world.problem(404, f"/v1/{path}?switch={2**64 - 1}")
    assert "no switch ffffffffffffffff is known; there are 0000000000000001" in told


@pytest.mark.parametrize("name", ["reader", "sender"])
def test_only_operators_turn_regulation_off(world: ServedApi, name: str) -> None:
    assert "scope regulate" in world.problem(403, "/v1/bypasses", "PUT", name=name, json={})
    assert "scope regulate" in world.problem(403, "/v1/bypasses", "DELETE", name=name)
    assert not world.controller.told.turned_off


@pytest.mark.parametrize(
    ("status", "asked", "told"),
    [
        (404, {"switch": 99}, "no switch 99 is known"),
        (422, {"port": "eth2"}, "switch: is missing"),
        (422, {"switch": 1, "for_s": 0}, "for_s: 0 is out of range"),
        (422, {"switch": 1, "port": ""}, "port: '' is no port; write its number or its name"),
        (422, {"switch": 1, "by": "me"}, "by: unknown parameter"),
    ],
)
def test_a_place_that_cannot_be_turned_off_is_told(
    world: ServedApi, status: int, asked: dict[str, object], told: str
) -> None:
    detail = world.problem(status, "/v1/bypasses", "PUT", name="operator", json=asked)
    assert told in detail
    assert not world.controller.told.turned_off


@pytest.mark.parametrize("path", READING)
def test_readers_may_read_and_nobody_without_a_token(world: ServedApi, path: str) -> None:
    assert world.ask(path).status_code == 200
    assert "takes a token" in world.problem(401, path, name="")
    assert world.problem(403, path, name="sender") == (
        "this takes a token with the scope read: weir-controller token FILE NAME --scope read"
    )


def test_what_is_answered_is_what_is_described(world: ServedApi) -> None:
    paths = world.ask("/v1/openapi.json", name="").json()["paths"]
    described = {path for path, methods in paths.items() if "get" in methods}
    told = {path.partition("?")[0] for path in READING} | {"/v1/health", "/v1/session"}
    assert described == (told - {"/metrics"}) | {"/v1/fountains/stream", "/v1/events/stream"}


def test_one_flow_is_told_hop_by_hop(world: ServedApi) -> None:
    path = "/v1/flows/one?src=10.0.0.1&dst=10.0.0.2&dst_port=80&src_port="
    told = world.ask(path + "1025").json()
    assert told["flow"]["src_port"] == 1025
    assert [hop["port"] for hop in told["hops"]] == told["flow"]["ports"]
    assert told["hops"][0]["hold"]["credit"]["weight"] == 7
    assert "no flow from 10.0.0.1:80 " in world.problem(404, path + "80")
    assert "src_port: '65536' is out of range" in world.problem(422, path + "65536")
    assert "src_port: is missing" in world.problem(422, path.removesuffix("&src_port="))


def test_flows_are_announced_renewed_and_withdrawn(world: ServedApi) -> None:
    told = world.controller.told
    response = world.ask("/v1/fountains/a:1", "PUT", "sender", json=FLOW)
    assert (response.status_code, response.json()["rate_bps"]) == (200, 5e7)
    assert told.announced["a:1"]["most_bps"] == 1000
    renewed = world.ask("/v1/fountains/a:1", "PATCH", "sender", json={"sends_bps": 7})
    assert (renewed.status_code, told.renewed) == (200, [("a:1", 7)])
    assert "scope announce" in world.problem(403, "/v1/fountains/a:1", "DELETE")
    for method, body in (("PUT", FLOW), ("PATCH", {"sends_bps": 1}), ("DELETE", None)):
        detail = world.problem(403, "/v1/fountains/a:1", method, name="neighbour", json=body)
        assert detail == "flow a:1 is announced by token sender"
    assert told.renewed == [("a:1", 7)]
    assert world.ask("/v1/fountains/a:1", "DELETE", "sender").json() == {"flow": "a:1"}
    for method, body in (("PATCH", {}), ("DELETE", None)):
        detail = world.problem(404, "/v1/fountains/a:1", method, name="sender", json=body)
        assert detail == "no flow a:1 is announced"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"src": "10.0.0.300"}, "src: '10.0.0.300' is no address; write e.g. 10.0.0.1"),
        ({"dst": None}, "dst: None is no address"),
        ({"most_bps": 0}, "most_bps: 0 is out of range; write a whole number from 1 to"),
        ({"most_bps": "1 Gbit/s"}, "most_bps: '1 Gbit/s' is not a number; write a whole"),
        ({"colour": "red"}, "colour: unknown parameter; known are src, dst, most_bps"),
    ],
)
def test_announcements_that_cannot_be_are_told(
    world: ServedApi, change: dict[str, object], says: str
) -> None:
    body = {"name": "sender", "json": FLOW | change}
    assert says in world.problem(422, "/v1/fountains/a", "PUT", **body)
    assert not world.controller.told.announced


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("limit=0", "limit: '0' is out of range; write a whole number from 1 to 1000"),
        ("host=10.0.0.300", "host: '10.0.0.300' is no address; write e.g. 10.0.0.1, 10.1.0.0/16"),
        ("class=elephant", "class: 'elephant' is not one of burst, background"),
        ("colour=red", "colour: unknown parameter; known are host, tcp_port, class"),
    ],
)
def test_queries_are_told_as_the_controller_tells_them(
    world: ServedApi, query: str, says: str
) -> None:
    assert says in world.problem(422, f"/v1/flows?{query}")
    assert not world.controller.told.queries


def test_what_the_controller_understands_may_be_asked(world: ServedApi) -> None:
    assert world.ask("/v1/flows?host=10.1.0.0/16").status_code == 200
    assert str(world.controller.told.queries[0].host) == "10.1.0.0/16"
    assert len(world.ask("/v1/ports?switch=0x1").json()["ports"]) == 2


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (Kind.REQUEST, 400),
        (Kind.PARAMETERS, 400),
        (Kind.UNKNOWN, 404),
        (Kind.CONFLICT, 409),
        (Kind.VALUE, 422),
        (Kind.NOT_READY, 503),
        (Kind.BUSY, 503),
        (Kind.INTERNAL, 500),
        (Kind.METHOD, 500),
        ("of a later version", 500),
    ],
)
def test_what_the_controller_refuses_has_a_status(
    world: ServedApi, kind: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> bytes:
        raise CallError(kind, "that is why")

    monkeypatch.setattr(world.controller, "ask", refuse)
    assert world.problem(status, "/v1/ports") == "that is why"


def test_metrics_are_served_without_tokens(world: ServedApi) -> None:
    upstream: Any = world.controller
    world.app = metrics.make(upstream)
    response = world.ask("/metrics", name="")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "\nweir_connections 1000.0\n" in response.text
    assert "weir_api_up" not in response.text
    assert world.ask("/metrics", "HEAD", name="").status_code == 200
    assert world.problem(404, "/", name="") == "there is no /; there is /metrics"
    assert "does not take POST; it takes " in world.problem(405, "/metrics", "POST", name="")
    world.controller.there = False
    assert world.problem(503, "/metrics", name="") == "not now: nobody listens"


def test_metrics_say_whether_the_api_is_up(world: ServedApi) -> None:
    upstream: Any = world.controller
    up = False
    world.app = metrics.make(upstream, lambda: up)
    assert world.ask("/metrics", name="").text.endswith("\nweir_api_up 0.0\n")
    up = True
    assert world.ask("/metrics", name="").text.endswith("\nweir_api_up 1.0\n")


def test_other_problems(world: ServedApi) -> None:
    assert world.problem(404, "/v1/nothing").startswith("there is no /v1/nothing; ")
    assert world.problem(405, "/v1/ports", "POST").endswith("it takes GET")
    assert "flow: " in world.problem(422, "/v1/fountains/a%20b", "DELETE", name="sender")
    assert "no host" in world.problem(404, "/v1/bandwidth?src=10.0.0.1&dst=10.0.0.9")
    text = "x" * 70_000
    told = world.problem(413, "/v1/fountains/a", "PUT", name="sender", content=text)
    assert "at most 65536 bytes" in told
    broken: dict[str, Any] = {"content": "{", "headers": {"Content-Type": "application/json"}}
    assert "JSON" in world.problem(422, "/v1/fountains/a", "PUT", name="sender", **broken)


def test_without_its_controller_it_says_so(world: ServedApi) -> None:
    world.controller.there = False
    assert world.problem(503, "/v1/ports") == "not now: nobody listens"
    assert world.ask("/v1/ports").headers["retry-after"] == "1"
    assert world.problem(503, "/v1/health", name="")


def test_health_needs_no_token_and_tells_whether_to_rely_on_it(world: ServedApi) -> None:
    assert world.ask("/v1/health", name="").json()["status"] == "ready"
    world.controller.told.reason = "learns"
    told = world.ask("/v1/health", name="").json()
    assert (told["status"], told["detail"]) == ("not ready", "the controller learns")


def test_refused_tokens_are_counted_and_logged(
    world: ServedApi, caplog: pytest.LogCaptureFixture
) -> None:
    world.problem(401, "/v1/ports", name="")
    assert world.ask("/v1/ports", name="").headers["www-authenticate"] == 'Bearer realm="weir"'
    wrong = {"Authorization": "Bearer weir_nonsense"}
    response = world.ask("/v1/ports", name="", headers=wrong)
    assert response.headers["www-authenticate"].endswith('error="invalid_token"')
    world.problem(403, "/v1/ports", name="sender")
    world.now += timedelta(days=2)
    assert "has expired" in world.problem(401, "/v1/ports")
    counted = world.counted("weir_api_tokens_refused_total")
    assert counted == {"missing": 2, "unknown": 1, "scope": 1, "expired": 1}
    assert "token sender from 127.0.0.1 was refused" in caplog.text
    assert "nonsense" not in caplog.text


def test_who_asks_too_often_has_to_wait(tmp_path: Path) -> None:
    world = ServedApi(tmp_path, rate=5.0)
    statuses = [world.ask("/v1/health", name="").status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    statuses = [world.ask("/v1/ports").status_code for _ in range(12)]
    assert statuses == [200] * 10 + [429] * 2
    assert world.ask("/v1/ports").headers["retry-after"] == "1"
    world.clock_s += 1.0
    assert world.ask("/v1/ports").status_code == 200


def test_strangers_are_slowed_down(world: ServedApi) -> None:
    statuses = [world.ask("/v1/ports", name="").status_code for _ in range(60)]
    assert statuses.count(401) == 40
    assert statuses[-1] == 429
    # Those with a token are not held up by them.
    assert world.ask("/v1/ports").status_code == 200


def test_browsers_of_other_sites_may_not_ask(tmp_path: Path, world: ServedApi) -> None:
    origin = {"Origin": "https://dash.example.org"}
    assert "access-control-allow-origin" not in world.ask("/v1/ports", headers=origin).headers
    allowing = ServedApi(tmp_path, origins=("https://dash.example.org",))
    told = allowing.ask("/v1/ports", headers=origin).headers
    assert told["access-control-allow-origin"] == "https://dash.example.org"
    undo = {**origin, "Access-Control-Request-Method": "POST"}
    asked = allowing.ask("/v1/settings/undo", "OPTIONS", headers=undo)
    assert asked.status_code == 200
    assert "POST" in asked.headers["access-control-allow-methods"]
    other = allowing.ask("/v1/ports", headers={"Origin": "https://evil.example.org"}).headers
    assert "access-control-allow-origin" not in other


def test_the_topology_has_each_link_once(world: ServedApi) -> None:
    told = world.ask("/v1/topology").json()
    assert {one["switch"] for one in told["switches"]} == {1, 2}
    ends = [frozenset((link["a"], link["b"])) for link in told["links"]]
    assert len(ends) == len(set(ends))
    (link,) = told["links"]
    assert (link["a"], link["protected"]) == ("0000000000000001:1", False)
    assert (link["loss"], link["loss_back"]) == (0.002, None)


# Streams

Following = Callable[[], AsyncIterator[dict[str, object] | None]]


async def silent() -> AsyncIterator[list[dict[str, object]]]:
    yield []
    await asyncio.Event().wait()


def share(flow: str, rate_bps: float | None = 1.0) -> dict[str, object]:
    return {"flow": flow, "src": None if rate_bps is None else "10.0.0.1", "rate_bps": rate_bps}


def shares(most: int = 10) -> Hub:
    return Hub(
        "share",
        silent,
        most,
        key=lambda told: str(told["flow"]),
        gone=lambda told: told["src"] is None,
    )


def said(text: bytes) -> list[tuple[str, Any]]:
    found = []
    for event in text.decode().split("\n\n"):
        lines = dict(row.split(": ", 1) for row in event.splitlines() if row[:1] != ":")
        if lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


def test_a_listener_hears_the_state_and_then_what_changes() -> None:
    async def listen() -> None:
        hub = shares()
        hub.tell(share("a", 1.0))
        hub.tell(share("b", 2.0))
        hub.tell(share("a", 3.0))
        hub.tell(share("b", None))
        with hub.listening() as of_all, hub.listening("b") as of_b:
            assert [told["rate_bps"] for _, told in said(await anext(of_all))] == [3.0]
            assert said(await anext(of_b)) == []
            hub.tell(share("a", 4.0))
            hub.tell(share("b", 5.0))
            told = [(kind, one["rate_bps"]) for kind, one in said(await anext(of_all))]
            assert told == [("share", 4.0), ("share", 5.0)]
            assert [one["rate_bps"] for _, one in said(await anext(of_b))] == [5.0]

    asyncio.run(listen())


def test_a_listener_that_does_not_read_is_dropped_and_others_go_on() -> None:
    async def listen() -> None:
        hub = shares()
        heard = []

        async def reads() -> None:
            with hub.listening() as told:
                async for text in told:
                    heard.extend(said(text))

        async def stalls() -> None:
            with hub.listening() as told:
                async for _ in told:
                    await asyncio.Event().wait()

        reading, stalled = asyncio.create_task(reads()), asyncio.create_task(stalls())
        await asyncio.sleep(0)
        for n in range(1000):
            hub.tell(share("a", float(n)))
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        assert stalled.cancelled()
        assert (hub.dropped, len(hub)) == (1, 1)
        assert [told["rate_bps"] for _, told in heard] == [float(n) for n in range(1000)]
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert not len(hub)

    asyncio.run(listen())


def test_there_is_room_for_so_many_listeners() -> None:
    hub = shares(most=2)
    with hub.listening(), hub.listening(), pytest.raises(FullError, match="2 listen already"):
        hub.listening().__enter__()
    with hub.listening():
        assert len(hub) == 1


def test_a_listener_that_leaves_before_it_hears_anything_is_forgotten(world: ServedApi) -> None:
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/v1/events/stream",
        "query_string": b"",
        "headers": [(b"authorization", f"Bearer {world.secrets['reader']}".encode())],
    }

    async def leave() -> dict[str, object]:
        return {"type": "http.disconnect"}

    async def never_sent(_: object) -> None:
        await asyncio.Event().wait()

    asyncio.run(world.app(scope, leave, never_sent))
    assert len(world.api.events) == 0
    assert world.counted("weir_api_requests_total") == {"200": 1.0}


def test_too_many_listeners_are_told_to_come_back(
    world: ServedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.api.events, "_most", 0)
    assert "0 listen already" in world.problem(503, "/v1/events/stream")


def test_nothing_goes_on_half(world: ServedApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its work in the background, the API would accept tokens that are revoked."""
    monkeypatch.setattr("controller.api.state._LOOK_S", 0.0)
    monkeypatch.setattr(world.api.tokens, "follow", lambda: 1 / 0)
    with pytest.raises(ExceptionGroup) as failed:
        asyncio.run(asyncio.wait_for(world.api.run(), 5))
    assert failed.group_contains(ZeroDivisionError)


def test_a_controller_that_comes_back_is_followed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.api.hub._AGAIN_S", 0.0)
    attempts = 0

    async def follow() -> AsyncIterator[list[dict[str, object]]]:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise UnavailableError("not yet")
        yield [share("a", float(attempts))]
        if attempts > 2:
            await asyncio.Event().wait()

    async def listen() -> None:
        hub = Hub("share", follow, 5, key=lambda told: str(told["flow"]))
        running = asyncio.create_task(hub.run())
        rates: list[float] = []
        with hub.listening() as told:
            async for text in told:
                rates += [one["rate_bps"] for _, one in said(text)]
                if len(rates) == 2:
                    break
        assert rates == [2.0, 3.0]
        running.cancel()

    asyncio.run(listen())
