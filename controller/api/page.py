"""The dashboard's page: static files, which are held in memory.

A request names one of the files that were read, so none leads to another place of the disk.
"""

import gzip
import hashlib
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

from fastapi import Response

from controller.api import problems
from controller.api.access.tokens import stamp

INSTALLED = Path("/usr/share/weir-controller/page")

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""On every answer: a page runs nothing but its own files, and is shown in no other's."""

_INDEX = "index.html"
_MOST_BYTES = 64 * 1024 * 1024
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}
# What is compressed already.
_PACKED = {".png", ".ico", ".woff2"}
_MISSING = (
    "there is no page here: build it with dashboards/web/build, and set northbound.api.page to the "
    "directory that dashboards/web/build --prefix prints; /v1/openapi.json describes the API"
)


class PageError(ValueError):
    """The page cannot be used; the message says what is wrong and where."""


class File(NamedTuple):
    """A file, and the same as gzip packs it where that is worth it."""

    content: bytes
    packed: bytes | None
    kind: str
    tag: str
    caching: str


class Page:
    """The page in a directory, which is read again when its index has changed."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._stamp: object = ()
        self._files: Mapping[str, File] = {}

    def follow(self) -> bool:
        """Read the page if it has changed; returns whether it has. If it cannot be used, raises
        PageError and keeps the former one."""
        if self._directory is None:
            return False
        found = stamp(self._directory / _INDEX)
        if found == self._stamp:
            return False
        self._stamp = found
        self._files = read(self._directory)
        return True

    def answer(self, method: str, path: str, headers: Mapping[str, str]) -> Response | None:
        """None if there is no such file. Other paths without a dot are the page's own, which has
        to be there when one of them is loaded again."""
        if method not in ("GET", "HEAD") or path == "/v1" or path.startswith("/v1/"):
            return None
        file = self._files.get(path[1:])
        if file is None and "." not in path:
            file = self._files.get(_INDEX)
            if file is None:
                return problems.problem(HTTPStatus.NOT_FOUND, _MISSING)
        return None if file is None else _answer(file, method, headers)


def read(directory: Path) -> dict[str, File]:
    """All files of a page by their paths. Raises PageError."""
    right = "name what dashboards/web/build --prefix prints"
    try:
        if not (directory / _INDEX).is_file():
            raise PageError(f"{directory} has no {_INDEX}; {right}")
        files: dict[str, File] = {}
        total = 0
        for path in sorted(directory.rglob("*")):
            name = path.relative_to(directory)
            hidden = any(part.startswith(".") for part in name.parts)
            if hidden or path.is_symlink() or not path.is_file():
                continue
            total += path.stat().st_size
            if total > _MOST_BYTES:
                raise PageError(f"{directory} is larger than any page; {right}")
            files[str(name)] = _file(str(name), path.read_bytes())
    except OSError as error:
        raise PageError(f"cannot read {error.filename}: {error.strerror}; {right}") from None
    return files


def _file(name: str, content: bytes) -> File:
    ending = Path(name).suffix.lower()
    packed = None if ending in _PACKED else gzip.compress(content, mtime=0)
    return File(
        content,
        packed if packed and len(packed) < len(content) else None,
        _KINDS.get(ending, "application/octet-stream"),
        hashlib.sha256(content).hexdigest()[:32],
        # The names of assets have a hash of their content.
        "public, max-age=31536000, immutable" if name.startswith("assets/") else "no-cache",
    )


def _answer(file: File, method: str, asked: Mapping[str, str]) -> Response:
    packed = file.packed if takes_gzip(asked.get("accept-encoding", "")) else None
    tag = f'"{file.tag}-gzip"' if packed is not None else f'"{file.tag}"'
    headers = {"ETag": tag, "Cache-Control": file.caching}
    if file.packed is not None:
        headers["Vary"] = "Accept-Encoding"
    known = (one.strip().removeprefix("W/") for one in asked.get("if-none-match", "").split(","))
    if not {tag, "*"}.isdisjoint(known):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    if packed is not None:
        headers["Content-Encoding"] = "gzip"
    content = file.content if packed is None else packed
    headers |= {"Content-Length": str(len(content)), "Content-Type": file.kind}
    return Response(b"" if method == "HEAD" else content, headers=headers)


def takes_gzip(accepted: str) -> bool:
    """RFC 9110 section 12.5.3."""
    for one in accepted.lower().split(","):
        name, _, weight = one.replace(" ", "").partition(";")
        if name == "gzip":
            return not weight.startswith("q=0") or any(digit in "123456789" for digit in weight)
    return False
