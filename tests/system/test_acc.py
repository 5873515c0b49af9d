"""TCP over TCP-ACC's layer between two hosts, and what becomes of it when that comes and goes."""

import json
import os
import signal
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import pytest

from experiments.traffic.fountain import find_fountain
from experiments.traffic.program import Command
from testbed.command import run, wait_until
from testbed.netns import network_at

pytestmark = pytest.mark.netns

HOSTS = {"left": 1, "right": 2}
RULE = "iif lo ipproto tcp lookup 4881"


def within(name: str, *argv: str) -> str:
    return run(["ip", "netns", "exec", name, *argv])


def address(name: str, family: int = 4) -> str:
    return f"10.9.0.{HOSTS[name]}" if family == 4 else f"fd09::{HOSTS[name]}"


def inside(name: str) -> AbstractContextManager[None]:
    """This thread is at a host."""
    return network_at(f"/run/netns/{name}")


class Hosts:
    """Two hosts with a link between them, and a key that both have."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = folder / "key"
        run([str(find_fountain()), "acc", "key", str(self.key)])

    def control(self, name: str) -> Path:
        return self.folder / f"{name}.sock"

    def layer(self, name: str, *options: str) -> Command:
        """The layer of a host, which asks the other one when a connection is opened."""
        argv = [
            *("ip", "netns", "exec", name, str(find_fountain()), "acc", "up", "--json"),
            *(f"--key={self.key}", "--to=10.9.0.0/24", "--to=fd09::/64"),
            *(f"--control={self.control(name)}", *options),
        ]
        return Command(argv, name=f"acc up at {name}", log=self.folder / f"{name}.log")

    def link(self, name: str) -> Command:
        """The end of a link for a switch at this host."""
        (other,) = (host for host in HOSTS if host != name)
        argv = [
            *("ip", "netns", "exec", name, str(find_fountain()), "acc", "link", "--json"),
            *(f"--key={self.key}", f"--other={address(other)}"),
            *("--device=acc0", f"--control={self.control(name)}"),
        ]
        return Command(argv, name=f"acc link at {name}", log=self.folder / f"{name}.log")

    def statistics(self, name: str) -> dict[str, Any]:
        argv = [str(find_fountain()), "acc", "stats", f"--control={self.control(name)}", "--json"]
        found: dict[str, Any] = json.loads(run(argv))
        return found

    def peers(self, name: str) -> dict[str, dict[str, Any]]:
        """Those that are."""
        return {peer["peer"]: peer for peer in self.statistics(name)["peers"] if peer["up"]}


@contextmanager
def two_hosts(folder: Path) -> Iterator[Hosts]:
    """Context manager: they are there."""
    with ExitStack() as stack:
        for name in HOSTS:
            run(["ip", "netns", "add", name])
            stack.callback(run, ["ip", "netns", "delete", name])
            within(name, "ip", "link", "set", "lo", "up")
        ends = ("netns", "left", "type", "veth", "peer", "name", "eth", "netns", "right")
        run(["ip", "link", "add", "eth", *ends])
        for name in HOSTS:
            within(name, "ip", "address", "add", f"{address(name)}/24", "dev", "eth")
            within(name, "ip", "address", "add", f"{address(name, 6)}/64", "dev", "eth", "nodad")
            within(name, "ip", "link", "set", "eth", "up")
        yield Hosts(folder)


class Stream:
    """Bytes from left to right over one connection, for as long as it lasts, and when they came."""

    def __init__(self, family: int = 4, to: str | None = None) -> None:
        self.came: list[float] = []
        self.wrong = 0
        self.bytes = 0
        self._stop = threading.Event()
        kind = socket.AF_INET if family == 4 else socket.AF_INET6
        with inside("right"):
            listener = socket.create_server((to or address("right", family), 0), family=kind)
        with inside("left"):
            self._out = socket.create_connection(listener.getsockname()[:2], timeout=10)
        self._in, _ = listener.accept()
        listener.close()
        self._threads = [
            threading.Thread(target=self._send, daemon=True),
            threading.Thread(target=self._receive, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        number = 0
        while not self._stop.is_set():
            self._out.sendall(bytes((number + at) % 251 for at in range(20_000)))
            number = (number + 20_000) % 251
            time.sleep(0.001)
        self._out.close()

    def _receive(self) -> None:
        expected = 0
        while got := self._in.recv(1 << 16):
            self.came.append(time.monotonic())
            self.bytes += len(got)
            self.wrong += got != bytes((expected + at) % 251 for at in range(len(got)))
            expected = (expected + len(got)) % 251

    def longest_gap_s(self, since: float, for_s: float) -> float:
        """Return for how long nothing came, from then on until it has gone on for ``for_s``."""
        until = since + for_s
        wait_until(lambda: self.came[-1:] > [until], timeout_s=20, what="it goes on")
        times = [since, *(one for one in self.came if one > since)]
        return max(after - before for before, after in pairwise(times))

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(20)
        self._in.close()
        assert not self.wrong, "bytes are changed"


def wait_for_layer(hosts: Hosts, family: int = 4) -> None:
    """Wait until packets from left to right are the layer's."""
    peer = address("right", family)

    def sent() -> int:
        return int(hosts.peers("left").get(peer, {"sent": 0})["sent"])

    before = sent()
    wait_until(lambda: sent() > before + 50, timeout_s=10, what="the connection goes through")


