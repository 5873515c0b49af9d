"""What is read from a run."""

from typing import Any

import numpy as np
import pytest

import recorded
from experiments.figures.metrics import METRICS, USUAL
from experiments.measure.record import Run
from recorded import MS, START_NS


def value(name: str, run: Run, *more: Any) -> Any:
    return METRICS[name].of(run, *more)


def flow(start_ms: float, end_ms: float, size: int, **more: Any) -> dict[str, Any]:
    start_ns, end_ns = (START_NS + round(ms * MS) for ms in (start_ms, end_ms))
    return {"start_ns": start_ns, "end_ns": end_ns, "bytes": size, **more}


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
    flows = [flow(0, 5, 9, timeouts=n) for n in (0, 2, 0, 1)]
    assert value("timeout_ratio_pct", recorded.run(flows=flows)) == 50


def test_slowdown_is_over_the_time_alone() -> None:
    # Alone: 0.5 ms of round trip and 0.8 ms for 10 kB at 100 Mb/s.
    flows = [flow(0, 1.3, 10_000), flow(0, 3.9, 10_000), flow(0, 100, 1_000_000)]
    run = recorded.run(flows=flows)
    assert value("short_slowdown_mean", run) == pytest.approx(2)
    assert value("short_slowdown_p99", run) == pytest.approx(3)
    # Over the 300 ms from the first operation to the last one's end.
    assert value("long_flows_mbps", run) == pytest.approx(8 / 0.3)


def test_deadlines() -> None:
    assert value("deadlines_met_pct", recorded.run()) is None
    run = recorded.run(operations=[flow(0, 5, 9, met=n > 0) for n in range(4)])
    assert value("deadlines_met_pct", run) == 75


def test_fairness_is_of_the_flows_that_are_there() -> None:
    def series(rates: list[int]) -> dict[str, Any]:
        return {"start_ns": START_NS, "bin_ns": 100 * MS, "bytes": rates}

    flows = [
        flow(0, 400, 4, received=series([5, 5, 5, 5])),
        flow(100, 400, 3, received=series([0, 5, 5, 0])),
    ]
    run = recorded.run(operations=flows)
    times, values = value("jain_over_time", run, 0.1)
    assert times.tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert values.tolist() == pytest.approx([1, 1, 0.5])


def test_rates_over_time_keep_all_bytes() -> None:
    times, rates = value("workload_rate_mbps", recorded.run(), 0.1)
    assert times.tolist() == [0.0, 0.1]
    assert rates.tolist() == pytest.approx([80, 80])
    assert (rates.sum() * 0.1 / 8) == pytest.approx(2)


def test_the_longest_queue_of_a_bin() -> None:
    times, packets = value("queue_packets", recorded.run(), 0.02)
    assert times[0] == 0
    assert packets[:2].tolist() == pytest.approx([20_000 / 1514, 65_000 / 1514])
    assert not np.any(packets[2:])
