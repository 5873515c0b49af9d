"""The port for heartbeats of a controller at work: peers are heard, all others are turned away."""

import json
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from controller.cli.client import Client
from controller.config.errors import ConfigError
from controller.config.files import read_secret
from controller.ha.election import Heartbeat, Rank
from controller.ha.heartbeats import Line
from controller.ops.event_log import read_events
from dummy_ovs import PROGRAM, Controller, free_endpoint, wait_for

SECRET = b"0123456789abcdef"
PEER = Heartbeat("b", Rank.MASTER, 4711, 100)


class ControllerAndPeer:
    """Controller a, whose peer b is played by the test."""

    def __init__(self, directory: Path, program: Sequence[str] = PROGRAM) -> None:
        (directory / "secret").write_bytes(SECRET)
        self._events = directory / "events.jsonl"
        self.socket = str(directory / "controller.sock")
        self._endpoint = free_endpoint()
        self._mine = socket.create_server(("127.0.0.1", 0))
        self._mine.settimeout(20)
        peer = f"127.0.0.1:{self._mine.getsockname()[1]}"
        self.controller = Controller(
            directory,
            f'openflow: {{listen: "tcp:{free_endpoint()}"}}\n'
            f'northbound: {{socket: "{self.socket}"}}\n'
            f'log: {{events: "{self._events}"}}\n'
            f'standby: {{name: a, listen: "tcp:{self._endpoint}", peers: {{b: "{peer}"}}, '
            f'secret: "{directory}/secret"}}\n',
            program,
        )
        self.controller.start()

    def call(self) -> tuple[socket.socket, str]:
        """A connection to the controller, and its challenge."""
        host, _, port = self._endpoint.rpartition(":")
        sock = socket.create_connection((host, int(port)), timeout=20)
        return sock, sock.makefile().readline().strip()

    def be_called(self, challenge: str) -> Iterator[Heartbeat]:
        """What the controller says of itself."""
        sock, _ = self._mine.accept()
        sock.settimeout(20)
        sock.sendall(challenge.encode() + b"\n")
        line = Line(challenge, SECRET)
        with sock, sock.makefile("rb") as lines:
            for said in lines:
                yield line.read(said)

    def refused(self, reason: str) -> None:
        wait_for(lambda: f": {reason}" in self.controller.log, f"refused: {reason}")

    @property
    def ranks(self) -> list[str]:
        return [event["rank"] for event in read_events(self._events, "rank")]

    def close(self) -> None:
        self._mine.close()
        if self.controller.running:
            self.controller.stop()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ControllerAndPeer]:
    world = ControllerAndPeer(tmp_path)
    yield world
    world.close()


def closed(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.timing
def test_a_peer_that_is_master_is_heard_and_followed_when_it_stops(
    world: ControllerAndPeer,
) -> None:
    sock, challenge = world.call()
    line = Line(challenge, SECRET)
    end_s = time.monotonic() + 3
    heard = world.be_called("challenge")
    with sock:
        while time.monotonic() < end_s:
            sock.sendall(line.write(PEER))
            said = next(heard)
            assert (said.name, said.rank) == ("a", Rank.STANDBY)
    assert said.generation == PEER.generation
    assert world.ranks == []
    stopped_s = time.monotonic()
    while next(heard).rank is not Rank.MASTER:
        pass
    assert time.monotonic() - stopped_s < 2
    wait_for(lambda: world.ranks == ["master"], "the event log to say so")


def test_a_master_that_fails_leaves_at_once(tmp_path: Path) -> None:
    # A bug, put into the real program from outside.
    bug = tmp_path / "bug"
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        "from pathlib import Path\n"
        "from controller.runtime import launcher\n"
        "launcher.prepare_ryu()\n"
        "from controller.core.engine import Engine\n"
        f"Engine.tend = lambda *_: Path({str(bug)!r}).exists() and 1 / 0 or []\n"
        "sys.exit(launcher.main(sys.argv[1:]))\n"
    )
    world = ControllerAndPeer(tmp_path, [str(program)])
    try:
        sock, challenge = world.call()
        with sock:
            line = Line(challenge, SECRET)
            ranks = []
            for heard in world.be_called("challenge"):
                ranks.append(heard.rank)
                if heard.rank is Rank.MASTER:
                    bug.touch()
                sock.sendall(line.write(PEER._replace(rank=Rank.STANDBY)))
        assert ranks[-1] is Rank.LEAVING
        assert world.controller.wait() == 1
        assert "ZeroDivisionError" in world.controller.log
    finally:
        world.close()


