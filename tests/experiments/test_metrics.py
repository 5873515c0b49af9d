"""What is read from a run."""

from typing import Any

import numpy as np
import pytest

import recorded
from experiments.figures.metrics import METRICS, USUAL
from experiments.measure.captures import Sample
from experiments.measure.record import Run
from recorded import MS, START_NS


def value(name: str, run: Run, *more: Any) -> Any:
    return METRICS[name].of(run, *more)


def flow(start_ms: float, end_ms: float, size: int, **more: Any) -> dict[str, Any]:
    start_ns, end_ns = (START_NS + round(ms * MS) for ms in (start_ms, end_ms))
    told = {"src": "h1", "dst": "r1", "kind": "flow", "group": 0, "timeouts": 0}
    return {"start_ns": start_ns, "end_ns": end_ns, "bytes": size, **told, **more}


def of_flows(flows: list[dict[str, Any]]) -> Run:
    """Return a run whose flows these are."""
    generator = {"delay_ns": 0, "round_trips": 1.0}
    return recorded.run(operations=flows, flows=[], generator=generator)


def test_the_usual_metrics_are_known_and_none_is_over_time() -> None:
    assert set(USUAL) <= set(METRICS)
    assert not any(METRICS[name].over_time for name in USUAL)


def test_flows_of_reads_are_the_shares_of_blocks() -> None:
    run = recorded.run()
    # 1, 100, 150 and 2 ms.
    assert value("fct_mean_ms", run) == pytest.approx(63.25)
    assert [value(f"fct_p{p}_ms", run) for p in (50, 95, 99)] == [2, 150, 150]
    assert value("goodput_mbps", run) == pytest.approx(16e3 / 300)


def test_the_timeout_ratio_is_of_senders_or_of_flows_that_tell_it() -> None:
    assert value("timeout_ratio_pct", recorded.run()) == 50
    spec = recorded.data()["spec"]
    many = spec | {"workload": spec["workload"] | {"connections_per_sender": 2}}
    assert value("timeout_ratio_pct", recorded.run(spec=many)) is None
    # Of reads, each connection's share of a block is a flow.
    reads = [
        {**one, "timeouts": timeouts}
        for one, timeouts in zip(
            recorded.data()["operations"], ([0, 2, 0, 1], [0, 0, 0, 0]), strict=True
        )
    ]
    assert value("timeout_ratio_pct", recorded.run(spec=many, operations=reads)) == 25
    flows = [flow(0, 5, 9, timeouts=n) for n in (0, 2, 0, 1)]
    assert value("timeout_ratio_pct", of_flows(flows)) == 50


def test_what_flows_tell_is_read_from_them() -> None:
    flows = [flow(0, 2, 10_000), flow(0, 4, 10_000), flow(0, 400, 4_000_000)]
    run = of_flows(flows)
    asked = run.data["spec"] | {"workload": {"name": "web-search", "load": 0.5, "seconds": 0.5}}
    offered = value("offered_load", recorded.run(**{**run.data, "spec": asked}))
    assert offered == pytest.approx(4_020_000 * 8 / 100e6 / 0.5, rel=0.06)
    # 10 kB take 0.85 ms on the link, headers counted.
    assert value("short_slowdown_mean", run) == pytest.approx(3 / 0.85, rel=0.02)
    assert value("short_slowdown_p99", run) == pytest.approx(4 / 0.85, rel=0.02)
    assert value("long_throughput_mbps", run) == pytest.approx(80)
    for name in ("short_slowdown_mean", "long_throughput_mbps", "deadlines_met_pct", "jain_mean"):
        assert value(name, recorded.run()) is None


def test_fairness_is_of_the_flows_that_are_there() -> None:
    def series(rates: list[int]) -> dict[str, Any]:
        return {"start_ns": START_NS, "bin_ns": 100 * MS, "bytes": rates}

    flows = [
        flow(0, 400, 4, received=series([5, 5, 5, 5])),
        flow(100, 400, 3, received=series([0, 5, 5, 0])),
    ]
    run = of_flows(flows)
    times, values = value("jain_over_time", run, 0.1)
    assert times.tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert values.tolist() == pytest.approx([1, 1, 0.5])


def test_rates_over_time_keep_all_bytes() -> None:
    times, rates = value("workload_rate_mbps", recorded.run(), 0.1)
    assert times.tolist() == [0.0, 0.1]
    assert rates.tolist() == pytest.approx([80, 80])
    assert (rates.sum() * 0.1 / 8) == pytest.approx(2)


def test_the_window_of_a_connection() -> None:
    def sample(at_ms: float, cwnd: int, peer: str = "r1") -> Sample:
        return Sample("h1", "h1", peer, START_NS + round(at_ms * MS), cwnd, None, 0, 1.0, 200.0)

    seen = [sample(-5, 10), sample(0, 9), sample(4, 3), sample(5, 1, "other"), sample(12, 7)]
    run = Run(recorded.data(), recorded.queue(), seen)
    times, windows = value("cwnd_segments", run, 0.01)
    assert times.tolist() == [0, 0.01]
    assert windows.tolist() == [3, 7]
    assert len(value("cwnd_segments", recorded.run(), 0.01)[0]) == 0


def test_the_longest_queue_of_a_bin() -> None:
    times, packets = value("queue_packets", recorded.run(), 0.02)
    assert times[0] == 0
    assert packets[:2].tolist() == pytest.approx([20_000 / 1514, 65_000 / 1514])
    assert not np.any(packets[2:])


def test_a_queue_without_arrivals_only_drains() -> None:
    # After 30 ms nothing came to the 65,000 bytes for long; 12,500 leave in a millisecond.
    times, packets = value("queue_packets", recorded.run(), 0.001)
    assert times[30:36].tolist() == pytest.approx([0.03, 0.031, 0.032, 0.033, 0.034, 0.035])
    assert (packets[30:37] * 1514).tolist() == pytest.approx(
        [65_000, 52_500, 40_000, 27_500, 15_000, 2_500, 0]
    )
