"""Settings that are changed at work: in force, taken back, kept, and under a reloaded file."""

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controller.config import reading, reload, settings
from controller.config.errors import ConfigError
from controller.config.schema import Config
from controller.northbound.interfaces import ConflictError, FailedError, ValueRefusedError
from controller.northbound.views import AuditEntryView, SettingView
from controller.runtime.audit_log import AuditLog
from controller.runtime.changing import Changing

HOLD, TTL, SCHEME = "regulation.max_hold", "regulation.window_ttl", "regulation.scheme"
FILE = "regulation: {max_hold: 100 ms}"
NS = 10**6
_LISTEN = "openflow: {listen: 'tcp:127.0.0.1:6653'}\n"


class Bench:
    """A controller that is only its settings. `used` is what its core was told to use, `core` what
    that does."""

    def __init__(self, directory: Path | None, file: str = FILE) -> None:
        self.now_s = 1.7e9
        self.directory = directory
        self.start(file)

    def start(self, file: str = FILE) -> None:
        self.now_s += 10
        self.used: list[Config] = []
        self.core: Callable[[], object] = lambda: None
        directory = self.directory
        self.log = AuditLog(directory / "audit.jsonl" if directory else None, self.clock_s)
        path = directory / "settings.json" if directory else None
        base = reading.parse(_LISTEN + file)
        self.changing = Changing(base, self.log, self.clock_s, path, self._use)
        self.config = self.changing.present

    def clock_s(self) -> float:
        return self.now_s

    def _use(self, config: Config) -> Config:
        self.used.append(config)
        self.core()
        self.config = reload.merge(self.config, config).config
        return self.config

    def reload(self, file: str, meanwhile: Callable[[], object] = lambda: None) -> None:
        """As the service does it; `meanwhile` the northbound is moved, for example."""
        base = reading.parse(_LISTEN + file)
        change = self.changing.merge(base, lambda _: meanwhile())
        self.config = change.config
        self.changing.reloaded(base, change)

    @property
    def version(self) -> int:
        return self.changing.settings()["version"]

    def change(self, by: str = "ada", only_try: bool = False, **changes: str | None) -> Any:
        self.now_s += 1
        named = {f"regulation.{key}": value for key, value in changes.items()}
        return self.changing.change(self.version, named, only_try, by)

    def undo(self, by: str = "bob") -> Any:
        self.now_s += 1
        latest = self.changing.settings()["undoable"]
        assert latest is not None
        return self.changing.undo(latest["id"], by)

    def setting(self, key: str) -> SettingView:
        return next(one for one in self.changing.settings()["settings"] if one["key"] == key)

    def audit(self) -> list[AuditEntryView]:
        """Oldest first."""
        return list(self.changing.audit(100, None).entries)[::-1]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_all_are_told_with_what_the_file_says(bench: Bench) -> None:
    told = bench.setting(HOLD)
    assert (told["value"], told["configured"], told["default"]) == ("100 ms", "100 ms", "160 ms")
    assert (told["section"], told["kind"], told["scope"]) == ("regulation", "duration", "live")
    assert told["changed"] is None
    assert bench.setting("fabric.rtt")["scope"] == "restart"
    assert bench.setting(SCHEME)["choices"] == ["none", "sdtcp", "weir"]
    assert bench.changing.settings()["undoable"] is None


def test_a_change_is_in_force_at_once(bench: Bench) -> None:
    version = bench.version
    told = bench.change(max_hold="20ms", window_ttl="3000 ms")
    assert told["changes"] == [{"key": HOLD, "from": "100 ms", "to": "20 ms"}]
    assert (told["in_force"], told["kept"]) == (True, True)
    assert told["version"] == bench.version > version
    assert bench.config.regulation.max_hold == 20 * NS
    shown = bench.setting(HOLD)
    assert (shown["value"], shown["configured"]) == ("20 ms", "100 ms")
    assert shown["changed"] == {"by": "ada", "at_s": bench.now_s}
    # This is what the file says already.
    assert bench.setting(TTL)["changed"] is None


