"""A soak finds what it is to find, and passes where there is nothing."""

import json
import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import cli
from experiments.soak import SUMMARY, messages, records, switch_verdict
from experiments.soak.trend import Sample


def samples(rss_kb: list[int]) -> list[Sample]:
    return [Sample(10.0 * n, kb, 20, 1) for n, kb in enumerate(rss_kb)]


def test_memory_that_levels_off_is_no_leak() -> None:
    settled = switch_verdict.growth(
        samples([10_000, 60_000, 90_000, *[100_000, 104_000, 98_000] * 10])
    )
    assert settled.fault is None


def test_memory_that_keeps_growing_is_one() -> None:
    leaking = switch_verdict.growth(samples([100_000 + 1_000 * n for n in range(60)]))
    assert leaking.kb_per_minute == pytest.approx(6_000)
    assert leaking.fault is not None
    assert leaking.fault.startswith("memory grows: ")


def test_too_short_to_tell() -> None:
    with pytest.raises(ValueError, match="samples after the warm-up"):
        switch_verdict.growth(samples([1, 1]))


def test_a_report_is_told_by_its_headline(tmp_path: Path) -> None:
    (tmp_path / "report.17").write_text(
        "=" * 65 + "\n==17==ERROR: AddressSanitizer: heap-use-after-free on address 0x6\n    #0 f\n"
    )
    (tmp_path / "report.18").touch()
    (report,) = switch_verdict.reports(tmp_path)
    assert switch_verdict.headline(report).endswith("heap-use-after-free on address 0x6")


def test_messages_have_the_length_they_say() -> None:
    rng = random.Random(1)
    for make in (messages.sensible, messages.spoilt):
        for _ in range(2_000):
            message = make(rng)
            assert struct.unpack_from("!BxH", message) == (4, len(message))


def test_records_hold_what_the_switch_knows_and_some_nonsense() -> None:
    rng = random.Random(1)
    made = [records.record(rng) for _ in range(2_000)]
    known = {*records.SENSIBLE, "low", "mid", "high"}
    assert set().union(*made) == known
    absurd = [r for r in made if any(text in records.ABSURD[:12] for text in r.values())]
    assert 0.05 < len(absurd) / len(made) < 0.5


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["soak", "--minutes", "0"], "--minutes must be more than 0, not 0"),
        (["bench", "switch", "--only", "latncy"], "--group latncy: switch has latency, shaping"),
    ],
)
def test_wrong_words(argv: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(argv) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.netns
@pytest.mark.switch
def test_a_short_soak(tmp_path: Path) -> None:
    """Without sanitizers, as the switch is at hand: everything that happens in one, happens."""
    if "WEIR_OVS_PREFIX" not in os.environ:
        pytest.skip("WEIR_OVS_PREFIX does not name the patched switch: make switch")
    command = [sys.executable, "-m", "experiments.cli", "soak", "--seed", "1"]
    done = subprocess.run(
        [*command, "--minutes", "0.15", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / SUMMARY).read_text())
    assert summary["faults"] == []
    assert summary["changes"] > 50
    assert summary["openflow.queue_events"] > 0
