"""History over longer spans, from an HTTP server that answers as Prometheus documents."""

import asyncio
import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest
import yaml

from controller.api.history import prometheus
from controller.api.history.history import PortHistory, Series
from controller.api.history.prometheus import Prometheus, longer
from controller.api.upstream import UnavailableError
from controller.model.values import PortId
from dummy_ovs import free_endpoint, wait_for
from test_api import NOW, ServedApi

DAY_S = 86_400
NOW_S = int(NOW.timestamp())
PORT = PortId(0x11, 3)


class StandIn:
    """`GET` and `POST /api/v1/query_range`, as the documentation of its HTTP API has it."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.status = 200
        self.body: Callable[[dict[str, str]], bytes] = self.matrix
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/prom/api/v1/query_range"
                assert self.headers["Content-Type"] == "application/x-www-form-urlencoded"
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                asked = {name: values[0] for name, values in parse_qs(form).items()}
                stand_in.asked.append(asked)
                body = stand_in.body(asked)
                # Who has heard enough leaves.
                with contextlib.suppress(ConnectionError):
                    self.send_response(stand_in.status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/prom"

    def matrix(self, asked: dict[str, str]) -> bytes:
        """A value at each step but the first two: the number of the step, or NaN at every tenth."""
        start, end, step = (int(asked[name]) for name in ("start", "end", "step"))
        numbers = range(2, (end - start) // step + 1)
        values = [[start + n * step, "NaN" if n % 10 == 0 else str(n)] for n in numbers]
        result = [{"metric": {}, "values": values}] if values else []
        data = {"resultType": "matrix", "result": result}
        return json.dumps({"status": "success", "data": data}).encode()


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    one = StandIn()
    serving = threading.Thread(target=one.server.serve_forever, args=(0.01,))
    serving.start()
    yield one
    one.server.shutdown()
    serving.join()
    one.server.server_close()


def history(url: str, port: PortId | None = PORT, days: float = 3) -> PortHistory:
    async def ask() -> PortHistory:
        asked = longer(port, NOW_S - days * DAY_S, NOW_S, NOW_S)
        return PortHistory.model_validate_json(await Prometheus(url).ask("longer", asked))

    return asyncio.run(ask())


def why_not(url: str) -> str:
    with pytest.raises(UnavailableError) as error:
        history(url)
    told = str(error.value)
    assert told.startswith("Prometheus ")
    # Readers are not told where it is.
    assert "127.0.0.1" not in told
    return told


def test_history_has_the_form_of_that_of_a_day(stand_in: StandIn) -> None:
    told = history(stand_in.url)
    assert (told.step_s, told.begin_s) == (300, NOW_S - 3 * DAY_S)
    columns = told.series.model_dump()
    assert list(columns) == list(Series.model_fields)
    for column in columns.values():
        assert len(column) == 3 * DAY_S // 300
        assert column[:12] == [None, None, *range(2, 10), None, 11]
    assert len(stand_in.asked) == len(columns)
    for asked in stand_in.asked:
        # The value at a time is that of the step before it.
        assert int(asked["start"]) == told.begin_s + 300
        assert int(asked["end"]) == NOW_S
        assert asked["step"] == "300"


def test_questions_are_of_one_port_or_of_all(stand_in: StandIn) -> None:
    history(stand_in.url)
    queries = {one["query"] for one in stand_in.asked}
    of_port = 'switch="0000000000000011",port="3"'
    assert (
        "8 * sum(max by (switch, port, queue, below_bytes) "
        f"(rate(weir_queue_sent_bytes_total{{{of_port}}}[300s])))" in queries
    )
    assert all(of_port in query for query in queries)
    stand_in.asked.clear()
    history(stand_in.url, None)
    queries = {one["query"] for one in stand_in.asked}
    of_all = "rate(weir_queue_sent_bytes_total[300s])"
    assert f"8 * sum(max by (switch, port, queue, below_bytes) ({of_all}))" in queries


@pytest.mark.parametrize(
    ("days", "step_s"), [(0.01, 60), (1, 300), (7, 1800), (30, 3600), (365, 86_400), (9999, 86_400)]
)
def test_there_are_no_more_steps_than_can_be_looked_at(days: float, step_s: int) -> None:
    begin_s = NOW_S - days * DAY_S
    asked = longer(None, begin_s, NOW_S, NOW_S)
    assert asked["step_s"] == step_s
    n, first = asked["n"], asked["begin_s"]
    assert n is not None
    assert first is not None
    assert 1 <= n <= 1001
    assert first <= max(begin_s, NOW_S - 1000 * DAY_S) < first + step_s
    assert first + (n - 1) * step_s < NOW_S <= first + n * step_s


@pytest.mark.parametrize("times", [(5.0, 0.0), (NOW_S + 10.0, NOW_S + 20.0), (0.0, 1.0)])
def test_whatever_time_is_asked_for(stand_in: StandIn, times: tuple[float, float]) -> None:
    asked = longer(None, *times, NOW_S)
    told = asyncio.run(Prometheus(stand_in.url).ask("longer", asked))
    assert PortHistory.model_validate_json(told)


def test_what_prometheus_does_not_know_is_not_known(stand_in: StandIn) -> None:
    empty = {"status": "success", "data": {"resultType": "matrix", "result": []}}
    stand_in.body = lambda _: json.dumps(empty).encode()
    assert set(history(stand_in.url).series.sent_bps) == {None}


def test_what_prometheus_refuses_is_told(stand_in: StandIn) -> None:
    stand_in.status = 422
    stand_in.body = lambda _: json.dumps(
        {"status": "error", "errorType": "execution", "error": "query timed out" + "!" * 1000}
    ).encode()
    told = why_not(stand_in.url)
    assert "refuses: query timed out!" in told
    assert len(told) < 300


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"<html>hello</html>"),
        (502, b"Bad Gateway"),
        (200, b'{"status": "success"}'),
        (200, b'{"status": "success", "data": {"result": [{"values": [[1]]}]}}'),
        (200, b'{"status": "success", "data": {"result": [{"values": [["a", "b"]]}]}}'),
        (200, b'{"status": "success", "data": {"result": 3}}'),
        (200, b'{"status": "success", "data": {"result": [{"values": [[1e999, "1"]]}]}}'),
        (200, b'{"status": "success", "data": {"result": [{"values": [[NaN, "1"]]}]}}'),
        (200, b"[]"),
        (302, b""),
    ],
)
def test_what_is_no_prometheus_is_told(stand_in: StandIn, status: int, body: bytes) -> None:
    stand_in.status, stand_in.body = status, lambda _: body
    assert "is northbound.api.prometheus its address?" in why_not(stand_in.url)


def test_an_answer_without_an_end_is_not_read_to_its_end(stand_in: StandIn) -> None:
    stand_in.body = lambda _: b" " * (2 * 1024 * 1024)
    assert "more than it was asked for" in why_not(stand_in.url)


def test_where_it_is_is_logged_once_for_each_reason(
    stand_in: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    asked = longer(None, NOW_S - 3600, NOW_S, NOW_S)

    async def ask_twice() -> None:
        one = Prometheus(stand_in.url)
        for _ in range(2):
            with pytest.raises(UnavailableError):
                await one.ask("longer", asked)

    stand_in.body = lambda _: b"hello"
    asyncio.run(ask_twice())
    (message,) = caplog.messages
    assert message.startswith(f"no longer history from {stand_in.url}: Prometheus answers")


def test_a_prometheus_that_is_away_is_told(stand_in: StandIn) -> None:
    port = stand_in.server.server_port
    with StandIn().server as other:
        away = f"http://127.0.0.1:{other.server_port}/"
    assert away != f"http://127.0.0.1:{port}/"
    assert "does not answer: " in why_not(away)


def test_a_prometheus_that_is_slow_is_told(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus, "_TIMEOUT_S", 0.05)
    matrix = stand_in.matrix

    def slow(asked: dict[str, str]) -> bytes:
        time.sleep(0.3)
        return matrix(asked)

    stand_in.body = slow
    assert "does not answer in time" in why_not(stand_in.url)


# Through the API


def test_what_is_older_than_a_day_comes_from_prometheus(tmp_path: Path, stand_in: StandIn) -> None:
    world = ServedApi(tmp_path, prometheus=stand_in.url)
    assert world.ask("/v1/overview").json()["longer_history"]
    query = f"from={NOW_S - 2 * DAY_S}&to={NOW_S}&switch=0x11&port=3"
    response = world.ask(f"/v1/history?{query}")
    told = response.json()
    assert (response.status_code, told["step_s"]) == (200, 300)
    assert told["series"]["sent_bps"][2] == 2
    # Many who ask the same are answered by one question.
    assert world.ask(f"/v1/history?{query}").json() == told
    assert len(stand_in.asked) == len(Series.model_fields)
    # The last day is here.
    assert world.ask(f"/v1/history?from={NOW_S - 7200}").json()["step_s"] == 10
    assert len(stand_in.asked) == len(Series.model_fields)


def test_a_problem_says_that_prometheus_is_away(tmp_path: Path, stand_in: StandIn) -> None:
    stand_in.body = lambda _: b"nonsense"
    world = ServedApi(tmp_path, prometheus=stand_in.url)
    detail = world.problem(503, f"/v1/history?from={NOW_S - 2 * DAY_S}")
    assert detail.startswith("not now: Prometheus answers with")


def test_without_prometheus_there_is_a_day(tmp_path: Path) -> None:
    world = ServedApi(tmp_path)
    assert not world.ask("/v1/overview").json()["longer_history"]
    told: Any = world.ask(f"/v1/history?from={NOW_S - 7 * DAY_S}&to={NOW_S}").json()
    assert (told["step_s"], told["begin_s"]) == (10, NOW_S - DAY_S)


# In Prometheus' own eyes


def test_prometheus_understands_what_it_is_asked(tmp_path: Path) -> None:
    """Of a master and its standby, which both tell of two ports."""
    step_s = 30
    rates = {
        "weir_queue_sent_bytes_total": 1000,
        "weir_queue_dropped_packets_total": 2,
        "weir_port_requests_total": 10,
        "weir_port_held_requests_total": 4,
        "weir_port_held_seconds_sum": 0.5,
        "weir_tcp_timeouts_total": 3,
        "weir_tcp_answer_seconds_sum": 6,
        "weir_tcp_answer_seconds_count": 3,
    }
    labels = [
        f'{{instance="{one}",job="weir",switch="0000000000000001",port="{port}",name="eth"}}'
        for one in "ab"
        for port in (1, 2)
    ]
    series = {
        f"{name}{where}": f"0+{rate * step_s}x100"
        for name, rate in rates.items()
        for where in labels
    }
    series |= {f"weir_queue_bytes{where}": "5000+0x100" for where in labels}
    of_port = dict(zip(Series.model_fields, (8000, 5000, 2, 10, 4, 0.5, 3, 2), strict=True))
    of_all = {name: value if name == "answer_s" else 2 * value for name, value in of_port.items()}
    checks = [
        {
            "expr": f"round({prometheus._query(name, port, 300)}, 0.001)",
            "eval_time": "30m",
            "exp_samples": [{"labels": "{}", "value": value}],
        }
        for port, wanted in ((PortId(1, 2), of_port), (None, of_all))
        for name, value in wanted.items()
    ]
    test = {
        "interval": f"{step_s}s",
        "input_series": [{"series": one, "values": values} for one, values in series.items()],
        "promql_expr_test": checks,
    }
    file = tmp_path / "test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [], "tests": [test]}))
    command = ["promtool", "test", "rules", str(file)]
    told = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert told.returncode == 0, told.stdout + told.stderr


def test_a_real_prometheus_tells_what_it_has_scraped(tmp_path: Path) -> None:
    """Of two days of a port that sends 1 MB/s, but for an hour in which nobody was there."""
    end_s = int(time.time()) // 300 * 300
    begin_s = end_s - 2 * DAY_S
    away = range(end_s - 7200, end_s - 3600)
    name = "weir_queue_sent_bytes"
    labels = 'switch="0000000000000011",port="3",name="eth3",queue="0",instance="a",job="weir"'
    samples = [
        f'{name}_total{{{labels},rack="{rack}"}} {(at_s - begin_s) * 10**6} {at_s}'
        for rack in "ab"
        for at_s in range(begin_s, end_s + 1, 60)
        if at_s not in away
    ]
    text = tmp_path / "samples.txt"
    text.write_text("\n".join([f"# TYPE {name} counter", *samples, "# EOF", ""]))
    data = tmp_path / "data"
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(data)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    (tmp_path / "prometheus.yml").write_text("{}\n")
    place = free_endpoint()
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [
                *("prometheus", f"--config.file={tmp_path}/prometheus.yml"),
                *(f"--storage.tsdb.path={data}", f"--web.listen-address={place}"),
            ],
            stdout=log,
            stderr=log,
        )
    try:
        wait_for(lambda: is_ready(f"http://{place}/-/ready"), "Prometheus")
        asked = longer(PORT, begin_s, end_s, end_s)
        body = asyncio.run(Prometheus(f"http://{place}").ask("longer", asked))
    finally:
        process.terminate()
        process.wait(30)
    told = PortHistory.model_validate_json(body)
    assert (told.step_s, told.begin_s) == (300, begin_s)
    sent = told.series.sent_bps
    first = (away.start - begin_s) // 300
    assert set(sent[first + 1 : first + 12]) == {None}
    known = [*sent[1:first], *sent[first + 13 :]]
    assert known == pytest.approx([8e6] * len(known))
    assert set(told.series.queue_bytes) == {None}


def is_ready(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.HTTPError:
        return False
