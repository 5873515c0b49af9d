"""`weir-controller settings`, `set`, `undo`, `audit`: what they say, and what they are refused."""

import json

import pytest

from commanding import stand_in
from controller.cli import commands
from controller.cli.client import Client, NoAnswerError
from fake_source import Told

Out = pytest.CaptureFixture[str]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    monkeypatch.setenv("COLUMNS", "160")
    return stand_in(monkeypatch)


def said(capsys: Out, *arguments: str) -> str:
    assert commands.run([*arguments]) == 0
    return capsys.readouterr().out


def refused(capsys: Out, *arguments: str) -> str:
    assert commands.run([*arguments]) == 1
    return capsys.readouterr().err


@pytest.mark.usefixtures("told")
class TestCommands:
    def test_a_change_and_its_undo(self, capsys: Out) -> None:
        changed = said(capsys, "set", "regulation.max_hold=20ms", "log.level=debug")
        assert changed == (
            "regulation.max_hold is now 20 ms, and was 160 ms\n"
            "log.level is now debug, and was info\n"
        )
        assert "it is so already" in said(capsys, "set", "regulation.max_hold=20ms")
        undone = said(capsys, "undo")
        assert "regulation.max_hold is now 160 ms, and was 20 ms\n" in undone
        assert "is now 20 ms" in said(capsys, "undo", "2")
        assert said(capsys, "set", "regulation.max_hold=", "log.level=").count("\n") == 2
        rows = said(capsys, "audit").splitlines()
        assert [row.split()[0] for row in rows] == ["4", "3", "2", "1"]
        assert rows[1].endswith("from info to debug; takes back 2")
        assert "user ada: settings regulation.max_hold from 160 ms to 20 ms; log.level" in rows[3]

    def test_it_is_told_when_it_does_not_hold(self, capsys: Out) -> None:
        assert commands.run(["set", "regulation.max_hold=20ms"]) == 0
        assert "does not hold over a restart" in capsys.readouterr().err

    def test_it_is_told_when_nobody_knows(
        self, capsys: Out, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        entry = json.loads(said(capsys, "set", "--json", "regulation.max_hold=20ms"))["id"]

        def ask(*_: object) -> dict[str, object]:
            raise NoAnswerError("the controller has ended")

        monkeypatch.setattr(Client, "ask", ask)
        unknown = "the controller has ended; whether it has done this is not known"
        for command in (["set", "regulation.max_hold="], ["undo", entry], ["off"], ["on"]):
            assert unknown in refused(capsys, *command)
        assert "not known" not in refused(capsys, "settings")

    def test_a_trial(self, capsys: Out) -> None:
        tried = said(capsys, "set", "--try", "regulation.scheme=none")
        assert tried == "regulation.scheme would be none, and was weir\n"
        assert "CHANGED" in said(capsys, "settings")
        assert said(capsys, "audit") == ""

    def test_settings_by_section_and_key(self, capsys: Out) -> None:
        everything = said(capsys, "settings")
        assert "fabric.rtt" in everything
        section = said(capsys, "settings", "regulation", "log.level")
        assert "regulation.max_hold" in section
        assert "log.level" in section
        assert "fabric.rtt" not in section
        one = said(capsys, "settings", "regulation.max_hold")
        assert "160 ms" in one
        assert "how long a switch may hold a request" in one
        assert "restart" in said(capsys, "settings", "fabric.rtt")
        said(capsys, "set", "regulation.max_hold=20ms")
        changed = said(capsys, "settings", "--changed").splitlines()
        assert len(changed) == 3
        assert "160 ms" in changed[1]
        assert "by user ada" in changed[1]

    def test_json_for_programs(self, capsys: Out) -> None:
        assert json.loads(said(capsys, "set", "--json", "log.level=debug"))["in_force"]
        told = json.loads(said(capsys, "settings", "--json", "log.level"))
        assert [row["value"] for row in told["settings"]] == ["debug"]
        assert json.loads(said(capsys, "undo", "--json"))["id"] == "2"
        assert len(json.loads(said(capsys, "audit", "--json"))["entries"]) == 2

    def test_older_entries_are_a_page_away(self, capsys: Out) -> None:
        for level in ("debug", "info", "error"):
            said(capsys, "set", f"log.level={level}")
        shown = said(capsys, "audit", "--limit", "2").splitlines()
        assert [row.split()[0] for row in shown[:2]] == ["3", "2"]
        assert shown[2] == "--before 2 shows older ones"
        assert len(said(capsys, "audit", "--before", "2").splitlines()) == 1

    @pytest.mark.parametrize(
        ("arguments", "why"),
        [
            (("set", "regulation.max_hold=2s"), "regulation.max_hold: 2000 ms is not within"),
            (("set", "regulation.max_hod=2s"), "did you mean regulation.max_hold?"),
            (("set", "log.level=debug", "log.level=info"), "a setting stands twice"),
            (("undo",), "there is no change to take back"),
            (("undo", "x"), "is no id of an entry"),
            (("settings", "fabrik"), "there is no setting fabrik; weir-controller settings lists"),
        ],
    )
    def test_what_cannot_be(self, capsys: Out, arguments: tuple[str, ...], why: str) -> None:
        assert why in refused(capsys, *arguments)

    @pytest.mark.parametrize("written", ["regulation.max_hold", "=3"])
    def test_a_change_is_key_and_value(self, capsys: Out, written: str) -> None:
        with pytest.raises(SystemExit):
            commands.run(["set", written])
        assert "is not KEY=VALUE; write e.g." in capsys.readouterr().err
