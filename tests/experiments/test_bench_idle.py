"""What a busy flow has beside idle connections: figures of what is valid."""

from collections.abc import Iterator

import pytest

from experiments.bench import sandboxed
from experiments.bench.incast import idle
from experiments.bench.sandboxed import Incomplete

RUN = {
    "busy_alone_mbps": 90.0, "busy_beside_500_idle_mbps": 81.0,
    "busy_reader_alone_mbps": 80.0, "busy_reader_beside_500_idle_mbps": 80.0, "void_runs": 0,
}  # fmt: skip


def ran(monkeypatch: pytest.MonkeyPatch, *runs: dict[str, float]) -> None:
    found: Iterator[dict[str, float]] = iter([dict(run) for run in runs])
    monkeypatch.setattr(sandboxed, "result", lambda _module: next(found))


def test_shares_are_of_what_the_same_flow_got_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ran(monkeypatch, RUN, RUN, RUN | {"busy_beside_500_idle_mbps": 45.0})
    figures = idle.run(lambda _: None)
    assert figures["busy_share_of_link_beside_500_idle"] == pytest.approx(0.9)
    assert figures["busy_worst_share_of_link_beside_500_idle"] == pytest.approx(0.5)
    assert figures["busy_reader_share_of_link_beside_500_idle"] == 1
    assert figures["idle_void_runs"] == 0


def test_what_is_void_is_missing_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    void = {k: v for k, v in RUN.items() if k != "busy_alone_mbps"} | {"void_runs": 3}
    ran(monkeypatch, RUN, void, RUN)
    with pytest.raises(Incomplete) as incomplete:
        idle.run(lambda _: None)
    assert incomplete.value.what == ["busy"]
    assert incomplete.value.figures["idle_void_runs"] == 3
    assert incomplete.value.figures["busy_share_of_link_beside_500_idle"] == pytest.approx(0.9)
