"""The events of the API that is none have the fields of real ones."""

import fake_fabric as fabric
from controller.model.values import Notice, PortId
from engine_bench import records, star


def test_a_notice_tells_what_a_real_one_tells() -> None:
    bench = star()
    (real,) = records(bench.notice(PortId(1, 40), Notice.CN_H), "queue_event")
    fake = fabric.notice(fabric.HOT, "CN-H", 61_440, 10**12)
    assert {name: type(value) for name, value in fake.items()} == {
        name: type(value) for name, value in real.items()
    }
