"""`weir-controller compare`: statistics against brute force, and turns in virtual time."""

import json
import random
from collections.abc import Iterator, Mapping
from itertools import product
from math import exp
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cli import commands
from controller.cli.client import AskError
from controller.cli.compare import command, statistics
from controller.cli.compare.readings import Answers, Turn
from controller.cli.compare.statistics import difference
from controller.cli.compare.turns import Place, Turns
from controller.cli.compare.verdict import (
    Judgement,
    Pair,
    Verdict,
    clearly_worse,
    findings,
    verdict,
)
from controller.rpc.spans import LostReadingError

BOUNDS_S = (0.001, 0.01, 0.1)
TURN_S = 5.0
EVERYTHING = Place(None, None)


class TestStatistics:
    @given(st.lists(st.floats(-10, 10).filter(bool), min_size=1, max_size=9, unique_by=abs))
    def test_the_test_is_that_of_all_signs(self, values: list[float]) -> None:
        """If the centre is 0, each difference could as well have the other sign."""
        ranked = sorted(range(len(values)), key=lambda i: abs(values[i]))
        rank = {i: position + 1 for position, i in enumerate(ranked)}
        seen = sum(rank[i] for i, value in enumerate(values) if value > 0)
        sums = [
            sum(rank[i] for i, positive in enumerate(signs) if positive)
            for signs in product((False, True), repeat=len(values))
        ]
        told = difference(values)
        assert told.p_below == pytest.approx(sum(s <= seen for s in sums) / len(sums))
        assert told.p_above == pytest.approx(sum(s >= seen for s in sums) / len(sums))

    def test_the_book(self) -> None:
        """Hollander, Wolfe and Chicken, table 3.1 and examples 3.1, 3.3, 3.4: depression before and
        after a therapy."""
        before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
        after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]
        told = difference([a - b for a, b in zip(before, after, strict=True)], 0.96)
        assert told.p_above == pytest.approx(0.0195, abs=0.0002)
        assert told.centre == pytest.approx(0.46, abs=0.005)
        assert (told.low, told.high) == pytest.approx((0.01, 0.786), abs=0.005)

    def test_an_interval_holds_the_truth_as_often_as_it_says(self) -> None:
        rng = random.Random(1)
        held = 0
        for _ in range(1000):
            told = difference([0.3 + rng.gauss(0, 1) ** 3 for _ in range(12)])
            held += told.low <= 0.3 <= told.high
        assert 930 <= held <= 975

    def test_few_values_have_no_interval(self) -> None:
        told = difference([1.0] * 5)
        assert (told.low, told.high) == (float("-inf"), float("inf"))
        assert difference([1.0] * 6).low == 1.0
        assert difference([0.0] * 9)[:5] == (0, 0, 0, 1, 1)

    def test_many_values_are_as_the_exact_ones(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rng = random.Random(2)
        values = [rng.gauss(0.1, 1) for _ in range(60)]
        rough = difference(values)
        monkeypatch.setattr(statistics, "_EXACT", 100)
        exact = difference(values)
        assert rough[:3] == pytest.approx(exact[:3], abs=0.05)
        assert rough[3:] == pytest.approx(exact[3:], abs=0.005)


def turn(bytes_per_s: float = 1e7, answer_s: float = 0.005, timeouts_per_s: float = 0.0) -> Turn:
    answers = (
        Answers(10_000, 100.0, 100 * answer_s, (0, 100.0, 0, 0)),
        Answers(None, 0.0, 0.0, (0.0,) * 4),
    )
    return Turn(
        *(bytes_per_s, 0.0, 9000.0, 5000.0, 1.0, timeouts_per_s),
        *(answers, BOUNDS_S, 100.0, 10.0, 0.01),
    )


def pairs(number: int, noise: float = 0.02, **on: float) -> list[Pair]:
    """Pairs of noisy turns; `on` are factors of what turns have with regulation."""
    rng = random.Random(number)

    def noisy(**factors: float) -> Turn:
        return turn(
            1e7 * factors.get("bytes", 1) * exp(rng.gauss(0, noise)),
            0.005 * factors.get("answers", 1) * exp(rng.gauss(0, noise)),
            factors.get("timeouts", 0.0),
        )

    return [Pair(noisy(**on), noisy()) for _ in range(number)]


class TestVerdict:
    @pytest.mark.parametrize(
        ("on", "expected"),
        [
            ({}, Verdict.NO_DIFFERENCE),
            ({"bytes": 1.5}, Verdict.HELPS),
            ({"answers": 0.5}, Verdict.HELPS),
            ({"bytes": 0.9}, Verdict.HURTS),
            ({"answers": 1.3}, Verdict.HURTS),
            ({"timeouts": 3.0}, Verdict.HURTS),
            ({"bytes": 1.5, "answers": 1.3}, Verdict.MIXED),
            ({"bytes": 0.99, "answers": 1.02}, Verdict.NO_DIFFERENCE),
        ],
    )
    def test_it_says_what_is_so(self, on: dict[str, float], expected: Verdict) -> None:
        assert verdict(findings(pairs(12, **on))) is expected

    def test_noise_is_undecided(self) -> None:
        assert verdict(findings(pairs(12, noise=0.4))) is Verdict.UNDECIDED
        assert verdict(findings(pairs(3))) is Verdict.UNDECIDED

    def test_nothing_is_no_traffic(self) -> None:
        idle = turn(0.0)._replace(segments_per_s=0.0, answers=(), timeouts_per_s=0.0)
        assert verdict(findings([Pair(idle, idle)] * 9)) is Verdict.NO_TRAFFIC
        assert verdict([]) is Verdict.NO_TRAFFIC

    def test_longer_answers_are_not_slower_ones(self) -> None:
        """A turn with more of the long answers is compared class by class."""

        def mixed(small: float, large: float) -> Turn:
            return turn()._replace(
                answers=(
                    Answers(10_000, small, small * 0.001, (small, 0, 0, 0)),
                    Answers(None, large, large * 0.1, (0, 0, 0, large)),
                )
            )

        found = findings([Pair(mixed(10, 90), mixed(90, 10))] * 8)
        (answers,) = [one for one in found if one.measure.name == "answers"]
        assert answers.judgement is Judgement.SAME

    def test_it_stops_when_it_is_clear(self) -> None:
        worse = pairs(10, bytes=0.5)
        assert not clearly_worse(findings(worse[:4]))
        stopped = clearly_worse(findings(worse[:5]))
        assert stopped is not None and stopped.measure.name == "bytes"
        assert stopped.judgement is Judgement.WORSE

    @pytest.mark.parametrize(
        "on", [{"bytes": 0.9}, {"bytes": 2.0, "answers": 2.0}, {"bytes": 2.0}, {}]
    )
    def test_it_does_not_stop_for_less(self, on: dict[str, float]) -> None:
        """Little harm, harm with as much good, good, nothing."""
        assert not any(clearly_worse(findings(pairs(20, **on)[:n])) for n in range(1, 21))

    def test_noise_does_not_stop_it(self) -> None:
        rng = random.Random(3)
        stopped = 0
        for _ in range(200):
            noisy = [
                Pair(turn(1e7 * (1 + rng.gauss(0, 0.1))), turn(1e7 * (1 + rng.gauss(0, 0.1))))
                for _ in range(20)
            ]
            stopped += any(clearly_worse(findings(noisy[:n])) for n in range(1, 21))
        assert stopped <= 2


class ControllerAndTraffic:
    """A controller and its traffic in virtual time: a port carries `rate` bytes a second."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.off: dict[str, Any] | None = None
        self.asked: list[tuple[float, str, dict[str, Any]]] = []
        self.rates = {True: 1e7, False: 5e6}
        self.sent = self.answers = 0.0
        self.rank = "master"
        self.scheme = "weir"
        self.has_queue = self.tells = True
        self.restart_at_s: float | None = None
        self.interrupt_at_s: float | None = None

    @property
    def regulated(self) -> bool:
        return self.off is None

    def clock_s(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        if self.restart_at_s is not None and self.now_s <= self.restart_at_s < end_s:
            self.sent = self.answers = 0.0
        self.sent += seconds * self.rates[self.regulated]
        self.answers += 50 * seconds
        self.now_s = end_s
        if self.interrupt_at_s is not None and end_s >= self.interrupt_at_s:
            raise KeyboardInterrupt

    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        self.asked.append((self.now_s, method, dict(params or {})))
        match method:
            case "controller":
                return {"rank": self.rank}
            case "bypasses":
                return {"bypasses": [self.off] if self.off else []}
            case "regulation":
                return {"ports": [{**row, "scheme": self.scheme} for row in self.rows()]}
            case "off":
                assert params is not None
                self.off = {"switch": params["switch"], "port": params["port"], "by": params["by"]}
                return {}
            case "on":
                self.off = None
                return {}
        return {"ports": list(self.rows())}

    def rows(self) -> Iterator[dict[str, Any]]:
        for number in (1, 2):
            answers = {
                "below_bytes": None,
                "answers": self.answers,
                "seconds": 0.005 * self.answers,
                "counts": [0, self.answers, 0, 0],
            }
            tcp = {
                "segments": self.sent / 1448,
                "retransmitted": 0,
                "timeouts": 0,
                "bounds_s": BOUNDS_S,
                "answers": [answers],
            }
            queue = {
                "switch_time_ns": round(self.now_s * 1e9),
                "queue_bytes": 3000,
                "sent_bytes": self.sent,
                "dropped_packets": 0,
                "account": None,
            }
            yield {
                "switch": 1,
                "port": number,
                "name": f"eth{number}",
                "queues": [queue] * self.has_queue,
                "tcp": tcp if self.tells else None,
            }


def turns(world: ControllerAndTraffic, place: Place = EVERYTHING, seed: int = 1) -> Turns:
    return Turns(
        *(world, place, TURN_S, "user ann", world.clock_s, world.sleep),  # type: ignore[arg-type]
        random.Random(seed),
    )


class TestTurns:
    def test_they_find_what_is_there(self) -> None:
        world = ControllerAndTraffic()
        subject = turns(world, Place(1, "eth2"))
        subject.check()
        told = [pair for pair in subject.pairs(6) if pair]
        assert len(told) == 6
        for pair in told:
            assert pair.on.bytes_per_s == pytest.approx(1e7)
            assert pair.off.bytes_per_s == pytest.approx(5e6)
            assert pair.on.answers[0].mean_s == pytest.approx(0.005)
            assert pair.on.answers[0].quantile_s(0.5, BOUNDS_S) == pytest.approx(0.0055)
        assert world.regulated
        assert world.now_s == pytest.approx(1000 + 12 * TURN_S)

    def test_turns_come_in_both_orders(self) -> None:
        world = ControllerAndTraffic()
        list(turns(world).pairs(40))
        begins = [at for at, method, _ in world.asked if method == "off"]
        first = sum((at - 1000) % (2 * TURN_S) < TURN_S / 2 for at in begins)
        assert 10 <= first <= 30

    def test_off_ends_by_itself(self) -> None:
        world = ControllerAndTraffic()
        list(turns(world).pairs(1))
        ((_, _, params),) = [asked for asked in world.asked if asked[1] == "off"]
        assert params == {"switch": None, "port": None, "for_s": 20, "by": "user ann, comparing"}

    @pytest.mark.parametrize("at_s", [1, 6, 9])
    def test_it_is_on_however_it_ends(self, at_s: float) -> None:
        for seed in range(4):
            world = ControllerAndTraffic()
            world.interrupt_at_s = 1000 + at_s
            with pytest.raises(KeyboardInterrupt):
                list(turns(world, seed=seed).pairs(5))
            assert world.regulated

    def test_a_switch_that_restarts_costs_a_pair(self) -> None:
        world = ControllerAndTraffic()
        world.restart_at_s = 1013
        subject = turns(world)
        told = list(subject.pairs(3))
        assert [pair is not None for pair in told] == [True, False, True]
        assert subject.lost == ["port eth1 of switch 0000000000000001 counts from 0 again"]

    def test_a_switch_that_tells_nothing_new(self) -> None:
        world = ControllerAndTraffic()
        rows = list(world.rows())
        with pytest.raises(LostReadingError, match="switch 0000000000000001 does not tell"):
            Turn.between(rows, [rows])
        with pytest.raises(LostReadingError, match="came or went"):
            Turn.between(rows, [rows[:1]])

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"rank": "standby"}, "ask the master"),
            ({"off": {"switch": None, "port": None, "by": "bob"}}, "by bob; turn it on first"),
            ({"off": {"switch": 1, "port": "eth2", "by": "bob"}}, "by bob; turn it on first"),
            ({"has_queue": False}, "no port there has an egress queue"),
            ({"tells": False}, "install this version"),
            ({"scheme": "none"}, "no port there is regulated"),
        ],
    )
    def test_what_cannot_be_compared_is_said(self, change: dict[str, Any], said: str) -> None:
        world = ControllerAndTraffic()
        vars(world).update(change)
        with pytest.raises(AskError, match=said):
            turns(world).check()
        assert "off" not in [method for _, method, _ in world.asked]

    def test_a_port_may_be_given_by_its_number(self) -> None:
        world = ControllerAndTraffic()
        world.off = {"switch": 1, "port": "eth2", "by": "bob"}
        with pytest.raises(AskError, match="by bob"):
            turns(world, Place(1, "2")).check()
        world.off = None
        subject = turns(world, Place(1, "2"))
        subject.check()
        assert all(subject.pairs(1))
        ((_, _, params),) = [asked for asked in world.asked if asked[1] == "off"]
        assert params["port"] == "eth2"

    def test_what_is_off_elsewhere_does_not_matter(self) -> None:
        world = ControllerAndTraffic()
        world.off = {"switch": 1, "port": "eth1", "by": "bob"}
        turns(world, Place(1, "eth2")).check()
        world.off = {"switch": 2, "port": None, "by": "bob"}
        turns(world, Place(1, None)).check()


class TestCommand:
    @pytest.fixture
    def world(self, monkeypatch: pytest.MonkeyPatch) -> ControllerAndTraffic:
        world = ControllerAndTraffic()
        monkeypatch.setattr(command, "Client", lambda _path: world)
        monkeypatch.setattr(command, "_end_well", lambda: None)
        time = SimpleNamespace(monotonic=world.clock_s, sleep=world.sleep)
        monkeypatch.setattr(command, "time", time)
        return world

    def run(self, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
        status = commands.run(["compare", "--minutes", "2", *words])
        said = capsys.readouterr()
        return status, said.out, said.err

    def test_it_is_said_that_it_helps(
        self, world: ControllerAndTraffic, capsys: pytest.CaptureFixture[str]
    ) -> None:
        status, out, _ = self.run(capsys)
        assert status == 0
        assert "pair 12 of 12: with 160M, answers 5ms" in out
        assert out.splitlines()[-1] == "regulation helps: what ports carry +100 % (100.0 % sure)"
        assert world.regulated

    def test_programs_get_json(
        self, world: ControllerAndTraffic, capsys: pytest.CaptureFixture[str]
    ) -> None:
        world.rates = {True: 5e6, False: 1e7}
        status, out, err = self.run(capsys, "--json")
        told = json.loads(out)
        assert (status, told["verdict"], told["stopped_for"]) == (3, "hurts", "bytes")
        assert len(told["pairs"]) == 5
        assert told["measures"]["bytes"]["change_pct"] == pytest.approx(-50)
        assert told["measures"]["bytes"]["low_pct"] is None
        assert told["pairs"][0]["on"]["answers"][0]["mean_s"] == pytest.approx(0.005)
        assert "stopped: what ports carry got clearly worse" in err

    def test_a_controller_that_goes_ends_it_with_what_there_is(
        self, world: ControllerAndTraffic, capsys: pytest.CaptureFixture[str]
    ) -> None:
        ask = world.ask

        def gone(method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
            if world.now_s > 1072:
                raise AskError("no controller listens there")
            return ask(method, params)

        world.ask = gone  # type: ignore[method-assign]
        status, out, _ = self.run(capsys)
        assert "ended early: no controller listens there; regulation is on again within 20 s" in out
        assert (status, out.splitlines()[-1][:16]) == (0, "regulation helps")

    def test_what_cannot_be_compared_is_an_error(
        self, world: ControllerAndTraffic, capsys: pytest.CaptureFixture[str]
    ) -> None:
        status, _, err = self.run(capsys, "--port", "eth1")
        assert (status, "--port needs --switch" in err) == (1, True)
        status, _, err = self.run(capsys, "--minutes", "1440")
        assert (status, "make turns longer: --turn 44" in err) == (1, True)
        for wrong in (["--minutes", "ten"], ["--turn", "soon"]):
            with pytest.raises(SystemExit):
                self.run(capsys, *wrong)
            assert "write a number of" in capsys.readouterr().err
        world.tells = False
        status, _, err = self.run(capsys)
        assert (status, "install this version" in err) == (1, True)
        assert world.regulated
