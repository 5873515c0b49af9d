"""Series of ports over the last hour and day: rates, rings, files, and what is asked of them."""

import asyncio
import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from controller.api.history.history import MOST_PORTS, Files, History, Memory
from controller.api.history.rates import UNKNOWN, Differences, HeldTimes, Rates, Sampled, merged
from controller.api.history.rings import SIZE_BYTES, Record
from controller.api.sampling import Sample, Sampler, pause_s
from controller.api.upstream import UnavailableError
from controller.model.values import PortId
from controller.rpc.messages import CallError, Kind
from fake_source import ACCOUNT, TCP, Told
from test_api import ServedApi

PORT = PortId(1, 1)
NOW_S = 1_790_000_000
NAN = math.nan


def row(time_s: float, switch: int = 1, port: int = 1, **changes: Any) -> dict[str, Any]:
    """A port whose counters grow steadily: 1 MB, 2 drops, 10 requests, ... a second."""
    (view,) = [one for one in Told().ports(switch) if one["port"] == 1]
    account = {
        **ACCOUNT,
        "requests": round(10 * time_s),
        "held_requests": round(4 * time_s),
        "held_s": 0.5 * time_s,
        "held_counts": [0, 0, round(4 * time_s), 0, 0, 0, 0, 0],
    }
    answers = [
        {"below_bytes": 10_000, "answers": round(2 * time_s), "seconds": 0.1 * time_s},
        {"below_bytes": None, "answers": round(2 * time_s), "seconds": 0.3 * time_s},
    ]
    queue = {
        **view["queues"][0],
        "switch_time_ns": round(time_s * 1e9),
        "queue_bytes": 5000,
        "sent_bytes": round(time_s * 1e6),
        "dropped_packets": round(2 * time_s),
        "can_have_account": True,
        "account": account,
    }
    tcp = {**TCP, "timeouts": round(3 * time_s), "answers": answers}
    queue |= {name: value for name, value in changes.items() if name != "tcp"}
    return {**view, "port": port, "queues": [queue], "tcp": changes.get("tcp", tcp)}


STEADY = Rates(8e6, 5000, 2, 10, 4, 0.5, 3, 4, 0.4)


def same(one: Rates, other: Rates) -> bool:
    return list(one) == pytest.approx(list(other), nan_ok=True)


