"""The benchmark of forwarding: switches side by side, each in a sandbox of its own, take turns."""

from pathlib import Path

import pytest

from experiments.bench.switch.forwarding import Forwarder, by_turns, median_ratio
from testbed.ovs import find_prefix


@pytest.mark.netns
@pytest.mark.switch
def test_patched_and_unpatched_forward_by_turns(stock_prefix: Path) -> None:
    forwarders = {
        "stock": Forwarder(stock_prefix, 3),
        "queue": Forwarder(find_prefix(), 5, "device"),
    }
    said: list[str] = []
    mbps = by_turns(forwarders, said.append, turns=2, turn_s=0.3)
    assert list(mbps) == ["stock", "queue"]
    # That they forward at all, on however loaded a machine.
    assert all(turn > 1 for turns in mbps.values() for turn in turns)
    assert [len(turns) for turns in mbps.values()] == [2, 2]
    assert said[-1].startswith("turn 2 of 2: ")


def test_ratio_is_taken_turn_by_turn() -> None:
    slow_turns = [100.0, 10.0, 1000.0]
    assert median_ratio([90.0, 9.0, 900.0], slow_turns) == pytest.approx(0.9)
