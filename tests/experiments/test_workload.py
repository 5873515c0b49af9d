"""The reads mean what IncastSpec says, over real sockets too."""

import itertools
import json
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import workloads
from experiments.traffic.clock import BIN_NS, ByteBins
from experiments.traffic.fresh import FreshReader
from experiments.traffic.reader import IncastSpec
from experiments.traffic.responder import REQUEST
from experiments.traffic.rpc import PATTERNS, Rpc
from experiments.workloads import WORKLOADS
from experiments.workloads.reads import with_repairs

SPECS = st.builds(
    IncastSpec,
    senders=st.integers(1, 40),
    rounds=st.integers(1, 5),
    block_bytes=st.integers(200, 10**7),
    connections_per_sender=st.integers(1, 4),
    seed=st.integers(0, 2**32),
)


@given(SPECS)
def test_shares_make_up_the_block_evenly(spec: IncastSpec) -> None:
    shares = spec.shares()
    assert len(shares) == spec.senders * spec.connections_per_sender
    assert sum(shares) == spec.block_bytes
    assert max(shares) - min(shares) <= 1


@given(SPECS)
def test_every_connection_is_asked_once_a_round_in_an_order_of_the_seed(spec: IncastSpec) -> None:
    orders = list(spec.orders())
    assert len(orders) == spec.rounds
    assert all(sorted(order) == list(range(spec.connections)) for order in orders)
    assert orders == list(spec.orders())


