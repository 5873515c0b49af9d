"""Transfers over paths that carry less than an Ethernet frame, or come to do so in the middle.

Two routers stand between the hosts, with a link like a tunnel's between them: no host's own
interface says what the path carries.
"""

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from experiments.traffic import fountain
from testbed.command import run, wait_until

pytestmark = pytest.mark.netns

ROUTERS = ("r1", "r2")
SHAPED = ("rate", "30mbit", "burst", "32k", "latency", "50ms")
BYTES = 12_000_000


def within(name: str, *argv: str) -> str:
    return run(["ip", "netns", "exec", name, *argv])


def set_mtu(mtu: int) -> None:
    """Set what the link between the routers carries."""
    for name in ROUTERS:
        within(name, "ip", "link", "set", "middle", "mtu", str(mtu))


@contextmanager
def path(mtu: int, silent: bool = False) -> Iterator[None]:
    """A client and a server, named so, with two routers between; ``silent``: they do not tell of
    packets that are too long."""
    names = ("client", *ROUTERS, "server")
    for name in names:
        run(["ip", "netns", "add", name])
    try:
        links = (
            ("client", "eth", "r1", "edge"),
            ("r1", "middle", "r2", "middle"),
            ("r2", "edge", "server", "eth"),
        )
        for net, (left, port, right, other) in enumerate(links, 1):
            here, there = f"name {port} netns {left}".split(), f"name {other} netns {right}".split()
            run(["ip", "link", "add", *here, "type", "veth", "peer", *there])
            for name, device, host in ((left, port, 1), (right, other, 2)):
                within(name, "ip", "address", "add", f"10.9.{net}.{host}/24", "dev", device)
                within(name, "ip", "link", "set", device, "up")
        within("client", "ip", "route", "add", "default", "via", "10.9.1.2")
        within("server", "ip", "route", "add", "default", "via", "10.9.3.1")
        within("r1", "ip", "route", "add", "10.9.3.0/24", "via", "10.9.2.2")
        within("r2", "ip", "route", "add", "10.9.1.0/24", "via", "10.9.2.1")
        for name in ROUTERS:
            within(name, "sysctl", "-q", "net.ipv4.ip_forward=1")
            within(name, "tc", "qdisc", "add", "dev", "middle", "root", "tbf", *SHAPED)
            if silent:
                # What would tell of it finds no way back.
                within(name, "ip", "rule", "add", "iif", "lo", "to", "10.9.0.0/16", "prohibit")
        set_mtu(mtu)
        yield
    finally:
        for name in names:
            run(["ip", "netns", "delete", name])


@contextmanager
def listening(argv: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A command that listens at the server."""
    command = ["ip", "netns", "exec", "server", str(fountain.find_fountain()), *argv, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()


def moved(way: str, source: Path, into: Path, falls_to: int | None) -> dict[str, Any]:
    """Move a file one way or the other; return the outcome."""
    program = str(fountain.find_fountain())
    served, to = (source.parent, "10.9.3.2:4900")
    if way == "fetch":
        listen = ["serve", str(served), "--listen", to]
    else:
        listen = ["recv", str(into), "--listen", to, "--anyone"]
    with listening(listen) as told:
        trust = ["--fingerprint", told["fingerprint"], "--json", "--silence", "3", "--retry", "60"]
        if way == "fetch":
            argv = [program, "fetch", f"{to}/{source.name}", "-o", str(into), *trust]
        else:
            argv = [program, "send", to, str(source), "--rate", "25M", *trust]
        command = ["ip", "netns", "exec", "client", *argv]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            if falls_to is not None:
                part = into / f"{source.name}.fountain-state"
                wait_until(part.exists, timeout_s=30, what="some of it has come")
                set_mtu(falls_to)
            said, _ = process.communicate(timeout=90)
    outcome: dict[str, Any] = json.loads(said.splitlines()[-1])
    return outcome


@pytest.mark.timeout(180)
@pytest.mark.parametrize("way", ["fetch", "send"])
@pytest.mark.parametrize(
    ("mtu", "falls_to", "silent"),
    [
        (1280, None, False),
        (1280, None, True),
        (1000, None, True),
        (1500, 1000, False),
        (1500, 1280, True),
        (1500, 1000, True),
    ],
    ids=["tunnel", "silent tunnel", "narrow", "falls", "falls silently", "falls low, silently"],
)
def test_a_file_arrives_whatever_the_path_carries(
    tmp_path: Path, way: str, mtu: int, falls_to: int | None, silent: bool
) -> None:
    source, into = tmp_path / "source" / "file", tmp_path / "into"
    source.parent.mkdir()
    into.mkdir()
    block = bytes(range(256)) * 4
    source.write_bytes(b"".join(n.to_bytes(4) + block for n in range(BYTES // len(block))))
    with path(mtu, silent):
        begun = time.monotonic()
        outcome = moved(way, source, into, falls_to)
        took_s = time.monotonic() - begun
    assert outcome["event"] == "done" and outcome["complete"], (outcome, took_s)
    assert (into / "file").read_bytes() == source.read_bytes()
    if way == "send":
        # DFCP probes its path: it is no other connection that fits it, but shorter datagrams.
        assert outcome["connections"] == 1, outcome
        assert outcome["path_bytes"] <= (falls_to or mtu) - 28, outcome
        assert (outcome["pieces"] > 0) == (falls_to is not None), outcome
    else:
        # An LTTP client asks for symbols as long as its own interface carries: over a narrower path
        # they come in pieces from the start.
        assert sum(server["pieces"] for server in outcome["servers"]) > 0, outcome
    assert took_s < 15, (took_s, outcome)
    # What came before the path changed was not sent again, but for blocks that were under way.
    assert outcome["bytes"] <= source.stat().st_size + 4_000_000
