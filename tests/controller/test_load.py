"""How busy the controller is, from what it tells of itself."""

from typing import Any

from controller.api.load import NO_LOAD, Load


def row(uptime_s: float, cpu_s: float, *cumulative: int) -> dict[str, Any]:
    late = {"bounds_s": [0.001, 0.01], "cumulative": list(cumulative), "sum_s": 0.0}
    return {"uptime_s": uptime_s, "cpu_s": cpu_s, "delays": {"main_loop": late}}


def test_load_is_of_the_last_second_and_lateness_of_the_last_minute() -> None:
    load = Load()
    assert load.take(row(10, 1, 5, 5, 9), 0.0) == NO_LOAD
    told = load.take(row(12, 1.5, 1004, 1005, 1009), 1.0)
    assert told.load == 0.25
    assert (told.loop_late_s.p99, told.loop_late_s.worst) == (0.001, 0.01)
    told = load.take(row(13, 1.5, 1004, 1005, 1029), 2.0)
    assert told.load == 0
    # Later than the last bound: by how much is not known.
    assert (told.loop_late_s.p99, told.loop_late_s.worst) == (None, None)
    # What was late is forgotten after a minute.
    told = load.take(row(73, 1.5, 1104, 1105, 1129), 62.0)
    assert (told.loop_late_s.p99, told.loop_late_s.worst) == (0.001, 0.001)


def test_a_controller_that_is_started_again_counts_from_0() -> None:
    load = Load()
    load.take(row(10, 5, 10, 10, 10), 0.0)
    assert load.take(row(1, 0.1, 1, 1, 1), 1.0) == NO_LOAD
    told = load.take(row(2, 0.6, 2, 2, 2), 2.0)
    assert told.load == 0.5
    assert told.loop_late_s.worst == 0.001
