"""The RPC without its sockets: answers, pages, streams, and errors for what cannot be answered."""

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import eventlet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.config import reading
from controller.northbound.dispatcher import Dispatcher
from controller.northbound.handlers import Handlers
from controller.northbound.scheduler import SLICE_NS, Scheduler
from controller.northbound.server import ListenError, serving
from controller.rpc import messages
from controller.rpc.messages import CallError, Kind
from controller.rpc.methods import FARTHEST_ROW, METHODS, MOST_ROWS, FlowQuery, read
from fake_source import Told


class DispatcherAndSource:
    """A dispatcher that answers from made-up views, on a clock of its own."""

    def __init__(self) -> None:
        self.told = Told()
        self.now_ns = 0
        self.pauses = 0
        self.scheduler = Scheduler(self.clock_ns, self.pause)
        self.slept_s = 0.0
        self.handlers = Handlers(
            self.told,
            self.told,
            self.told,
            self.told.changing,
            self.scheduler.checkpoint,
            self.sleep,
        )
        self.dispatcher = Dispatcher(self.handlers, self.scheduler)

    def clock_ns(self) -> int:
        self.now_ns += SLICE_NS // 10
        return self.now_ns

    def pause(self) -> None:
        self.pauses += 1

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds

    def ask(self, method: str, **params: object) -> Any:
        """Raises CallError."""
        return self.answer(messages.request(method, params))

    def answer(self, request: bytes) -> Any:
        """Raises CallError."""
        answer = messages.Assembly()
        lines = list(self.dispatcher.answer(request))
        assert all(line.count(b"\n") == 1 and line.endswith(b"\n") for line in lines)
        assert [answer.take(line) for line in lines] == [False] * (len(lines) - 1) + [True]
        return json.loads(answer.body)

    def problem(self, kind: Kind, method: str, **params: object) -> str:
        return self.refusal(kind, messages.request(method, params))

    def refusal(self, kind: Kind, request: bytes) -> str:
        with pytest.raises(CallError) as error:
            self.answer(request)
        assert error.value.kind == kind
        return error.value.detail


@pytest.fixture
def world() -> DispatcherAndSource:
    return DispatcherAndSource()


ENDS = {"src": "10.0.0.1", "dst": "10.0.0.2"}
NEEDED: dict[str, Mapping[str, object]] = {
    "bandwidth": ENDS,
    "flow": {**ENDS, "src_port": 40_000, "dst_port": 80},
    "announce": {"flow": "a", **ENDS},
    "renew": {"flow": "a"},
    "withdraw": {"flow": "a"},
    "change": {"changes": {"log.level": "debug"}},
    "undo": {"id": "1"},
}


def test_every_method_answers_and_is_listed(world: DispatcherAndSource) -> None:
    told = world.ask("help")
    assert told.keys() == METHODS.keys()
    assert told["ports"] == ["switch"]
    assert "class" in told["flows"]
    for method in told:
        answer = world.dispatcher.answer(messages.request(method, NEEDED.get(method)))
        assert messages.head(next(answer))


def test_health_and_readiness(world: DispatcherAndSource) -> None:
    assert world.ask("health")["status"] == "alive"
    assert world.ask("ready") == {"status": "ready"}
    world.told.reason = "learns"
    assert world.problem(Kind.NOT_READY, "ready") == "the controller learns"
    assert world.ask("health")["status"] == "alive"


def test_ports_can_be_those_of_a_switch(world: DispatcherAndSource) -> None:
    assert len(world.ask("ports")["ports"]) == 4
    assert {row["switch"] for row in world.ask("ports", switch="0x2")["ports"]} == {2}
    assert world.ask("regulation", switch=1)["scheme"] == "weir"
    assert [row["switch"] for row in world.ask("switches", switch=2)["switches"]] == [2]
    told = world.problem(Kind.UNKNOWN, "ports", switch=2**64 - 1)
    assert told.startswith("no switch ffffffffffffffff is known; there are 0000000000000001, ")


