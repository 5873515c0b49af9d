"""Marks of congestion (ECN, RFC 3168) on real sockets: asked for, counted and heeded where the path
carries them, and done without where it clears them or drops what bears them.

A router stands between the two ends. The kernel may have no queue that marks: the router marks what
comes faster than a part of what its queue lets out, as a virtual queue does.
"""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from experiments.traffic import fountain
from testbed.command import run, wait_until

pytestmark = pytest.mark.netns

SOURCE, ROUTER, SINK = NAMES = ("ecn-source", "ecn-router", "ecn-sink")
PORT = 4990
SHAPED = ("rate", "40mbit", "burst", "16k", "limit", "64k")
BYTES = 12_000_000

ECT_0 = ("-p", "udp", "-m", "ecn", "--ecn-ip-ect", "2")
# Of 1.5 kB: 32 Mb/s.
BEYOND = ("--hashlimit-name", "mark", "--hashlimit-above", "2700/s", "--hashlimit-burst", "20")
MARK = (*ECT_0, "-m", "hashlimit", *BEYOND, "-j", "TOS", "--set-tos", "3/3")
CLEAR = ("-p", "udp", "-j", "TOS", "--set-tos", "0/3")
DROP = (*ECT_0, "-j", "DROP")
WHOLE = ("tx-udp-segmentation", "off", "tso", "off", "gso", "off", "gro", "off")


def within(name: str, *argv: str) -> str:
    return run(["ip", "netns", "exec", name, *argv])


def treat(rule: Sequence[str]) -> None:
    """Have the router do this with what it forwards, from now on."""
    within(ROUTER, "iptables", "-t", "mangle", "-A", "FORWARD", *rule)


def dropped() -> int:
    """Datagrams for which the router's queue had no room."""
    (queue,) = json.loads(within(ROUTER, "tc", "-j", "-s", "qdisc", "show", "dev", "to-sink"))
    return int(queue["drops"])


@contextmanager
def path() -> Iterator[None]:
    """Source, router and sink, with a queue at the router towards the sink."""
    for name in NAMES:
        run(["ip", "netns", "add", name])
    try:
        links = ((SOURCE, "to-source", 1), (SINK, "to-sink", 2))
        for name, port, net in links:
            here = ("name", "eth", "netns", name)
            run(["ip", "link", "add", *here, "type", "veth", "peer", "name", port, "netns", ROUTER])
            for end, device, host in ((name, "eth", 1), (ROUTER, port, 2)):
                within(end, "ip", "address", "add", f"10.8.{net}.{host}/24", "dev", device)
                # What is cut apart by a device would be marked and dropped in one piece.
                within(end, "ethtool", "-K", device, *WHOLE)
                within(end, "ip", "link", "set", device, "up")
            within(name, "ip", "route", "add", "default", "via", f"10.8.{net}.2")
        within(ROUTER, "sysctl", "-q", "net.ipv4.ip_forward=1")
        within(ROUTER, "tc", "qdisc", "add", "dev", "to-sink", "root", "tbf", *SHAPED)
        yield
    finally:
        for name in NAMES:
            run(["ip", "netns", "delete", name])


def start(name: str, argv: Sequence[str]) -> subprocess.Popen[str]:
    command = ["ip", "netns", "exec", name, str(fountain.find_fountain()), *argv, "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def last(process: subprocess.Popen[str]) -> dict[str, Any]:
    said, _ = process.communicate(timeout=90)
    outcome: dict[str, Any] = json.loads(said.splitlines()[-1])
    return outcome


def sent(
    into: Path, file: Path, *options: str, then: Sequence[str] | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Send a file at TFRC's rate; return the outcomes of both ends. ``then``: a rule of the router
    as soon as some of it has come."""
    to = f"10.8.2.1:{PORT}"
    receiver = start(SINK, ["recv", str(into), "--listen", to, "--anyone"])
    try:
        assert receiver.stdout is not None
        trust = ["--fingerprint", json.loads(receiver.stdout.readline())["fingerprint"]]
        sender = start(SOURCE, ["send", to, str(file), "--tfrc", *trust, *options])
        if then is not None:
            part = into / f"{file.name}.fountain-state"
            wait_until(part.exists, timeout_s=30, what="some of it has come")
            treat(then)
        outcome = last(sender)
    finally:
        receiver.terminate()
        received = last(receiver)
    return outcome, received


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "source" / "file"
    file.parent.mkdir()
    block = bytes(range(256)) * 4
    file.write_bytes(b"".join(n.to_bytes(4) + block for n in range(BYTES // len(block))))
    return file


def arrived(outcome: dict[str, Any], file: Path, into: Path) -> bool:
    assert outcome["event"] == "done" and outcome["complete"], outcome
    return (into / file.name).read_bytes() == file.read_bytes()


@pytest.mark.timeout(180)
def test_marks_take_the_place_of_drops(tmp_path: Path, file: Path) -> None:
    drops = {}
    for options in ((), ("--no-ecn",)):
        into = tmp_path / f"into{len(options)}"
        into.mkdir()
        with path():
            treat(MARK)
            outcome, received = sent(into, file, *options)
            drops[options] = dropped()
        assert arrived(outcome, file, into)
        if options:
            assert (outcome["ecn"], outcome["ect"], received["ect"]) == ("off", 0, 0)
        else:
            assert outcome["ecn"] == "capable" and outcome["ect"] == outcome["symbols"]
            assert 0 < outcome["ce"] <= received["ce"]
            assert received["ect"] + received["ce"] <= outcome["ect"]
    assert drops[()] < drops["--no-ecn",], drops


@pytest.mark.timeout(180)
def test_marks_that_are_cleared_are_done_without(tmp_path: Path, file: Path) -> None:
    with path():
        treat(CLEAR)
        outcome, received = sent(tmp_path, file)
    assert arrived(outcome, file, tmp_path)
    assert outcome["ecn"] == "cleared" and outcome["ect"] < outcome["symbols"] / 10
    assert (received["ect"], received["ce"]) == (0, 0)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("from_the_start", [True, False])
def test_a_path_that_drops_what_asks_for_marks_is_used_without(
    tmp_path: Path, file: Path, from_the_start: bool
) -> None:
    with path():
        if from_the_start:
            treat(DROP)
        outcome, received = sent(tmp_path, file, then=None if from_the_start else DROP)
    assert arrived(outcome, file, tmp_path)
    assert outcome["ecn"] == "dropped"
    assert (received["ect"] == 0) == from_the_start
