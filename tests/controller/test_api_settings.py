"""Settings over the HTTP API: who may change them, what is answered, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from controller.api.upstream import NoAnswerError
from controller.config.schema import Config
from test_api import ServedApi

HOLD = "regulation.max_hold"
STEP = {"key": HOLD, "from": "160 ms", "to": "20 ms"}


@pytest.fixture
def world(tmp_path: Path) -> ServedApi:
    return ServedApi(tmp_path)


def version(world: ServedApi) -> int:
    told: int = world.ask("/v1/settings").json()["version"]
    return told


def setting(world: ServedApi, key: str = HOLD) -> dict[str, Any]:
    told = world.ask("/v1/settings").json()["settings"]
    found: dict[str, Any] = next(one for one in told if one["key"] == key)
    return found


def body(world: ServedApi, value: str | None = "20ms", **more: object) -> dict[str, object]:
    return {"version": version(world), "changes": {HOLD: value}, **more}


def test_a_change_its_undo_and_the_audit_log(world: ServedApi) -> None:
    asked = body(world)
    told = world.ask("/v1/settings", "PATCH", "operator", json=asked).json()
    assert told["version"] > version_of(asked)
    assert (told["changes"], told["in_force"], told["kept"]) == ([STEP], True, False)
    assert (setting(world)["value"], setting(world)["changed"]["by"]) == ("20 ms", "token operator")
    undoable = world.ask("/v1/settings").json()["undoable"]
    assert (undoable["id"], undoable["changes"]) == (told["id"], [STEP])
    undo = {"id": told["id"]}
    told = world.ask("/v1/settings/undo", "POST", "operator", json=undo).json()
    assert told["changes"] == [{"key": HOLD, "from": "20 ms", "to": "160 ms"}]
    assert (setting(world)["value"], setting(world)["changed"]) == ("160 ms", None)
    log = world.ask("/v1/audit").json()
    assert [(one["what"], one["by"]) for one in log["entries"]] == [
        ("undo", "token operator"),
        ("settings", "token operator"),
    ]
    page = world.ask("/v1/audit?limit=1").json()
    assert page["next_before"] == log["entries"][0]["id"]
    rest = world.ask(f"/v1/audit?before={page['next_before']}").json()
    assert (rest["entries"], rest["next_before"]) == (log["entries"][1:], None)


def version_of(asked: dict[str, object]) -> int:
    number = asked["version"]
    assert isinstance(number, int)
    return number


def test_null_is_the_files_value(world: ServedApi) -> None:
    world.ask("/v1/settings", "PATCH", "operator", json=body(world))
    told = world.ask("/v1/settings", "PATCH", "operator", json=body(world, None)).json()
    assert told["changes"] == [{"key": HOLD, "from": "20 ms", "to": "160 ms"}]


def test_a_trial_changes_nothing(world: ServedApi) -> None:
    told = world.ask("/v1/settings", "PATCH", "operator", json=body(world, only_try=True)).json()
    assert (told["changes"], told["in_force"], told["id"]) == ([STEP], False, None)
    assert setting(world)["changed"] is None


def test_only_what_changes_something_has_others_ask_again(world: ServedApi) -> None:
    cleared: list[float] = []
    clear = world.api.sharing.clear

    def note() -> None:
        cleared.append(world.clock_s)
        clear()

    world.api.sharing.clear = note  # type: ignore[method-assign]
    world.ask("/v1/settings", "PATCH", "operator", json=body(world, only_try=True))
    world.ask("/v1/settings", "PATCH", "operator", json=body(world, "160 ms"))
    world.problem(422, "/v1/settings", "PATCH", name="operator", json=body(world, "20 h"))
    assert cleared == []
    stale = body(world, "30ms")
    world.ask("/v1/settings", "PATCH", "operator", json=body(world))
    assert len(cleared) == 1
    world.problem(409, "/v1/settings", "PATCH", name="operator", json=stale)
    assert len(cleared) == 2
    world.controller.there = False
    # Nobody knows whether it was done.
    world.problem(503, "/v1/settings", "PATCH", name="operator", json=stale)
    assert len(cleared) == 3


def test_whoever_gets_no_answer_is_told_that_nobody_knows(
    world: ServedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: object) -> bytes:
        raise NoAnswerError("the controller does not answer in time")

    asked = body(world)
    undo = {"id": "1"}
    with monkeypatch.context() as patched:
        patched.setattr(world.controller, "ask", hang)
        for path, method, said in (
            ("/v1/settings", "PATCH", asked),
            ("/v1/settings/undo", "POST", undo),
            ("/v1/bypasses", "PUT", {}),
        ):
            response = world.ask(path, method, "operator", json=said)
            assert response.status_code == 504
            assert "Retry-After" not in response.headers
            assert response.json()["detail"] == (
                "the controller does not answer in time; whether this is in force is not known: "
                "read what is so now (GET), then decide"
            )
        # Who only reads may try again.
        assert "not now" in world.problem(503, "/v1/audit")
    world.controller.there = False
    assert "not now" in world.problem(503, "/v1/settings", "PATCH", name="operator", json=asked)


def test_a_core_that_fails_is_told_and_its_change_is_not_in_force(world: ServedApi) -> None:
    def fail(_: object) -> Config:
        raise KeyError("no such port")

    world.controller.told.changing._use = fail
    told = world.problem(500, "/v1/settings", "PATCH", name="operator", json=body(world))
    assert "KeyError: 'no such port'" in told
    assert "the former ones are in force" in told
    assert (setting(world)["value"], setting(world)["changed"]) == ("160 ms", None)
    (entry,) = world.ask("/v1/audit").json()["entries"]
    assert (entry["by"], entry["changes"]) == ("token operator", [])
    assert entry["detail"].startswith(f"failed, not in force: {HOLD} from 160 ms to 20 ms; KeyErr")


@pytest.mark.parametrize("name", ["reader", "sender", ""])
def test_only_operators_change_settings(world: ServedApi, name: str) -> None:
    changed = world.ask("/v1/settings", "PATCH", "operator", json=body(world)).json()
    status, why = (403, "scope regulate") if name else (401, "takes a token")
    for asked in (body(world, "30ms"), body(world, "30ms", only_try=True)):
        assert why in world.problem(status, "/v1/settings", "PATCH", name=name, json=asked)
    undo = {"id": changed["id"]}
    assert why in world.problem(status, "/v1/settings/undo", "POST", name=name, json=undo)
    assert setting(world)["value"] == "20 ms"
    assert len(world.ask("/v1/audit").json()["entries"]) == 1


def test_somebody_else_was_faster(world: ServedApi) -> None:
    stale = body(world, "30ms")
    first = world.ask("/v1/settings", "PATCH", "operator", json=body(world)).json()
    told = world.problem(409, "/v1/settings", "PATCH", name="operator", json=stale)
    assert "read them again" in told
    world.ask("/v1/settings", "PATCH", "operator", json=body(world, "40ms"))
    undo = {"id": first["id"]}
    told = world.problem(409, "/v1/settings/undo", "POST", name="operator", json=undo)
    assert "the latest change is 2, by token operator" in told
    assert setting(world)["value"] == "40 ms"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({HOLD: "20 h"}, f"{HOLD}: 7.2e+07 ms is not within 1 ms to 1 s; choose"),
        ({"fabric.rtt": "1 ms"}, "fabric.rtt: cannot be changed while the controller runs"),
        ({"tls.key": "/etc/passwd"}, "tls.key: cannot be changed here"),
        ({"policies": "[{port: x, treatment: exempt}]"}, "policies.0.port: 'x' is not a number"),
        ({"regulation.max_hod": None}, "did you mean regulation.max_hold?"),
        ({}, "changes: "),
        ({HOLD: 20}, "changes.regulation.max_hold: "),
        ({f"k{number}": "1" for number in range(101)}, "changes: "),
    ],
)
def test_what_cannot_be_is_told_with_its_key(
    world: ServedApi, changes: dict[str, object], told: str
) -> None:
    asked = {"version": version(world), "changes": changes}
    detail = world.problem(422, "/v1/settings", "PATCH", name="operator", json=asked)
    assert told in detail
    assert world.ask("/v1/audit").json()["entries"] == []


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"changes": {HOLD: "20ms"}}, "version: "),
        ({"version": "x", "changes": {HOLD: "20ms"}}, "version: 'x' is not a number"),
        ({"version": 1, "changes": {HOLD: "20ms"}, "by": "root"}, "by: unknown parameter"),
    ],
)
def test_a_body_that_cannot_be_is_told(
    world: ServedApi, asked: dict[str, object], told: str
) -> None:
    assert told in world.problem(422, "/v1/settings", "PATCH", name="operator", json=asked)


def test_an_entry_that_cannot_be_is_told(world: ServedApi) -> None:
    told = "no id of an entry; take it from the audit log"
    for entry in ("0", "x", 1, "1" * 30):
        undo = {"id": entry}
        assert told in world.problem(422, "/v1/settings/undo", "POST", name="operator", json=undo)
    assert told in world.problem(422, "/v1/audit?before=-1")