def test_a_long_listing_is_whole_and_made_in_slices(world: DispatcherAndSource) -> None:
    world.told.n_ports = 500
    rows = world.ask("ports")["ports"]
    assert [row["port"] for row in rows] == [*range(1, 501)] * 2
    assert world.pauses > 50


def test_a_listing_is_made_while_it_is_taken(world: DispatcherAndSource) -> None:
    world.told.n_ports = 10**9
    answer = world.dispatcher.answer(messages.request("ports"))
    assert messages.head(next(answer)) == ({}, "ports")
    rows = messages.rows(next(answer))
    assert [row["port"] for row in rows] == [*range(1, len(rows) + 1)]


def test_flows_come_by_the_page(world: DispatcherAndSource) -> None:
    seen, offset = [], 0
    while offset is not None:
        page = world.ask("flows", limit=40, offset=offset)
        assert page["total"] == 150
        seen += [row["src_port"] for row in page["flows"]]
        offset = page["next_offset"]
    assert seen == [1024 + number for number in range(150)]


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"limit": "0"}, "limit: '0' is out of range; write a whole number from 1 to 1000"),
        ({"limit": 1001}, "limit: 1001 is out of range; write a whole number from 1 to 1000"),
        ({"limit": "ten"}, "limit: 'ten' is not a number"),
        ({"limit": 1.5}, "limit: 1.5 is not a number"),
        ({"limit": True}, "limit: True is not a number"),
        ({"limit": [1]}, "limit: [1] is not a number"),
        ({"limit": "9" * 5000}, "is not a number"),
        ({"limit": "٣"}, "is not a number"),
        ({"offset": "-1"}, "offset: '-1' is out of range"),
        ({"host": "10.0.0.300"}, "host: '10.0.0.300' is no address; write e.g. 10.0.0.1"),
        ({"host": 167_772_161}, "host: 167772161 is no address; write e.g. 10.0.0.1"),
        ({"class": "elephant"}, "class: 'elephant' is not one of burst, background"),
        ({"flow_class": "burst"}, "flow_class: unknown parameter; known are host"),
        ({"tcp_port": "65536"}, "tcp_port: '65536' is out of range"),
        ({"switch": 2**64}, "is out of range; write a whole number from 0 to 18446744073709551615"),
        ({"colour": "red"}, "colour: unknown parameter; known are host, tcp_port, class"),
        ({"x" * 5000: 1}, "xxx: unknown parameter"),
    ],
)
def test_what_cannot_be_asked_is_told(
    world: DispatcherAndSource, params: dict[str, object], says: str
) -> None:
    detail = world.problem(Kind.PARAMETERS, "flows", **params)
    assert says in detail
    assert len(detail) < 250
    assert not world.told.queries


def test_the_bandwidth_of_a_path(world: DispatcherAndSource) -> None:
    path = world.ask("bandwidth", src="10.0.0.1", dst="FD00::1")
    assert (path["dst"], path["available_bps"], path["error_bps"]) == ("fd00::1", 6e7, 1e6)
    detail = world.problem(Kind.UNKNOWN, "bandwidth", src="10.0.0.1", dst="10.0.0.9")
    assert detail == "no host of this address is known: 10.0.0.9"
    assert world.problem(Kind.PARAMETERS, "bandwidth", src="10.0.0.1") == "dst: is missing; add it"
    told = world.problem(Kind.PARAMETERS, "bandwidth", src="x", dst="10.0.0.1")
    assert told == "src: 'x' is no address; write e.g. 10.0.0.1 or fd00::1"