def test_another_seed_is_another_order() -> None:
    one, other = (next(iter(IncastSpec(32, 1, seed=seed).orders())) for seed in (1, 2))
    assert one != other


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"senders": 0, "rounds": 1}, "senders must be at least 1, not 0"),
        ({"senders": 1, "rounds": -1}, "rounds must be at least 1, not -1"),
        ({"senders": 8, "rounds": 1, "block_bytes": 7}, "at least one per connection: 8, not 7"),
    ],
)
def test_what_makes_no_sense_is_refused(fields: dict[str, int], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        IncastSpec(**fields)


def test_bins_have_no_gaps() -> None:
    bins = ByteBins()
    assert bins.as_record()["bytes"] == []
    bins.bins = {7: 5, 10: 2}
    assert bins.as_record() == {"start_ns": 7 * BIN_NS, "bin_ns": BIN_NS, "bytes": [5, 0, 0, 2]}
    now_ns = bins.add(1)
    assert bins.bins[now_ns // BIN_NS] == 1


@pytest.mark.netns
def test_blocks_over_real_sockets() -> None:
    """One namespace, this one, stands for both senders: they are told apart by their addresses."""
    spec = {"senders": 2, "rounds": 3, "block_bytes": 300_001, "connections_per_sender": 2}
    run = [sys.executable, "-m"]
    here = f"--pid={os.getpid()}"
    with subprocess.Popen(
        [*run, "experiments.traffic.responder", "--port=5000", "--repairs", here],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as responder:
        assert responder.stdout is not None
        assert json.loads(responder.stdout.readline()) == {"event": "ready"}
        servers = ["--server=127.0.0.1", "--server=127.0.0.2"]
        reader = subprocess.run(
            [*run, "experiments.traffic.reader", "--spec", json.dumps(spec), *servers],
            capture_output=True,
            text=True,
            check=True,
        )
        assert responder.stdin is not None
        responder.stdin.write("repairs\n")
        responder.stdin.flush()
        served = json.loads(responder.stdout.readline())["connections"]
    assert responder.returncode == 0
    said = [json.loads(line) for line in reader.stdout.splitlines()]
    assert Counter(message["event"] for message in said) == {"connected": 1, "round": 3, "done": 1}
    done = said[-1]
    assert sum(done["bytes"]["bytes"]) == 3 * 300_001
    ends = [0]
    for entry, progress in zip(done["rounds"], said[1:-1], strict=True):
        assert entry["start_ns"] >= ends[-1]
        assert len(entry["completion_ns"]) == 4
        assert entry["end_ns"] - entry["start_ns"] == max(entry["completion_ns"])
        assert progress["block_ns"] == max(entry["completion_ns"])
        ends.append(entry["end_ns"])
    counted = with_repairs(done["rounds"], done["ends"], served)
    assert [len(entry["retransmitted"]) for entry in counted] == [4, 4, 4]
    assert all(min(entry["timeouts"]) >= 0 for entry in counted)
    # Each connection was asked three times, and its address tells it from the others.
    assert [len(one["segments"]) for one in served] == [3, 3, 3, 3]
    assert len({(one["server"], one["client"]) for one in served}) == 4
    assert {one["server"] for one in served} == {"127.0.0.1", "127.0.0.2"}


def test_repairs_are_those_of_both_ends_in_each_round() -> None:
    """The second connection to h1 has the first one's port in the second round."""
    one, other, again = ("h1", "r1:1"), ("h2", "r1:2"), ("h1", "r1:1")
    rounds = [
        {"bytes": 9, "retransmitted": [1, 0], "timeouts": [0, 0]},
        {"bytes": 9, "retransmitted": [0, 0], "timeouts": [0, 1]},
    ]
    served = [
        {"server": "h1", "client": "r1:1", "segments": [5], "timeouts": [1]},
        {"server": "h2", "client": "r1:2", "segments": [0, 7], "timeouts": [0, 2]},
        {"server": "h1", "client": "r1:1", "segments": [6], "timeouts": [0]},
    ]
    assert with_repairs(rounds, [[one, other], [again, other]], served) == [
        {"bytes": 9, "retransmitted": [6, 0], "timeouts": [1, 0]},
        {"bytes": 9, "retransmitted": [6, 7], "timeouts": [0, 3]},
    ]
    served[0]["timeouts"] = [None]
    found = with_repairs(rounds, [[one, other], [again, other]], served)
    assert ["timeouts" in entry for entry in found] == [False, True]


def test_a_connection_for_every_request() -> None:
    """Every connection is another one, and asks once for its share."""
    asked: list[int] = []

    def answer() -> None:
        for _ in range(6):
            sock, _peer = listener.accept()
            with sock:
                (size,) = REQUEST.unpack(sock.recv(REQUEST.size, socket.MSG_WAITALL))
                asked.append(size)
                sock.sendall(bytes(size))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=answer, daemon=True)
        server.start()
        reader = FreshReader(["127.0.0.1"], [700_000, 64, 1], listener.getsockname()[1])
        rounds = [reader.round(order) for order in ([2, 0, 1], [0, 1, 2])]
        server.join()
    assert sorted(asked) == [1, 1, 64, 64, 700_000, 700_000]
    for done in rounds:
        assert done["end_ns"] - done["start_ns"] == max(done["completion_ns"])
        assert min(done["completion_ns"]) > 0
    assert sum(reader.bins.bins.values()) == 2 * 700_065


def test_a_server_that_is_not_there_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectionError, match="Connection refused"):
        FreshReader(["127.0.0.1"], [1], port).round([0])


def test_requests_follow_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked for is as the pattern has it, and every answer has its time."""
    readings = itertools.count(0, 1_000_000)  # a clock that goes on by 1 ms whenever it is read
    monkeypatch.setattr(time, "monotonic_ns", lambda: next(readings))

    def answer() -> None:
        with listener.accept()[0] as sock:
            while request := sock.recv(REQUEST.size, socket.MSG_WAITALL):
                sock.sendall(bytes(REQUEST.unpack(request)[0]))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=answer, daemon=True)
        server.start()
        rpc = Rpc([listener.getsockname()], "jump", 0.2, 1)
        done = rpc.run()
        rpc.close()
        server.join()
    answers = done["answers"]
    assert {answer["bytes"] for answer in answers} == {64, 1_000_000}
    assert sum(done["bytes"]["bytes"]) == sum(answer["bytes"] for answer in answers)
    assert answers[-1]["end_ns"] >= 0.2e9  # The clock was read first when it began.
    assert min(answer["end_ns"] - answer["start_ns"] for answer in answers) > 0


def test_patterns() -> None:
    draw = random.Random(1)

    def sizes(name: str, seconds: float) -> list[int]:
        pattern = PATTERNS[name](seconds)
        return [pattern(step / 8, draw) for step in range(8)]

    assert sizes("jump", 4) == [64] * 4 + [1_000_000] * 4
    assert sizes("alternate", 2) == [64, 64, 100_000, 100_000] * 2
    assert {PATTERNS["mixed"](1)(0, draw) for _ in range(100)} == {64, 256_000}


def test_every_workload_passes_between_processes() -> None:
    for name in WORKLOADS:
        made = workloads.workload(name, {"senders": 3})
        assert workloads.from_record(json.loads(json.dumps(workloads.as_record(made)))) == made
        assert made.in_words()
        assert f"  {name} " in workloads.described()


@pytest.mark.parametrize(
    ("name", "given", "complaint"),
    [
        ("nothing", {}, "no workload 'nothing': there are all-to-all, data-mining, "),
        ("long-flows", {"rounds": 3}, "workload long-flows has no rounds: it has senders, seconds"),
        ("reads", {"rounds": "three"}, "rounds must be a whole number, not 'three'"),
        ("long-flows", {"seconds": "x"}, "seconds must be a number, not 'x'"),
        ("requests", {"seconds": "0"}, "seconds must be more than 0, not 0"),
        ("requests", {"pattern": "odd"}, "pattern must be jump, mixed, alternate, not 'odd'"),
    ],
)
def test_a_workload_that_cannot_be(name: str, given: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        workloads.workload(name, given)


def test_goodput_is_of_all_operations_over_all_their_time() -> None:
    """They may overlap."""
    one, other = (
        {"start_ns": start_ns, "end_ns": end_ns, "bytes": 125_000}
        for start_ns, end_ns in ((0, 15_000_000), (5_000_000, 20_000_000))
    )
    assert workloads.goodput_mbps([other, one]) == pytest.approx(100)
