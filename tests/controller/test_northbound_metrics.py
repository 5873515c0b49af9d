"""The exposition: whole by Prometheus' own parser, named by its conventions, made in pieces."""

import re
from collections.abc import Iterator

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from controller.model.values import datapath_id
from controller.northbound.metrics import Exposition
from controller.northbound.views import PortView
from fake_source import Told

S1, S2 = datapath_id(1), datapath_id(2)


def scrape(told: Told | None = None) -> dict[str, Metric]:
    text = "".join(Exposition(told or Told(), lambda: None).pieces())
    families = list(text_string_to_metric_families(text))
    assert len({family.name for family in families}) == len(families)
    return {family.name: family for family in families}


def value(family: Metric, **labels: str) -> float:
    (found,) = (s.value for s in family.samples if labels.items() <= s.labels.items())
    return found


def test_what_the_source_tells_is_there() -> None:
    families = scrape()
    assert value(families["weir_connections"]) == 1000
    assert value(families["weir_flows"], **{"class": "background"}) == 3
    assert value(families["weir_connections_closed"], reason="expired") == 12
    assert value(families["weir_packet_ins"], switch=S1, **{"class": "segment"}) == 2000
    assert value(families["weir_switch_connected"], switch=S2) == 0
    assert value(families["weir_queue_bytes"], switch=S2, port="2") == 2000
    assert value(families["weir_queue_events"], switch=S1, port="1", level="CN-L") == 3
    assert value(families["weir_port_congested"], switch=S1, port="1") == 1
    held = families["weir_port_hold_window_bytes"]
    assert value(held, switch=S1, port="1", **{"class": "burst"}) == 14_600
    assert value(families["weir_port_expected_bytes"], switch=S1, port="1") == 24_000
    assert value(families["weir_port_longest_hold_seconds"], switch=S1, port="1") == 0.16
    assert value(families["weir_port_held_requests"], switch=S1, port="1") == 120
    assert value(families["weir_port_given_back_bytes"], switch=S1, port="1") == 30_000
    assert value(families["weir_windows_set"], switch=S1, refresh="true") == 20
    assert value(families["weir_master"]) == 1
    assert value(families["weir_standby_heard"], peer="b") == 1
    assert value(families["weir_standby_heard"], peer="c") == 0
    assert value(families["weir_switch_entries_confirmed"], switch=S1) == 10
    over = families["weir_packet_ins_dropped"]
    assert value(over, switch=S1, port="2", **{"class": "syn"}) == 30_000
    (build,) = families["weir_build_info"].samples
    assert build.labels == {
        "version": "0.1.0",
        "python": "3.11.2",
        "ryu": "4.34",
        "scheme": "weir",
    }
    assert value(families["process_resident_memory_bytes"]) > 10**6


def test_what_is_unknown_is_left_out() -> None:
    families = scrape()
    assert [s.labels["switch"] for s in families["weir_switch_control_rtt_seconds"].samples] == [S1]
    assert len(families["weir_link_rtt_seconds"].samples) == 1
    (loss,) = families["weir_link_loss_ratio"].samples
    assert (loss.labels["switch"], loss.labels["port"], loss.value) == (S1, "1", 0.002)
    for name in ("weir_port_requests", "weir_port_connections", "weir_port_held_seconds"):
        assert {sample.labels["port"] for sample in families[name].samples} == {"1"}


def test_ports_of_protected_links_need_no_queue() -> None:
    class Protecting(Told):
        def ports(self, switch: int | None = None) -> Iterator[PortView]:
            for view in super().ports(switch):
                yield {**view, "queues": [], "protected": view["port"] == 1}

    families = scrape(Protecting())
    assert {s.labels["port"] for s in families["weir_port_has_queue"].samples} == {"2"}
    assert value(families["weir_switch_protected_destinations"], switch=S1) == 1


def test_what_becomes_of_connections() -> None:
    families = scrape()
    timeouts = {s.labels["port"]: s.value for s in families["weir_tcp_timeouts"].samples}
    assert timeouts == {"1": 2}
    answers = families["weir_tcp_answer_seconds"]
    small = [
        (s.labels["le"], s.value)
        for s in answers.samples
        if s.name.endswith("_bucket") and s.labels["below_bytes"] == "10000"
    ]
    assert small[:3] == [("0.0001", 4), ("0.0002", 6), ("+Inf", 7)]
    sizes = {s.labels["below_bytes"] for s in answers.samples}
    assert sizes == {"10000", "100000", "inf"}


def test_holds_are_a_histogram_of_each_port() -> None:
    held = scrape()["weir_port_held_seconds"]
    assert held.type == "histogram"
    of_one = [s for s in held.samples if s.labels["switch"] == S2]
    assert {s.labels["name"] for s in of_one} == {"s2-eth1"}
    buckets = [(s.labels["le"], s.value) for s in of_one if s.name.endswith("_bucket")]
    assert buckets == [
        *(("0.0001", 10), ("0.0003", 30), ("0.001", 60), ("0.003", 80)),
        *(("0.01", 100), ("0.03", 110), ("0.1", 116), ("+Inf", 118)),
    ]
    (count,) = (s.value for s in of_one if s.name.endswith("_count"))
    (total,) = (s.value for s in of_one if s.name.endswith("_sum"))
    assert (count, total) == (118, 0.5)


def test_histograms_are_cumulative_and_in_seconds() -> None:
    family = scrape()["weir_control_delay_seconds"]
    buckets = {s.labels["le"]: s.value for s in family.samples if s.name.endswith("_bucket")}
    assert buckets == {"2.5e-05": 1, "0.0001": 90, "0.1": 100, "+Inf": 100}
    assert value(family, le="+Inf") == next(
        s.value for s in family.samples if s.name.endswith("_count")
    )


def test_names_keep_to_the_conventions() -> None:
    for name, family in scrape().items():
        if name.startswith("process_"):
            continue
        assert re.fullmatch(r"weir(_[a-z0-9]+)+", name)
        assert family.documentation.endswith("."), name
        assert not re.search(r"_(ms|us|ns|bps|kb)$", name)
        if family.type == "counter":
            assert all(s.name == f"{name}_total" for s in family.samples)


@pytest.mark.parametrize("hostile", ['a"b', "a\\b", "a\nb", "{}", "\u202e\x1b[2J"])
def test_a_port_may_have_any_name(hostile: str) -> None:
    class Hostile(Told):
        def ports(self, switch: int | None = None):
            for view in super().ports(switch):
                yield {**view, "name": hostile}

    families = scrape(Hostile())
    assert {s.labels["name"] for s in families["weir_queue_bytes"].samples} == {hostile}


def test_others_may_go_on_while_it_is_made() -> None:
    checkpoints = 0

    def checkpoint() -> None:
        nonlocal checkpoints
        checkpoints += 1

    pieces = list(Exposition(Told(10, 100), checkpoint).pieces())
    lines = sum(not line.startswith("#") for line in "".join(pieces).splitlines())
    assert lines > 20_000
    assert checkpoints >= lines * 0.95
    # Not much is put together at once.
    assert max(map(len, pieces)) < 20_000