def test_strangers_are_turned_away(world: ControllerAndPeer) -> None:
    sock, challenge = world.call()
    sock.sendall(Line(challenge, b"another secret!!").write(PEER))
    assert closed(sock)
    world.refused("it does not know the secret")

    sock, challenge = world.call()
    sock.sendall(Line(challenge, SECRET).write(PEER._replace(name="c")))
    assert closed(sock)
    world.refused("it calls itself c, which is no peer")

    _, former = world.call()
    sock, _ = world.call()
    sock.sendall(Line(former, SECRET).write(PEER))
    assert closed(sock), "a heartbeat of another connection"

    sock, challenge = world.call()
    said = json.loads(Line(challenge, SECRET).write(PEER._replace(shared='{"version": 1}')))
    sock.sendall(json.dumps(said | {"shared": '{"version": 2}'}).encode() + b"\n")
    assert closed(sock), "what is shared is not what its tag is for"

    sock, _ = world.call()
    sock.sendall(b"\0" * 10_000)
    assert closed(sock)
    world.refused("its line is too long")

    for nonsense in (b"\n", b"[]\n", b"{}\n", b"nonsense\n", b"[" * 1000 + b"\n", b"\xff\n"):
        sock, _ = world.call()
        sock.sendall(nonsense)
        assert closed(sock)
    world.refused("it sends what no controller sends")
    wait_for(lambda: world.ranks == ["master"], "nobody of them was taken for the master")
    assert "Traceback" not in world.controller.log


def test_many_who_say_nothing_keep_nobody_out_for_long(world: ControllerAndPeer) -> None:
    silent = [world.call()[0] for _ in range(60)]
    assert closed(silent[0])
    sock, challenge = world.call()
    with sock:
        sock.sendall(Line(challenge, SECRET).write(PEER))
        # Those of its calls that nobody has answered in time are over.
        assert next(beat for _ in range(100) for beat in world.be_called("x")).name == "a"


def test_a_secret_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"standby\.secret: .*none: No such file"):
        read_secret(tmp_path / "none")
    short = tmp_path / "short"
    short.write_text("short\n")
    with pytest.raises(ConfigError, match=r"standby\.secret: .* holds 5 bytes; .* 16 to 64"):
        read_secret(short)


def test_what_is_shared_is_read_as_it_was_written() -> None:
    wrote, read = Line("challenge", SECRET), Line("challenge", SECRET)
    for shared in ("", '{"version": 1}', "x\n" * 1000):
        assert read.read(wrote.write(PEER._replace(shared=shared))) == PEER._replace(shared=shared)


def test_an_older_release_finds_what_it_knows() -> None:
    line = json.loads(Line("challenge", SECRET).write(PEER._replace(shared='{"version": 1}')))
    assert json.loads(line["said"]) == [1, "b", "master", 4711, 100]
    without = json.loads(Line("challenge", SECRET).write(PEER))
    assert {key: line[key] for key in ("said", "tag")} == without


def test_a_pair_shares_what_is_turned_off(world: ControllerAndPeer) -> None:
    """Controller a is real: it is told by b, and tells it."""
    client = Client(world.socket)
    sock, challenge = world.call()
    line = Line(challenge, SECRET)

    def beat(shared: str) -> None:
        sock.sendall(line.write(PEER._replace(rank=Rank.STANDBY, shared=shared)))

    with sock:
        beat('{"version": 7}')
        off = [{"switch": 9, "port": f"eth{number}", "left_s": 60.0} for number in range(300)]
        beat(json.dumps({"version": 8, "off": off}))
        wait_for(lambda: len(client.ask("bypasses")["bypasses"]) == 300, "a is told")
        heard = world.be_called("challenge")
        assert client.ask("on", {"by": "ada"})["unaware"] == []
        for said in heard:
            beat('{"version": 8}')
            if "off" in json.loads(said.shared):
                break
        assert json.loads(said.shared)["off"] == []
        for odd in ("{", "[]", '{"version": "x"}', '{"version": 9, "off": [7]}'):
            beat(odd)
        wait_for(lambda: "b has turned off cannot be used" in world.controller.log, "the complaint")
        beat("")
        wait_for(
            lambda: client.ask("off", {"by": "ada"})["unaware"] == ["b"],
            "a peer of an older release is named",
        )
    assert world.controller.running
    assert "Traceback" not in world.controller.log
