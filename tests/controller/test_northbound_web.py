"""The API as WSGI: answers, pages, streams, and problems for what cannot be answered."""

import json
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.test import Client, TestResponse

from controller.config import schema
from controller.northbound import queries
from controller.northbound.metrics import Exposition
from controller.northbound.queries import QueryError
from controller.northbound.resources import Resources, Stream
from controller.northbound.server import ListenError, serving
from controller.northbound.turns import TURN_NS, Turns
from controller.northbound.web import Api, Metrics
from fake_source import Told


class World:
    def __init__(self) -> None:
        self.told = Told()
        self.now_ns = 0
        self.pauses = 0
        self.turns = Turns(self.clock_ns, self.pause)
        self.slept_s = 0.0
        self.resources = Resources(self.told, self.told, self.turns.breathe, self.sleep)
        self.client = Client(Api(self.resources, self.turns))

    def clock_ns(self) -> int:
        self.now_ns += TURN_NS // 10
        return self.now_ns

    def pause(self) -> None:
        self.pauses += 1

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds

    def get(self, path: str, **parameters: object) -> Any:
        response = self.client.get(path, query_string=parameters)
        assert (response.status_code, response.content_type) == (200, "application/json")
        return json.loads(response.data)

    def problem(self, path: str, status: int, method: str = "GET", **parameters: object) -> str:
        response: TestResponse = self.client.open(
            path, method=method, query_string=parameters or None
        )
        assert response.content_type == "application/problem+json"
        problem = json.loads(response.data)
        assert problem["status"] == response.status_code == status
        assert problem["title"]
        return problem["detail"]


@pytest.fixture
def world() -> World:
    return World()


def test_every_resource_answers_and_is_listed(world: World) -> None:
    needed = {"/v1/bandwidth": {"src": "10.0.0.1", "dst": "10.0.0.2"}}
    for path in world.get("/v1/")["resources"]:
        assert world.get(path, **needed.get(path, {}))


def test_health_and_readiness(world: World) -> None:
    assert world.get("/v1/health")["status"] == "alive"
    assert world.get("/v1/ready") == {"status": "ready"}
    world.told.reason = "learns"
    assert world.problem("/v1/ready", 503) == "the controller learns"
    assert world.get("/v1/health")["status"] == "alive"


def test_ports_can_be_those_of_a_switch(world: World) -> None:
    assert len(world.get("/v1/ports")["ports"]) == 4
    assert {row["switch"] for row in world.get("/v1/ports", switch="0x2")["ports"]} == {2}
    assert world.get("/v1/regulation", switch=1)["scheme"] == "weir"
    assert [row["switch"] for row in world.get("/v1/switches", switch=2)["switches"]] == [2]


def test_a_long_listing_is_whole_and_made_in_turns(world: World) -> None:
    world.told.n_ports = 500
    rows = world.get("/v1/ports")["ports"]
    assert [row["port"] for row in rows] == [*range(1, 501)] * 2
    assert world.pauses > 50


def test_flows_come_by_the_page(world: World) -> None:
    seen, offset = [], 0
    while offset is not None:
        page = world.get("/v1/flows", limit=40, offset=offset)
        assert page["total"] == 150
        seen += [row["src_port"] for row in page["flows"]]
        offset = page["next_offset"]
    assert seen == [1024 + number for number in range(150)]


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"limit": "0"}, "limit: '0' is out of range; write a whole number from 1 to 1000"),
        ({"limit": "ten"}, "limit: 'ten' is not a number"),
        ({"limit": "9" * 5000}, "is not a number"),
        ({"limit": "٣"}, "is not a number"),
        ({"offset": "-1"}, "offset: '-1' is out of range"),
        ({"host": "10.0.0.300"}, "host: '10.0.0.300' is no address; write e.g. 10.0.0.1"),
        ({"class": "elephant"}, "class: 'elephant' is not one of burst, background"),
        ({"tcp_port": "65536"}, "tcp_port: '65536' is out of range"),
        ({"colour": "red"}, "colour: unknown parameter; known are limit, offset, host"),
    ],
)
def test_what_cannot_be_asked_is_told(world: World, parameters: dict[str, str], says: str) -> None:
    assert says in world.problem("/v1/flows", 400, **parameters)
    assert not world.told.queries


def test_the_bandwidth_of_a_path(world: World) -> None:
    path = world.get("/v1/bandwidth", src="10.0.0.1", dst="FD00::1")
    assert (path["dst"], path["available_bps"], path["error_bps"]) == ("fd00::1", 6e7, 1e6)
    detail = world.problem("/v1/bandwidth", 404, src="10.0.0.1", dst="10.0.0.9")
    assert detail == "no host of this address is known: 10.0.0.9"
    assert world.problem("/v1/bandwidth", 400, src="10.0.0.1") == "dst: is missing"
    assert "'x' is no address" in world.problem("/v1/bandwidth", 400, src="x", dst="10.0.0.1")


