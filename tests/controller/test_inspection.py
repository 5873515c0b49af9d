"""What is looked at is what there is, whatever is asked for."""

from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.config.schema import Config
from controller.core.engine import Engine
from controller.model.flow import FlowKey
from controller.model.packet_ins import GroupKind
from controller.model.values import FlowClass, Notice, PortId, datapath_id
from controller.northbound.interfaces import UnknownError
from controller.northbound.views import FlowDetailView
from controller.ops.event_log import EventLog, Recent
from controller.rpc.methods import FlowEnds, FlowQuery
from controller.runtime.inspection import Inspection
from controller.runtime.tallies import Tallies
from controller.southbound.codec.extension import (
    Answers,
    CreditStats,
    QueueStats,
    TcpStats,
    Thresholds,
)
from engine_bench import MSS, RECEIVER, SECOND, SENDERS, EngineBench, star, two_switches
from fake_source import ACCOUNT
from lossy_fabric import ACC1, ACC2, DOWN1, E1, E2, UP1, Protected, S
from test_broadcast import AT_1, AT_2, AT_3
from test_multicast import GROUP6, joins, says, settled


@dataclass
class App:
    """As much of the application as is looked at."""

    bench: EngineBench
    config: Config = field(default_factory=Config)
    tallies: Tallies = field(default_factory=Tallies)
    recent: Recent = field(default_factory=lambda: EventLog(None).recent)
    channels: dict[int, Any] = field(default_factory=dict)
    sessions: dict[int, Any] = field(default_factory=dict)

    @property
    def engine(self) -> Engine:
        return self.bench.engine

    def now_ns(self) -> int:
        return self.bench.now_ns


def inspect(bench: EngineBench) -> Inspection:
    return Inspection(App(bench))  # type: ignore[arg-type]


def nothing() -> None: ...


QUEUE = QueueStats(1, 0, 0, 1, 10**8, 65_536, None, *(0, 0, 0, 0, 0, 0, 0, 0), (0, 0, 0, 0), 0)


FOUR = ("src", "src_port", "dst", "dst_port")


def test_the_tables_are_counted() -> None:
    bench = star()
    keys = [bench.connect(host, RECEIVER) for host in SENDERS]
    bench.sleep(2 * SECOND)
    bench.volume(1, keys[0], 2_000_000)
    told = inspect(bench).tables()
    assert told["connections"] == 32
    assert (told["background_flows"], told["burst_flows"]) == (1, 63)
    assert (told["opened"], told["adopted"], told["closed"]) == (32, 0, {})
    assert told["hosts"] == 33
    bench.segment(keys[0], 0x04)
    told = inspect(bench).tables()
    assert (told["connections"], told["background_flows"]) == (31, 0)
    assert told["closed"] == {"reset": 1}


def test_background_is_the_sum_of_all_bgt() -> None:
    bench = two_switches()
    keys = [bench.connect(host, RECEIVER) for host in SENDERS[:6]]
    bench.sleep(2 * SECOND)
    for key in keys[:4]:
        bench.volume(1, key, 2_000_000)
    assert bench.engine.flow_table.background == 4
    port = PortId(2, 1)
    assert len(bench.engine.flow_table.flows(port, FlowClass.BACKGROUND)) == 4
    for key in keys:
        bench.segment(key, 0x04)
    assert bench.engine.flow_table.background == bench.engine.flow_table.idle == 0


def test_regulation_follows_the_port() -> None:
    bench = star()
    for host in SENDERS:
        bench.connect(host, RECEIVER)
    bench.notice(PortId(1, 40), Notice.CN_M)
    (row,) = (row for row in inspect(bench).regulation(1) if row["port"] == 40)
    assert (row["burst_flows"], row["notice"], row["mss_bytes"]) == (32, "CN-M", MSS)
    assert (row["capacity_bps"], row["buffer_bytes"]) == (10**8, 65_536)
    assert row["holds"]["burst"]["window_bytes"] >= 2 * MSS
    bench.notice(PortId(1, 40), Notice.CR)
    (row,) = (row for row in inspect(bench).regulation() if row["port"] == 40)
    assert row["notice"] is None


