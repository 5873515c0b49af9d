"""Turning regulation off and on, by degrees: in the core, over restarts, and by scheme."""

import json
import logging
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.congestion.bypasses import Bypass, Bypasses, Place
from controller.core.congestion.regulation import UnknownPlaceError
from controller.core.congestion.regulator import Scheme, SchemeOverride
from controller.core.engine import EngineSettings
from controller.model.effects import Effect, Record
from controller.model.entries import HostWindow, PortWindow
from controller.model.values import RELEASED, FlowClass, Notice, PortId, datapath_id
from controller.northbound.interfaces import UnknownError
from controller.runtime.bypassing import FILE, Bypassing
from engine_bench import RECEIVER, SECOND, SENDERS, EngineBench, records, star, two_switches
from test_reload import reconfigure, settings

PORT, OTHER = PortId(1, 40), PortId(1, 1)
OF_1 = {"switch": 1, "datapath_id": datapath_id(1)}
OF_ALL = {"switch": None, "datapath_id": None}


def off(
    bench: EngineBench, switch: int | None, port: str | None, for_ns: int | None = None
) -> list[Effect]:
    place = bench.engine.regulation.place(switch, port)
    until_ns = None if for_ns is None else bench.now_ns + for_ns
    return bench.do(bench.engine.turn_off(Bypass(place, until_ns, "me"), bench.now_ns))


def on(bench: EngineBench, switch: int | None, port: str | None) -> list[Effect]:
    place = bench.engine.regulation.place(switch, port)
    _, effects = bench.engine.turn_on(place, "me", bench.now_ns)
    return bench.do(effects)


def regulated(bench: EngineBench) -> set[PortId]:
    """The ports that their switches hold to anything, by what they were told."""
    covered = {
        PortId(switch, entry.port)
        for switch in bench.held
        for entry in bench.entries(switch, PortWindow)
    }
    held = {
        port
        for holds in bench.holds.values()
        for (port, _), hold in holds.items()
        if hold != RELEASED
    }
    assert covered <= held
    return held


def ports(*switches: int) -> set[PortId]:
    return {PortId(switch, number) for switch in switches for number in range(1, 41)}


class TestPlaces:
    def test_everything_covers_all_and_a_switch_its_ports(self) -> None:
        everything, switch, port = Place(), Place(1), Place(1, "eth2")
        assert everything.covers(switch)
        assert switch.covers(port)
        assert not port.covers(switch)
        assert not Place(2).covers(port)
        assert str(port) == "port eth2 of switch 0000000000000001"

    @given(
        st.lists(
            st.tuples(
                st.sampled_from(
                    [Place(), *(Place(s) for s in (1, 2)), Place(1, "a"), Place(2, "b")]
                ),
                st.one_of(st.none(), st.integers(1, 20)),
            )
        ),
        st.integers(0, 25),
    )
    def test_a_place_is_off_while_any_bypass_that_covers_it_lasts(
        self, added: list[tuple[Place, int | None]], now_ns: int
    ) -> None:
        bypasses = Bypasses()
        for place, until_ns in added:
            bypasses.add(Bypass(place, until_ns, ""))
        bypasses.expire(now_ns)
        last = dict(added)
        for switch, port in ((1, "a"), (1, "x"), (2, "b"), (3, "a")):
            expected = any(
                place in last and (last[place] is None or (last[place] or 0) > now_ns)
                for place in (Place(), Place(switch), Place(switch, port))
            )
            assert bool(bypasses.covering(Place(switch, port))) is expected


