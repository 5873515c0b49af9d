"""What chaos draws, reads and judges by, without any of it."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.chaos import faults, hostile, stalls, state
from experiments.chaos.clock import SteppedClock
from testbed.ovs import Ovs


@given(st.integers(0, 2**32), st.integers(0, 60))
def test_the_same_seed_draws_the_same_faults(seed: int, n: int) -> None:
    plan = faults.draw(seed, n)
    assert plan == faults.draw(seed, n)
    assert len(plan) == n


def test_every_kind_comes_before_any_comes_twice() -> None:
    for seed in range(50):
        kinds = {type(fault) for fault in faults.draw(seed, len(faults.KINDS))}
        assert kinds == set(faults.KINDS)
        storms = [f for f in faults.draw(seed, 30) if isinstance(f, faults.ReconnectStorm)]
        assert [storm.reconnects for storm in storms] == [1000]


def test_stalls_are_found_and_excused() -> None:
    series = {"start_ns": 10 * 10**9, "bin_ns": 10**9, "bytes": [5, 0, 0, 0, 5, 0, 5, 0, 0, 0]}
    found = stalls.stalls(series, 2.0)
    assert found == [(11.0, 14.0), (17.0, 20.0)]
    assert stalls.without_reason(found, [(9.5, 11.5)], 0.1) == [(17.0, 20.0)]
    assert stalls.without_reason(found, [(9.5, 11.5), (16.0, 16.5)], 0.6) == []


DUMP = """\
 cookie=0x1, table=0, priority=350,arp,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00 actions=CONTROLLER
 cookie=0x3, table=1, idle_timeout=3600, priority=100,tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_src=5,\
tp_dst=80 actions=fin_timeout(idle_timeout=30),goto_table:2
 cookie=0x3, table=1, priority=100,tcp6,ipv6_src=fd00::1,ipv6_dst=fd00::2,tp_src=6,tp_dst=80 \
actions=goto_table:2
 cookie=0x4, table=2, priority=100,tcp,in_port=1,nw_src=10.0.0.9 actions=goto_table:3
 cookie=0x6, table=3, priority=100,dl_dst=02:00:00:00:00:01 actions=output:1
 cookie=0x2, table=1, hard_timeout=5, priority=50,tcp,in_port=1 actions=CONTROLLER:192
"""


class FakeOvs(Ovs):
    def __init__(self) -> None:
        """Nothing is started."""

    def ofctl(self, *_args: str) -> str:
        return DUMP


def test_entries_are_read_for_whom_they_name() -> None:
    held = state.entries(FakeOvs(), "s1")
    assert len(held) == 5, "what expires by itself is no state"
    assert state.connections_in(held) == {
        frozenset({("10.0.0.1", 5), ("10.0.0.2", 80)}),
        frozenset({("fd00::1", 6), ("fd00::2", 80)}),
    }
    assert state.hosts_in(held) == {
        *("10.0.0.1", "10.0.0.2", "10.0.0.9", "fd00::1", "fd00::2"),
        "02:00:00:00:00:01",
    }


def test_what_a_controller_knows_begins_with_its_last_start(tmp_path: Path) -> None:
    def line(event: str, port: int) -> str:
        return (
            f'{{"event": "{event}", "src": "fd00::0:1", "src_port": {port}, '
            '"dst": "fd00::2", "dst_port": 80}\n'
        )

    events = tmp_path / "events.jsonl"
    events.write_text(
        line("connection_opened", 1)
        + '{"event": "start"}\n'
        + line("connection_opened", 2)
        + line("connection_opened", 3)
        + line("connection_closed", 2)
        + line("connection_dormant", 3)
        + line("connection_woken", 3)
        + line("connection_opened", 5)
        + line("connection_dormant", 5)
        + line("connection_opened", 4)[:20]
    )
    assert state.connections_known(events) == {frozenset({("fd00::1", 3), ("fd00::2", 80)})}


def test_spoilt_messages_differ_and_are_never_empty() -> None:
    rng = random.Random(1)
    whole = bytes.fromhex("040a 0018 00000001") + bytes(16)
    spoilt = [hostile.spoilt(whole, rng) for _ in range(200)]
    assert all(spoilt)
    assert len({*spoilt} - {whole}) > 150


def test_a_clock_is_stepped_from_where_it_is(tmp_path: Path) -> None:
    clock = pytest.importorskip("experiments.chaos.clock")
    try:
        stepped = SteppedClock(tmp_path)
    except clock.ClockError as missing:
        pytest.skip(str(missing))
    file = Path(stepped.environment(monotonic=False)["FAKETIME_TIMESTAMP_FILE"])
    assert file.read_text() == "+0\n"
    stepped.step(300)
    stepped.step(-500)
    assert file.read_text() == "-200\n"
    assert "FAKETIME_DONT_FAKE_MONOTONIC" not in stepped.environment(monotonic=True)
    assert file.read_text() == "+0\n"