def test_what_a_switch_counts_of_credit_is_told_of_its_port() -> None:
    bench = star(keeps_accounts=True)
    subject = App(bench)
    counted = CreditStats(
        *(32, 4, 24_000, 1000, 120, 2, 1, 500_000_000, 160_000_000),
        (10, 20, 30, 20, 20, 10, 6, 2),
        *(9, 1_500_000, 30_000, 3000),
    )
    subject.tallies.queues[1] = [QUEUE, QUEUE._replace(port=2, credit=counted)]
    first, second, *_ = Inspection(subject).ports(1)  # type: ignore[arg-type]
    assert first["queues"][0]["account"] is None
    assert second["queues"][0]["account"] == ACCOUNT


def test_thresholds_are_told_in_their_unit() -> None:
    subject = App(star())
    queue = QueueStats(1, 0, 0, 1, 10**8, 65_536, None, *(0, 0, 0, 0, 0, 0, 0, 0), (0, 0, 0, 0), 0)
    subject.tallies.queues[1] = [
        queue,
        queue._replace(port=2, thresholds=Thresholds(20_000, 40_000, 60_000)),
        queue._replace(port=3, thresholds=Thresholds(10, 20, 30, in_packets=True)),
    ]
    told = [
        (queue["levels"], queue["packet_levels"])
        for port in Inspection(subject).ports(1)  # type: ignore[arg-type]
        for queue in port["queues"]
    ]
    assert told == [
        (None, None),
        ({"low_bytes": 20_000, "mid_bytes": 40_000, "high_bytes": 60_000}, None),
        (None, {"low_packets": 10, "mid_packets": 20, "high_packets": 30}),
    ]


def test_what_becomes_of_connections_is_told_of_their_port() -> None:
    subject = App(star())
    none = Answers(0, 0, (0,) * 16)
    some = Answers(3, 5 * 10**6, (1, 2, *([0] * 14)))
    told = TcpStats(2, 40, 10**9, 5000, 7_000_000, 12, 2, 410_000_000, (some, none, none))
    subject.tallies.samples[1] = [told]
    first, second, *_ = Inspection(subject).ports(1)  # type: ignore[arg-type]
    assert first["tcp"] is None
    assert second["tcp"] is not None
    assert (second["tcp"]["timeouts"], second["tcp"]["timeouts_s"]) == (2, 0.41)
    assert second["tcp"]["answers"][0] == {
        "below_bytes": 10_000,
        "answers": 3,
        "seconds": 0.005,
        "counts": list(some.times),
    }
    assert [size["below_bytes"] for size in second["tcp"]["answers"]] == [10_000, 100_000, None]
    assert second["tcp"]["bounds_s"][:2] == [0.0001, 0.0002]


def test_an_account_is_what_classes_are_held_to() -> None:
    told = next(inspect(star(keeps_accounts=True)).regulation(1))
    assert told["holds"]["background"] == {
        "window_bytes": 0,
        "credit": {"bound_bytes": 0, "max_hold_ms": 160, "weight": 1},
    }


def test_ports_know_what_they_lead_to() -> None:
    bench = two_switches()
    rows = {(row["switch"], row["port"]): row for row in inspect(bench).ports()}
    assert rows[1, 40]["peer"] == "0000000000000002:40"
    assert rows[2, 40]["peer"] == "0000000000000001:40"
    assert (rows[2, 1]["peer"], rows[2, 1]["hosts"]) == (None, 1)
    assert len(rows) == 80
    assert {switch for switch, _ in rows} == {1, 2}
    assert list(inspect(bench).ports(3)) == []


def test_losses_and_protected_links_are_told_of_their_ports() -> None:
    bench = Protected().start()
    bench.loss[UP1] = 0.02
    bench.run(15)
    told = {PortId(row["switch"], row["port"]): row for row in inspect(bench).ports()}
    assert [port for port, row in told.items() if row["protected"]] == [ACC1, ACC2]
    assert told[UP1]["loss"] == pytest.approx(0.02, rel=0.1)
    assert 0 < (told[UP1]["loss_error"] or 0) < 0.005
    assert told[DOWN1]["loss"] == 0
    assert (told[ACC1]["loss"], told[PortId(E1, 1)]["loss"]) == (None, None)
    switches = {row["switch"]: row["protected_destinations"] for row in inspect(bench).switches()}
    assert switches == {E1: 1, E2: 1, S: 0}


