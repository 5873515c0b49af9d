"""Announcements reach the core, and followers hear of every change as soon as it is reckoned."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from controller.core.bandwidth.announced import BandwidthSettings
from controller.core.engine import Engine
from controller.model.effects import Effect, TellShare
from controller.model.values import PortId
from controller.northbound.interfaces import NotOwnerError, UnknownError
from controller.northbound.views import ShareView
from controller.runtime.announcements import Broker
from engine_bench import QUEUE, SECOND, EngineBench, records, star

MBPS = 10**6
S1, S2 = "10.0.0.1", "10.0.0.2"
R = "10.0.0.100"


class Brokered:
    """A broker over a star of 100 Mb/s links, of which nothing is to be spared."""

    def __init__(self) -> None:
        self.bench: EngineBench = star()
        self.seen: list[Effect] = []
        self.broker = Broker(lambda: self.bench.engine, self.apply, lambda: self.bench.now_ns)

    def apply(self, wanted: list[Effect]) -> None:
        self.seen += self.bench.do(wanted)
        for effect in wanted:
            if isinstance(effect, TellShare):
                self.broker.told(effect.flow)

    def mbps(self) -> dict[str, int | None]:
        shares = {share["flow"]: share["rate_bps"] for share in self.broker.shares()}
        return {flow: None if bps is None else round(bps / MBPS) for flow, bps in shares.items()}


@pytest.fixture
def brokered() -> Brokered:
    return Brokered()


def following(broker: Broker) -> Iterator[list[ShareView]]:
    """All changes from now on."""
    news = broker.follow()
    next(news)
    return news


def next_of(news: Iterator[list[ShareView]]) -> dict[str, float | None]:
    return {share["flow"]: share["rate_bps"] for share in next(news)}


def test_a_flow_gets_its_share_at_once_and_others_theirs(brokered: Brokered) -> None:
    broker = brokered.broker
    told = broker.announce("a", S1, R, None)
    assert told == {
        "flow": "a",
        "src": S1,
        "dst": R,
        "most_bps": None,
        "rate_bps": pytest.approx(99 * MBPS),
        "narrowest": told["narrowest"],
        "dscp": None,
    }
    assert told["narrowest"] in (f"uplink {PortId(1, 1)}", str(PortId(1, 28)))
    news = following(broker)
    assert broker.announce("b", S2, R, 20e6)["rate_bps"] == 20e6
    assert next_of(news) == {"a": pytest.approx(79 * MBPS), "b": 20e6}
    broker.withdraw("b")
    assert next_of(news) == {"a": pytest.approx(99 * MBPS), "b": None}
    assert [fields["flow"] for fields in records(brokered.seen, "flow_announced")] == ["a", "b"]
    assert records(brokered.seen, "flow_withdrawn") == [{"flow": "b"}]


def test_senders_are_told_what_the_switches_know_their_packets_by(brokered: Brokered) -> None:
    broker, bandwidth = brokered.broker, brokered.bench.engine.estimation.bandwidth
    bandwidth.reconfigure(BandwidthSettings(reserved=0.3, dscp=18))
    assert broker.announce("a", S1, R, None)["dscp"] == 18
    assert broker.renew("a", None)["dscp"] == 18
    bandwidth.reconfigure(BandwidthSettings())
    assert broker.renew("a", None)["dscp"] is None


def test_a_flow_is_its_owners_and_the_operators(brokered: Brokered) -> None:
    broker = brokered.broker
    broker.announce("a", S1, R, None, "token a")
    assert broker.announce("a", S1, R, 2e6, "token a")["rate_bps"] == 2e6
    for change in (
        lambda: broker.announce("a", S2, R, None, "token b"),
        lambda: broker.renew("a", 0, "token b"),
        lambda: broker.withdraw("a", "token b"),
    ):
        with pytest.raises(NotOwnerError, match="flow a is announced by token a; take another"):
            change()
    assert broker.renew("a", None, "token a")["src"] == S1
    assert broker.renew("a", None)["rate_bps"] == 2e6
    broker.withdraw("a")
    # The name is free again, and the operator's flow is nobody else's.
    broker.announce("a", S1, R, None)
    with pytest.raises(NotOwnerError, match="by the operator"):
        broker.withdraw("a", "token a")
    broker.withdraw("a")
    broker.announce("a", S1, R, None, "token b")
    brokered.bench.now_ns += 10 * SECOND
    brokered.apply(brokered.bench.engine.tend(brokered.bench.now_ns))
    broker.announce("a", S1, R, None, "token c")


def test_what_is_not_known_is_told(brokered: Brokered) -> None:
    broker = brokered.broker
    with pytest.raises(UnknownError, match=r"no host of this address is known: 10\.9\.9\.9"):
        broker.announce("a", S1, "10.9.9.9", None)
    with pytest.raises(UnknownError, match="no host"):
        broker.path("10.9.9.9", S1)
    with pytest.raises(UnknownError, match="no flow a is announced"):
        broker.renew("a", None)
    with pytest.raises(UnknownError, match="no flow a is announced"):
        broker.withdraw("a")
    assert not list(broker.shares())


def test_a_flow_that_is_not_renewed_expires(brokered: Brokered) -> None:
    bench, broker = brokered.bench, brokered.broker
    broker.announce("a", S1, R, None)
    broker.announce("b", S2, R, None)
    brokered.apply(bench.sleep(4 * SECOND))
    assert broker.renew("b", None)["rate_bps"] == pytest.approx(49.5 * MBPS)
    news = following(broker)
    brokered.apply(bench.sleep(2 * SECOND))
    assert records(brokered.seen, "flow_expired") == [{"flow": "a"}]
    assert next_of(news) == {"a": None, "b": pytest.approx(99 * MBPS)}
    assert brokered.mbps() == {"b": 99}


def test_counters_of_queues_tell_what_a_path_has_left(brokered: Brokered) -> None:
    bench, broker = brokered.bench, brokered.broker
    receiver = PortId(1, 40)
    start_ns = bench.now_ns
    for n in range(1, 40):
        queue = replace(QUEUE, tx_bytes=n * 250_000, at_ns=start_ns + n * SECOND // 10)
        bench.now_ns = start_ns + n * SECOND // 10
        brokered.apply(bench.engine.queues_read(1, {40: queue}, bench.now_ns))
        from_host = [(1, 0, bench.now_ns, None, None, 0)]
        brokered.apply(bench.engine.ports_counted(1, from_host, False, bench.now_ns))
    path = broker.path(S1, R)
    assert path["available_bps"] == pytest.approx(80 * MBPS, rel=1e-6)
    assert path["error_bps"] is not None
    assert path["links"][-1] == {
        "link": str(receiver),
        "capacity_bps": 100 * MBPS,
        "used_bps": pytest.approx(20 * MBPS, rel=1e-6),
        "error_bps": path["error_bps"],
        "loss": None,
        "loss_error": None,
    }
    assert path["loss"] is None


def test_ports_without_a_queue_are_counted_by_themselves(brokered: Brokered) -> None:
    bench = brokered.bench
    for n in range(1, 30):
        at_ns = n * SECOND // 10
        counted = [(40, n * 125_000, at_ns, None, None, None)]
        bench.engine.ports_counted(1, counted, False, at_ns)
    assert brokered.broker.path(S1, R)["available_bps"] == pytest.approx(90 * MBPS, rel=1e-6)


def test_a_host_that_fills_its_own_link_has_little_left_for_others(brokered: Brokered) -> None:
    bench = brokered.bench
    for n in range(1, 30):
        at_ns = n * SECOND // 10
        from_host = [(1, 0, at_ns, None, None, n * 1_187_500), (40, 0, at_ns, None, None, 0)]
        bench.engine.ports_counted(1, from_host, False, at_ns)
    path = brokered.broker.path(S1, R)
    assert path["available_bps"] == pytest.approx(5 * MBPS, rel=1e-6)
    assert path["error_bps"] is not None


def test_counters_are_asked_for_and_more_often_while_somebody_cares(brokered: Brokered) -> None:
    bench, n_bytes = brokered.bench, 0

    def asked(seconds: int) -> int:
        """How often, while every second one of them is busy."""
        nonlocal n_bytes
        count = 0
        for n in range(seconds * 20):
            bench.now_ns += SECOND // 20
            n_bytes += 500_000 if n // 20 % 2 else 0
            effects = bench.engine.read_port_counters(bench.now_ns)
            bench.do(effects)
            if effects:
                count += 1
                counted = [(40, n_bytes, bench.now_ns, None, None, None)]
                bench.engine.ports_counted(1, counted, False, bench.now_ns)
        return count

    asked(10)
    assert asked(20) <= 13
    brokered.broker.announce("a", S1, R, None)
    assert asked(4) > 20


def test_a_follower_that_does_not_read_is_left_behind(brokered: Brokered) -> None:
    broker = brokered.broker
    news = following(broker)
    broker.announce("a", S1, R, None)
    for n in range(20_000):
        broker.announce("a", S1, R, 1e6 + 1e5 * (n % 7 + 1))
        broker.announce("a", S1, R, 90e6)
    told = sum(len(batch) for batch in news)
    assert 5_000 < told <= 10_000


def test_a_follower_hears_what_there_is_before_it_hears_of_changes(brokered: Brokered) -> None:
    broker = brokered.broker
    assert next(broker.follow()) == []
    broker.announce("a", S1, R, 20e6)
    news = broker.follow()
    assert next_of(news) == {"a": 20e6}
    broker.withdraw("a")
    assert next_of(news) == {"a": None}


@pytest.mark.parametrize("heard", range(2))
def test_a_follower_that_leaves_is_forgotten(brokered: Brokered, heard: int) -> None:
    news = brokered.broker.follow()
    for _ in range(heard):
        next(news)
    del news
    assert brokered.broker.followers == 0


def test_shares_follow_another_core(brokered: Brokered) -> None:
    brokered.broker.announce("a", S1, R, None)
    brokered.bench.engine = star().engine
    assert isinstance(brokered.bench.engine, Engine)
    with pytest.raises(UnknownError):
        brokered.broker.renew("a", None)