class TestRates:
    def test_rates_are_differences_by_the_time_of_the_switch(self) -> None:
        differences = Differences()
        (first,) = differences.take([row(100)], 0.0).rates.values()
        assert same(first, UNKNOWN._replace(queue_bytes=5000))
        # Our clock is none of the switch's.
        (second,) = differences.take([row(102)], 1.0).rates.values()
        assert same(second, STEADY)
        assert second.answer_s == pytest.approx(0.1)

    @pytest.mark.parametrize(
        "changes",
        [
            {"sent_bytes": 10},
            {"dropped_packets": 0},
            {"account": {**ACCOUNT, "requests": 1}},
            {"switch_time_ns": 5},
            {"tcp": {**TCP, "timeouts": 0, "answers": []}},
        ],
    )
    def test_counters_that_begin_again_are_a_gap_and_no_spike(
        self, changes: dict[str, Any]
    ) -> None:
        differences = Differences()
        differences.take([row(100)], 0.0)
        fallen = row(101, **changes)
        (rates,) = differences.take([fallen], 1.0).rates.values()
        assert same(rates, UNKNOWN._replace(queue_bytes=5000))

    def test_after_a_restart_of_the_switch_it_goes_on(self) -> None:
        differences = Differences()
        differences.take([row(1000)], 0.0)
        found = [differences.take([row(n)], n).rates[PORT].sent_bps for n in (1.0, 2.0, 3.0)]
        assert found == [pytest.approx(NAN, nan_ok=True), 8e6, 8e6]

    def test_an_account_that_was_not_known_is_no_spike(self) -> None:
        differences = Differences()
        differences.take([row(100, account=None, can_have_account=False, tcp=None)], 0.0)
        (rates,) = differences.take([row(101)], 1.0).rates.values()
        assert rates.sent_bps == 8e6
        assert math.isnan(rates.requests_per_s)
        assert math.isnan(rates.timeouts_per_s)

    def test_an_account_that_begins_counts_from_nothing(self) -> None:
        differences = Differences()
        differences.take([row(100, account=None)], 0.0)
        sampled = differences.take([row(101)], 1.0)
        account = row(101)["queues"][0]["account"]
        assert sampled.rates[PORT].requests_per_s == account["requests"]
        assert sampled.held.counts == tuple(account["held_counts"])
        ended = differences.take([row(102, account=None)], 2.0)
        assert math.isnan(ended.rates[PORT].requests_per_s)

    def test_where_nothing_is_held_nothing_was_requested_or_it_is_not_known(self) -> None:
        for may_have, found in ((True, 0.0), (False, NAN)):
            differences = Differences()
            changes: dict[str, Any] = {"account": None, "can_have_account": may_have}
            differences.take([row(100, **changes)], 0.0)
            (rates,) = differences.take([row(101, **changes)], 1.0).rates.values()
            assert rates.held_per_s == pytest.approx(found, nan_ok=True)

    def test_a_rate_stands_until_the_switch_tells_anew_but_not_for_long(self) -> None:
        differences = Differences()
        differences.take([row(100)], 0.0)
        differences.take([row(102)], 2.0)
        assert same(differences.take([row(102)], 3.0).rates[PORT], STEADY)
        assert same(differences.take([row(102)], 7.0).rates[PORT], STEADY)
        assert differences.take([row(102)], 8.0).rates == {}

    def test_a_mean_over_minutes_is_not_taken_for_a_second(self) -> None:
        differences = Differences()
        differences.take([row(100)], 0.0)
        assert math.isnan(differences.take([row(160)], 1.0).rates[PORT].sent_bps)
        assert same(differences.take([row(161)], 2.0).rates[PORT], STEADY)

    def test_ports_without_a_queue_have_no_rates(self) -> None:
        differences = Differences()
        bare = {**row(100), "queues": []}
        sampled = differences.take([bare, row(100, 2)], 0.0)
        assert list(sampled.rates) == [PortId(2, 1)]

    def test_totals_are_sums_of_what_is_known(self) -> None:
        differences = Differences()
        differences.take([row(100), row(100, 2)], 0.0)
        totals = differences.take([row(101), row(101, 2, account=None)], 1.0).totals
        assert totals.sent_bps == 16e6
        assert totals.requests_per_s == 10
        assert totals.answer_s == pytest.approx(0.1)
        assert same(Differences().take([], 0.0).totals, UNKNOWN)

    def test_how_long_requests_were_held(self) -> None:
        differences = Differences()
        differences.take([row(100), row(50, 2)], 0.0)
        held = differences.take([row(101), row(52, 2)], 1.0).held
        assert held.bounds_s == tuple(ACCOUNT["held_bounds_s"])
        assert held.counts == (0, 0, 12, 0, 0, 0, 0, 0)
        # A report that is not new is not counted twice.
        assert differences.take([row(101), row(52, 2)], 2.0).held.counts == ()
        fallen = differences.take([row(1), row(53, 2)], 3.0).held
        assert fallen.counts == (0, 0, 4, 0, 0, 0, 0, 0)
        assert merged(held, HeldTimes((1.0,), (1, 2))) == held


def known(number: float) -> Rates:
    return Rates(*[number] * len(Rates._fields))


def record() -> Record:
    return Record(memoryview(bytearray(SIZE_BYTES)))


def hour(of: Record, first: int, last: int) -> list[float | None]:
    return list(of.hour.columns(first, last)[0])