def test_a_switch_that_went_is_still_told_of() -> None:
    bench = star()
    app = App(bench)
    app.tallies.left(1, {"refused": 2, "experimenter message of 0x00000001": 3})
    (row,) = Inspection(app).switches()  # type: ignore[arg-type]
    assert (row["switch"], row["connected"], row["ready"]) == (1, False, False)
    assert row["unusable"] == {"refused": 2, "foreign_experimenter": 3}
    assert row["registers_used"] > 0
    assert row["entries_wanted"] == bench.engine.tables.applied(1).wanted
    assert row["disconnections"] == 1


def test_groups_are_told_with_their_members() -> None:
    bench = settled()
    joins(bench, AT_2)
    joins(bench, AT_3, GROUP6)
    says(bench, AT_1, kind=GroupKind.ROUTING)
    source = inspect(bench)
    assert list(source.groups()) == [
        {"group": "239.1.2.3", "vlan": None, "ports": [str(AT_2)]},
        {"group": str(ip_address(GROUP6)), "vlan": None, "ports": [str(AT_3)]},
    ]
    assert source.snooping() == {"snooping": True, "routers": [str(AT_1)], "unsure": []}
    source = inspect(star())
    assert list(source.groups()) == []
    assert source.snooping() == {"snooping": False, "routers": [], "unsure": []}


def test_readiness() -> None:
    bench = star()
    app = App(bench)
    inspection = Inspection(app)  # type: ignore[arg-type]
    assert inspection.not_ready() is None
    app.sessions[7] = SimpleNamespace(ready=False)
    assert f"switch {datapath_id(7)}" in str(inspection.not_ready())


@pytest.fixture(scope="module")
def bench() -> EngineBench:
    bench = star()
    keys = [
        bench.connect(host, RECEIVER, src_port)
        for host in SENDERS[:8]
        for src_port in (1000, 1001, 1002)
    ]
    bench.sleep(2 * SECOND)
    for n, key in enumerate(keys[:10]):
        bench.volume(1, key, 300_000 * n)
    return bench