def test_flows_are_announced_renewed_and_withdrawn(world: World) -> None:
    flow = {"flow": "host-1:7", "src": "10.0.0.1", "dst": "10.0.0.2", "most_bps": "1000"}
    answer = world.client.put("/v1/fountains", query_string=flow)
    assert (answer.status_code, json.loads(answer.data)["rate_bps"]) == (200, 5e7)
    assert [row["flow"] for row in world.get("/v1/fountains")["fountains"]] == ["host-1:7"]
    answer = world.client.patch(
        "/v1/fountains", query_string={"flow": "host-1:7", "sends_bps": "5"}
    )
    assert (answer.status_code, world.told.renewed) == (200, [("host-1:7", 5)])
    answer = world.client.delete("/v1/fountains", query_string={"flow": "host-1:7"})
    assert (answer.status_code, world.told.announced) == (200, {})
    for method in ("PATCH", "DELETE"):
        detail = world.problem("/v1/fountains", 404, method=method, flow="host-1:7")
        assert detail == "no flow host-1:7 is announced"


@pytest.mark.parametrize(
    ("method", "parameters", "status", "says"),
    [
        (
            "PUT",
            {"flow": "a b", "src": "10.0.0.1", "dst": "10.0.0.2"},
            400,
            "flow: 'a b' is no name",
        ),
        ("PUT", {"flow": "a" * 65, "src": "10.0.0.1", "dst": "10.0.0.2"}, 400, "is no name"),
        ("PUT", {"flow": "a", "src": "10.0.0.1"}, 400, "dst: is missing"),
        (
            "PUT",
            {"flow": "a", "src": "10.0.0.1", "dst": "10.0.0.2", "most_bps": "0"},
            400,
            "most_bps: '0' is out of range",
        ),
        (
            "PUT",
            {"flow": "a", "src": "10.0.0.1", "dst": "10.0.0.9"},
            404,
            "no host of this address",
        ),
        ("POST", {"flow": "a"}, 405, "this takes GET, HEAD, PUT, PATCH, DELETE"),
    ],
)
def test_announcements_that_cannot_be_taken_are_told(
    world: World, method: str, parameters: dict[str, str], status: int, says: str
) -> None:
    assert says in world.problem("/v1/fountains", status, method=method, **parameters)
    assert not world.told.announced


def test_shares_are_followed_from_what_there_is(world: World) -> None:
    world.told.announce("a", "10.0.0.1", "10.0.0.2", None)
    answer = world.resources.fountains({"follow": "true"})
    assert isinstance(answer, Stream)
    batches = [[share["flow"] for share in batch] for batch in answer.batches]
    assert batches == [["a"], [], ["a"]]