@pytest.mark.parametrize("family", [4, 6])
def test_a_connection_goes_over_to_the_layer_and_on_without_it(tmp_path: Path, family: int) -> None:
    with two_hosts(tmp_path) as hosts:
        stream = Stream(family)
        with hosts.layer("left", f"--peer={address('right', family)}") as left:
            assert left.expect("up")
            with hosts.layer("right") as right:
                assert right.expect("up")
                wait_for_layer(hosts, family)
                # Whether it ends well or not.
                begun = time.monotonic()
                os.kill(right.pid, signal.SIGKILL)
                assert stream.longest_gap_s(begun, 1.5) < 1.0
            assert RULE in within("left", "ip", "rule")
            with hosts.layer("right") as right:
                assert right.expect("up")
                wait_for_layer(hosts, family)
                begun = time.monotonic()
                assert right.terminate() == 0
                assert stream.longest_gap_s(begun, 0.5) < 0.5
            begun = time.monotonic()
            assert left.terminate() == 0
        assert stream.longest_gap_s(begun, 0.5) < 0.5
        stream.end()
        assert stream.bytes > 1_000_000
        assert RULE not in within("left", "ip", "rule")
        assert "acc" not in within("left", "ip", "-br", "link")


def test_hosts_without_the_layer_or_the_key_get_plain_tcp(tmp_path: Path) -> None:
    with two_hosts(tmp_path) as hosts:
        with hosts.layer("left") as left:
            assert left.expect("up")
            stream = Stream()
            asked = {"peer": address("right"), "up": False}
            wait_until(
                lambda: asked.items() <= hosts.statistics("left")["peers"][0].items(),
                timeout_s=5,
                what="it is asked",
            )
            stream.longest_gap_s(time.monotonic(), 0.5)
            assert not hosts.peers("left")
            stream.end()
        other = hosts.folder / "other"
        run([str(find_fountain()), "acc", "key", str(other)])
        with hosts.layer("left") as left, hosts.layer("right", f"--key={other}") as right:
            assert left.expect("up") and right.expect("up")
            stream = Stream()
            wait_until(
                lambda: hosts.statistics("right")["refused"] > 0,
                timeout_s=5,
                what="a probe is refused",
            )
            assert not hosts.peers("left") and not hosts.peers("right")
            stream.end()


def test_what_is_not_the_peers_is_dropped_and_counted(tmp_path: Path) -> None:
    with (
        two_hosts(tmp_path) as hosts,
        hosts.layer("left") as left,
        hosts.layer("right") as right,
    ):
        assert left.expect("up") and right.expect("up")
        stream = Stream()
        wait_for_layer(hosts)
        with inside("left"):
            forger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for datagram in (b"nothing", bytes([0xB1]) + bytes(60), bytes([0xA0, 1]) + bytes(42)):
            forger.sendto(datagram, (address("right"), 4881))
        forger.close()
        wait_until(
            lambda: hosts.statistics("right")["malformed"] >= 1,
            timeout_s=5,
            what="it is counted",
        )
        found = hosts.statistics("right")
        assert found["malformed"] == found["unknown"] == found["refused"] == 1
        wait_for_layer(hosts)
        stream.end()