class TestOffAndOn:
    @pytest.mark.parametrize("keeps_accounts", [False, True])
    def test_everything(self, keeps_accounts: bool) -> None:
        bench = two_switches(keeps_accounts=keeps_accounts)
        bench.connect(SENDERS[0], RECEIVER)
        before = regulated(bench)
        assert before
        effects = off(bench, None, None)
        assert regulated(bench) == set()
        assert records(effects, "regulation_off") == [{"switch": None, "port": None, "by": "me"}]
        on(bench, None, None)
        assert regulated(bench) == before

    @pytest.mark.parametrize("keeps_accounts", [False, True])
    def test_one_switch_leaves_the_other_alone(self, keeps_accounts: bool) -> None:
        bench = two_switches(keeps_accounts=keeps_accounts)
        off(bench, 1, None)
        assert regulated(bench) == ports(2)
        effects = on(bench, 1, None)
        assert regulated(bench) == ports(1, 2)
        assert records(effects, "regulation_on") == [{"switch": 1, "port": None, "by": "me"}]

    @pytest.mark.parametrize("written", ["40", "s1-eth40"])
    def test_one_port_by_number_or_name(self, written: str) -> None:
        bench = star(keeps_accounts=True)
        off(bench, 1, written)
        assert regulated(bench) == ports(1) - {PORT}
        assert bench.engine.regulation.scheme(PORT) is Scheme.NONE
        on(bench, 1, "40")
        assert regulated(bench) == ports(1)

    def test_entries_of_connections_stay_so_traffic_goes_on(self) -> None:
        bench = star()
        bench.connect(SENDERS[0], RECEIVER)
        before = bench.entries(1, HostWindow)
        off(bench, None, None)
        assert bench.entries(1, HostWindow) == before
        bench.connect(SENDERS[1], RECEIVER)
        assert regulated(bench) == set()

    def test_notices_change_nothing_meanwhile(self) -> None:
        bench = star(Scheme.SDTCP)
        bench.connect(SENDERS[0], RECEIVER)
        bench.notice(PORT, Notice.CN_H)
        assert bench.engine.regulation.in_force(PORT, FlowClass.BURST) != RELEASED
        off(bench, 1, "40")
        assert bench.engine.regulation.in_force(PORT, FlowClass.BURST) == RELEASED
        assert bench.intervals_us[PORT] == 0
        assert records(bench.notice(PORT, Notice.CN_H), "window_set") == []
        on(bench, 1, "40")
        assert bench.intervals_us[PORT] > 0
        bench.notice(PORT, Notice.CN_H)
        assert bench.engine.regulation.in_force(PORT, FlowClass.BURST) != RELEASED

    def test_a_port_is_on_again_once_the_last_bypass_has_ended(self) -> None:
        bench = star(keeps_accounts=True)
        off(bench, 1, None)
        off(bench, 1, "40")
        on(bench, 1, "40")
        assert regulated(bench) == set()
        on(bench, 1, None)
        assert regulated(bench) == ports(1)

    def test_turning_on_a_switch_turns_on_its_ports_but_not_everything(self) -> None:
        bench = two_switches(keeps_accounts=True)
        off(bench, 1, "40")
        off(bench, 1, "1")
        on(bench, 1, None)
        assert regulated(bench) == ports(1, 2)
        off(bench, None, None)
        on(bench, 1, None)
        assert regulated(bench) == set()

    def test_it_ends_by_itself_within_a_second(self) -> None:
        bench = star(keeps_accounts=True)
        off(bench, 1, None, for_ns=10 * SECOND)
        bench.sleep(9 * SECOND)
        assert regulated(bench) == set()
        effects = bench.sleep(2 * SECOND)
        assert regulated(bench) == ports(1)
        assert records(effects, "regulation_on") == [{"switch": 1, "port": None, "by": "expiry"}]

    def test_a_switch_that_comes_later_is_off_too(self) -> None:
        bench = star(keeps_accounts=True)
        off(bench, None, None)
        bench.switch_up(2)
        assert regulated(bench) == set()

    def test_a_switch_that_returns_stays_off(self) -> None:
        bench = star(keeps_accounts=True)
        off(bench, 1, None)
        bench.do(bench.engine.switch_down(1, bench.now_ns))
        bench.switch_up(1)
        assert regulated(bench) == set()

    @pytest.mark.parametrize(
        ("switch", "port", "told"),
        [
            (7, None, "no switch 0{15}7 is known; there are 0{15}1$"),
            (1, "eth9", "switch 0{15}1 has no port eth9; it has 1 s1-eth1, 2 s1-eth2"),
            (1, "99", "switch 0{15}1 has no port 99"),
        ],
    )
    def test_a_place_that_is_not_there_is_told(
        self, switch: int, port: str | None, told: str
    ) -> None:
        with pytest.raises(UnknownPlaceError, match=told):
            star().engine.regulation.place(switch, port)


