"""What a security scanner tries, on each operation that the API describes: no way in without the
right token, no forged request, nothing that is run as a page, no error in Weir."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from controller.api.access.access import PAGE_HEADER
from controller.api.page import HEADERS
from test_api import ServedApi

SESSION = "/v1/session"
# What a health check, a generator of clients and a browser that has not signed in ask for.
PUBLIC = {("GET", "/v1/health"), ("GET", "/v1/openapi.json"), ("GET", SESSION), ("POST", SESSION)}
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "' OR '1'='1",
    "../../../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "x\r\nSet-Cookie: weir=forged\r\n\r\n<html>",
    "\x00",
    "${7*7}{{7*7}}",
    "\u202e\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
    "9" * 400,
    "-1",
    "NaN",
    "x" * 8000,
)


class Operation(NamedTuple):
    method: str
    path: str
    parameters: tuple[tuple[str, str], ...]

    def at(self, **values: str) -> str:
        """Its path, each parameter with this value or a harmless one."""
        found = self.path
        for place, name in self.parameters:
            if place == "path":
                found = found.replace(f"{{{name}}}", values.get(name, "x"))
        return found


@pytest.fixture
def world(tmp_path: Path) -> ServedApi:
    return ServedApi(tmp_path, rate=10**6)


def operations(world: ServedApi) -> Iterator[Operation]:
    described = world.ask("/v1/openapi.json", name="").json()["paths"]
    for path, methods in described.items():
        for method, told in methods.items():
            parameters = tuple((one["in"], one["name"]) for one in told.get("parameters", ()))
            yield Operation(method.upper(), path, parameters)


def closed(world: ServedApi) -> list[Operation]:
    """Those that are not for everybody."""
    return [one for one in operations(world) if (one.method, one.path) not in PUBLIC]


def changing(world: ServedApi) -> list[Operation]:
    return [one for one in closed(world) if one.method != "GET"]


def cookie(world: ServedApi, name: str) -> dict[str, str]:
    told = world.ask(SESSION, "POST", name="", json={"token": world.secrets[name]})
    return {"Cookie": told.headers["set-cookie"].partition(";")[0]}


def harmless(response: Any) -> None:
    """Nothing of an answer can be taken for a page, and its headers are the API's own."""
    assert response.status_code < 500, response.text
    assert HEADERS.items() <= {known: response.headers.get(known) for known in HEADERS}.items()
    kind = response.headers.get("content-type", "application/json").partition(";")[0]
    kinds = ("application/json", "application/problem+json", "application/x-ndjson", "text/plain")
    assert kind in kinds
    assert "forged" not in response.headers.get("set-cookie", "")
    if kind.endswith("json") and response.content:
        for text in response.text.splitlines() if "ndjson" in kind else [response.content]:
            json.loads(text)


def test_there_is_something_to_probe(world: ServedApi) -> None:
    """Else all of this would pass, too."""
    assert len(closed(world)) > 20
    assert len(changing(world)) >= 5
    assert sum(len(one.parameters) for one in closed(world)) > 20


def test_nothing_is_told_to_who_shows_no_token(world: ServedApi) -> None:
    forged: tuple[dict[str, str], ...] = (
        {},
        {"Authorization": "Bearer weir_guess"},
        {"Authorization": "Basic YTpi"},
    )
    for one, headers in itertools.product(closed(world), forged):
        if one.path == SESSION:
            continue
        response = world.ask(one.at(), one.method, name="", headers=headers)
        harmless(response)
        assert response.status_code in (401, 429), one
        world.clock_s += 1  # Who guesses is slowed down.
    response = world.ask("/v1/ports", name="", headers={"Authorization": "Bearer " + "x" * 10_000})
    assert response.status_code in (401, 429)


@pytest.mark.parametrize("name", ["reader", "sender"])
def test_who_may_not_change_anything_cannot(world: ServedApi, name: str) -> None:
    before = json.dumps([vars(world.controller.told)], default=repr)
    tried = 0
    for one in changing(world):
        if one.path == SESSION or (name == "sender" and "fountain" in one.path):
            continue
        for headers in ({}, cookie(world, name) | {PAGE_HEADER: "1"}):
            by = "" if headers else name
            response = world.ask(one.at(), one.method, name=by, headers=headers, json={})
            harmless(response)
            assert response.status_code == 403, (one, response.text)
            tried += 1
    assert tried >= 8
    assert json.dumps([vars(world.controller.told)], default=repr) == before