class TestFlows:
    def all(self, bench: EngineBench, sort: str = "volume") -> list[dict[str, Any]]:
        query = FlowQuery.model_validate({"limit": 1000, "sort": sort})
        page = inspect(bench).flows(query, nothing)
        flows: list[dict[str, Any]] = [dict(flow) for flow in page.flows]
        assert page.total == len(flows) == 48
        return flows

    def test_the_largest_come_first(self, bench: EngineBench) -> None:
        flows = self.all(bench)
        volumes = [flow["volume_bytes"] for flow in flows]
        assert volumes == sorted(volumes, reverse=True)
        assert volumes[0] == 2_700_000
        assert flows[0]["class"] == "background"
        assert flows[0]["dst"] == str(ip_address(RECEIVER.address))
        assert flows[0]["ports"] == ["0000000000000001:40"]

    @settings(max_examples=60)
    @given(data=st.data())
    def test_filters_and_pages_select_from_them(
        self, bench: EngineBench, data: st.DataObject
    ) -> None:
        sort = data.draw(st.sampled_from(["volume", "oldest", "newest", "src", "dst"]))
        flows = self.all(bench, sort)
        hosts = st.sampled_from(sorted({flow["src"] for flow in flows}))
        networks = st.builds(
            lambda host, bits: ip_network(f"{host}/{bits}", strict=False),
            hosts,
            st.integers(20, 32),
        )
        query = FlowQuery.model_validate(
            {
                "sort": sort,
                "limit": data.draw(st.integers(1, 60)),
                "offset": data.draw(st.integers(0, 60)),
                "host": data.draw(st.none() | networks),
                "tcp_port": data.draw(st.none() | st.sampled_from([80, 1000, 1001, 5])),
                "class": data.draw(st.sampled_from([None, "burst", "background"])),
                "switch": data.draw(st.sampled_from([None, 1, 2])),
                "port": data.draw(st.sampled_from([None, 1, 40])),
            }
        )

        def fits(flow: dict[str, Any]) -> bool:
            ends = [ip_address(flow[end]) for end in ("src", "dst")]
            by = any(
                query.switch in (None, switch) and query.port in (None, port)
                for switch, port in places_of(flow)
            )
            return (
                (query.host is None or any(end in query.host for end in ends))
                and query.tcp_port in (None, flow["src_port"], flow["dst_port"])
                and query.flow_class in (None, flow["class"])
                and by
            )

        page = inspect(bench).flows(query, nothing)
        wanted = [flow for flow in flows if fits(flow)]
        assert page.total == len(wanted)
        assert list(page.flows) == wanted[query.offset : query.offset + query.limit]

    @pytest.mark.parametrize(
        ("sort", "by"),
        [
            ("volume", lambda flow: -flow["volume_bytes"]),
            ("oldest", lambda flow: -flow["age_s"]),
            ("newest", lambda flow: flow["age_s"]),
            ("src", lambda flow: (ip_address(flow["src"]), ip_address(flow["dst"]))),
            ("dst", lambda flow: (ip_address(flow["dst"]), ip_address(flow["src"]))),
        ],
    )
    def test_they_are_sorted(self, bench: EngineBench, sort: str, by: Any) -> None:
        flows = self.all(bench, sort)
        assert [by(flow) for flow in flows] == sorted(map(by, flows))
        assert len({tuple(map(str, flow.values())) for flow in flows}) == len(flows)

    @pytest.mark.parametrize("sort", ["volume", "oldest", "src"])
    def test_others_may_go_on_meanwhile(self, sort: str) -> None:
        bench = star()
        for port in range(1000, 1100):
            for host in SENDERS[:8]:
                bench.connect(host, RECEIVER, port)
        bench.sleep(2 * SECOND)
        table = bench.engine.flow_table
        n_counted = sum(map(len, table.counted()))
        assert 256 < n_counted < len(table) == 800
        checkpoints = []
        query = FlowQuery.model_validate({"limit": 1, "offset": 1500, "sort": sort})
        inspect(bench).flows(query, lambda: checkpoints.append(1))
        assert len(checkpoints) >= len(table) / 64

    def test_of_a_port_only_its_own_are_looked_at(self) -> None:
        bench = star()
        for port in range(1000, 1100):
            for host in SENDERS[:8]:
                bench.connect(host, RECEIVER, port)
        bench.connect(SENDERS[0], SENDERS[1], 1000)
        bench.sleep(5 * SECOND)
        table = bench.engine.flow_table
        assert table.n_counted > 500
        for counted in table.counted():
            for connection in counted:
                assert connection.record is not None
                connection.record.forward.volume_bytes = 10**6
        lane = next(
            lane
            for pair in table.host_pairs
            for lane in pair.lanes
            if lane.dst == ip_address(SENDERS[1].address).packed
            and lane.src == ip_address(SENDERS[0].address).packed
        )
        (port_id,) = lane.ports
        n_there = sum(len(one.members) for one in table.lanes(port_id))
        checkpoints = []
        query = FlowQuery(switch=port_id.switch, port=port_id.port, limit=5)
        page = inspect(bench).flows(query, lambda: checkpoints.append(1))
        assert page.total == n_there == 101
        assert [flow["src"] for flow in page.flows][:1] == [str(ip_address(SENDERS[0].address))]
        assert len(checkpoints) < 20

    def test_flows_that_are_counted_meanwhile_keep_their_places(self) -> None:
        bench = star()
        for port in range(1000, 1020):
            for host in SENDERS[:8]:
                bench.connect(host, RECEIVER, port)
        query = {"limit": 100, "offset": 0}
        seen = set()
        n_counted = []
        while query["offset"] < 320:
            page = inspect(bench).flows(FlowQuery.model_validate(query), nothing)
            seen |= {tuple(flow[end] for end in FOUR) for flow in map(dict, page.flows)}
            n_counted.append(sum(map(len, bench.engine.flow_table.counted())))
            bench.sleep(SECOND)
            query["offset"] += 100
        assert n_counted[0] < n_counted[-1]
        assert len(seen) == 320

    def test_what_is_over_is_counted_no_more(self) -> None:
        bench = star()
        keys = [bench.connect(host, RECEIVER) for host in SENDERS]
        bench.sleep(2 * SECOND)
        bench.segment(keys[0], 0x04)
        bench.sleep(SECOND)
        table = bench.engine.flow_table
        counted = {connection for some in table.counted() for connection in some}
        assert counted == {one for one in table.connections if one.record is not None}
        assert len(counted) == len(keys) - 1

    def test_the_table_may_change_meanwhile(self) -> None:
        bench = star()
        keys = [bench.connect(host, RECEIVER) for host in SENDERS]

        def change() -> None:
            if keys:
                bench.segment(keys.pop(), 0x04)
                bench.sleep(SECOND)

        page = inspect(bench).flows(FlowQuery(limit=1000), change)
        assert len(list(page.flows)) <= 64


