"""Ports without a queue are not regulated, and the controller says so."""

from controller.core.bandwidth.protection import ProtectionSettings
from controller.core.congestion.egress_ports import EgressQueue
from controller.core.congestion.regulator import Scheme
from controller.model.effects import Effect, Warn
from engine_bench import QUEUE, EngineBench, make_engine, star


def read(bench: EngineBench, *ports: int) -> list[str]:
    """The warnings that follow when the switch tells the queues of these ports."""
    queues: dict[int, EgressQueue] = dict.fromkeys(ports, QUEUE)
    effects: list[Effect] = bench.do(bench.engine.queues_read(1, queues, bench.now_ns))
    return [effect.text for effect in effects if isinstance(effect, Warn)]


def test_they_are_named_once() -> None:
    bench = star(queue=None)
    (told,) = read(bench, *range(1, 39))
    assert told.endswith("which are not regulated: 39 (s1-eth39), 40 (s1-eth40)")
    assert read(bench, *range(1, 39)) == []


def test_one_that_loses_its_queue_is_named() -> None:
    bench = star(queue=None)
    assert read(bench, *range(1, 41)) == []
    (told,) = read(bench, *range(2, 41))
    assert told.endswith("not regulated: 1 (s1-eth1)")
    assert read(bench, *range(1, 41)) == []
    assert len(read(bench, *range(2, 41))) == 1


def test_many_are_counted() -> None:
    (told,) = read(star(queue=None))
    assert told.endswith("8 (s1-eth8) and 32 more")


def test_an_end_of_a_protected_link_needs_none() -> None:
    bench = EngineBench(make_engine(protection=ProtectionSettings(("s1-eth4?",))), queue=None)
    bench.switch_up(1)
    (told,) = read(bench, *range(1, 39))
    assert told.endswith("which are not regulated: 39 (s1-eth39)")


def test_where_nothing_is_regulated_nothing_is_said() -> None:
    assert read(star(Scheme.NONE, queue=None)) == []
