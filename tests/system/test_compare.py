"""`weir-controller compare` on a real switch: under incast, on requests alone, and on requests
through a switch that charges too much for them."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from controller.cli.client import Client
from controller.cli.compare.command import HURTS
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
    pytest.mark.long,
    pytest.mark.timing,
    pytest.mark.timeout(300),
]


@contextmanager
def bed(ovs_prefix: str | None = None) -> Iterator[tuple[Bed, str]]:
    """A star under Weir's regulation, and where its controller is asked."""
    path = str(sandbox.RUN_DIR / "controller.sock")
    config = BedConfig(
        topology="star",
        senders=SENDERS,
        scheme="weir",
        ovs_prefix=ovs_prefix,
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


def test_it_finds_a_switch_that_hurts_and_stops_within_a_minute() -> None:
    prefix = os.environ["WEIR_OVERCHARGING_OVS_PREFIX"]
    with bed(prefix) as (made, path), requests(made, 50, 3000):
        begin_s = time.monotonic()
        told = compare(path, pairs=20)
        took_s = time.monotonic() - begin_s
    assert (told["verdict"], told["status"]) == ("hurts", HURTS)
    assert told["measures"]["bytes"]["judgement"] == "worse"
    assert took_s < 60
