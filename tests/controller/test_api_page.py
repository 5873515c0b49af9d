"""The files of the page, the headers of every answer, and the key that says where the page is."""

import asyncio
import gzip
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

from controller.api import page as pages
from controller.api.page import HEADERS, Page, PageError
from controller.config.schema import Config
from test_api import ServedApi

INDEX = "<!doctype html><script type=module src=/assets/app-1a2b.js></script>" + " " * 100
SCRIPT = "console.log('hello');" * 100


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "page"
    (made / "assets").mkdir(parents=True)
    (made / "index.html").write_text(INDEX)
    (made / "favicon.svg").write_text("<svg/>")
    (made / "assets" / "app-1a2b.js").write_text(SCRIPT)
    (made / "assets" / "font-3c4d.woff2").write_bytes(bytes(1000))
    (made / "assets" / "strange.bin").write_bytes(b"\0")
    (made / ".complete").write_text("")
    (tmp_path / "secret.txt").write_text("secret")
    return made


@pytest.fixture
def world(tmp_path: Path, directory: Path) -> ServedApi:
    return ServedApi(tmp_path, page=directory)


def get(world: ServedApi, path: str, method: str = "GET", **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return world.ask(path, method, name="", headers=named)


class TestFiles:
    def test_the_index_is_looked_after_and_assets_are_kept(self, world: ServedApi) -> None:
        for path in ("/", "/index.html"):
            response = get(world, path)
            assert (response.status_code, response.text) == (200, INDEX)
            assert response.headers["content-type"] == "text/html; charset=utf-8"
            assert response.headers["cache-control"] == "no-cache"
        response = get(world, "/assets/app-1a2b.js")
        assert (response.status_code, response.text) == (200, SCRIPT)
        assert response.headers["content-type"] == "text/javascript; charset=utf-8"
        assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert get(world, "/favicon.svg").headers["content-type"] == "image/svg+xml"
        strange = get(world, "/assets/strange.bin")
        assert strange.headers["content-type"] == "application/octet-stream"

    @pytest.mark.parametrize(
        "path", ["/ports", "/port/1/2", "/flows?host=10.0.0.1", "/v2", "/v10/x", "/assets", "/a/"]
    )
    def test_its_own_addresses_lead_to_the_index(self, world: ServedApi, path: str) -> None:
        response = get(world, path)
        assert (response.status_code, response.text) == (200, INDEX)

    @pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1/nothing", "/v1/a/b", "/v1%2fnothing"])
    def test_the_api_stays_the_api(self, world: ServedApi, path: str) -> None:
        assert world.problem(404, path, name="").startswith("there is no /v1")

    @pytest.mark.parametrize(
        "path",
        [
            "/nothing.js",
            "/assets/",
            "/assets/app-1a2b.js/",
            "/assets/../index.html",
            "/../secret.txt",
            "/%2e%2e/secret.txt",
            "/..%2fsecret.txt",
            "/assets/..%2f..%2fsecret.txt",
            "/assets%5c..%5c..%5csecret.txt",
            "//secret.txt",
            "/.complete",
            "/secret.txt%00",
            "/index.html%00",
            "/%ff%fe.html",
        ],
    )
    def test_no_path_leads_elsewhere(self, world: ServedApi, path: str) -> None:
        status, body = raw(world, path)
        if path == "/assets/":
            # No list of files: an address of the page, as any other.
            assert (status, body) == (200, INDEX.encode())
        else:
            assert status == 404
            assert body.startswith(b'{"type":"about:blank"')

    def test_links_are_not_followed(self, directory: Path) -> None:
        (directory / "link.txt").symlink_to(directory.parent / "secret.txt")
        assert "link.txt" not in pages.read(directory)

    def test_head_has_the_same_head(self, world: ServedApi) -> None:
        for path in ("/", "/assets/app-1a2b.js", "/nothing.js"):
            full, head = get(world, path), get(world, path, "HEAD")
            assert head.status_code == full.status_code
            if full.status_code == 200:
                assert head.content == b""
                assert head.headers == full.headers

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND"])
    def test_files_are_only_read(self, world: ServedApi, method: str) -> None:
        assert get(world, "/index.html", method).status_code == 404

    def test_what_a_browser_has_is_not_sent_again(self, world: ServedApi) -> None:
        tag = get(world, "/").headers["etag"]
        for shown in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            response = get(world, "/", if_none_match=shown)
            assert (response.status_code, response.content) == (304, b"")
            assert response.headers["etag"] == tag
            assert response.headers["cache-control"] == "no-cache"
        assert get(world, "/", if_none_match='"other"').status_code == 200
        assert get(world, "/favicon.svg", if_none_match=tag).status_code == 200

    def test_text_is_packed_for_those_who_take_it(self, world: ServedApi, directory: Path) -> None:
        for accepted in ("gzip", "br, gzip;q=0.5", "GZIP ; q=1.0"):
            response = get(world, "/assets/app-1a2b.js", accept_encoding=accepted)
            assert response.headers["content-encoding"] == "gzip"
            assert int(response.headers["content-length"]) < len(SCRIPT) / 5
            assert response.text == SCRIPT
        packed = get(world, "/", accept_encoding="gzip")
        for accepted in ("identity", "", "br", "gzip;q=0", "gzip; q=0.0", "notgzip"):
            response = get(world, "/", accept_encoding=accepted)
            assert "content-encoding" not in response.headers
            assert response.headers["vary"] == "Accept-Encoding"
            assert response.headers["etag"] != packed.headers["etag"]
        font = get(world, "/assets/font-3c4d.woff2", accept_encoding="gzip")
        assert "content-encoding" not in font.headers
        file = pages.read(directory)["index.html"]
        assert file.packed is not None
        assert gzip.decompress(file.packed) == file.content

    def test_a_new_page_is_taken_when_it_is_there(self, directory: Path) -> None:
        page = Page(directory)
        assert page.follow()
        assert not page.follow()
        (directory / "assets" / "app-5e6f.js").write_text("new")
        (directory / "index.html").unlink()
        with pytest.raises(PageError, match=r"has no index\.html"):
            page.follow()
        # The former one stays, and it is said once.
        assert not page.follow()
        answer = page.answer("GET", "/", {})
        assert answer is not None
        assert bytes(answer.body).decode() == INDEX
        (directory / "index.html").write_text("new")
        assert page.follow()
        answer = page.answer("GET", "/assets/app-5e6f.js", {})
        assert answer is not None
        assert answer.body == b"new"

    def test_what_is_no_page_is_told(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world = ServedApi(tmp_path, page=tmp_path / "none")
        assert f"is not read: {tmp_path}/none has no index.html; name what" in caplog.text
        # The API is served all the same.
        assert world.ask("/v1/ports").status_code == 200
        monkeypatch.setattr(pages, "_MOST_BYTES", 10)
        (tmp_path / "index.html").write_text("x" * 11)
        with pytest.raises(PageError, match="larger than any page"):
            pages.read(tmp_path)

    def test_without_a_page_it_says_how_to_get_one(self, tmp_path: Path) -> None:
        world = ServedApi(tmp_path)
        for path in ("/", "/ports"):
            detail = world.problem(404, path, name="")
            assert "dashboards/web/build" in detail
            assert "northbound.api.page" in detail
        assert world.problem(404, "/x.js", name="").startswith("there is no /x.js; ")
        assert world.problem(405, "/v1/ports", "POST").endswith("it takes GET")


def raw(world: ServedApi, path: str) -> tuple[int, bytes]:
    """Ask for a path as it is written, which httpx does not, and read it as uvicorn does."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [],
    }
    app: Any = world.app
    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


class TestHeaders:
    @pytest.mark.parametrize(
        ("status", "path", "method"),
        [
            (200, "/", "GET"),
            (200, "/ports", "HEAD"),
            (404, "/nothing.js", "GET"),
            (200, "/v1/health", "GET"),
            (401, "/v1/ports", "GET"),
            (404, "/v1/nothing", "GET"),
            (405, "/v1/ports", "POST"),
            (422, "/v1/session", "POST"),
            (200, "/v1/openapi.json", "GET"),
            (307, "/v1/ports/", "GET"),
            (400, "/v1/ports", "OPTIONS"),
        ],
    )
    def test_they_are_on_every_answer(
        self, tmp_path: Path, directory: Path, status: int, path: str, method: str
    ) -> None:
        world = ServedApi(tmp_path, page=directory, origins=("https://dash.example.org",))
        headers = {"origin": "https://evil.example", "access-control-request-method": "GET"}
        response = world.ask(path, method, name="", headers=headers)
        assert response.status_code == status
        assert HEADERS.items() <= {
            name.title(): value for name, value in response.headers.items()
        }.items() | {
            # Not as title() writes it.
            ("X-Content-Type-Options", response.headers["x-content-type-options"])
        }
        assert response.headers["content-security-policy"].startswith("default-src 'none'; ")

    def test_an_error_in_weir_has_them_and_tells_nothing(
        self, world: ServedApi, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def fails(*_: object) -> bytes:
            raise RuntimeError("what nobody should see")

        monkeypatch.setattr(world.controller, "ask", fails)
        transport: Any = httpx.ASGITransport
        monkeypatch.setattr(
            httpx, "ASGITransport", lambda app: transport(app, raise_app_exceptions=False)
        )
        detail = world.problem(500, "/v1/ports")
        assert "report it" in detail
        assert "nobody" not in detail
        response = world.ask("/v1/ports")
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "content-security-policy" in response.headers


class TestConfiguration:
    @staticmethod
    def settings(**api: object) -> Any:
        section = Config.model_validate({"northbound": {"api": {"tokens": "t", **api}}})
        assert section.northbound.api is not None
        return section.northbound.api.settings()

    def test_the_page_is_that_of_the_package_if_it_is_there(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        where = "controller.config.sections.northbound.INSTALLED"
        monkeypatch.setattr(where, directory)
        assert self.settings().page == directory
        assert self.settings(page="/srv/page").page == Path("/srv/page")
        monkeypatch.setattr(where, directory / "none")
        assert self.settings().page is None