class TestSchemes:
    def with_overrides(
        self, *overrides: SchemeOverride, of: Scheme = Scheme.WEIR
    ) -> EngineSettings:
        usual = settings(of)
        return replace(usual, regulator=replace(usual.regulator, overrides=overrides))

    def test_a_port_may_have_another_scheme_than_its_switch(self) -> None:
        bench = star(keeps_accounts=True)
        reconfigure(
            bench,
            self.with_overrides(
                SchemeOverride(Scheme.NONE, 1, None), SchemeOverride(Scheme.WEIR, 1, "s1-eth40")
            ),
        )
        assert regulated(bench) == {PORT}
        reconfigure(bench, settings())
        assert regulated(bench) == ports(1)

    def test_the_number_goes_before_the_name(self) -> None:
        overrides = SchemeOverride(Scheme.NONE, 1, 40), SchemeOverride(Scheme.WEIR, 1, "s1-eth40")
        bench = star(keeps_accounts=True)
        reconfigure(bench, self.with_overrides(*overrides))
        assert regulated(bench) == ports(1) - {PORT}

    def test_one_port_is_regulated_where_all_others_are_only_watched(self) -> None:
        bench = star(Scheme.NONE, keeps_accounts=True)
        reconfigure(bench, self.with_overrides(SchemeOverride(Scheme.WEIR, 1, 40), of=Scheme.NONE))
        assert regulated(bench) == {PORT}
        bench.connect(SENDERS[0], RECEIVER)
        assert any(entry.port == PORT.port for entry in bench.entries(1, HostWindow))

    def test_two_schemes_side_by_side(self) -> None:
        bench = star()
        reconfigure(bench, self.with_overrides(SchemeOverride(Scheme.SDTCP, 1, 40)))
        bench.connect(SENDERS[0], RECEIVER)
        regulation = bench.engine.regulation
        assert regulation.in_force(PORT, FlowClass.BURST) == RELEASED
        assert regulation.in_force(OTHER, FlowClass.BURST) != RELEASED
        assert (bench.intervals_us[PORT] > 0, OTHER in bench.intervals_us) == (True, False)


class Kept:
    """A `Bypassing` over a bench, with its file."""

    def __init__(self, path: Path | None, wall_s: float = 1_800_000_000.0) -> None:
        self.bench = star(keeps_accounts=True)
        self.path = path
        self.wall_s = wall_s
        self.seen: list[Effect] = []
        self.bypassing = Bypassing(
            lambda: self.bench.engine,
            lambda effects: self.seen.extend(self.bench.do(effects)),
            lambda: self.bench.now_ns,
            lambda: self.wall_s,
            path,
        )