def test_a_trial_changes_nothing(bench: Bench) -> None:
    before = bench.changing.settings()
    told = bench.change(only_try=True, max_hold="20ms")
    assert told["changes"] == [{"key": HOLD, "from": "100 ms", "to": "20 ms"}]
    assert (told["in_force"], told["id"]) == (False, None)
    assert (bench.used, bench.audit()) == ([], [])
    assert bench.changing.settings() == before
    with pytest.raises(ValueRefusedError, match=HOLD):
        bench.change(only_try=True, max_hold="20 h")


def test_what_is_so_already_is_no_change(bench: Bench) -> None:
    bench.change(max_hold="20 ms")
    version = bench.version
    told = bench.change("bob", max_hold="20000 us")
    assert (told["changes"], told["id"], told["version"]) == ([], None, version)
    assert len(bench.audit()) == len(bench.used) == 1


def test_a_value_that_is_longer_when_it_is_kept_bars_no_other(bench: Bench) -> None:
    rules = ",".join(f"{{subnet: 10.0.{n}.1,treatment: exempt}}" for n in range(150))
    asked = {"policies": f"[{rules}]"}
    bench.changing.change(bench.version, asked, only_try=False, by="ada")
    assert len(bench.setting("policies")["value"]) > 6000
    bench.change(max_hold="20 ms")
    bench.undo()
    bench.change(max_hold="30 ms")
    bench.start()
    assert bench.setting(HOLD)["value"] == "30 ms"
    assert len(bench.changing.present.policies) == 150
    with pytest.raises(ValueRefusedError, match="write at most 6000"):
        asked = {"policies": f"[{rules},{rules}]"}
        bench.changing.change(bench.version, asked, only_try=False, by="ada")


def test_the_files_value_again(bench: Bench) -> None:
    bench.change(max_hold="20 ms")
    assert bench.change(max_hold=None)["changes"][0]["to"] == "100 ms"
    assert bench.setting(HOLD)["changed"] is None
    bench.change(max_hold="20 ms")
    bench.change(max_hold="100 ms")
    assert bench.setting(HOLD)["changed"] is None
    assert bench.config == bench.changing.base


def test_all_of_a_change_or_nothing(bench: Bench) -> None:
    with pytest.raises(ValueRefusedError) as refused:
        bench.change(max_hold="20 ms", scheme="wier", background_share="2")
    told = str(refused.value).splitlines()
    assert [line.partition(":")[0] for line in told] == [SCHEME, "regulation.background_share"]
    with pytest.raises(ValueRefusedError, match="there is no such setting; did you mean"):
        bench.change(max_hod=None)
    with pytest.raises(ValueRefusedError, match="cannot be changed while the controller runs"):
        bench.changing.change(None, {"fabric.rtt": None}, False, "ada")
    assert bench.config == bench.changing.base
    assert bench.audit() == []


def test_whoever_has_not_seen_the_latest_change_is_told(bench: Bench) -> None:
    version = bench.version
    bench.change(max_hold="20 ms")
    with pytest.raises(ConflictError, match="read them again"):
        bench.changing.change(version, {HOLD: "30 ms"}, False, "bob")
    with pytest.raises(ConflictError):
        bench.changing.change(version, {HOLD: "30 ms"}, True, "bob")
    assert bench.config.regulation.max_hold == 20 * NS
    bench.changing.change(None, {HOLD: "30 ms"}, False, "bob")
    assert bench.config.regulation.max_hold == 30 * NS


