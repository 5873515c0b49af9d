"""Sessions of browsers: a cookie in place of a token, safe from pages of other sites."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from controller.api.access.sessions import COOKIE, LIFETIME_S, Sessions
from test_api import ServedApi

FROM_PAGE = {"X-Weir-Page": "1"}
OFF = {"switch": 1, "port": "eth2"}


@pytest.fixture
def world(tmp_path: Path) -> ServedApi:
    return ServedApi(tmp_path)


def sign_in(world: ServedApi, name: str = "reader", **headers: str) -> httpx.Response:
    told = {"token": world.secrets[name]}
    return world.ask("/v1/session", "POST", name="", json=told, headers=headers)


def cookie(response: httpx.Response) -> dict[str, str]:
    """The header that a browser sends from then on."""
    return {"Cookie": response.headers["set-cookie"].partition(";")[0]}


def signed_in(world: ServedApi, name: str = "reader") -> dict[str, str]:
    return cookie(sign_in(world, name))


def test_who_signs_in_may_what_the_token_may(world: ServedApi) -> None:
    response = sign_in(world, "operator")
    about = {
        "name": "operator",
        "scopes": ["read", "regulate"],
        "expires": "2026-11-02T00:00:00Z",
    }
    assert (response.status_code, response.json()) == (200, about)
    headers = cookie(response)
    assert world.ask("/v1/session", name="", headers=headers).json() == about
    assert world.ask("/v1/ports", name="", headers=headers).status_code == 200
    assert world.ask("/metrics", name="", headers=headers).status_code == 200
    headers |= FROM_PAGE
    response = world.ask("/v1/bypasses", "PUT", name="", headers=headers, json=OFF)
    assert response.json()["off"]["by"] == "token operator"
    reader = signed_in(world) | FROM_PAGE
    detail = world.problem(403, "/v1/bypasses", "PUT", name="", headers=reader, json=OFF)
    assert "scope regulate" in detail


def test_a_token_is_asked_about_as_a_session_is(world: ServedApi) -> None:
    assert world.ask("/v1/session").json()["name"] == "reader"
    assert world.ask("/v1/session", name="sender").json()["scopes"] == ["announce"]
    assert "not known" in world.problem(
        401, "/v1/session", name="", headers={"Authorization": "Bearer weir_nonsense"}
    )


NOBODY: dict[str, object] = {"name": None, "scopes": [], "expires": None}


def test_that_nobody_is_signed_in_is_no_error(world: ServedApi) -> None:
    """The console of a browser shows each answer with an error."""
    forged = {"Cookie": f"{COOKIE}=nonsense"}
    for headers in ({}, forged):
        response = world.ask("/v1/session", name="", headers=headers)
        assert (response.status_code, response.json()) == (200, NOBODY)
    assert not world.counted("weir_api_tokens_refused_total")
    # Who guesses is slowed down here, too.
    statuses = [world.ask("/v1/session", name="", headers=forged).status_code for _ in range(60)]
    assert statuses.count(200) == 38
    assert statuses[-1] == 429


def test_the_cookie_is_for_this_origin_alone_and_for_no_script(
    world: ServedApi, tmp_path: Path
) -> None:
    first, second = (sign_in(world).headers["set-cookie"] for _ in range(2))
    value, *attributes = first.split("; ")
    assert value.startswith(f"{COOKIE}=")
    assert len(value) >= len(COOKIE) + 1 + 43  # 256 bits in base64
    assert value not in second
    assert {one.lower() for one in attributes} == {
        "httponly",
        "samesite=strict",
        "path=/",
        "max-age=43200",
    }
    with_tls = ServedApi(tmp_path, key=tmp_path / "key.pem", certificate=tmp_path / "cert.pem")
    assert "secure" in sign_in(with_tls).headers["set-cookie"].lower()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (401, {"token": "weir_nonsense"}),
        (422, {"token": ""}),
        (422, {"token": "x" * 257}),
        (422, {"token": None}),
        (422, {}),
        (422, {"token": "weir_nonsense", "name": "me"}),
        (422, []),
    ],
)
def test_nobody_signs_in_without_a_good_token(world: ServedApi, status: int, body: Any) -> None:
    assert world.problem(status, "/v1/session", "POST", name="", json=body)
    assert not len(world.api.access.sessions)


def test_a_token_that_is_no_text_is_refused(world: ServedApi) -> None:
    headers = {"Content-Type": "application/json"}
    for text in (rb'{"token": "\ud800"}', b'{"token": "\xff"}', b'{"token": "\\u0000"}', b"["):
        response = world.ask("/v1/session", "POST", name="", content=text, headers=headers)
        assert response.status_code in (400, 401, 422)
    assert not len(world.api.access.sessions)


def test_a_form_of_another_site_is_no_sign_in(world: ServedApi) -> None:
    text = '{"token": "' + world.secrets["reader"] + '"}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        headers = {"Content-Type": kind}
        world.problem(422, "/v1/session", "POST", name="", content=text, headers=headers)
    assert not len(world.api.access.sessions)


def test_who_guesses_tokens_is_slowed_down(world: ServedApi) -> None:
    told = {"token": "weir_nonsense"}
    statuses = [world.ask("/v1/session", "POST", name="", json=told).status_code for _ in range(60)]
    assert statuses.count(401) == 40
    assert statuses[-1] == 429
    assert sign_in(world).status_code == 200
    cookies = {"Cookie": f"{COOKIE}=nonsense"}
    assert world.ask("/v1/ports", name="", headers=cookies).status_code == 429


def statuses(world: ServedApi, headers: dict[str, str], n: int) -> list[int]:
    return [world.ask("/v1/ports", name="", headers=headers).status_code for _ in range(n)]


def test_each_session_has_a_part_of_the_requests_of_its_token(tmp_path: Path) -> None:
    world = ServedApi(tmp_path, rate=16.0)
    first, second = signed_in(world), signed_in(world)
    # 4 a second, and 8 at once.
    assert statuses(world, first, 10) == [200] * 8 + [429] * 2
    assert statuses(world, second, 10) == [200] * 8 + [429] * 2
    world.clock_s += 1
    assert statuses(world, first, 5) == [200] * 4 + [429]
    # And the token itself all of its own, but for the two that have signed in.
    token = [world.ask("/v1/ports").status_code for _ in range(33)]
    assert token == [200] * 32 + [429]


def test_all_sessions_of_a_token_have_a_limit_together(tmp_path: Path) -> None:
    world = ServedApi(tmp_path, rate=4.0)
    sessions = []
    for _ in range(60):
        sessions.append(signed_in(world))
        world.clock_s += 1
    # 50 a second, and 100 at once, 2 of each.
    answered = [status for one in sessions for status in statuses(world, one, 2)]
    assert answered == [200] * 100 + [429] * 20


def test_signing_out_ends_the_session_and_clears_the_cookie(world: ServedApi) -> None:
    headers = signed_in(world)
    response = world.ask("/v1/session", "DELETE", name="", headers=headers | FROM_PAGE)
    assert (response.status_code, response.content) == (204, b"")
    assert f'{COOKIE}=""' in response.headers["set-cookie"]
    assert "Max-Age=0" in response.headers["set-cookie"]
    assert "session is over" in world.problem(401, "/v1/ports", name="", headers=headers)
    assert world.ask("/v1/session", "DELETE").status_code == 204
    assert "takes a token" in world.problem(401, "/v1/session", "DELETE", name="")
    # Once more does no harm.
    response = world.ask("/v1/session", "DELETE", name="", headers=headers | FROM_PAGE)
    assert response.status_code == 204


def test_signing_in_again_ends_the_former_session(world: ServedApi) -> None:
    former = signed_in(world)
    assert sign_in(world, "operator", **former).status_code == 200
    assert world.ask("/v1/session", name="", headers=former).json() == NOBODY
    assert len(world.api.access.sessions) == 1


def test_a_token_goes_before_a_session(world: ServedApi) -> None:
    headers = signed_in(world)
    assert world.ask("/v1/session", name="operator", headers=headers).json()["name"] == "operator"
    wrong = headers | {"Authorization": "Bearer weir_nonsense"}
    assert "not known" in world.problem(401, "/v1/ports", name="", headers=wrong)
    # Programs that send tokens need no header of the page.
    response = world.ask("/v1/bypasses", "PUT", "operator", headers=headers, json=OFF)
    assert response.status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Weir-Page": "0"},
        {"X-Weir-Page": ""},
        {**FROM_PAGE, "Origin": "http://evil.example"},
        {**FROM_PAGE, "Origin": "http://api.evil.example"},
        {**FROM_PAGE, "Origin": "http://api:81"},
        {**FROM_PAGE, "Origin": "null"},
        {**FROM_PAGE, "Origin": ""},
        {**FROM_PAGE, "Origin": "api"},
        {"Origin": "http://api"},
    ],
)
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_a_page_of_another_site_changes_nothing(
    world: ServedApi, method: str, headers: dict[str, str]
) -> None:
    headers = headers | signed_in(world, "operator")
    more: dict[str, Any] = {"json": OFF} if method == "PUT" else {}
    detail = world.problem(403, "/v1/bypasses", method, name="", headers=headers, **more)
    assert "session" in detail
    assert not world.controller.told.turned_off
    assert world.counted("weir_api_tokens_refused_total")["forged"] == 1
    if method == "DELETE":
        assert world.problem(403, "/v1/session", method, name="", headers=headers)
        assert len(world.api.access.sessions) == 1
    # It may be followed there, which shows that page nothing.
    assert world.ask("/v1/ports", name="", headers=headers).status_code == 200


def test_the_page_itself_changes_what_its_session_may(world: ServedApi) -> None:
    headers = FROM_PAGE | {"Origin": "http://API"} | signed_in(world, "operator")
    response = world.ask("/v1/bypasses", "PUT", name="", headers=headers, json=OFF)
    assert response.status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://api:81"])
def test_a_page_of_another_site_signs_nobody_in(world: ServedApi, origin: str) -> None:
    assert "other origins" in sign_in(world, Origin=origin).json()["detail"]
    assert not len(world.api.access.sessions)
    assert sign_in(world, Origin="http://api").status_code == 200


def test_other_origins_that_are_allowed_use_tokens_not_sessions(tmp_path: Path) -> None:
    origin = "https://dash.example.org"
    world = ServedApi(tmp_path, origins=(origin,))
    headers = FROM_PAGE | {"Origin": origin} | signed_in(world, "operator")
    assert world.problem(403, "/v1/bypasses", "PUT", name="", headers=headers, json=OFF)
    asks = {
        "Origin": origin,
        "Access-Control-Request-Method": "PUT",
        "Access-Control-Request-Headers": "X-Weir-Page",
    }
    assert world.ask("/v1/bypasses", "OPTIONS", name="", headers=asks).status_code == 400
    response = world.ask("/v1/ports", headers={"Origin": origin})
    assert response.headers["access-control-allow-origin"] == origin
    assert "access-control-allow-credentials" not in response.headers


def test_a_session_ends_with_its_token(world: ServedApi) -> None:
    headers, other = signed_in(world), signed_in(world, "operator")
    lines = world.tokens.read_text().splitlines(keepends=True)
    world.tokens.write_text("".join(line for line in lines if "name: reader" not in line))
    assert world.api.tokens.follow()
    assert "not known" in world.problem(401, "/v1/ports", name="", headers=headers)
    assert world.ask("/v1/ports", name="", headers=other).status_code == 200
    world.now += timedelta(days=1)
    assert "has expired" in world.problem(401, "/v1/ports", name="", headers=other)


def test_a_session_lasts_twelve_hours(world: ServedApi) -> None:
    headers = signed_in(world)
    world.clock_s += LIFETIME_S - 1
    assert world.ask("/v1/ports", name="", headers=headers).status_code == 200
    world.clock_s += 1
    assert "session is over" in world.problem(401, "/v1/ports", name="", headers=headers)


def test_the_session_that_is_not_used_for_longest_is_forgotten() -> None:
    sessions = Sessions(lambda: 0.0, most=3)
    first, second, third = (sessions.begin(bytes([n])) for n in range(3))
    assert sessions.find(first) == b"\0"
    fourth = sessions.begin(b"\3")
    assert len(sessions) == 3
    assert sessions.find(second) is None
    assert [sessions.find(one) for one in (first, third, fourth)] == [b"\0", b"\2", b"\3"]


def test_who_signs_in_again_and_again_ends_only_his_own_sessions() -> None:
    sessions = Sessions(lambda: 0.0, most=10, of_token=3)
    other = sessions.begin(b"operator")
    mine = [sessions.begin(b"reader") for _ in range(20)]
    assert len(sessions) == 4
    assert sessions.find(other) == b"operator"
    assert [sessions.find(one) for one in mine[-4:]] == [None, b"reader", b"reader", b"reader"]


def test_no_token_and_no_cookie_is_logged(
    world: ServedApi, caplog: pytest.LogCaptureFixture
) -> None:
    headers = signed_in(world)
    world.ask("/v1/session", "DELETE", name="", headers=headers | FROM_PAGE)
    world.problem(401, "/v1/ports", name="", headers=headers)
    world.problem(401, "/v1/session", "POST", name="", json={"token": "weir_nonsense"})
    assert "was refused" in caplog.text
    assert headers["Cookie"].partition("=")[2] not in caplog.text
    assert "nonsense" not in caplog.text


@pytest.mark.parametrize("by_session", [True, False])
@pytest.mark.parametrize("how", ["revoked", "expired", "signed out"])
def test_a_stream_ends_with_what_it_was_opened_by(
    world: ServedApi, monkeypatch: pytest.MonkeyPatch, by_session: bool, how: str
) -> None:
    monkeypatch.setattr("controller.api.state._LOOK_S", 0.01)
    session = signed_in(world)
    token = {"Authorization": f"Bearer {world.secrets['reader']}"}
    headers = session if by_session else token
    sent: list[dict[str, Any]] = []

    async def ends() -> None:
        opened = asyncio.Event()

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)
            if message.get("body"):
                opened.set()

        scope = {
            "type": "http",
            "method": "GET",
            "path": "/v1/events/stream",
            "query_string": b"",
            "headers": [(k.lower().encode(), v.encode()) for k, v in headers.items()],
        }
        working = asyncio.create_task(world.api.run())
        stays: Any = asyncio.Event().wait
        app: Any = world.app
        stream = asyncio.create_task(app(scope, stays, send))
        await opened.wait()
        assert len(world.api.events) == 1
        if how == "revoked":
            world.tokens.write_text("tokens: []\n")
        elif how == "expired":
            world.now += timedelta(days=1)
        else:
            world.api.access.sessions.end(session["Cookie"].partition("=")[2])
            if not by_session:
                stream.cancel()
        await asyncio.wait_for(asyncio.gather(stream, return_exceptions=True), 5)
        working.cancel()

    asyncio.run(ends())
    assert sent[0]["status"] == 200
    assert not len(world.api.events)
