"""Fetches from several servers in a real network: each contender by the processes it is made of."""

import json
from pathlib import Path

import pytest

from experiments.bench import valid
from experiments.bench.transport import fairness, fetches
from experiments.bench.transport.fairness import Mix
from experiments.bench.transport.fetches import RunsSpec
from experiments.measure.validity import OF_A_QUIET_MACHINE

pytestmark = [pytest.mark.netns, pytest.mark.switch]


def in_order(void: list[str]) -> bool:
    """Whether nothing but the machine, which has other things to do, is to blame."""
    return all(reason.partition(": ")[0] in OF_A_QUIET_MACHINE for reason in void)


def test_two_servers_two_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetches, "rounds", lambda *_: 2)
    monkeypatch.setattr(valid, "MOST_VOID", 0)
    spec = RunsSpec(
        servers=2,
        sizes=(65536,),
        contenders=("lttp", "lttp_mtu", "lttp_tfrc", "atp", "reno"),
        tcp="reno",
        repeats=1,
        records=str(tmp_path),
    )
    runs = fetches.measure(spec)
    assert [run["contender"] for run in runs] == list(spec.contenders)
    for run in runs:
        assert in_order(run["void"])
        assert list(run["round_bytes"]) == [2 * 65536] * 2
        # That it comes over the link at all, on however loaded a machine.
        assert min(run["round_s"]) >= 2 * 65536 * 8 / 100e6
    (kept,) = tmp_path.glob("lttp-64k-1*/record.json")
    record = json.loads(kept.read_text())
    assert record["said"]["event"] == "done"
    assert len(record["checks"]) == 10


@pytest.mark.timing
def test_flows_that_share_a_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fairness, "FLOWS", 2)
    monkeypatch.setattr(fairness, "_SETTLE_S", 1.0)
    measured = fairness.measure(Mix(1, "lttp_tfrc"), 2.0)
    assert in_order(measured["void"])
    figures = fairness.of_mix(measured)
    assert 0 < figures["min"] <= figures["max"]
    assert 0.3 < figures["utilisation"] < 1.02