def test_metrics_and_what_tcp_is_told(tmp_path: Path) -> None:
    with two_hosts(tmp_path) as hosts:
        within("left", "ip", "route", "change", "10.9.0.0/24", "dev", "eth", "initcwnd", "17")
        with (
            hosts.layer("left", "--metrics=127.0.0.1:9881") as left,
            hosts.layer("right") as right,
        ):
            assert left.expect("up") and right.expect("up")
            stream = Stream()
            wait_for_layer(hosts)
            with inside("left"), urllib.request.urlopen("http://127.0.0.1:9881/metrics") as answer:
                text = answer.read().decode()
            assert 'weir_acc_up{peer="10.9.0.2"} 1' in text
            assert 'weir_acc_dropped_total{reason="forged"} 0' in text
            route = within("left", "ip", "route", "show", "table", "4881")
            # 48 bytes are the layer's.
            assert "mtu 1452" in route and "initcwnd 17" in route
            table = run(
                [str(find_fountain()), "acc", "stats", f"--control={hosts.control('left')}"]
            )
            assert "10.9.0.2: round trip" in table
            stream.end()


def test_a_link_for_switches_carries_frames_and_is_down_without_its_other_end(
    tmp_path: Path,
) -> None:
    with two_hosts(tmp_path) as hosts:
        for name in HOSTS:
            within(name, "ip", "link", "set", "eth", "mtu", "1600")
        with hosts.link("left") as left:
            assert left.expect("up")
            assert "NO-CARRIER" in within("left", "ip", "link", "show", "acc0")
            with hosts.link("right") as right:
                assert right.expect("up") and right.expect("peer") and left.expect("peer")
                # Hosts stand for switches: frames are theirs.
                for name, number in HOSTS.items():
                    assert "mtu 1520" in within(name, "ip", "link", "show", "acc0")
                    within(name, "ip", "address", "add", f"10.8.0.{number}/24", "dev", "acc0")
                stream = Stream(to="10.8.0.2")
                peer = address("right")
                wait_until(
                    lambda: len(hosts.peers("left")[peer]["flows"]) == 1,
                    timeout_s=5,
                    what="the connection is known in its frames",
                )
                ping = within("left", "ping", "-c", "1", "-s", "1492", "-M", "do", "10.8.0.2")
                assert "1 received" in ping
                os.kill(right.pid, signal.SIGKILL)
                assert left.expect("gone")
            assert "NO-CARRIER" in within("left", "ip", "link", "show", "acc0")
            with hosts.link("right") as right:
                assert right.expect("up") and right.expect("peer") and left.expect("peer")
                within("right", "ip", "address", "add", "10.8.0.2/24", "dev", "acc0")
                stream.longest_gap_s(time.monotonic(), 0.5)
                assert "NO-CARRIER" not in within("left", "ip", "link", "show", "acc0")
                stream.end()
                assert not hosts.statistics("left")["undelivered"]
                assert right.terminate() == 0
            assert left.terminate() == 0


class Controller(BaseHTTPRequestHandler):
    """Says what is lost between any two hosts."""

    loss: ClassVar[float | None] = None
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(f"{self.path} {self.headers['Authorization']}")
        body = json.dumps({"available_bps": 1e9, "loss": self.loss}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


def test_where_the_controller_sees_no_losses_tcp_goes_without_the_layer(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    with two_hosts(tmp_path) as hosts:
        with inside("left"):
            server = ThreadingHTTPServer(("127.0.0.1", 8181), Controller)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        options = ("--losses-from=http://127.0.0.1:8181", f"--token-file={token}", "--hold=1")
        peer = f"--peer={address('right')}"
        with hosts.layer("left", peer, *options) as left, hosts.layer("right") as right:
            assert left.expect("up") and right.expect("up")
            assert left.expect("peer")["peer"] == address("right")
            stream = Stream()
            stream.longest_gap_s(time.monotonic(), 1.0)
            assert "table 4881" not in within("left", "ip", "route", "show", "table", "all")
            Controller.loss = 0.01
            assert left.expect("used") == {
                "event": "used", "peer": address("right"), "local": address("left"), "loss": 0.01,
            }  # fmt: skip
            wait_for_layer(hosts)
            # It goes on while nobody answers.
            Controller.loss = None
            server.shutdown()
            Controller.loss = 0.0
            threading.Thread(target=server.serve_forever, daemon=True).start()
            assert left.expect("unused")["loss"] == 0.0
            sent = hosts.peers("left")[address("right")]["sent"]
            stream.longest_gap_s(time.monotonic(), 0.5)
            assert hosts.peers("left")[address("right")]["sent"] < sent + 20
            stream.end()
        server.shutdown()
        server.server_close()
        here, there = address("left"), address("right")
        assert {one.split("?")[1] for one in Controller.asked} == {
            f"src={here}&dst={there} Bearer secret",
            f"src={there}&dst={here} Bearer secret",
        }