class TestOneFlow:
    def ask(self, bench: EngineBench, key: FlowKey, **more: Any) -> FlowDetailView:
        return Inspection(App(bench, **more)).flow(FlowEnds.model_validate(key.fields()))  # type: ignore[arg-type]

    def test_it_is_told_hop_by_hop_in_both_directions(self) -> None:
        bench = two_switches()
        key = bench.connect(SENDERS[0], RECEIVER, 1000)
        bench.sleep(2 * SECOND)
        bench.volume(1, key, 2_000_000)
        bench.notice(PortId(2, 1), Notice.CN_M)
        told = self.ask(bench, key)
        (listed,) = (
            inspect(bench).flows(FlowQuery.model_validate({"class": "background"}), nothing).flows
        )
        assert told["flow"] == listed
        assert [hop["port"] for hop in told["hops"]] == listed["ports"]
        assert len(told["hops"]) == 2
        assert told["quiet_s"] == 0
        last = told["hops"][-1]
        (rule,) = (row for row in inspect(bench).regulation(2) if row["port"] == 1)
        assert last["notice"] == "CN-M"
        assert last["hold"] == rule["holds"]["background"]
        assert (last["name"], last["scheme"]) == (rule["name"], rule["scheme"])
        back = self.ask(bench, key.reverse)
        assert (back["flow"]["src_port"], back["flow"]["class"]) == (key.dst_port, "burst")
        assert back["enters"] == last["port"]
        assert told["enters"] == back["hops"][-1]["port"]

    def test_the_longest_of_its_queues_is_told(self) -> None:
        bench = star()
        key = bench.connect(SENDERS[0], RECEIVER)
        queue = QUEUE._replace(port=40)
        tallies = Tallies()
        tallies.queues[1] = [queue._replace(port=2), queue, queue._replace(queue=1, level=2)]
        (hop,) = self.ask(bench, key, tallies=tallies)["hops"]
        assert hop["queue"] is not None
        assert (hop["queue"]["queue"], hop["queue"]["level"]) == (1, 2)
        (hop,) = self.ask(bench, key)["hops"]
        assert hop["queue"] is None

    def test_one_that_is_not_counted_yet_has_no_quiet_time(self) -> None:
        bench = star()
        assert self.ask(bench, bench.connect(SENDERS[0], RECEIVER))["quiet_s"] is None

    def test_one_that_is_gone_is_told_so(self) -> None:
        bench = star()
        key = bench.connect(SENDERS[0], RECEIVER, 1000)
        bench.segment(key, 0x04)
        with pytest.raises(UnknownError, match="its connection has ended, or has not begun"):
            self.ask(bench, key)
        for src, told in (("fd00::1", r"\[fd00::1\]:1 to 10.0.0.2:2"), ("10.0.0.1", "10.0.0.1:1 ")):
            ends = FlowEnds(src=src, src_port=1, dst="10.0.0.2", dst_port=2)
            with pytest.raises(UnknownError, match=told):
                inspect(bench).flow(ends)


def places_of(flow: dict[str, Any]) -> list[tuple[int, int]]:
    return [(int(switch, 16), int(port)) for switch, port in (p.split(":") for p in flow["ports"])]
