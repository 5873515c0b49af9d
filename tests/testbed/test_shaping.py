"""What tc shows is compared with what was asked for, to the byte where the kernel allows it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.shaping import Egress, Installed, differences, parse

CLASSES = """\
class htb 1:1 root leaf 10: prio 0 quantum 1514 rate 100Mbit ceil 100Mbit burst 1600b cburst 1600b
"""
QDISCS = json.dumps(
    [
        {"kind": "htb", "handle": "1:", "root": True, "options": {"default": "0x1"}, "drops": 7},
        {"kind": "bfifo", "handle": "10:", "options": {"limit": 65536}, "drops": 7},
    ]
)
ASKED = Egress(rate_bps=100_000_000, limit_bytes=65536)


def test_what_tc_shows_is_read() -> None:
    assert parse(QDISCS, CLASSES) == Installed(100e6, 1600, 65536, drops=7, kinds=("htb", "bfifo"))


def test_as_asked() -> None:
    assert differences(parse(QDISCS, CLASSES), ASKED) == []


@pytest.mark.parametrize(
    ("shown", "rate_bps", "burst_bytes"),
    [
        ("rate 101Mbit ceil 101Mbit burst 1590b cburst 1590b", 101e6, 1590),
        ("rate 1Gbit ceil 1Gbit burst 15000b cburst 15000b", 1e9, 15000),
        ("rate 99999Kbit ceil 99999Kbit burst 15Kb cburst 15Kb", 99_999_000, 15360),
        ("rate 2500bit ceil 2500bit burst 1Mb cburst 1Mb", 2500, 1 << 20),
    ],
)
def test_units(shown: str, rate_bps: float, burst_bytes: float) -> None:
    found = parse("[]", f"class htb 1:1 root prio 0 {shown} \n")
    assert (found.rate_bps, found.burst_bytes) == (rate_bps, burst_bytes)


def test_a_shaper_that_is_not_there_is_missed() -> None:
    noqueue = json.dumps([{"kind": "noqueue", "root": True, "options": {}, "drops": 0}])
    faults = differences(parse(noqueue, ""), ASKED)
    assert any("no HTB class" in fault for fault in faults)
    assert any("buffer is None" in fault for fault in faults)


def test_a_second_fifo_or_no_drops_are_no_trouble() -> None:
    assert parse("", "") == Installed(None, None, None, drops=0)


@given(
    rate=st.integers(1_000_000, 10**10), limit=st.integers(1514, 1 << 30), off=st.floats(0.003, 10)
)
def test_every_difference_is_told(rate: int, limit: int, off: float) -> None:
    asked = Egress(rate, limit)
    right = Installed(rate, asked.burst_bytes, limit, drops=0)
    assert differences(right, asked) == []
    wrong_rate = Installed(rate * (1 + off), asked.burst_bytes, limit, drops=0)
    assert "rate is" in differences(wrong_rate, asked)[0]
    wrong_burst = Installed(rate, asked.burst_bytes * (1.02 + off), limit, drops=0)
    assert "burst is" in differences(wrong_burst, asked)[0]
    wrong_limit = Installed(rate, asked.burst_bytes, limit + 1, drops=0)
    assert "buffer is" in differences(wrong_limit, asked)[0]


def test_burst_is_one_frame_until_timers_are_too_coarse() -> None:
    assert Egress(100_000_000, 1).burst_bytes == 1600
    assert Egress(1_000_000_000, 1).burst_bytes == 15000