def test_flows_are_announced_renewed_and_withdrawn(world: DispatcherAndSource) -> None:
    assert world.ask("announce", flow="host-1:7", most_bps="1000", **ENDS)["rate_bps"] == 5e7
    assert [row["flow"] for row in world.ask("fountains")["fountains"]] == ["host-1:7"]
    assert world.ask("renew", flow="host-1:7", sends_bps=5)
    assert world.told.renewed == [("host-1:7", 5)]
    assert world.ask("withdraw", flow="host-1:7") == {"flow": "host-1:7"}
    assert world.told.announced == {}
    for method in ("renew", "withdraw"):
        detail = world.problem(Kind.UNKNOWN, method, flow="host-1:7")
        assert detail == "no flow host-1:7 is announced"


@pytest.mark.parametrize(
    ("kind", "params", "says"),
    [
        (Kind.PARAMETERS, {"flow": "a b", **ENDS}, "flow: 'a b' is no name; write 1 to 64 of"),
        (Kind.PARAMETERS, {"flow": "a" * 65, **ENDS}, "is no name"),
        (Kind.PARAMETERS, {"flow": "a\n", **ENDS}, "is no name"),
        (Kind.PARAMETERS, {"flow": "a", "src": "10.0.0.1"}, "dst: is missing"),
        (Kind.PARAMETERS, {"flow": "a", "most_bps": "0", **ENDS}, "most_bps: '0' is out of range"),
        (Kind.UNKNOWN, {"flow": "a", **ENDS, "dst": "10.0.0.9"}, "no host of this address"),
    ],
)
def test_announcements_that_cannot_be_taken_are_told(
    world: DispatcherAndSource, kind: Kind, params: dict[str, str], says: str
) -> None:
    assert says in world.problem(kind, "announce", **params)
    assert not world.told.announced


def test_shares_are_followed_from_what_there_is(world: DispatcherAndSource) -> None:
    world.told.announce("a", "10.0.0.1", "10.0.0.2", None)
    head, *batches, end = world.dispatcher.answer(messages.request("follow_fountains"))
    assert messages.head(head) == ({}, "fountains")
    flows = [[share["flow"] for share in messages.rows(batch)] for batch in batches]
    assert flows == [["a"], [], ["a"]]
    # The source ends a stream that is not read in time.
    with pytest.raises(CallError, match="follow again") as ended:
        messages.rows(end)
    assert ended.value.kind == Kind.BUSY


