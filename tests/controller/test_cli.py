"""The commands beside `run`: what they say, and when they cannot; what fits a terminal."""

import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from commanding import stand_in
from controller.cli import COMMANDS, commands, listing, words
from controller.cli.client import AskError, Client
from controller.cli.top import Look, Rates, Screen
from controller.northbound.views import SnoopingView
from controller.rpc import messages
from controller.rpc.messages import Kind
from dummy_ovs import REPOSITORY
from fake_source import ACCOUNT, Told, flow


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "controller", *map(str, arguments)],
        cwd=REPOSITORY,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        commands.run([command, "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert "examples:" in text
    assert f"weir-controller {command}" in text


class TestCheck:
    def test_files_that_it_names_have_to_be_usable(self, tmp_path: Path) -> None:
        file, key = tmp_path / "weir.yaml", tmp_path / "none.pem"
        file.write_text(f"tls: {{key: {key}, certificate: {key}, ca: {key}}}")
        done = run("check", file)
        assert (done.returncode, done.stderr) == (1, "")
        assert done.stdout == "".join(
            f"{file}: tls.{name}: {key}: No such file or directory; make it, or name another\n"
            for name in ("key", "certificate", "ca")
        )

    def test_a_valid_file(self, tmp_path: Path) -> None:
        file = tmp_path / "weir.yaml"
        file.write_text(
            "openflow: {listen: 'tcp:127.0.0.1:6653'}\n"
            "northbound: {metrics: off, socket: off}\nlog: {levels: {app: debug}}"
        )
        done = run("check", file)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{file} is valid\n", "")
        assert json.loads(run("check", "--json", file).stdout) == {
            "file": str(file),
            "valid": True,
            "problems": [],
            "warnings": [],
        }

    def test_all_that_is_wrong_at_once(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "weir.yaml"
        file.write_text(
            "fabric: {rtt: soon}\n"
            "northbound: {metrics: everywhere, socket: here}\n"
            "log: {format: xml, levels: {kernel: info}}\n"
        )
        assert commands.run(["check", str(file)]) == 1
        lines = capsys.readouterr().out.splitlines()
        assert all(line.startswith(f"{file}: ") for line in lines)
        for key in (
            *("fabric.rtt", "northbound.metrics", "northbound.socket"),
            *("log.format", "log.levels.kernel"),
        ):
            assert sum(f": {key}: " in line for line in lines) == 1
        assert commands.run(["check", "--json", str(file)]) == 1
        assert len(json.loads(capsys.readouterr().out)["problems"]) == 5

    def test_what_is_no_configuration(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "weir.yaml"
        for text in (b"a: [", b"\xff\xfe\xff", b"- 1"):
            file.write_bytes(text)
            assert commands.run(["check", str(file)]) == 1
            assert str(file) in capsys.readouterr().out
        assert commands.run(["check", str(tmp_path)]) == 2
        assert commands.run(["check", str(tmp_path / "none")]) == 2
        assert "No such file" in capsys.readouterr().err


@contextmanager
def answering(path: Path, answer: bytes) -> Iterator[None]:
    """Something that listens and answers always the same."""
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            peer, _ = listening.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        thread.join(5)


class TestNoController:
    def test_no_socket(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        listings = "top", "switches", "ports", "flows", "events", "fountains", "groups"
        others = ["bandwidth", "10.0.0.1", "10.0.0.2"], ["ask", "health"], ["ask", "follow_events"]
        for command in (*([one] for one in listings), *others):
            assert commands.run([*command, "--socket", str(tmp_path / "none")]) == 1
            told = capsys.readouterr()
            assert "no controller runs here: there is no socket" in told.err
            assert "--socket" in told.err
            assert not told.out

    def test_nobody_listens(self, tmp_path: Path) -> None:
        path = tmp_path / "left"
        with closing(socket.socket(socket.AF_UNIX)) as left:
            left.bind(str(path))
        with pytest.raises(AskError, match="nobody listens at"):
            Client(str(path)).ask("flows")

    @pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
    def test_not_permitted(self) -> None:
        with (
            tempfile.TemporaryDirectory() as directory,
            closing(socket.socket(socket.AF_UNIX)) as mine,
        ):
            Path(directory).chmod(0o755)
            path = Path(directory) / "mine"
            mine.bind(str(path))
            path.chmod(0o600)
            mine.listen()
            os.seteuid(65_534)
            try:
                with pytest.raises(AskError, match="only root may open"):
                    Client(str(path)).ask("flows")
            finally:
                os.seteuid(0)

    @pytest.mark.parametrize(
        "answer", [b"", b"SSH-2.0\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n<html>", b"\xff" * 100]
    )
    def test_something_else_listens(self, tmp_path: Path, answer: bytes) -> None:
        path = tmp_path / "other"
        with answering(path, answer), pytest.raises(AskError, match=str(path)):
            Client(str(path)).ask("flows")

    def test_one_that_ends_may_have_done_it(self, tmp_path: Path) -> None:
        path = tmp_path / "ended"
        with answering(path, b""), pytest.raises(AskError, match="has ended, or is none; whether"):
            Client(str(path)).change("on", {})
        with pytest.raises(AskError, match="no controller runs here") as error:
            Client(str(tmp_path / "none")).change("on", {})
        assert "whether" not in str(error.value)


class TestAsk:
    """What is asked, and what is made of the answer."""

    def ask(self, path: Path, *lines: bytes, asked: tuple[str, ...]) -> int:
        with answering(path, b"".join(lines)):
            return commands.run(["ask", *asked, "--socket", str(path)])

    def test_an_answer_is_json(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        lines = [messages.result({"scheme": "weir"}, "ports"), messages.piece([b'{"port": 1}'])]
        asked = "regulation", "switch=1"
        assert self.ask(tmp_path / "s", *lines, messages.END, asked=asked) == 0
        told = json.loads(capsys.readouterr().out)
        assert told == {"scheme": "weir", "ports": [{"port": 1}]}

    def test_a_stream_is_a_line_for_each(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        lines = [messages.result({}, "events"), messages.piece([b"{}", b"{}"]), messages.piece(())]
        assert self.ask(tmp_path / "s", *lines, asked=("follow_events",)) == 1
        told = capsys.readouterr()
        assert told.out == "{}\n{}\n"
        assert "has ended" in told.err

    def test_an_error_is_told(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        error = messages.error(Kind.UNKNOWN, "no flow a is announced")
        assert self.ask(tmp_path / "s", error, asked=("withdraw", "flow=a")) == 1
        assert capsys.readouterr().err == "weir-controller: no flow a is announced\n"

    def test_a_parameter_has_a_name(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            commands.run(["ask", "ports", "1"])
        assert "'1' is not NAME=VALUE" in capsys.readouterr().err

    def test_a_parameter_stands_once(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert commands.run(["ask", "ports", "switch=1", "switch=2"]) == 1
        assert "stands twice" in capsys.readouterr().err


class TestOffAndOn:
    """Against the northbound of a controller that is none."""

    @pytest.fixture
    def told(self, monkeypatch: pytest.MonkeyPatch) -> Told:
        return stand_in(monkeypatch)

    def test_a_port_for_half_an_hour(self, told: Told, capsys: pytest.CaptureFixture[str]) -> None:
        place = ["--switch", "1", "--port", "eth2"]
        port = "port eth2 of switch 0000000000000001"
        assert commands.run(["off", *place, "--for", "30min"]) == 0
        assert told.turned_off[1, "eth2"]["by"] == "user ada"
        said = capsys.readouterr()
        assert said.out == f"regulation is off for {port}, for 30:00\n"
        assert said.err == ""
        assert commands.run(["off", "--list"]) == 0
        assert f"{port}, for 30:00, by user ada" in capsys.readouterr().out
        assert commands.run(["on", *place]) == 0
        assert capsys.readouterr().out == f"regulation is on again for {port}\n"
        assert commands.run(["on", *place]) == 0
        assert capsys.readouterr().out == "nothing was turned off there\n"
        assert commands.run(["off", "--list"]) == 0
        assert capsys.readouterr().out == "nothing is turned off\n"

    def test_peers_that_cannot_be_told(
        self, told: Told, capsys: pytest.CaptureFixture[str]
    ) -> None:
        told.unaware = ["b"]
        for command in ("off", "on"):
            assert commands.run([command]) == 0
            assert "b did not hear of it, being of an older release" in capsys.readouterr().err

    def test_everything(self, told: Told, capsys: pytest.CaptureFixture[str]) -> None:
        assert commands.run(["off"]) == 0
        out = capsys.readouterr().out
        assert out == "regulation is off for everything, until it is turned on again\n"
        assert commands.run(["off", "--list", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["bypasses"][0]["switch"] is None
        assert commands.run(["on", "--json"]) == 0
        assert len(json.loads(capsys.readouterr().out)["on"]) == 1
        assert not told.turned_off

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--port", "eth2"], "--port needs --switch"),
            (["--switch", "9"], "no switch 9 is known"),
            (["--switch", "1", "--port", ""], "is no port"),
        ],
    )
    def test_what_cannot_be(
        self, told: Told, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
    ) -> None:
        assert commands.run(["off", *arguments]) == 1
        assert said in capsys.readouterr().err
        assert not told.turned_off

    @pytest.mark.parametrize("time", ["0", "soon", "5 parsecs", "2000000h"])
    def test_times(self, capsys: pytest.CaptureFixture[str], time: str) -> None:
        with pytest.raises(SystemExit):
            commands.run(["off", "--for", time])
        assert "--for" in capsys.readouterr().err


def test_groups_are_listed_with_their_members(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = stand_in(monkeypatch)
    assert commands.run(["groups"]) == 0
    _, first, second, routers = capsys.readouterr().out.splitlines()
    assert first.split() == ["239.1.2.3", "7", "0000000000000001:2", "0000000000000002:3"]
    assert second.split() == ["ff0e::7", "-", "-"]
    assert routers == "ports of routers, which get everything: 0000000000000001:1"
    assert commands.run(["groups", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["groups"][0]["vlan"] == 7
    off: SnoopingView = {"snooping": False, "routers": [], "unsure": []}
    monkeypatch.setattr(source, "snooping", lambda: off)
    assert commands.run(["groups"]) == 0
    assert "fabric.multicast_snooping is false" in capsys.readouterr().out


class TestWords:
    def test_shares(self) -> None:
        told: dict[str, Any] = {"flow": "a", "src": "10.0.0.1", "dst": "10.0.0.2"}
        told |= {"most_bps": None, "rate_bps": 5e7, "narrowest": "1:3"}
        assert words.share(told) == "a 10.0.0.1 to 10.0.0.2 may send 50Mbit/s, as 1:3 lets it"
        told |= {"rate_bps": None, "narrowest": None}
        assert words.share(told) == "a 10.0.0.1 to 10.0.0.2 has no path"
        assert words.share(told | {"src": None}) == "a is gone"

    @given(st.floats(0, 1e18))
    def test_numbers_are_short(self, number: float) -> None:
        assert len(words.size(number)) <= 6
        assert len(words.rate(number)) <= 6

    @pytest.mark.parametrize(
        ("n_bytes", "written"),
        [(0, "0"), (999, "999"), (1024, "1K"), (65_536, "64K"), (1_500_000, "1.43M")],
    )
    def test_sizes(self, n_bytes: int, written: str) -> None:
        assert words.size(n_bytes) == written

    @pytest.mark.parametrize(
        ("part", "whole", "written"),
        [
            *((0, 0, "-"), (0, 7, "0%"), (1, 1, "100%"), (999, 1000, "100%")),
            *((120, 1000, "12%"), (1, 300, "0.33%"), (42, 1000, "4.2%")),
        ],
    )
    def test_parts_of_a_whole(self, part: int, whole: int, written: str) -> None:
        assert words.percent(part, whole) == written

    def test_an_event_is_a_line(self) -> None:
        credit = {"bound_bytes": 0, "max_hold_ms": 160, "weight": 7}
        windows = [
            {"port": 3, "class": "burst", "window_bytes": 2920, "credit": None},
            {"port": 4, "class": "burst", "window_bytes": 0, "credit": credit},
            {"port": 5, "class": "background", "window_bytes": 0, "credit": None},
        ]
        line = words.event(
            {"serial": 1, "event": "window_set", "switch": 1, "wall_s": 0.5, "windows": windows}
        )
        assert line.endswith(
            " window_set switch=0000000000000001"
            " 3/burst=2920B 4/burst=credit:7 5/background=released"
        )

    @given(st.text())
    def test_a_terminal_is_safe(self, name: str) -> None:
        assert words.plain(name).isprintable()


def looked(n_ports: int = 40, **port: Any) -> Look:
    told = Told(2, n_ports)
    delays = {
        "control": told.control_delay(),
        "main_loop": told.loop_lag(),
        "main_loop_turn": told.loop_turns(),
    }
    controller = {
        **told.controller(),
        "tables": told.tables(),
        "delays": {name: delay._asdict() for name, delay in delays.items()},
    }
    ports = listing.with_regulation(told.ports(), told.regulation())
    return Look(
        controller,
        [dict(view) for view in told.switches()],
        [{**row, **port} for row in ports],
        [dict(flow(number)) for number in range(100)],
    )


def drawn(screen: Screen, seen: Look, size: tuple[int, int], trouble: str | None = None) -> str:
    console = Console(width=size[0], height=size[1], file=io.StringIO(), force_terminal=False)
    console.print(screen.draw(seen, trouble, size[1]))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


class TestPorts:
    """What the listing of ports says of an account of credit."""

    def cells(self, **account: object) -> list[str]:
        (row, *_) = Told().ports()
        (queue,) = row["queues"]
        told = {**ACCOUNT, **account} if account.get("requests", 1) is not None else None
        seen = {**row, "queues": [{**queue, "account": told}]}
        columns = listing.HELD, listing.HELD_FOR, listing.GIVEN_BACK
        return [column.cell(seen) for column in columns]

    def test_how_many_requests_were_held_for_how_long_and_what_was_not_needed(self) -> None:
        # 116 of 118 were held for less than 100 ms, and 99 % are 116.8.
        assert self.cells() == ["12%", "160ms", "2%"]
        assert self.cells(held_counts=[0, 0, 99, 1, 0, 0, 0, 0]) == ["12%", "<1ms", "2%"]

    def test_before_anything_was_held(self) -> None:
        empty = {"requests": 0, "held_requests": 0, "charged_bytes": 0, "given_back_bytes": 0}
        assert self.cells(**empty, held_counts=[0] * 8) == ["-", "-", "-"]

    def test_without_an_account(self) -> None:
        assert self.cells(requests=None) == ["-", "-", "-"]

    def test_where_there_can_be_none(self) -> None:
        (row, *_) = Told().ports()
        (queue,) = row["queues"]
        seen = {**row, "queues": [{**queue, "account": None, "can_have_account": False}]}
        assert listing.HELD.cell(seen) == "never"
        assert listing.HELD.cell({**row, "queues": []}) == "-"

    def test_all_of_it_is_in_the_listing(self) -> None:
        titles = [column.title for column in listing.PORTS]
        assert titles[-4:] == ["WINDOW", "HELD", "FOR", "UNUSED"]


class TestTop:
    @pytest.mark.parametrize("size", [(80, 24), (80, 5), (200, 60), (40, 24)])
    @pytest.mark.parametrize("view", "1234")
    def test_it_fits(self, size: tuple[int, int], view: str) -> None:
        screen = Screen()
        assert screen.press(view)
        lines = drawn(screen, looked(), size).splitlines()
        assert len(lines) <= size[1]
        assert max(map(len, lines)) <= size[0]

    def test_all_of_a_port_is_seen_in_80_columns(self) -> None:
        screen = Screen()
        screen.press("n")
        text = drawn(screen, looked(), (80, 24))
        for title in ("SWITCH", "QUEUE", "LIMIT", "DROP/S", "NOTICE", "WINDOW", "HELD"):
            assert title in text
        first = next(line for line in text.splitlines() if "s1-eth1 " in line)
        assert first.split() == [
            *("0000000000000001", "1", "s1-eth1", "1000", "64K", "-", "-", "32+1", "CN-M"),
            *("14.3K", "12%"),
        ]
        assert "99% of notices answered within 100ms" in text

    def test_keys_sort(self) -> None:
        screen = Screen()
        text = drawn(screen, looked(), (80, 24))
        assert "ports, by queue length" in text
        assert "s1-eth40" in text
        screen.press("n")
        assert "s1-eth40" not in drawn(screen, looked(), (80, 24))
        assert screen.press("x")
        assert not screen.press("q")

    def test_rates_are_by_the_clock_of_the_switch(self) -> None:
        rates, (row,) = Rates(), looked(1).ports[:1]

        def read(time_s: int, sent_bytes: int, drops: int) -> None:
            counters = {"sent_bytes": sent_bytes, "dropped_packets": drops}
            queue = {**row["queues"][0], "switch_time_ns": time_s * 10**9, **counters}
            rates.read([{**row, "queues": [queue]}])

        read(10, 1000, 0)
        assert rates.of(row) is None
        read(12, 251_000, 4)
        assert rates.of(row) == (10**6, 2)
        # Nothing new was told yet.
        read(12, 251_000, 4)
        assert rates.of(row) == (10**6, 2)
        # The queue was set up again.
        read(13, 0, 0)
        assert rates.of(row) is None

    def test_trouble_is_told_beside_what_was_seen_last(self) -> None:
        text = drawn(Screen(), looked(), (80, 24), "no controller runs here")
        assert "no controller runs here" in text
        assert "s1-eth40" in text

    def test_a_port_may_have_any_name(self) -> None:
        text = drawn(Screen(), looked(name="\x1b[2J\u202e[red]x"), (120, 24))
        assert "\x1b" not in text
        assert "[red]" in text


def test_an_end_of_the_pipe_is_no_error(tmp_path: Path) -> None:
    """As of `| head`; that is the process's, and a caller of the command keeps its own signals."""
    file = tmp_path / "weir.yaml"
    file.write_text("{}")
    shell = f"{sys.executable} -m controller check {file} | true"
    done = subprocess.run(
        shell, shell=True, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr == ""
    before = signal.getsignal(signal.SIGPIPE)
    assert commands.run(["check", str(file)]) == 1
    assert signal.getsignal(signal.SIGPIPE) == before == signal.SIG_IGN
