"""The HTTP API as it runs: the controller as a process, its API beside it, all kinds of peers."""

import contextlib
import json
import math
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import positive_data_acceptance

from dummy_ovs import REPOSITORY, Controller, free_endpoint, wait_for
from experiments.bench.controller.fake_switch import FakeSwitch

A, B = "10.0.0.1", "10.0.0.2"
LINK_BPS = 1e10  # As the switch tells it.


class ControllerWithApi:
    """A controller of one switch with 200 hosts, whose API is at `url`."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "controller.sock"
        self.tokens = directory / "tokens.yaml"
        self.openflow, self.api = free_endpoint(), free_endpoint()
        self.url = f"http://{self.api}"
        self.client = httpx.Client(timeout=60)
        self.secrets = {name: self.token(name, name) for name in ("read", "announce", "regulate")}
        config = {
            "openflow": {"listen": f"tcp:{self.openflow}"},
            "bandwidth": {"spare": 0, "expiry": "60 s"},
            "northbound": {
                "socket": str(self.path),
                "api": {"listen": self.api, "tokens": str(self.tokens), "rate": 100_000},
            },
        }
        self.controller = Controller(directory, json.dumps(config))
        self.start()

    def start(self) -> None:
        self.controller.start()
        host, _, port = self.openflow.rpartition(":")
        self.switch = FakeSwitch((host, int(port)))
        self.switch.introduce()
        self._stop = threading.Event()
        self._keeping = threading.Thread(target=self._keep, daemon=True)
        self._keeping.start()
        wait_for(self._answers, "the API to answer")

    def stop(self, number: int = signal.SIGTERM) -> int:
        self._stop.set()
        self._keeping.join()
        return self.controller.stop(number)

    def token(self, name: str, scope: str) -> str:
        made = subprocess.run(
            [
                *(
                    sys.executable,
                    "-m",
                    "controller",
                    "token",
                    str(self.tokens),
                    name,
                ),
                *("--scope", scope),
            ],
            cwd=REPOSITORY,
            check=True,
            capture_output=True,
            text=True,
        )
        return made.stdout.strip()

    def headers(self, scope: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.secrets[scope]}"}

    def ask(
        self, path: str, method: str = "GET", scope: str = "read", **more: Any
    ) -> httpx.Response:
        return self.client.request(method, self.url + path, headers=self.headers(scope), **more)

    def announce(self, flow: str, src: str, dst: str) -> float:
        body = {"src": src, "dst": dst}
        response = self.ask(f"/v1/fountains/{flow}", "PUT", "announce", json=body)
        assert response.status_code == 200, response.text
        return float(response.json()["rate_bps"])

    def _keep(self) -> None:
        """A switch that does not answer is taken for gone."""
        while not self._stop.wait(1.0):
            self.switch.settle()

    def _answers(self) -> bool:
        try:
            return self.client.get(f"{self.url}/v1/health").status_code == 200
        except httpx.HTTPError:
            return False


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControllerWithApi]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STATE_DIRECTORY", str(tmp_path_factory.mktemp("state")))
        world = ControllerWithApi(tmp_path_factory.mktemp("api"))
        yield from _until_stopped(world)


def _until_stopped(world: ControllerWithApi) -> Iterator[ControllerWithApi]:
    try:
        yield world
    finally:
        assert world.stop() == 0
        assert "Traceback" not in world.controller.log


@contextlib.contextmanager
def following(world: ControllerWithApi, path: str) -> Iterator[Iterator[dict[str, Any]]]:
    """What a stream tells, as it comes."""
    with httpx.stream(
        "GET", world.url + path, headers=world.headers("read"), timeout=20
    ) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.iter_lines()
        next(lines)

        def told() -> Iterator[dict[str, Any]]:
            for line in lines:
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))

        yield told()


def test_a_flow_that_joins_changes_the_rate_of_another_at_once(world: ControllerWithApi) -> None:
    assert world.announce("first", A, B) == LINK_BPS
    with following(world, "/v1/fountains/stream?flow=first") as told:
        assert next(told)["rate_bps"] == LINK_BPS
        assert world.announce("second", "10.0.0.3", B) == LINK_BPS / 2
        assert next(told)["rate_bps"] == LINK_BPS / 2
        assert world.ask("/v1/fountains/second", "DELETE", "announce").status_code == 200
        assert next(told)["rate_bps"] == LINK_BPS
    assert world.ask("/v1/fountains/first", "DELETE", "announce").status_code == 200
    assert world.ask("/v1/fountains").json() == {"fountains": []}


@pytest.mark.timing
def test_an_answer_does_not_wait_for_an_acknowledgment(world: ControllerWithApi) -> None:
    """Of a part of it that was sent before: by Linux, these are 40 ms late."""
    took_s = []
    for _ in range(9):
        begun_s = time.monotonic()
        assert world.ask("/v1/fountains").status_code == 200
        took_s.append(time.monotonic() - begun_s)
    assert median(took_s) < 0.03


def test_events_are_followed(world: ControllerWithApi) -> None:
    with following(world, "/v1/events/stream") as told:
        world.announce("seen", A, B)
        # What happened just before may come first.
        seen = next(event for event in told if event.get("flow") == "seen")
        assert seen["event"] == "flow_announced"
    world.ask("/v1/fountains/seen", "DELETE", "announce")


def test_tokens_are_followed_in_their_file(world: ControllerWithApi) -> None:
    late = world.token("late", "read")
    headers = {"Authorization": f"Bearer {late}"}

    def status() -> int:
        return world.client.get(f"{world.url}/v1/switches", headers=headers).status_code

    wait_for(lambda: status() == 200, "the new token to be good")
    lines = world.tokens.read_text().splitlines(keepends=True)
    world.tokens.write_text("".join(line for line in lines if "name: late" not in line))
    wait_for(lambda: status() == 401, "the token to be revoked")
    assert "was refused" in world.controller.log
    told = world.ask("/metrics").text
    assert 'weir_api_tokens_refused_total{reason="unknown"}' in told


def test_how_to_log_reaches_the_process_of_the_api(world: ControllerWithApi) -> None:
    def change(**changes: str | None) -> None:
        body = {
            "version": world.ask("/v1/settings").json()["version"],
            "changes": {f"log.{key}": value for key, value in changes.items()},
        }
        assert world.ask("/v1/settings", "PATCH", "regulate", json=body).status_code == 200

    def refused() -> str:
        """What the API logs of somebody without a token, after what it has logged before."""
        before = len(world.controller.log)
        assert world.client.get(f"{world.url}/v1/audit").status_code == 401
        return world.controller.log[before:]

    change(format="json")
    wait_for(lambda: '"component": "weir.api"' in refused(), "the API to log JSON")
    change(format=None)
    wait_for(lambda: "WARNING weir.api: a request from" in refused(), "the API to log as before")


def test_the_streams_of_a_browser_end_when_its_token_is_revoked(world: ControllerWithApi) -> None:
    secret = world.token("browser", "read")

    def signed_in() -> bool:
        return page.post("/v1/session", json={"token": secret}).status_code == 200

    with httpx.Client(base_url=world.url, timeout=20) as page:
        wait_for(signed_in, "the new token to be good")
        assert page.get("/v1/overview").status_code == 200
        with page.stream("GET", "/v1/events/stream") as response:
            assert response.status_code == 200
            lines = world.tokens.read_text().splitlines(keepends=True)
            world.tokens.write_text("".join(line for line in lines if "name: browser" not in line))
            # It ends as one to a listener that does not read.
            with contextlib.suppress(httpx.RemoteProtocolError):
                for _ in response.iter_lines():
                    pass
        assert page.get("/v1/overview").status_code == 401


@pytest.mark.timing
def test_a_peer_that_does_not_read_harms_nobody(world: ControllerWithApi) -> None:
    host, _, port = world.api.rpartition(":")
    with socket.socket() as stalled:
        stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stalled.connect((host, int(port)))
        head = (
            f"GET /v1/fountains/stream HTTP/1.1\r\nHost: x\r\n{_lines(world.headers('read'))}\r\n"
        )
        stalled.sendall(head.encode())
        with following(world, "/v1/fountains/stream?flow=busy") as told:
            for n in range(3000):
                body = {"src": A, "dst": B, "most_bps": 10**6 * (1 + n % 2)}
                world.ask("/v1/fountains/busy", "PUT", "announce", json=body)
                assert next(told)["rate_bps"] == 10**6 * (1 + n % 2)
                if "was dropped" in world.controller.log:
                    break
    assert "was dropped" in world.controller.log
    world.ask("/v1/fountains/busy", "DELETE", "announce")


def _lines(headers: dict[str, str]) -> str:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items())


def test_whatever_is_asked_is_answered_as_described(world: ControllerWithApi) -> None:
    """Schemathesis makes requests of the served description, right ones and wrong ones."""
    schema = schemathesis.openapi.from_url(f"{world.url}/v1/openapi.json")
    # These go on for ever.
    finite = schema.exclude(path_regex="stream$")
    world.announce("known", A, B)
    asked = 0
    for result in finite.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()
        changes = "regulate" if operation.path.startswith("/v1/settings") else "announce"
        scope = "read" if operation.method.upper() == "GET" else changes

        @settings(
            max_examples=40,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        def check(case: schemathesis.Case) -> None:
            nonlocal asked
            asked += 1
            # How from and to must be to each other, a description cannot say.
            two_ended = case.path in {"/v1/incident", "/v1/events/recorded"}
            unsaid: list[Any] = [positive_data_acceptance] * two_ended
            headers = world.headers(scope)  # noqa: B023 - called at once
            case.call_and_validate(headers=headers, excluded_checks=unsaid)

        given(case=operation.as_strategy())(check)()
    assert asked > 200


def test_the_api_ends_with_its_controller_and_comes_back_with_it(world: ControllerWithApi) -> None:
    world.announce("lost", A, B)

    def lengths(to_s: float) -> list[float | None]:
        told = world.ask(f"/v1/history?switch=1&port=1&from={to_s - 60}&to={to_s}").json()
        return told["series"]["queue_bytes"] if "series" in told else []

    wait_for(lambda: 0 in lengths(time.time()), "a port to be sampled")
    killed_s = math.ceil(time.time())
    known = lengths(killed_s)
    assert 0 in known
    world.stop(signal.SIGKILL)

    def is_gone() -> bool:
        try:
            world.client.get(f"{world.url}/v1/health")
        except httpx.HTTPError:
            return True
        return False

    wait_for(is_gone, "the API to end")
    world.start()
    # The last sample may have come just before the end.
    for before, after in zip(known, lengths(killed_s), strict=False):
        assert before in (None, after)
    wait_for(lambda: lengths(time.time())[-1:] == [0], "the port to be sampled again")
    wait_for(lambda: world.ask("/v1/overview").json()["controller"]["ready"], "it to be ready")
    response = world.ask("/v1/fountains/lost", "PATCH", "announce", json={})
    assert response.status_code == 404
    assert world.announce("lost", A, B) == LINK_BPS
    world.ask("/v1/fountains/lost", "DELETE", "announce")


@pytest.mark.timing
def test_it_is_started_again_when_it_fails(world: ControllerWithApi) -> None:
    children = subprocess.run(
        ["pgrep", "-P", str(world.controller._process.pid)],  # type: ignore[union-attr]
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    (child,) = map(int, children)
    before = time.monotonic()
    subprocess.run(["kill", "-KILL", str(child)], check=True)
    wait_for(
        lambda: "the API and the metrics has ended" in world.controller.log, "its end to be told"
    )
    wait_for(world._answers, "the API to answer again")
    assert time.monotonic() - before < 15


def test_it_says_what_it_cannot_serve(tmp_path: Path) -> None:
    api, metrics, tokens = free_endpoint(), free_endpoint(), tmp_path / "tokens.yaml"
    config = {
        "openflow": {"listen": f"tcp:{free_endpoint()}"},
        "northbound": {
            "socket": False,
            "metrics": metrics,
            "api": {"listen": api, "tokens": str(tokens)},
        },
    }
    controller = Controller(tmp_path, json.dumps(config))
    controller.start()
    wait_for(lambda: "the API is not served" in controller.log, "the complaint")
    assert f"{tokens} is not there; weir-controller token" in controller.log
    assert controller.running

    def told() -> str:
        return httpx.get(f"http://{metrics}/metrics", timeout=20).text

    # The metrics do not depend on that, and the API is there when it is mended.
    assert "weir_connections 0.0" in told()
    assert "\nweir_api_up 0.0\n" in told()
    tokens.write_text("tokens: []\n")
    wait_for(lambda: "API at http://" in controller.log, "the API")
    assert httpx.get(f"http://{api}/v1/health", timeout=20).json()["status"] == "ready"
    assert "\nweir_api_up 1.0\n" in told()
    assert controller.log.count("the API is not served") == 1
    assert controller.stop() == 0