class TestOverRestarts:
    def test_what_is_off_is_off_after_a_restart_for_as_long_as_was_asked(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / FILE
        before = Kept(path)
        told = before.bypassing.off(1, "40", 60.0, "user ada")
        assert told == {
            "off": {**OF_1, "port": "s1-eth40", "left_s": 60.0, "by": "user ada"},
            "kept": True,
            "unaware": [],
        }
        before.bypassing.off(None, None, None, "user ada")
        until = datetime.fromtimestamp(before.wall_s + 60, UTC)
        assert json.loads(path.read_text())["off"][0]["until"] == f"{until:%Y-%m-%dT%H:%M:%SZ}"

        after = Kept(path, before.wall_s + 45)
        after.bypassing.restore()
        assert list(after.bypassing.bypasses()) == [
            {**OF_1, "port": "s1-eth40", "left_s": pytest.approx(15.0), "by": "user ada"},
            {**OF_ALL, "port": None, "left_s": None, "by": "user ada"},
        ]
        after.bench.switch_up(1)
        assert after.bench.engine.regulation.scheme(PORT) is Scheme.NONE

        much_later = Kept(path, before.wall_s + 61)
        much_later.bypassing.restore()
        assert [one["port"] for one in much_later.bypassing.bypasses()] == [None]

    def test_what_is_on_again_is_on_after_a_restart(self, tmp_path: Path) -> None:
        before = Kept(tmp_path / FILE)
        before.bypassing.off(1, None, None, "a")
        told = before.bypassing.on(None, None, "b")
        assert [one["switch"] for one in told["on"]] == [1]
        assert (told["still_off"], told["kept"]) == ([], True)
        after = Kept(tmp_path / FILE)
        after.bypassing.restore()
        assert list(after.bypassing.bypasses()) == []

    def test_what_still_keeps_a_place_off_is_told(self) -> None:
        kept = Kept(None)
        kept.bypassing.off(None, None, None, "a")
        told = kept.bypassing.on(1, "40", "b")
        assert told["on"] == []
        assert [one["switch"] for one in told["still_off"]] == [None]

    def test_a_place_that_is_gone_can_be_turned_on(self, tmp_path: Path) -> None:
        path = tmp_path / FILE
        path.write_text('{"off": [{"switch": 9, "port": "eth7"}]}')
        kept = Kept(path)
        kept.bypassing.restore()
        assert [one["port"] for one in kept.bypassing.on(9, "eth7", "a")["on"]] == ["eth7"]
        with pytest.raises(UnknownError, match=f"no switch {datapath_id(9)} is known"):
            kept.bypassing.on(9, "eth7", "a")

    def test_regulation_is_off_even_if_that_cannot_be_kept(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        for path in (None, tmp_path / "none" / FILE):
            kept = Kept(path)
            assert kept.bypassing.off(None, None, None, "a")["kept"] is False
            assert kept.bench.engine.regulation.scheme(PORT) is Scheme.NONE
        assert "cannot write" in caplog.text

    @pytest.mark.parametrize(
        "text", ["", "{", "[]", '{"off": 1}', '{"off": [{"switch": -1}]}', '{"off": [{"x": 1}]}']
    )
    def test_a_file_that_cannot_be_used_is_told(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
    ) -> None:
        path = tmp_path / FILE
        path.write_text(text)
        kept = Kept(path)
        with caplog.at_level(logging.ERROR):
            kept.bypassing.restore()
        assert "what was turned off is not known, regulation is on" in caplog.text
        assert list(kept.bypassing.bypasses()) == []


class TestWithAPeer:
    """Two controllers; `exchange` is their next heartbeats."""

    @pytest.fixture
    def a(self, tmp_path: Path) -> Kept:
        (tmp_path / "a").mkdir()
        return Kept(tmp_path / "a" / FILE)

    @pytest.fixture
    def b(self, tmp_path: Path) -> Kept:
        (tmp_path / "b").mkdir()
        return Kept(tmp_path / "b" / FILE)

    def exchange(self, a: Kept, b: Kept, times: int = 2) -> None:
        for _ in range(times):
            b.bypassing.heard("a", a.bypassing.shared("b", brief=False))
            a.bypassing.heard("b", b.bypassing.shared("a", brief=False))

    def off(self, kept: Kept) -> list[tuple[int | None, str | None, str]]:
        views = kept.bypassing.bypasses()
        return [(one["switch"], one["port"], one["by"]) for one in views]

    def test_what_one_turns_off_and_on_the_other_does(self, a: Kept, b: Kept) -> None:
        self.exchange(a, b)
        a.bypassing.off(1, "40", 60.0, "ada")
        a.bypassing.off(1, "1", None, "ada")
        self.exchange(a, b, times=1)
        assert self.off(b) == [(1, "s1-eth40", "ada"), (1, "s1-eth1", "ada")]
        assert next(b.bypassing.bypasses())["left_s"] == pytest.approx(60.0)
        assert b.bench.engine.regulation.scheme(PORT) is Scheme.NONE
        b.bypassing.on(1, "40", "bob")
        self.exchange(a, b)
        assert self.off(a) == self.off(b) == [(1, "s1-eth1", "ada")]
        assert a.bench.engine.regulation.scheme(PORT) is Scheme.WEIR

    def test_a_change_is_told_at_once_and_then_no_more(self, a: Kept, b: Kept) -> None:
        told: list[None] = []
        a.bypassing.changed = lambda: told.append(None)
        self.exchange(a, b)
        a.bypassing.off(None, None, None, "ada")
        assert len(told) == 1
        assert "ada" in a.bypassing.shared("b", brief=False)
        assert "ada" not in a.bypassing.shared("b", brief=True)
        self.exchange(a, b)
        assert "ada" not in a.bypassing.shared("b", brief=False)
        assert len(told) == 1

    def test_who_comes_later_learns_it_and_keeps_it(self, a: Kept, b: Kept) -> None:
        a.bypassing.off(None, None, 60.0, "ada")
        self.exchange(a, b)
        assert self.off(b) == [(None, None, "ada")]
        again = Kept(b.path, b.wall_s + 30)
        again.bypassing.restore()
        assert next(again.bypassing.bypasses())["left_s"] == pytest.approx(30.0)
        self.exchange(a, again)
        assert next(again.bypassing.bypasses())["left_s"] == pytest.approx(30.0)

    def test_the_newest_change_wins_whatever_the_clocks_say(self, a: Kept, b: Kept) -> None:
        b.wall_s -= 3600
        a.bypassing.off(None, None, None, "ada")
        self.exchange(a, b)
        b.bypassing.on(None, None, "bob")
        self.exchange(a, b)
        assert self.off(a) == self.off(b) == []

    def test_of_changes_that_did_not_know_of_each_other_the_later_one_stays(
        self, a: Kept, b: Kept
    ) -> None:
        a.bypassing.off(1, None, None, "ada")
        b.wall_s += 1
        b.bypassing.off(None, None, None, "bob")
        self.exchange(a, b)
        assert self.off(a) == self.off(b) == [(None, None, "bob")]

    def test_a_restart_without_a_file_takes_nothing_back(self, a: Kept, b: Kept) -> None:
        a.bypassing.off(None, None, None, "ada")
        self.exchange(a, b)
        forgetful = Kept(None)
        self.exchange(a, forgetful)
        assert self.off(forgetful) == self.off(a) == [(None, None, "ada")]

    def test_events_say_who(self, a: Kept, b: Kept) -> None:
        a.bypassing.off(1, "40", 60.0, "ada")
        self.exchange(a, b)
        a.bypassing.on(None, None, "ada")
        self.exchange(a, b)
        said = [one.fields for one in b.seen if isinstance(one, Record)]
        assert [one for one in said if "by" in one] == [
            {"switch": 1, "port": "s1-eth40", "by": "ada", "for_s": 60},
            {"switch": 1, "port": "s1-eth40", "by": "controller a"},
        ]

    def test_a_peer_of_an_older_release_is_left_alone_and_named(self, a: Kept) -> None:
        a.bypassing.heard("b", "")
        told = a.bypassing.off(None, None, None, "ada")
        assert told["unaware"] == ["b"]
        assert "ada" not in a.bypassing.shared("b", brief=False)
        a.bypassing.heard("b", '{"version": 0}')
        assert a.bypassing.on(None, None, "ada")["unaware"] == []

    def test_what_a_later_release_tells_beside_it_is_passed_over(self, a: Kept) -> None:
        a.bypassing.heard("b", '{"version": 1, "off": [{"by": "bob", "why": 1}], "more": 2}')
        assert self.off(a) == [(None, None, "bob")]

    def test_more_than_fits_is_not_told_and_logged(
        self, a: Kept, b: Kept, caplog: pytest.LogCaptureFixture
    ) -> None:
        self.exchange(a, b)
        a.bypassing.off(None, None, None, "x" * 100_000)
        with caplog.at_level(logging.ERROR):
            self.exchange(a, b, times=5)
        assert self.off(b) == []
        assert caplog.text.count("more is off than can be told to controller b") == 1

    @pytest.mark.parametrize(
        "text",
        [
            *("{", "[]", "1", "null", '""', "\x00", "[" * 5000, "{}", '{"version": null}'),
            *('{"version": "1"}', '{"version": -1}', '{"version": 1e300}', '{"version": NaN}'),
            f'{{"version": {2**62}}}',
            '{"version": 9, "off": 1}',
            '{"version": 9, "off": [1]}',
            '{"version": 9, "off": [{"switch": -1}]}',
            f'{{"version": 9, "off": [{{"switch": {2**64}}}]}}',
            '{"version": 9, "off": [{"switch": true}]}',
            '{"version": 9, "off": [{"port": 7}]}',
            '{"version": 9, "off": [{"port": "\\ud800"}]}',
            '{"version": 9, "off": [{"left_s": -1}]}',
            '{"version": 9, "off": [{"left_s": 1e300}]}',
            '{"version": 9, "off": [{"left_s": NaN}]}',
            '{"version": 9, "off": [{"left_s": Infinity}]}',
            '{"version": 9, "off": [{"by": null}]}',
        ],
    )
    def test_what_cannot_be_used_changes_nothing_and_is_told_once(
        self, a: Kept, caplog: pytest.LogCaptureFixture, text: str
    ) -> None:
        a.bypassing.off(1, None, None, "ada")
        a.bypassing.heard("b", '{"version": 1}')
        with caplog.at_level(logging.ERROR):
            for _ in range(3):
                a.bypassing.heard("b", text)
        assert self.off(a) == [(1, None, "ada")]
        assert caplog.text.count("what controller b has turned off cannot be used") == 1

    @given(
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
            lambda inner: (
                st.lists(inner)
                | st.dictionaries(
                    st.sampled_from(["version", "off", "switch", "port", "left_s", "by"]), inner
                )
            ),
        )
    )
    def test_whatever_a_peer_tells_it_is_taken_whole_or_not_at_all(self, told: object) -> None:
        kept = Kept(None)
        kept.bypassing.heard("b", json.dumps(told))
        if self.off(kept):
            assert isinstance(told, dict)
            assert len(self.off(kept)) <= len(told["off"])