class TestUndo:
    def test_it_takes_the_latest_change_back_and_then_itself(self, bench: Bench) -> None:
        bench.change(max_hold="20 ms")
        bench.change(max_hold="30 ms", scheme="none")
        assert sorted(step["key"] for step in bench.undo()["changes"]) == [HOLD, SCHEME]
        assert bench.config.regulation.max_hold == 20 * NS
        assert bench.setting(SCHEME)["changed"] is None
        bench.undo()
        assert bench.config.regulation.max_hold == 30 * NS
        assert bench.setting(SCHEME)["value"] == "none"
        bench.undo()
        assert bench.config.regulation.max_hold == 20 * NS
        assert [entry["what"] for entry in bench.audit()] == ["settings"] * 2 + ["undo"] * 3
        assert bench.audit()[-1]["detail"] == "takes back 4"

    def test_only_the_latest(self, bench: Bench) -> None:
        with pytest.raises(ConflictError, match="no change to take back"):
            bench.changing.undo("1", "bob")
        first = bench.change(max_hold="20 ms")["id"]
        bench.change("ada", max_hold="30 ms")
        with pytest.raises(ConflictError, match="the latest change is 2, by ada"):
            bench.changing.undo(first, "bob")
        assert bench.config.regulation.max_hold == 30 * NS

    def test_it_is_told_whose_change_it_would_be(self, bench: Bench) -> None:
        told = bench.change(max_hold="20 ms")
        assert bench.changing.settings()["undoable"] == {
            "id": told["id"],
            "at_s": bench.now_s,
            "by": "ada",
            "changes": told["changes"],
        }


def test_the_audit_log_says_who_has_changed_what_and_when(bench: Bench) -> None:
    bench.change("token ops", max_hold="20 ms")
    assert bench.audit() == [
        {
            "id": "1",
            "at_s": bench.now_s,
            "by": "token ops",
            "what": "settings",
            "changes": [{"key": HOLD, "from": "100 ms", "to": "20 ms"}],
            "detail": "",
        }
    ]


