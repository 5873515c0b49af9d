"""`weir-controller compare` on a real switch: under incast, and on requests alone.

That it finds out where regulation hurts, and stops, is in tests/controller/test_compare_turns.py.
"""

import json
import subprocess
import sys
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

pytestmark = [
    pytest.mark.netns,
    pytest.mark.switch,
    pytest.mark.slow,
    pytest.mark.timing,
    pytest.mark.timeout(300),
]


@contextmanager
def bed() -> Iterator[tuple[Bed, str]]:
    """A star under Weir's regulation, and where its controller is asked."""
    path = str(sandbox.RUN_DIR / "controller.sock")
    config = BedConfig(
        topology="star",
        senders=SENDERS,
        scheme="weir",
        controller={"northbound": {"socket": path}},
    )
    with Bed(config) as made:
        made.require_forwarding()
        yield made, path


@contextmanager
def requests(bed: Bed, connections: int, size_bytes: int) -> Iterator[None]:
    """So many connections ask redis for values of this size."""
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
        benchmark += ["-d", str(size_bytes), "-c", str(connections)]
        run([*benchmark, "-t", "set", "-n", "1"], pid=client.pid)
        endless = [*benchmark, "-t", "get", "-n", "100000000"]
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
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    # For whoever looks at why the test has failed.
    print(done.stderr)
    answer: dict[str, Any] = json.loads(done.stdout)
    print(json.dumps(answer["measures"], indent=1))
    assert Client(socket).ask("bypasses")["bypasses"] == []
    return {**answer, "status": done.returncode}


def test_it_helps_under_incast() -> None:
    with bed() as (made, path), incast(made, IncastSpec(senders=SENDERS, rounds=10**6)) as reads:
        reads.require_progress(10, 20, "under regulation")
        told = compare(path, pairs=6)
    assert (told["verdict"], told["status"]) == ("helps", 0)
    assert told["measures"]["timeouts"]["judgement"] == "better"
    assert told["measures"]["bytes"]["judgement"] == "better"


def test_it_makes_no_difference_to_requests() -> None:
    with bed() as (made, path), requests(made, 4, 3000):
        for _ in range(3):
            told = compare(path, pairs=10)
            # On a busy machine it may be unable to tell.
            if told["verdict"] != "undecided":
                break
    assert (told["verdict"], told["status"]) == ("no difference", 0)
