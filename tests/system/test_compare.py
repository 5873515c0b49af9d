"""`weir-controller compare` on a real switch: under incast, on requests alone, and where regulation
hurts."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from controller.cli.client import Client
from experiments.traffic.programs.app import program
from experiments.traffic.reader import IncastSpec
from testbed import sandbox
from testbed.bed import Bed
from testbed.command import run, wait_until
from testbed.config import BedConfig
from testbed.controller import listening
from traffic import incast

TURN_S = 3
SENDERS = 32
REDIS_PORT = 6379

pytestmark = [pytest.mark.netns, pytest.mark.switch, pytest.mark.slow, pytest.mark.timing]


@contextmanager
def bed(prefix: Path | None = None) -> Iterator[tuple[Bed, str]]:
    """A star under Weir's regulation, and where its controller is asked."""
    path = str(sandbox.RUN_DIR / "controller.sock")
    config = BedConfig(
        topology="star",
        senders=SENDERS,
        scheme="weir",
        ovs_prefix=prefix,
        controller={"northbound": {"socket": path}},
    )
    with Bed(config) as made:
        made.require_forwarding()
        yield made, path


@contextmanager
def requests(bed: Bed, connections: int) -> Iterator[None]:
    """So many connections ask redis for 3 kB each."""
    server, client = bed.host(bed.roles.senders[0]), bed.host(bed.roles.receiver)
    running = [
        server.popen(
            [
                *(program("redis-server", "redis-server"), "--save", "", "--dir", "/tmp"),
                *("--protected-mode", "no"),
            ]
        )
    ]
    try:
        ports = Path(f"/proc/{server.pid}/net/tcp")
        wait_until(
            lambda: listening(REDIS_PORT, ports.read_text()), timeout_s=10, what="redis listens"
        )
        benchmark = [program("redis-benchmark", "redis-tools"), "-h", server.IP(), "-q"]
        benchmark += ["-d", "3000", "-c", str(connections)]
        run([*benchmark, "-t", "set", "-n", "1"], pid=client.pid)
        endless = [*benchmark, "-t", "get", "-n", "1000", "-l"]
        running.append(client.popen(endless, stdout=subprocess.DEVNULL))
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def compare(socket: str, pairs: int) -> dict[str, Any]:
    minutes = pairs * 2 * TURN_S / 60
    argv = [sys.executable, "-m", "controller", "compare", "--socket", socket, "--json"]
    argv += ["--minutes", str(minutes), "--turn", str(TURN_S)]
    began_s = time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    # For whoever looks at why the test has failed.
    print(done.stderr)
    answer: dict[str, Any] = json.loads(done.stdout)
    print(json.dumps(answer["measures"], indent=1))
    assert Client(socket).ask("bypasses")["bypasses"] == []
    return {**answer, "status": done.returncode, "seconds": time.monotonic() - began_s}


def test_it_helps_under_incast() -> None:
    with bed() as (made, path), incast(made, IncastSpec(senders=SENDERS, rounds=10**6)) as reads:
        reads.require_progress(10, 20, "under regulation")
        told = compare(path, pairs=6)
    assert (told["verdict"], told["status"]) == ("helps", 0)
    assert told["measures"]["timeouts"]["judgement"] == "better"
    assert told["measures"]["bytes"]["judgement"] == "better"


def test_it_makes_no_difference_to_requests() -> None:
    with bed() as (made, path), requests(made, 4):
        told = compare(path, pairs=10)
    assert (told["verdict"], told["status"]) == ("no difference", 0)


def test_it_stops_within_a_minute_where_regulation_hurts(faulty_prefix: Path) -> None:
    with bed(faulty_prefix) as (made, path), requests(made, 50):
        told = compare(path, pairs=20)
    assert (told["verdict"], told["status"]) == ("hurts", 3)
    assert told["stopped_for"] in ("bytes", "answers")
    assert told["seconds"] < 60