def test_other_problems(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "there are /v1/" in world.problem("/v1/nothing", 404)
    assert "only be read" in world.problem("/v1/flows", 405, "POST")
    assert "stands 2 times" in world.problem("/v1/ports?switch=1&switch=2", 400)
    assert "there are none here" in world.problem("/v1/health", 400, switch=1)
    monkeypatch.setattr(world.told, "ports", lambda _switch: 1 / 0)
    assert "log of the controller" in world.problem("/v1/ports", 500)


def test_an_answer_that_cannot_be_finished_is_cut_off_and_logged(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    whole = world.told.ports

    def ports(switch: int | None = None):
        yield from whole(switch)
        raise ZeroDivisionError

    monkeypatch.setattr(world.told, "ports", ports)
    response = world.client.get("/v1/ports")
    with pytest.raises(ZeroDivisionError):
        _ = response.data
    assert "could not be finished" in caplog.text


def test_past_events(world: World) -> None:
    world.told.happens(300)
    answer = world.get("/v1/events")
    assert [event["serial"] for event in answer["events"]] == [*range(201, 301)]
    assert answer["next_after"] == 300
    answer = world.get("/v1/events", after=10, limit=5)
    assert [event["serial"] for event in answer["events"]] == [11, 12, 13, 14, 15]
    assert answer["next_after"] == 15
    # A restarted controller counts anew.
    assert world.get("/v1/events", after=10_000)["next_after"] == 300


def follow(world: World, **parameters: str) -> Any:
    answer = world.resources.events({"follow": "true", **parameters})
    assert isinstance(answer, Stream)
    return answer.batches


def test_events_are_followed(world: World) -> None:
    world.told.happens(10)
    batches = follow(world, limit="2")
    assert [event["serial"] for event in next(batches)] == [9, 10]
    world.told.happens(3)
    assert [event["serial"] for event in next(batches)] == [11, 12, 13]


def test_who_follows_too_slowly_is_told_what_is_missing(world: World) -> None:
    world.told.happens(10)
    batches = follow(world)
    assert len(next(batches)) == 10
    world.told.happens(50)
    del world.told.log[:40]
    missed, first, *_ = next(batches)
    assert missed == {"event": "events_missed", "missed": 30}
    assert first["serial"] == 41


def test_a_silent_stream_shows_that_it_lives(world: World) -> None:
    assert next(follow(world)) == []
    assert 5 <= world.slept_s <= 15


def test_followers_are_limited(world: World) -> None:
    world.told.happens(1)
    streams = []
    for _ in range(32):
        stream = world.client.get("/v1/events?follow=true", buffered=False).iter_encoded()
        assert json.loads(next(iter(stream)))["serial"] == 1
        streams.append(stream)
    assert "follow already" in world.problem("/v1/events", 503, follow="true")
    streams.pop().close()
    assert world.client.get("/v1/events?follow=true", buffered=False).status_code == 200


def test_metrics_are_text(world: World) -> None:
    turns = Turns(world.clock_ns, world.pause)
    client = Client(Metrics(Exposition(world.told, turns.breathe), turns))
    response = client.get("/metrics")
    assert response.content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert b"weir_connections 1000.0" in response.data
    assert world.pauses > 10
    assert client.get("/").status_code == 404


class TestTurns:
    def test_a_short_turn_is_not_interrupted(self) -> None:
        pauses: list[int] = []
        turns = Turns(lambda: 0, lambda: pauses.append(1))
        with turns.turn():
            turns.breathe()
        assert not pauses

    def test_a_failed_turn_is_over(self) -> None:
        turns = Turns(lambda: 0, lambda: None)
        with pytest.raises(ZeroDivisionError), turns.turn():
            raise ZeroDivisionError
        with turns.turn():
            pass

    def test_only_one_has_it(self) -> None:
        import eventlet

        now_ns = 0
        turns = Turns(lambda: now_ns, lambda: eventlet.sleep(0))
        inside, most = 0, 0

        def reader() -> None:
            nonlocal inside, most, now_ns
            with turns.turn():
                for _ in range(20):
                    inside += 1
                    most = max(most, inside)
                    now_ns += TURN_NS
                    inside -= 1
                    turns.breathe()

        for green in [eventlet.spawn(reader) for _ in range(5)]:
            green.wait()
        assert most == 1


class TestQueries:
    @given(st.dictionaries(st.text(max_size=8), st.text(max_size=40), max_size=4))
    def test_anything_is_a_query_or_an_error_of_it(self, parameters: dict[str, str]) -> None:
        for read in (queries.flows, queries.events, queries.switch_of):
            try:
                read(parameters)
            except QueryError as error:
                assert str(error)

    @given(
        st.integers(1, queries.MOST_ROWS),
        st.integers(0, queries.FARTHEST_ROW),
        st.ip_addresses(),
        st.integers(0, 65_535),
    )
    def test_what_is_right_is_understood(
        self, limit: int, offset: int, host: Any, port: int
    ) -> None:
        query = queries.flows(
            {
                "limit": str(limit),
                "offset": hex(offset),
                "host": str(host),
                "tcp_port": str(port),
                "class": "background",
            }
        )
        assert (query.limit, query.offset, query.tcp_port) == (limit, offset, port)
        assert query.host is not None
        assert host in query.host
        assert query.host.num_addresses == 1


@given(st.text(max_size=30), st.text(max_size=60))
def test_no_request_fails_within(path: str, query: str) -> None:
    client = World().client
    response = client.get(f"/{path.replace('?', '')}", query_string=query)
    assert response.status_code in (200, 400, 404)


def test_stream_has_no_end_of_its_own(world: World) -> None:
    assert len(list(islice(follow(world), 5))) == 5


class TestSocketThatCannotBeHad:
    PATHS = ("/none/such/controller.sock", "/tmp/" + "x" * 120)

    @pytest.mark.parametrize("path", PATHS)
    def test_it_is_done_without_unless_it_was_asked_for(
        self, path: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        with serving(Told(), Told(), lambda: 0, None, path, api_must=False):
            pass
        (record,) = caplog.records
        assert path in record.getMessage()
        assert "set northbound.socket" in record.getMessage()

    @pytest.mark.parametrize("path", PATHS)
    def test_otherwise_the_controller_does_not_start(self, path: str) -> None:
        with (
            pytest.raises(ListenError, match=r"set northbound.socket to another path, or to off"),
            serving(Told(), Told(), lambda: 0, None, path, api_must=True),
        ):
            pass


def test_the_socket_is_asked_for_if_it_is_named() -> None:
    assert not schema.validate({}).northbound.socket_must
    assert schema.validate({"northbound": {"socket": "/run/x/y"}}).northbound.socket_must
    north = schema.validate({"northbound": {"socket": False, "metrics": "[::1]:9464"}}).northbound
    assert (north.socket, north.metrics) == (None, ("::1", 9464))