class TestRecord:
    def test_what_was_left_out_is_not_known(self) -> None:
        kept = record()
        for second in (10, 11, 14):
            kept.put(NOW_S + second, known(second))
        assert hour(kept, NOW_S + 8, NOW_S + 17) == [
            *[None] * 2,
            10,
            11,
            None,
            None,
            14,
            None,
            None,
        ]
        assert hour(kept, NOW_S + 20, NOW_S + 22) == [None, None]
        assert hour(kept, NOW_S + 3, NOW_S + 3) == []

    def test_an_hour_is_kept(self) -> None:
        kept = record()
        for second in range(4000):
            kept.put(NOW_S + second, known(second))
        assert hour(kept, NOW_S, NOW_S + 4000) == [*[None] * 400, *range(400, 4000)]

    def test_after_an_hour_away_nothing_old_is_shown(self) -> None:
        for away in (3598, 3599, 3600, 3601, 10_000, 100_000):
            kept = record()
            for second in range(-100, 0):
                kept.put(NOW_S + second, known(1))
            kept.put(NOW_S + away, known(2))
            shown = hour(kept, NOW_S, NOW_S + away + 1)
            assert shown == [*[None] * away, 2]

    def test_a_day_is_kept_as_means_of_what_is_known(self) -> None:
        kept = record()
        for second in (0, 1, 2, 9, 35, 41):
            kept.put(NOW_S + second, known(second))
        kept.put(NOW_S + 42, UNKNOWN)
        step = NOW_S // 10
        shown = kept.day.columns(step, step + 5)[0]
        assert list(shown) == [3, None, None, 35, None]
        for second in range(50, 90_000, 10):
            kept.put(NOW_S + second, known(second))
        shown = kept.day.columns(step, step + 9000)[0]
        first = 9000 - 8640 - 1
        assert list(shown) == [*[None] * first, *(10 * n for n in range(first, 8999)), None]

    def test_a_clock_that_is_set_back_shows_nothing_of_the_future(self) -> None:
        kept = record()
        for second in range(3000):
            kept.put(NOW_S + second, known(second))
        kept.put(NOW_S + 1000, known(-1))
        assert hour(kept, NOW_S + 998, NOW_S + 3000) == [998, 999, -1, *[None] * 1999]
        shown = kept.day.columns(NOW_S // 10, NOW_S // 10 + 300)[0]
        assert [value is None for value in shown] == [False] * 100 + [True] * 200
        kept.put(NOW_S + 3000, known(-2))
        assert hour(kept, NOW_S + 999, NOW_S + 3001) == [999, -1, *[None] * 1999, -2]
        kept.put(1000, known(7))
        assert hour(kept, 999, 1002) == [None, 7, None]
        assert hour(kept, NOW_S, NOW_S + 3001) == [None] * 3001

    def test_it_is_as_a_dictionary_would_be(self) -> None:
        seed = random.randrange(2**32)
        chance = random.Random(seed)
        kept, now = record(), NOW_S
        seconds: dict[int, float] = {}
        for _ in range(300):
            now += chance.choice([1, 1, 1, 2, 30, 700, 3599, 3600, 5000, -40, -2000])
            seconds = {at: value for at, value in seconds.items() if now - 3600 < at < now}
            seconds[now] = chance.randrange(1000)
            kept.put(now, known(seconds[now]))
            shown = hour(kept, now - 3650, now + 50)
            assert shown == [seconds.get(at) for at in range(now - 3650, now + 50)], seed

    def test_what_another_release_has_written_is_not_shown(self) -> None:
        for filler in (b"\xff", b"x", b"\0"):
            buffer = memoryview(bytearray(filler * SIZE_BYTES))
            kept = Record(buffer)
            assert hour(kept, NOW_S, NOW_S + 9) == [None] * 9
            kept.put(NOW_S, known(1))
            assert hour(Record(buffer), NOW_S, NOW_S + 2) == [1, None]

    def test_what_is_damaged_does_no_harm(self) -> None:
        seed = random.randrange(2**32)
        chance = random.Random(seed)
        buffer = bytearray(SIZE_BYTES)
        Record(memoryview(buffer)).put(NOW_S, known(1))
        head = bytes(buffer[:16])
        for _ in range(20):
            damaged = bytearray(chance.randbytes(SIZE_BYTES))
            damaged[:16] = head
            kept = Record(memoryview(damaged))
            kept.put(NOW_S, known(1))
            shown = hour(kept, NOW_S - 5, NOW_S + 5)
            assert shown[5] == 1, seed
            json.dumps(shown, allow_nan=False)


def test_the_page_says_how_much_a_port_takes() -> None:
    text = (Path(__file__).parents[2] / "docs" / "dashboard.md").read_text()
    assert f"A port takes {round(SIZE_BYTES / 1000)} kB" in text
    assert f"more than {MOST_PORTS:,} ports, {MOST_PORTS * SIZE_BYTES / 1e9:.1f} GB" in text


def sampled(rates: dict[PortId, Rates]) -> Sampled:
    return Sampled(rates, Rates.added(rates.values()), HeldTimes((), ()))


def put(history: History, second: float, *ports: int, value: float = 1.0) -> None:
    history.put(sampled({PortId(1, port): known(value) for port in ports}), second)


class TestHistory:
    def test_the_finest_step_that_covers_is_taken(self) -> None:
        history = History(Memory())
        for second in range(2 * 3600):
            put(history, NOW_S + second, 1, value=second)
        now_s = NOW_S + 7200.2
        told = history.told(PORT, now_s - 600, now_s, now_s)
        assert (told.step_s, told.begin_s, len(told.series.sent_bps)) == (1, NOW_S + 6600, 600)
        assert told.series.sent_bps[-1] == 7199
        assert told.series.answer_s[-1] == 1
        told = history.told(PORT, now_s - 3601, now_s, now_s)
        assert (told.step_s, told.begin_s) == (10, NOW_S + 3590)
        assert set(map(len, told.series.model_dump().values())) == {361}
        # A day at most, and nothing of the future.
        told = history.told(None, 0, 1e11, now_s)
        assert len(told.series.sent_bps) == 8640
        assert told.begin_s == NOW_S + 7200 - 86_400
        told = history.told(None, now_s + 5, now_s + 9, now_s)
        assert told.series.sent_bps == []
        assert history.told(None, now_s - 5, now_s - 9, now_s).series.sent_bps == []

    def test_the_second_that_goes_on_is_there_when_it_was_sampled(self) -> None:
        history = History(Memory())
        put(history, NOW_S + 1.5, 1, value=7)
        told = history.told(None, NOW_S, NOW_S + 9, NOW_S + 1.6)
        assert told.series.sent_bps == [None, 7]
        told = history.told(None, NOW_S, NOW_S + 9, NOW_S + 4.1)
        assert told.series.sent_bps == [None, 7, None, None]

    def test_a_mean_of_no_answers_is_not_known(self) -> None:
        history = History(Memory())
        history.put(sampled({PORT: STEADY._replace(answers_per_s=0, answering_s_per_s=0)}), NOW_S)
        history.put(sampled({PORT: STEADY}), NOW_S + 1)
        told = history.told(PORT, NOW_S, NOW_S + 2, NOW_S + 2)
        assert told.series.answer_s == [None, pytest.approx(0.1)]

    def test_ports_that_are_gone_for_a_day_are_forgotten(self, tmp_path: Path) -> None:
        history = History(Files(tmp_path))
        put(history, NOW_S, 1, 2)
        put(history, NOW_S + 86_400, 1)
        assert len(history) == 2
        put(history, NOW_S + 86_410, 1)
        assert len(history) == 1
        assert {path.name for path in tmp_path.iterdir()} == {"totals", f"{1:016x}-1"}
        with pytest.raises(LookupError):
            history.told(PortId(1, 2), NOW_S, NOW_S, NOW_S)

    def test_of_too_many_ports_the_rest_have_none(self, caplog: pytest.LogCaptureFixture) -> None:
        history = History(Memory(), most=3)
        for second in range(5):
            put(history, NOW_S + second, *range(1, 6))
        assert len(history) == 3
        assert caplog.messages == [
            "history is kept of 3 ports, which is the most: there is none of 2 others"
        ]
        assert history.told(None, NOW_S, NOW_S + 1, NOW_S + 9).series.sent_bps == [5]

    def test_many_new_ports_come_in_turns(self) -> None:
        history = History(Memory())
        for second, found in enumerate((256, 512, 600, 600)):
            put(history, NOW_S + second, *range(1, 601))
            assert len(history) == found

    def test_it_goes_on_after_a_restart_however_it_has_ended(self, tmp_path: Path) -> None:
        killed = History(Files(tmp_path / "history"))
        for second in range(25):
            put(killed, NOW_S + second, 1, value=second)
        # Nothing is closed or written: it may have been killed.
        again = History(Files(tmp_path / "history"))
        put(again, NOW_S + 40, 1, value=40)
        told = again.told(PORT, NOW_S, NOW_S + 41, NOW_S + 41)
        assert told.series.sent_bps == [*range(25), *[None] * 15, 40]
        far = again.told(None, NOW_S - 4000, NOW_S + 41, NOW_S + 41)
        assert far.series.sent_bps[-4:] == [4.5, 14.5, 22, None]

    def test_files_of_others_are_left_alone(self, tmp_path: Path) -> None:
        strange = ["notes", "0000000000000001", "x-1", f"{1:016x}-0", f"{1:016x}-99999999999"]
        for name in strange:
            (tmp_path / name).write_text("mine")
        assert len(History(Files(tmp_path))) == 0
        assert all((tmp_path / name).read_text() == "mine" for name in strange)

    def test_without_a_place_on_the_disk_it_is_in_memory(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "history").write_text("no directory")
        history = History(Files(tmp_path / "history"))
        put(history, NOW_S, 1, 2)
        assert history.told(PORT, NOW_S, NOW_S + 1, NOW_S + 1).series.sent_bps == [1]
        (told,) = caplog.messages
        assert told.startswith("history will not outlast a restart: cannot write ")

    def test_a_link_is_not_followed(self, tmp_path: Path) -> None:
        target = tmp_path / "target"
        (tmp_path / "history").mkdir()
        (tmp_path / "history" / "totals").symlink_to(target)
        History(Files(tmp_path / "history"))
        assert not target.exists()


class Clock:
    """Runs in virtual time. Sleeps end a little early or late, as the clock is slewed."""

    def __init__(self) -> None:
        self.now_s = NOW_S + 0.999
        self.chance = random.Random(1)

    async def sleep(self, seconds: float) -> None:
        assert 0 <= seconds <= 1.5
        self.now_s += seconds * self.chance.uniform(0.999, 1.001)


class Controller:
    """Takes a while to answer, at most 0.9 s for four questions. `fails` is an error
    instead."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.fails: Exception | None = None
        self.asked: list[str] = []

    async def renew(self, method: str) -> bytes:
        self.asked.append(method)
        self.clock.now_s += self.clock.chance.uniform(0.0, 0.225)
        if self.fails:
            raise self.fails
        rows = [row(self.clock.now_s - NOW_S)] if method == "ports" else []
        return json.dumps({method: rows}).encode()


class EnoughError(Exception):
    """The test is over."""


def sample(clock: Clock, controller: Controller, n: int) -> list[Sample | str]:
    """The first samples."""
    taken: list[Sample | str] = []

    def take(found: Sample | str) -> None:
        taken.append(found)
        if len(taken) == n:
            raise EnoughError

    sampler = Sampler(controller, take, lambda: clock.now_s, lambda: clock.now_s, clock.sleep)
    with pytest.raises(EnoughError):
        asyncio.run(sampler.run())
    return taken


class TestSampler:
    def test_each_second_has_one_sample_without_drift(self) -> None:
        clock = Clock()
        taken = sample(clock, Controller(clock), 1000)
        assert [int(one.at_s) for one in taken if isinstance(one, Sample)] == list(
            range(NOW_S + 1, NOW_S + 1001)
        )

    def test_what_it_finds_are_rates(self) -> None:
        clock = Clock()
        one = sample(clock, Controller(clock), 5)[-1]
        assert isinstance(one, Sample)
        assert one.not_ready is None
        assert one.sampled.totals.sent_bps == pytest.approx(8e6, rel=1e-4)

    def test_a_controller_that_is_not_ready_is_sampled(self) -> None:
        clock = Clock()
        controller = Controller(clock)
        ask = controller.renew

        async def not_ready(method: str) -> bytes:
            if method == "ready":
                raise CallError(Kind.NOT_READY, "the controller learns")
            return await ask(method)

        controller.renew = not_ready  # type: ignore[method-assign]
        (one,) = sample(clock, controller, 1)
        assert isinstance(one, Sample)
        assert one.not_ready == "the controller learns"

    @pytest.mark.parametrize(
        "error", [UnavailableError("nobody listens"), CallError(Kind.BUSY, "too many")]
    )
    def test_without_an_answer_it_goes_on(self, error: Exception) -> None:
        clock = Clock()
        controller = Controller(clock)
        controller.fails = error
        assert sample(clock, controller, 3) == [str(error)] * 3

    def test_a_clock_that_jumps_does_not_stop_it(self) -> None:
        for jump_s in (-3600, 3600, -0.6, 0.6):
            clock = Clock()
            last = math.floor(clock.now_s)
            clock.now_s += jump_s
            assert 0 < pause_s(clock.now_s, last) <= 1.5


@pytest.fixture
def world(tmp_path: Path) -> ServedApi:
    return ServedApi(tmp_path)


class TestAsked:
    def test_a_port_and_all_together(self, world: ServedApi) -> None:
        now_s = world.now.timestamp()
        for second in range(20):
            put(world.api.history, now_s - 20 + second, 1, 2, value=second)
        of_port = world.ask("/v1/history?switch=0x1&port=1").json()
        assert (of_port["step_s"], of_port["begin_s"]) == (1, now_s - 600)
        assert list(of_port["series"]) == [
            *("sent_bps", "queue_bytes", "dropped_per_s", "requests_per_s", "held_per_s"),
            *("held_s_per_s", "timeouts_per_s", "answer_s"),
        ]
        assert {len(values) for values in of_port["series"].values()} == {600}
        assert of_port["series"]["held_per_s"][-21:] == [None, *range(20)]
        before = world.ask(f"/v1/history?switch=1&port=1&to={now_s - 10}").json()
        assert (before["begin_s"], before["series"]["sent_bps"][-1]) == (now_s - 610, 9)
        query = f"from={now_s - 10}&to={now_s - 5.5}"
        totals = world.ask(f"/v1/history?{query}").json()
        assert totals["series"]["sent_bps"] == [20, 22, 24, 26, 28]

    @pytest.mark.parametrize(
        ("status", "query", "says"),
        [
            (404, "switch=1&port=9", "there is no history of 0000000000000001:9"),
            (404, "switch=1", "port: is missing; name both"),
            (404, "port=1", "switch: is missing; name both"),
            (422, "switch=1&port=0", "port: '0' is out of range"),
            (422, "switch=1&port=eth1", "port: 'eth1' is not a number"),
            (422, "switch=../1&port=1", "no datapath id"),
            (422, "from=nan", "from: "),
            (422, "from=inf", "from: "),
            (422, "to=-1", "to: "),
            (422, "to=1e300", "to: "),
            (422, "from=yesterday", "from: "),
            (422, "step=1", "step: unknown parameter; known are from, to, switch, port"),
        ],
    )
    def test_what_cannot_be_is_told(
        self, world: ServedApi, status: int, query: str, says: str
    ) -> None:
        assert says in world.problem(status, f"/v1/history?{query}")

    def test_any_time_may_be_asked_for(self, world: ServedApi) -> None:
        for query in ("from=0&to=1e11", "from=1e11", "to=0", "from=1e11&to=0", "to=1e11"):
            response = world.ask(f"/v1/history?{query}")
            assert response.status_code == 200
            assert len(response.json()["series"]["sent_bps"]) <= 8641