def test_other_problems(world: DispatcherAndSource, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "there is no method 'nothing'; there are help" in world.problem(Kind.METHOD, "nothing")
    # What dispatches is no method.
    assert world.problem(Kind.METHOD, "answer")
    assert "there are none here" in world.problem(Kind.PARAMETERS, "health", switch=1)
    monkeypatch.setattr(world.told, "ports", lambda _switch: 1 / 0)
    assert "log of the controller" in world.problem(Kind.INTERNAL, "ports")
    assert world.ask("switches")


def test_an_answer_that_cannot_be_finished_says_so_and_is_logged(
    world: DispatcherAndSource, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    whole = world.told.ports

    def ports(switch: int | None = None):
        yield from whole(switch)
        raise ZeroDivisionError

    monkeypatch.setattr(world.told, "ports", ports)
    assert "log of the controller" in world.problem(Kind.INTERNAL, "ports")
    assert "ZeroDivisionError" in caplog.text


def test_past_events(world: DispatcherAndSource) -> None:
    world.told.happens(300)
    answer = world.ask("events")
    assert [event["serial"] for event in answer["events"]] == [*range(201, 301)]
    assert answer["next_after"] == 300
    answer = world.ask("events", after=10, limit=5)
    assert [event["serial"] for event in answer["events"]] == [11, 12, 13, 14, 15]
    assert answer["next_after"] == 15
    # A restarted controller counts anew.
    assert world.ask("events", after=10_000)["next_after"] == 300


def follow(world: DispatcherAndSource, **params: object) -> Iterator[list[dict[str, Any]]]:
    answer = world.dispatcher.answer(messages.request("follow_events", params))
    told = world.told
    assert messages.head(next(answer)) == ({"run": told.run(), "last": told.last_event()}, "events")
    return map(messages.rows, answer)


def test_events_are_followed(world: DispatcherAndSource) -> None:
    world.told.happens(10)
    batches = follow(world, limit="2")
    assert [event["serial"] for event in next(batches)] == [9, 10]
    world.told.happens(3)
    assert [event["serial"] for event in next(batches)] == [11, 12, 13]


def test_who_comes_back_follows_on_and_in_another_run_from_its_begin(
    world: DispatcherAndSource,
) -> None:
    world.told.happens(10)
    assert next(follow(world, after=7, run="first"))[0]["serial"] == 8
    assert next(follow(world, after=7, run="former"))[0]["serial"] == 1
    world.told.run_name = "second"
    assert next(follow(world, after=10, run="first"))[0]["serial"] == 1


def test_who_follows_too_slowly_is_told_what_is_missing(world: DispatcherAndSource) -> None:
    world.told.happens(10)
    batches = follow(world)
    assert len(next(batches)) == 10
    world.told.happens(50)
    del world.told.log[:40]
    missed, first, *_ = next(batches)
    assert missed == {"event": "events_missed", "missed": 30}
    assert first["serial"] == 41


def test_a_silent_stream_shows_that_it_lives(world: DispatcherAndSource) -> None:
    assert next(follow(world)) == []
    assert 5 <= world.slept_s <= 15


def test_a_stream_has_no_end_of_its_own(world: DispatcherAndSource) -> None:
    assert len(list(islice(follow(world), 5))) == 5


def test_followers_are_limited(world: DispatcherAndSource) -> None:
    world.told.happens(1)
    request = messages.request("follow_events")
    streams = [world.dispatcher.answer(request) for _ in range(32)]
    for stream in streams:
        _, rows = islice(stream, 2)
        assert messages.rows(rows)[0]["serial"] == 1
    assert "follow already" in world.problem(Kind.BUSY, "follow_events")
    streams.pop().close()
    assert next(follow(world))


def test_metrics_are_text(world: DispatcherAndSource) -> None:
    world.told.n_ports = 100
    told = world.ask("metrics")
    assert told["content_type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "weir_connections 1000.0" in "".join(told["text"])
    assert all(piece.endswith("\n") and len(piece) < 20_000 for piece in told["text"])
    assert world.pauses > 10


class TestScheduler:
    def test_the_main_loop_has_a_round_before_every_slice(self) -> None:
        pauses: list[int] = []
        scheduler = Scheduler(lambda: 0, lambda: pauses.append(1))
        for n in (1, 2):
            with scheduler.slice():
                assert len(pauses) == n
                # A short slice is not interrupted.
                scheduler.checkpoint()
            assert len(pauses) == n

    def test_a_failed_slice_is_over(self) -> None:
        scheduler = Scheduler(lambda: 0, lambda: None)
        with pytest.raises(ZeroDivisionError), scheduler.slice():
            raise ZeroDivisionError
        with scheduler.slice():
            pass

    def test_only_one_computes(self) -> None:
        now_ns = 0
        scheduler = Scheduler(lambda: now_ns, lambda: eventlet.sleep(0))
        inside, most = 0, 0

        def reader() -> None:
            nonlocal inside, most, now_ns
            with scheduler.slice():
                for _ in range(20):
                    inside += 1
                    most = max(most, inside)
                    now_ns += SLICE_NS
                    inside -= 1
                    scheduler.checkpoint()

        for green in [eventlet.spawn(reader) for _ in range(5)]:
            green.wait()
        assert most == 1

    @pytest.mark.parametrize("waits", [True, False], ids=["for others", "for the main loop"])
    def test_who_is_killed_while_it_waits_holds_up_nobody(self, waits: bool) -> None:
        now_ns = 0
        scheduler = Scheduler(lambda: now_ns, lambda: eventlet.sleep(0))

        def reader() -> None:
            nonlocal now_ns
            with scheduler.slice():
                while True:
                    now_ns += SLICE_NS
                    scheduler.checkpoint()

        readers = [eventlet.spawn(reader) for _ in range(2 if waits else 1)]
        for _ in range(5):
            eventlet.sleep(0)
        for green in readers:
            green.kill()
        with eventlet.Timeout(5), scheduler.slice():
            pass


class TestRequests:
    """Whatever comes is a request, or told to be none."""

    @given(st.binary(max_size=300))
    def test_any_line_is_answered(self, line: bytes) -> None:
        answer = list(DispatcherAndSource().dispatcher.answer(line.replace(b"\n", b"")))
        with pytest.raises(CallError):
            messages.head(answer[0])
        assert len(answer) == 1

    json_values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )

    @given(
        st.sampled_from([*METHODS]) | st.text(max_size=10),
        st.dictionaries(
            st.sampled_from(sorted({name for of in METHODS.values() for name in of.names()}))
            | st.text(max_size=8),
            json_values | st.text(max_size=40),
            max_size=4,
        ),
    )
    def test_any_parameters_are_right_or_told(self, method: str, params: dict[str, Any]) -> None:
        world = DispatcherAndSource()
        line = json.dumps({"method": method, "params": params}).encode()
        answer = world.dispatcher.answer(line)
        try:
            messages.head(next(answer))
        except CallError as error:
            assert error.kind in (Kind.METHOD, Kind.PARAMETERS, Kind.REQUEST, Kind.UNKNOWN)
            assert error.detail

    @pytest.mark.parametrize(
        ("line", "says"),
        [
            (b"", "'' is no request; write a line such as"),
            (b"GET /v1/ports HTTP/1.1\r", "'GET /v1/ports HTTP/1.1"),
            (b"\xff\xfe", "is no request"),
            (b"[" * 8000, "is no request"),
            (b'{"a":' * 1500, "is no request"),
            (b'{"method": "ports", "params": {"limit": ' + b"9" * 6000 + b"}}", "is no request"),
            (b'{"method": "ports", "params": {"switch": NaN}}', "is no request"),
            (b'"ports"', "is no request"),
            (b'{"method": 1}', "is no request"),
            (b'{"params": {}}', "is no request"),
            (b'{"method": "ports", "params": [1]}', "is no request"),
            (b'{"method": "ports", "id": 1}', "is no request"),
            (
                b'{"method": "ports", "params": {"switch": 1, "switch": 2}}',
                "switch stands 2 times; write it once",
            ),
        ],
    )
    def test_what_is_no_request_is_told(self, line: bytes, says: str) -> None:
        detail = DispatcherAndSource().refusal(Kind.REQUEST, line)
        assert says in detail
        assert len(detail) < 250

    def test_parameters_may_be_left_out(self, world: DispatcherAndSource) -> None:
        assert world.answer(b' {"method": "ready"} \r') == {"status": "ready"}

    @given(
        st.integers(1, MOST_ROWS),
        st.integers(0, FARTHEST_ROW),
        st.ip_addresses(),
        st.integers(0, 65_535),
        st.booleans(),
    )
    def test_what_is_right_is_understood(
        self, limit: int, offset: int, host: Any, port: int, as_text: bool
    ) -> None:
        params: dict[str, object] = {
            "limit": str(limit) if as_text else limit,
            "offset": hex(offset) if as_text else float(offset),
            "host": str(host),
            "tcp_port": str(port) if as_text else port,
            "class": "background",
        }
        query = read("flows", params)
        assert isinstance(query, FlowQuery)
        assert (query.limit, query.offset, query.tcp_port) == (limit, offset, port)
        assert query.host is not None
        assert host in query.host
        assert query.host.num_addresses == 1
        assert query.flow_class == "background"
        # As it is asked, it is understood again.
        assert read("flows", query.model_dump(mode="json", by_alias=True)) == query


class TestLines:
    @given(st.lists(st.binary(max_size=50).map(lambda line: line.replace(b"\n", b""))), st.data())
    def test_lines_are_whole_however_they_come(self, wanted: list[bytes], data: Any) -> None:
        sent = b"".join(line + b"\n" for line in wanted)
        lines = messages.Lines()
        got: list[bytes] = []
        while sent:
            size = data.draw(st.integers(1, len(sent)))
            got += lines.feed(sent[:size])
            sent = sent[size:]
        assert got == wanted
        assert not list(lines.end())

    def test_a_last_line_may_lack_its_end(self) -> None:
        lines = messages.Lines()
        assert list(lines.feed(b"a\nb")) == [b"a"]
        assert list(lines.end()) == [b"b"]

    @pytest.mark.parametrize("end", [b"", b"\n"])
    def test_a_line_has_an_end(self, end: bytes) -> None:
        lines = messages.Lines()
        got = lines.feed(b"a\n" + b"x" * (messages.MOST_REQUEST_BYTES + 1) + end)
        assert next(got) == b"a"
        with pytest.raises(CallError, match="at most 8192 bytes") as error:
            next(got)
        assert error.value.kind == Kind.REQUEST


class TestAnswers:
    rows = st.lists(st.lists(TestRequests.json_values, min_size=1, max_size=5), max_size=5)

    @given(st.dictionaries(st.text(max_size=5), st.integers(), max_size=3), rows)
    def test_an_answer_is_one_object(
        self, head: dict[str, int], pieces: list[list[object]]
    ) -> None:
        head.pop("rows", None)
        lines = [messages.result(head, "rows")]
        lines += [messages.piece(map(messages.row, rows)) for rows in pieces]
        answer = messages.Assembly()
        assert not any(answer.take(line) for line in lines)
        assert answer.take(messages.END)
        wanted = {**head, "rows": [row for rows in pieces for row in rows]}
        told = json.loads(answer.body)
        # As text, since NaN is no equal of itself.
        assert json.dumps(told) == json.dumps(wanted)
        assert list(told) == list(wanted)

    def test_a_row_may_have_text_that_is_no_unicode(self) -> None:
        assert json.loads(messages.row({"name": "\ud800"})) == {"name": "\ud800"}

    @given(st.lists(st.binary(max_size=100), max_size=5))
    def test_nonsense_is_told(self, lines: list[bytes]) -> None:
        answer = messages.Assembly()
        with pytest.raises(messages.NonsenseError):
            for line in lines or [b""]:
                answer.take(line)
            # Only rows are not looked into.
            answer.take(b"")


class TestSocketThatCannotBeHad:
    PATHS = ("/none/such/controller.sock", "/tmp/" + "x" * 120)

    @pytest.mark.parametrize("path", PATHS)
    def test_it_is_done_without_unless_it_was_asked_for(
        self, path: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        with serving(Told(), Told(), Told(), Told().changing, lambda: 0, path, must=False):
            pass
        (record,) = caplog.records
        assert path in record.getMessage()
        assert "set northbound.socket" in record.getMessage()

    @pytest.mark.parametrize("path", PATHS)
    def test_otherwise_the_controller_does_not_start(self, path: str) -> None:
        with (
            pytest.raises(ListenError, match=r"set northbound.socket to another path, or to off"),
            serving(Told(), Told(), Told(), Told().changing, lambda: 0, path, must=True),
        ):
            pass


def test_the_socket_is_asked_for_if_it_is_named() -> None:
    assert not reading.validate({}).northbound.socket_must
    assert reading.validate({"northbound": {"socket": "/run/x/y"}}).northbound.socket_must
    north = reading.validate({"northbound": {"socket": False, "metrics": "[::1]:9464"}}).northbound
    assert (north.socket, north.metrics) == (None, ("::1", 9464))