class TestRestart:
    def test_what_was_changed_stays(self, bench: Bench) -> None:
        bench.change(max_hold="20 ms")
        version, changed = bench.version, bench.setting(HOLD)["changed"]
        bench.start()
        assert bench.config.regulation.max_hold == 20 * NS
        assert bench.setting(HOLD)["changed"] == changed
        assert bench.version > version
        bench.undo()
        assert bench.config.regulation.max_hold == 100 * NS
        bench.start()
        assert bench.config == bench.changing.base
        assert [entry["what"] for entry in bench.audit()] == ["settings", "undo"]

    def test_without_a_directory_it_is_told_that_it_does_not(self) -> None:
        bench = Bench(None)
        assert bench.change(max_hold="20 ms")["kept"] is False
        assert bench.config.regulation.max_hold == 20 * NS
        assert bench.undo()["kept"] is False
        assert len(bench.audit()) == 2

    def test_a_directory_that_cannot_be_written(
        self, bench: Bench, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "settings.new").mkdir()
        assert bench.change(max_hold="20 ms")["kept"] is False
        assert bench.config.regulation.max_hold == 20 * NS
        assert "settings that were changed are not kept" in caplog.text

    @pytest.mark.parametrize("written", ["", "{", "[]", '{"version": "x"}', '{"other": 1}', "\0\0"])
    def test_a_broken_file_is_logged_and_the_configuration_is_in_force(
        self, bench: Bench, tmp_path: Path, written: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        bench.change(max_hold="20 ms")
        (tmp_path / "settings.json").write_text(written)
        bench.start()
        assert bench.config == bench.changing.base
        assert "what was changed at work is not known" in caplog.text
        assert bench.change(max_hold="30 ms")["kept"]

    def test_a_value_that_no_longer_fits_is_left_out(
        self, bench: Bench, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        bench.change(max_hold="20 ms", window_ttl="5 s")
        path = tmp_path / "settings.json"
        kept = json.loads(path.read_text())
        kept["changed"]["regulation.of_old"] = kept["changed"][HOLD]
        kept["changed"][HOLD] = {"value": "5 s", "by": "ada", "at_s": 1.0}
        path.write_text(json.dumps(kept))
        bench.start()
        assert "regulation.max_hold: 5000 ms is not within" in caplog.text
        assert "regulation.of_old: there is no such setting" in caplog.text
        assert bench.config.regulation.max_hold == 100 * NS
        assert bench.config.regulation.window_ttl == 5000 * NS

    def test_an_entry_that_was_not_yet_written_is_there_after_it(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        bench.change(max_hold="20 ms")
        bench.undo()
        told = bench.audit()
        path = tmp_path / "audit.jsonl"
        path.write_text(path.read_text().splitlines(keepends=True)[0])
        bench.start()
        assert bench.audit() == told
        bench.start()
        assert bench.audit() == told

    def test_ids_go_on_when_the_log_is_lost(self, bench: Bench, tmp_path: Path) -> None:
        bench.change(max_hold="20 ms")
        bench.change(max_hold="30 ms")
        (tmp_path / "audit.jsonl").unlink()
        bench.start()
        assert int(bench.undo()["id"]) == 3


class TestTakeOver:
    """What the core could not take over is neither kept nor told as if it was in force."""

    FAILED = f"failed, not in force: {HOLD} from 20 ms to 30 ms; "

    @staticmethod
    def fails() -> None:
        raise KeyError("no such port")

    def test_a_core_that_fails(self, bench: Bench, tmp_path: Path) -> None:
        bench.change(max_hold="20 ms")
        before, kept = bench.changing.settings(), (tmp_path / "settings.json").read_bytes()
        bench.core = self.fails
        with pytest.raises(FailedError, match=r"KeyError: 'no such port'.*the former ones are in"):
            bench.change("eve", max_hold="30 ms")
        assert bench.changing.settings() == before
        assert (tmp_path / "settings.json").read_bytes() == kept
        entry = bench.audit()[-1]
        assert (entry["what"], entry["by"], entry["changes"]) == ("settings", "eve", [])
        assert entry["detail"] == self.FAILED + "KeyError: 'no such port'"
        bench.start()
        assert bench.config.regulation.max_hold == 20 * NS
        assert len(bench.audit()) == 2
        # The change before can be taken back, as ever.
        bench.undo()
        assert bench.config.regulation.max_hold == 100 * NS

    def test_an_undo_that_fails(self, bench: Bench) -> None:
        bench.change(max_hold="20 ms")
        bench.core = self.fails
        with pytest.raises(FailedError):
            bench.undo()
        entry = bench.audit()[-1]
        assert (entry["what"], entry["changes"]) == ("undo", [])
        bench.start()
        assert bench.config.regulation.max_hold == 20 * NS
        assert bench.undo()["changes"] == [{"key": HOLD, "from": "20 ms", "to": "100 ms"}]

    def test_a_core_that_never_answers(
        self, bench: Bench, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        bench.change(max_hold="20 ms")
        crashed = tmp_path / "crashed"
        refused: list[str] = []

        def hangs() -> None:
            for ask in (lambda: bench.change("bob", max_hold="40 ms"), bench.undo):
                with pytest.raises(ConflictError) as conflict:
                    ask()
                refused.append(str(conflict.value))
            shutil.copytree(tmp_path, crashed)

        bench.core = hangs
        bench.change("eve", max_hold="30 ms")
        assert (
            refused
            == ["a change by eve is being put in force; read the settings again, then change them"]
            * 2
        )
        # The watchdog has ended it while it hung.
        bench.directory = crashed
        bench.start()
        assert bench.config.regulation.max_hold == 20 * NS
        assert [entry["detail"] for entry in bench.audit()] == [
            "",
            self.FAILED + "the controller ended before it was kept",
        ]
        assert (bench.audit()[-1]["by"], bench.audit()[-1]["changes"]) == ("eve", [])
        assert "a change of settings by eve is not in force" in caplog.text
        bench.start()
        assert len(bench.audit()) == 2

    def test_one_that_ends_before_the_change_is_kept(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench.change(max_hold="20 ms")

        def is_full() -> None:
            # The disk, from now on.
            monkeypatch.setattr(Path, "replace", refuse)

        def refuse(*_: object) -> None:
            raise OSError(28, "No space left on device")

        bench.core = is_full
        assert bench.change("eve", max_hold="30 ms")["kept"] is False
        monkeypatch.undo()
        bench.start()
        assert bench.config.regulation.max_hold == 20 * NS
        in_force, told = bench.audit()[-2:]
        assert in_force["changes"] == [{"key": HOLD, "from": "20 ms", "to": "30 ms"}]
        assert told["detail"] == self.FAILED + "the controller ended before it was kept"

    def test_a_file_that_the_core_fails_with(self, bench: Bench) -> None:
        bench.changing.not_reloaded(failed=True)
        assert bench.audit()[-1]["detail"].startswith("failed, the controller ends; the log")


class TestReload:
    def test_what_was_changed_stays_over_another_file(self, bench: Bench) -> None:
        bench.change(max_hold="20 ms")
        version = bench.version
        bench.reload("regulation: {max_hold: 50 ms, scheme: none}\nfabric: {rtt: 1 ms}")
        assert bench.version > version
        assert bench.config.regulation.max_hold == 20 * NS
        told = bench.setting(HOLD)
        assert (told["value"], told["configured"]) == ("20 ms", "50 ms")
        rtt = bench.setting("fabric.rtt")
        assert (rtt["value"], rtt["configured"], rtt["changed"]) == ("500 us", "1 ms", None)
        entry = bench.audit()[-1]
        assert entry["changes"] == [{"key": SCHEME, "from": "weir", "to": "none"}]
        assert (entry["what"], entry["by"]) == ("reload", "signal SIGHUP")
        assert entry["detail"] == "takes a restart: fabric.rtt"
        bench.undo()
        assert bench.config.regulation.max_hold == 50 * NS
        # A change does not put in force what takes a restart.
        assert bench.config.fabric.rtt == 500_000

    def test_what_the_file_says_now_is_no_longer_a_change(self, bench: Bench) -> None:
        bench.change(max_hold="20 ms")
        bench.reload("regulation: {max_hold: 20 ms}")
        assert bench.setting(HOLD)["changed"] is None
        assert bench.changing.settings()["undoable"] is None
        bench.reload(FILE)
        assert bench.config.regulation.max_hold == 100 * NS

    def test_what_does_not_fit_any_more_is_told_once(
        self, bench: Bench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench.change(max_hold="20 ms", window_ttl="700 ms")
        overlay = settings.overlay

        def refuse(base: Config, changes: dict[str, str], kept: dict[str, str]) -> Config:
            if TTL in kept:
                raise ConfigError(f"{TTL}: is out of range")
            return overlay(base, changes, kept)

        monkeypatch.setattr(settings, "overlay", refuse)
        bench.reload("regulation: {window_ttl: 2 s}")
        told = [one for one in caplog.messages if "cannot be used any more" in one]
        assert len(told) == 1
        assert told[0].endswith(f"{TTL}: is out of range")
        regulation = bench.config.regulation
        assert (regulation.window_ttl, regulation.max_hold) == (2000 * NS, 20 * NS)

    def test_what_is_changed_meanwhile_stays(self, bench: Bench) -> None:
        bench.change(max_hold="20 ms", scheme="none")

        def meanwhile() -> None:
            bench.change(max_hold="30 ms", scheme=None)

        file = "regulation: {max_hold: 50 ms, window_ttl: 5 s}"
        bench.reload(f"{file}\nnorthbound: {{metrics: '127.0.0.1:9'}}", meanwhile)
        told = bench.setting(HOLD)
        assert (told["value"], told["configured"]) == ("30 ms", "50 ms")
        assert bench.config.regulation.max_hold == 30 * NS
        assert bench.setting(SCHEME)["value"] == bench.config.regulation.scheme.value == "weir"
        assert bench.audit()[-1]["changes"] == [{"key": TTL, "from": "3 s", "to": "5 s"}]
        assert bench.config.northbound.metrics == ("127.0.0.1", 9)
        bench.start(file)
        assert bench.setting(HOLD)["value"] == "30 ms"

    def test_a_file_that_is_refused_is_an_entry_without_what_it_says(self, bench: Bench) -> None:
        bench.changing.not_reloaded()
        assert bench.audit()[-1]["detail"].startswith("refused, nothing has changed")

    def test_keys_that_are_no_settings_are_named_without_their_values(self, bench: Bench) -> None:
        bench.reload(FILE + "\nnorthbound: {socket: /run/weir/secret.sock}")
        entry = bench.audit()[-1]
        assert (entry["changes"], entry["detail"]) == ([], "also changed: northbound.socket")


def test_it_is_logged(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    bench.change(max_hold="20 ms")
    assert f"settings were changed by ada: {HOLD} from 100 ms to 20 ms" in caplog.text
