"""The controller as a process, a switch that is none, and many who want to look."""

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
from prometheus_client.parser import text_string_to_metric_families

from controller.cli.client import Client
from controller.model.values import Notice
from controller.rpc import messages
from controller.rpc.messages import CallError
from dummy_ovs import REPOSITORY, Controller, free_endpoint, wait_for
from experiments.bench.controller.fake_switch import HOSTS, FakeSwitch, notice
from experiments.bench.controller.handshakes import Call, openings

CONNECTIONS = 1000
PORT = 7


class BusyController:
    """A controller with a switch of 200 ports and 1000 connections."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "controller.sock"
        self.openflow, self.metrics = free_endpoint(), free_endpoint()
        north = {"metrics": self.metrics, "socket": str(self.path)}
        # So wide that a notice lowers windows, and recovery raises them again.
        fabric = {"link_capacity": "10 Gbit/s", "egress_buffer": "2 GiB"}
        config = {
            "openflow": {"listen": f"tcp:{self.openflow}"},
            "fabric": fabric,
            "northbound": north,
            "log": {"format": "json"},
        }
        self.controller = Controller(directory, json.dumps(config))
        self.controller.start()
        host, _, port = self.openflow.rpartition(":")
        self.switch = FakeSwitch((host, int(port)))
        self.client = Client(str(self.path))
        self.notices = 0
        self.switch.introduce()
        for piece in openings(0, CONNECTIONS, Call):
            self.switch.send(piece)
        self.switch.settle()
        assert self.controller._process is not None
        self.descriptors = Path(f"/proc/{self.controller._process.pid}/fd")
        self.n_descriptors = len(list(self.descriptors.iterdir()))

    def notify(self) -> None:
        """Congestion at a port and its end; each has to be answered by windows."""
        for kind in (Notice.CN_H, Notice.CR):
            self.notices += 1
            assert self.switch.window_delay_ns(notice(kind, PORT, self.notices)) > 0

    def scrape(self) -> dict[str, float]:
        return scrape(self.metrics)

    def command(self, *arguments: str) -> str:
        self.switch.settle()  # It answers echoes only while somebody listens for it.
        done = subprocess.run(
            [*LAUNCHER, *arguments, "--socket", str(self.path)],
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def connect(self) -> socket.socket:
        peer = socket.socket(socket.AF_UNIX)
        peer.settimeout(20)
        peer.connect(str(self.path))
        return peer

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.controller.log.splitlines() if line[:1] == "{"]


def scrape(endpoint: str) -> dict[str, float]:
    with urllib.request.urlopen(f"http://{endpoint}/metrics", timeout=20) as response:
        text = response.read().decode()
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


LAUNCHER = [sys.executable, "-m", "controller"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusyController]:
    world = BusyController(tmp_path_factory.mktemp("northbound"))
    try:
        yield world
    finally:
        assert world.controller.running
        assert world.controller.stop() == 0
        assert not world.path.exists()
        assert "Traceback" not in world.controller.log
        assert not [line for line in world.log() if line["level"] in ("error", "critical")]


def test_what_happened_is_scraped(world: BusyController) -> None:
    before = world.scrape()
    world.notify()
    after = world.scrape()
    assert after["weir_connections[]"] == CONNECTIONS
    assert after["weir_flows[('class', 'burst')]"] == 2 * CONNECTIONS
    assert after["weir_hosts[]"] == HOSTS
    assert (
        after["weir_packet_ins_total[('class', 'segment'), ('switch', '0000000000000001')]"]
        == 2 * CONNECTIONS
    )
    assert after["weir_switch_ready[('switch', '0000000000000001')]"] == 1
    named = f"('name', 'eth{PORT}'), ('port', '{PORT}'), ('switch', '0000000000000001')"
    assert after[f"weir_queue_events_total[('level', 'CN-H'), {named}]"] >= 1
    answered = "weir_control_delay_seconds_count[]"
    assert after[answered] >= before[answered] + 2
    assert after["weir_main_loop_lag_seconds_count[]"] > 0


def test_the_api_is_only_for_its_owner(world: BusyController) -> None:
    assert world.path.stat().st_mode & 0o777 == 0o600


def test_commands_answer_once(world: BusyController) -> None:
    world.notify()
    (switch,) = json.loads(world.command("switches", "--json"))["switches"]
    assert (switch["switch"], switch["ready"], switch["ports"]) == (1, True, HOSTS)
    assert "ready" in world.command("switches")
    ports = json.loads(world.command("ports", "--switch", "1", "--json"))["ports"]
    assert [row["port"] for row in ports] == list(range(1, HOSTS + 1))
    assert ports[PORT - 1]["regulation"]["notices"]["CN-H"] >= 1
    assert len(world.command("ports").splitlines()) == HOSTS + 1
    flows = world.command("flows", "--host", "10.0.0.5", "--limit", "3").splitlines()
    assert flows[0].split() == ["FROM", "TO", "CLASS", "VOLUME", "AGE", "LEAVES", "BY"]
    assert flows[-1] == "1 to 3 of 20; --offset shows others"
    events = world.command("events", "--limit", "4")
    assert f"queue_event switch=0000000000000001 port={PORT} notice=CN-H" in events
    assert "window_set switch=0000000000000001" in events
    assert "1 of 1 switches ready" in world.command("top", "--once")
    assert json.loads(world.command("ask", "ready")) == {"status": "ready"}
    flows = json.loads(world.command("ask", "flows", "class=burst", "limit=0x2", "tcp_port=80"))
    assert (len(flows["flows"]), flows["next_offset"]) == (2, 2)


def test_flows_are_all_of_them_page_by_page(world: BusyController) -> None:
    seen, offset = set(), 0
    while offset is not None:
        page = world.client.ask("flows", {"limit": 700, "offset": offset})
        seen |= {(f["src"], f["src_port"], f["dst"], f["dst_port"]) for f in page["flows"]}
        offset = page["next_offset"]
    assert len(seen) == 2 * CONNECTIONS


def test_events_are_followed(world: BusyController) -> None:
    process = subprocess.Popen(
        [*LAUNCHER, "events", "--follow", "--limit", "0", "--json", "--socket", str(world.path)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
    )
    try:
        out = process.stdout
        assert out is not None
        os.set_blocking(out.fileno(), False)
        lines = b""

        def notified() -> bool:
            nonlocal lines
            world.notify()
            lines += out.read() or b""
            return lines.count(b"queue_event") >= 4

        wait_for(notified, "the events")
        whole = lines[: lines.rindex(b"\n")].splitlines()
        seen = [json.loads(line)["event"] for line in whole]
        first = seen.index("queue_event")
        assert seen[first : first + 4] == ["queue_event", "window_set"] * 2
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()


def test_readers_that_do_not_read_hold_up_nobody(world: BusyController) -> None:
    with ExitStack() as peers:
        for number in range(100):
            peer = peers.enter_context(world.connect())
            request = messages.request("follow_events" if number % 4 else "ports")
            peer.sendall(request[: None if number % 3 else 9])
        for _ in range(20):
            world.notify()
        assert world.scrape()["weir_connections[]"] == CONNECTIONS
    assert len(world.client.ask("ports")["ports"]) == HOSTS


def test_a_hundred_readers_at_once_are_all_answered(world: BusyController) -> None:
    requests = [
        messages.request(method, params)
        for method, params in (
            *(("ports", None), ("regulation", None)),
            *(("flows", {"limit": 1000}), ("events", {"limit": 1000})),
        )
    ]
    peers = [world.connect() for _ in range(100)]
    for number, peer in enumerate(peers):
        peer.sendall(requests[number % 4])
        peer.shutdown(socket.SHUT_WR)
    for _ in range(10):
        world.notify()
    for number, peer in enumerate(peers):
        answer = messages.Assembly()
        with peer, peer.makefile("rb") as lines:
            assert [answer.take(line) for line in lines].index(True) >= 2
        assert json.loads(answer.body), requests[number % 4]


def test_a_connection_carries_requests_one_after_the_other(world: BusyController) -> None:
    methods = ["health", "ports", "nothing", "flows", "health"] * 10
    with world.connect() as peer, peer.makefile("rb") as lines:
        # All at once, the last one without an end of its line.
        peer.sendall(b"".join(map(messages.request, methods))[:-1])
        peer.shutdown(socket.SHUT_WR)
        for method in methods:
            answer = messages.Assembly()
            if method == "nothing":
                with pytest.raises(CallError, match="there is no method 'nothing'"):
                    answer.take(lines.readline())
                continue
            while not answer.take(lines.readline()):
                pass
            assert json.loads(answer.body)
        assert not lines.read()


HOSTILE = [
    b"",
    b"\r\n" * 100,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /metrics?" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
    b"GET /metrics?host=%ff%fe%00 HTTP/1.1\r\n\r\n",
    b"GET /metrics\xff\xfe HTTP/1.1\r\nHost: \xff\r\n\r\n",
    b"GET http://[::1/metrics HTTP/1.1\r\nHost: [\r\n\r\n",
    b"POST /metrics HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
    b"POST /metrics HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\nabc",
    b"POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
    b"GET /metrics HTTP/1.1\r\nX: " + b"y" * 200_000 + b"\r\n\r\n",
    b"HEAD /metrics HTTP/1.1\r\n\r\n",
    b"{}\n[]\nnull\n1e999\n" * 100,
    b"[" * 8000 + b"\n",
    b'{"method": "flows", "params": {"host": "\xff\xfe\\u0000"}}\n',
    b'{"method": "flows", "params": {"limit": ' + b"9" * 100_000 + b"}}\n",
    b'{"method": "ports"}' + b" " * 100_000,
    messages.request("ports") * 400,
    os.urandom(4096),
]


@pytest.mark.parametrize("sent", HOSTILE)
@pytest.mark.parametrize("where", ["socket", "metrics"])
def test_malformed_requests_harm_nobody(world: BusyController, sent: bytes, where: str) -> None:
    if where == "socket":
        peer = world.connect()
    else:
        host, _, port = world.metrics.rpartition(":")
        peer = socket.create_connection((host, int(port)), 20)
    with peer:
        try:
            peer.sendall(sent)
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(65_536):
                pass
        except OSError:
            pass  # It hangs up on us, which is its right.
    assert world.client.ask("health")["status"] == "alive"
    world.notify()
    assert world.scrape()
    assert "Traceback" not in world.controller.log


def test_a_request_that_is_too_long_is_told_and_is_the_last(world: BusyController) -> None:
    with world.connect() as peer, peer.makefile("rb") as lines:
        peer.sendall(messages.request("ready") + b"x" * 9000)
        assert messages.head(lines.readline()) == ({"status": "ready"}, None)
        with pytest.raises(CallError, match="at most 8192 bytes"):
            messages.head(lines.readline())
        assert not lines.read()


def test_top_lives_in_a_terminal(world: BusyController) -> None:
    world.switch.settle()
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        [*LAUNCHER, "top", "--interval", "0.2", "--socket", str(world.path)],
        cwd=REPOSITORY,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"},
        stdin=end,
        stdout=end,
        stderr=end,
        start_new_session=True,
    )
    os.close(end)
    os.set_blocking(terminal, False)
    seen = b""

    def shows(text: bytes) -> bool:
        nonlocal seen
        with suppress(OSError):
            seen += os.read(terminal, 65_536)
        return text in seen

    try:
        wait_for(lambda: shows(b"ports, by queue length"), "the ports")
        os.write(terminal, b"\x1b[An")
        os.write(terminal, b"f")
        wait_for(lambda: shows(b"ports, by flows"), "another order")
        os.write(terminal, b"4")
        wait_for(lambda: shows(b"REGISTERS"), "the switches")
        os.write(terminal, b"q")
        wait_for(lambda: shows(b"\x1b[?1049l"), "the terminal as it was")
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def test_log_lines_name_the_switch(world: BusyController) -> None:
    (ready,) = (line for line in world.log() if line["message"].startswith("is ready"))
    assert (ready["switch"], ready["component"], ready["level"]) == (
        "0000000000000001",
        "weir.app",
        "info",
    )


class TestSocket:
    def controller(self, directory: Path, path: Path) -> Controller:
        north = {"socket": str(path)}
        config = {"openflow": {"listen": f"tcp:{free_endpoint()}"}, "northbound": north}
        directory.mkdir()
        return Controller(directory, json.dumps(config))

    def test_what_a_killed_one_left_is_taken_over(self, tmp_path: Path) -> None:
        path = tmp_path / "c.sock"
        first = self.controller(tmp_path / "1", path)
        first.start()
        first.stop(signal.SIGKILL)
        assert path.exists()
        first.start()
        assert Client(str(path)).ask("ready") == {"status": "ready"}
        assert first.stop() == 0
        assert not path.exists()

    def test_one_that_lives_is_left_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "c.sock"
        first, second = (self.controller(tmp_path / name, path) for name in "12")
        first.start()
        second.start()
        assert second.wait() == 2
        assert "another controller listens at" in second.log
        assert Client(str(path)).ask("health")
        assert first.stop() == 0

    def test_a_file_is_left_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "precious"
        path.write_text("data")
        controller = self.controller(tmp_path / "1", path)
        controller.start()
        assert controller.wait() == 2
        assert f"cannot listen at {path}: File exists; set northbound.socket" in controller.log
        assert path.read_text() == "data"


class TestMetrics:
    def config(self, metrics: str, openflow: str) -> str:
        # They do without the socket of the commands.
        north = {"metrics": metrics, "socket": False}
        return json.dumps({"openflow": {"listen": f"tcp:{openflow}"}, "northbound": north})

    def test_they_move_with_the_configuration(self, tmp_path: Path) -> None:
        openflow, before, after = free_endpoint(), free_endpoint(), free_endpoint()
        controller = Controller(tmp_path, self.config(before, openflow))
        controller.start()
        assert scrape(before)["weir_connections[]"] == 0
        with socket.create_server(("127.0.0.1", 0)) as taken:
            controller.reconfigure(self.config(f"127.0.0.1:{taken.getsockname()[1]}", openflow))
            wait_for(lambda: "Address already in use" in controller.log, "the complaint")
        assert "nothing has changed" in controller.log
        assert scrape(before)["weir_connections[]"] == 0
        controller.reconfigure(self.config(after, openflow))
        wait_for(lambda: "configuration reloaded" in controller.log, "the new configuration")
        assert scrape(after)["weir_connections[]"] == 0
        with pytest.raises(URLError):
            scrape(before)
        assert controller.stop() == 0
        with pytest.raises(URLError):
            scrape(after)
        assert "Traceback" not in controller.log

    def test_metrics_that_cannot_be_served(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            metrics = f"127.0.0.1:{taken.getsockname()[1]}"
            controller = Controller(tmp_path, self.config(metrics, free_endpoint()))
            controller.start()
            assert controller.wait() == 2
        assert f"cannot serve metrics on {metrics}: Address already in use" in controller.log
        assert "Traceback" not in controller.log


def test_nothing_is_left_open(world: BusyController) -> None:
    """Whoever has gone is forgotten, too."""
    for _ in range(50):
        world.client.ask("health")
        world.connect().close()

    def few() -> bool:
        return len(list(world.descriptors.iterdir())) <= world.n_descriptors

    # Followers are noticed to have gone when they are written to.
    wait_for(few, "no descriptors more than in the beginning", 60)
