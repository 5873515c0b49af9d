"""Single windows of real TCP that lose packets (experiments.bench.acc.windows)."""

import pytest

from experiments.bench.acc.layer import TCPS
from experiments.bench.acc.risks import few_follow
from experiments.bench.acc.windows import measure, path
from testbed import dataloss

PACKETS = 4


@pytest.mark.netns
def test_newreno_times_out_where_its_rules_say_so() -> None:
    if not dataloss.OBJECT.exists():
        pytest.skip("needs 'tools/prepare bpf'")
    with path() as between:
        between.start(TCPS["newreno"], PACKETS, 0.0, 1)
        undisturbed = measure(between, PACKETS, 40, 20)
        between.start(TCPS["newreno"], PACKETS, 0.1, 2)
        windows = measure(between, PACKETS, 400, 200)
    assert {(one.lost, one.again) for one in undisturbed} == {(0, 0)}
    waits = [one for one in windows if few_follow(one.lost, PACKETS)]
    assert waits
    for one in waits:
        assert one.timeouts > 0
        assert one.took_s > 0.19
    # The first is lost, three follow, and what is sent again arrives.
    at_once = [one for one in windows if (one.lost, one.again) == (0b0001, 1)]
    assert at_once
    assert not any(one.timeouts for one in at_once)