def test_a_page_of_another_site_changes_nothing(world: ServedApi) -> None:
    """What a form, an image or a script of another site can have a browser send: the cookie, its
    own origin, simple kinds of content; never a header of the API's."""
    forgeries: tuple[dict[str, str], ...] = (
        {},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://evil.example", "Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        # A site that the API does not allow could send this only after asking.
        {"Origin": "https://evil.example", PAGE_HEADER: "1"},
        {"Origin": "http://api.evil.example", PAGE_HEADER: "1"},
        {PAGE_HEADER: "0"},
    )
    session = cookie(world, "operator")
    for one, forged in itertools.product(changing(world), forgeries):
        headers = {"Content-Type": "application/json"} | session | forged
        response = world.ask(one.at(), one.method, name="", headers=headers, content=b"{}")
        harmless(response)
        assert response.status_code == 403, (one, forged, response.text)
        assert "access-control-allow-origin" not in response.headers
    assert world.ask(SESSION, name="", headers=session).json()["name"] == "operator"


def test_a_page_of_another_site_reads_nothing(world: ServedApi) -> None:
    """Its script may send the cookie, but the browser lets it read no answer without a header."""
    headers = cookie(world, "operator") | {"Origin": "https://evil.example"}
    for one in closed(world):
        if one.method == "GET" and not one.path.endswith("stream"):
            response = world.ask(one.at(), name="", headers=headers)
            harmless(response)
            assert not [name for name in response.headers if name.startswith("access-control")]
            assert response.headers["cross-origin-resource-policy"] == "same-origin"


def test_hostile_values_are_values(world: ServedApi) -> None:
    tried = 0
    for one in operations(world):
        if one.path.endswith("stream"):
            continue
        for (place, name), value in itertools.product(one.parameters, HOSTILE):
            world.clock_s += 1
            if place == "path":
                safe = value.replace("\r", "%0d").replace("\n", "%0a").replace("\x00", "%00")
                response = world.ask(one.at(**{name: safe}), one.method, "operator", json={})
            elif place == "query":
                response = world.ask(
                    one.at(), one.method, "operator", params={name: value}, json={}
                )
            else:
                continue
            harmless(response)
            tried += 1
    assert tried > 20 * len(HOSTILE)


def test_hostile_bodies_are_refused(world: ServedApi) -> None:
    bodies = (
        b"",
        b"{",
        b"[]",
        b"null",
        b"<?xml version='1.0'?><!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><x>&e;</x>",
        b'{"__proto__": {"admin": true}}',
        b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"a": 1e999}',
        b"\xff\xfe",
    )
    for one, body in itertools.product(changing(world), bodies):
        if one.path == SESSION or one.method == "DELETE":
            continue
        for kind in ("application/json", "text/plain", "application/xml"):
            name = "sender" if "fountain" in one.path else "operator"
            headers = {"Content-Type": kind}
            response = world.ask(one.at(), one.method, name, headers=headers, content=body)
            harmless(response)
            assert "root:" not in response.text


@pytest.mark.parametrize("method", ["TRACE", "TRACK", "CONNECT", "PROPFIND", "DEBUG"])
def test_other_methods_are_not_there(world: ServedApi, method: str) -> None:
    for one in operations(world):
        response = world.ask(one.at(), method, "operator")
        harmless(response)
        assert response.status_code == 405


def test_the_host_that_is_named_is_not_told_again(world: ServedApi) -> None:
    for path in ("/v1/ports", "/v1/ports/", "/v1/nothing", "/", "/x.js"):
        response = world.ask(path, name="reader", headers={"Host": "evil.example"})
        harmless(response)
        assert "evil.example" not in response.text
        location = response.headers.get("location", "")
        # A redirect to the path without its slash names whoever the browser has asked.
        assert not location or location.startswith("http://evil.example/v1/ports")
