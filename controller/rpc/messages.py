"""The format of requests and answers: JSON, an object or an array a line.

    {"method": "ports", "params": {"switch": 1}}

is answered by a head. If the head names rows, arrays of rows follow, and an end:

    {"result": {"scheme": "weir"}, "rows": "ports"}
    [{"switch": 1, "port": 1}, {"switch": 1, "port": 2}]
    {"end": true}

A stream has rows and no end, and an empty array from time to time. An error may take the place of
any of these lines; it ends the answer: {"error": {"kind": "unknown", "detail": "..."}}.
There is no I/O here, so both ends use it, and all clients.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

MOST_REQUEST_BYTES = 8192
_SHOWN = 64
_RIGHT = 'write a line such as {"method": "ports", "params": {"switch": 1}}'


class Kind(StrEnum):
    """Why there is no answer."""

    REQUEST = "request"
    METHOD = "method"
    PARAMETERS = "parameters"
    UNKNOWN = "unknown"
    VALUE = "value"
    CONFLICT = "conflict"
    FORBIDDEN = "forbidden"
    NOT_READY = "not_ready"
    BUSY = "busy"
    INTERNAL = "internal"


class CallError(Exception):
    """The answer is an error; `detail` says what would be right."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail


class NonsenseError(ValueError):
    """A line is not part of an answer."""


# Requests


def request(method: str, params: Mapping[str, object] | None = None) -> bytes:
    """A request as a line; parameters that are None are left out."""
    given = {name: value for name, value in (params or {}).items() if value is not None}
    return _line({"method": method, "params": given})


def parse(line: bytes) -> tuple[str, dict[str, object]]:
    """Method and parameters of a request. Raises CallError."""
    try:
        told = json.loads(line, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        why = f" ({error})" if isinstance(error, _TwiceError) else ""
        raise _no_request(line, why) from None
    match told:
        case {"method": str(method), **more} if not more.keys() - {"params"}:
            params = more.get("params", {})
            if isinstance(params, dict):
                return method, params
    raise _no_request(line)


class Lines:
    """Splits what a peer sends into lines."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that are complete now. Raises CallError for a line that is too long; nothing
        can be read after that."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            yield _short(line)
        _short(self._rest)

    def end(self) -> Iterator[bytes]:
        """The last line, if it has no end."""
        if self._rest.strip():
            yield self._rest


def _short(line: bytes) -> bytes:
    if len(line) > MOST_REQUEST_BYTES:
        raise CallError(Kind.REQUEST, f"a request has at most {MOST_REQUEST_BYTES} bytes")
    return line


def _no_request(line: bytes, why: str = "") -> CallError:
    text = repr(line[:_SHOWN].decode(errors="replace"))
    return CallError(Kind.REQUEST, f"{text} is no request{why}; {_RIGHT}")


class _TwiceError(ValueError):
    pass


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Refuse a name that stands twice: one of its values would be ignored."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _TwiceError(f"{twice[:_SHOWN]} stands {names.count(twice)} times; write it once")
    return made


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


# Answers


def result(fields: Mapping[str, object], rows: str | None = None) -> bytes:
    """A whole answer, or its head if rows of that name follow."""
    return _line({"result": fields} if rows is None else {"result": fields, "rows": rows})


def row(value: object) -> bytes:
    """One row, for `piece`. There may be thousands, so it takes the fast way if that can."""
    try:
        return to_json(value)
    except PydanticSerializationError:
        # Text that is no Unicode, which JSON can escape.
        return json.dumps(value).encode()


def piece(rows: Iterable[bytes]) -> bytes:
    """Some rows."""
    return b"[" + b", ".join(rows) + b"]\n"


END = b'{"end": true}\n'


def error(kind: str, detail: str) -> bytes:
    return _line({"error": {"kind": kind, "detail": detail}})


class Assembly:
    """Puts an answer together from its lines."""

    def __init__(self) -> None:
        self._head: dict[str, object] | None = None
        self._name: str | None = None
        self._rows: list[bytes] = []

    def take(self, line: bytes) -> bool:
        """Returns whether this was the last line. Raises CallError if the answer is an error, and
        NonsenseError for a line that is not part of an answer."""
        if self._head is not None:
            if line[:1] == b"[":
                self._rows.append(line.strip()[1:-1])
                return False
            if _read(line) == {"end": True}:
                return True
            raise NonsenseError("an answer goes on with neither rows nor their end")
        self._head, self._name = head(line)
        return self._name is None

    @property
    def body(self) -> bytes:
        """The answer as one JSON object. The rows are unchanged."""
        assert self._head is not None
        fields = json.dumps(self._head).encode()
        if self._name is None:
            return fields
        rows = b", ".join(filter(None, self._rows))
        between = b", " if self._head else b""
        return b"%b%b%b: [%b]}" % (fields[:-1], between, json.dumps(self._name).encode(), rows)


def head(line: bytes) -> tuple[dict[str, object], str | None]:
    """The head of an answer, and the name of the rows that follow. Raises as `Assembly.take`."""
    match _read(line):
        case {"result": dict(fields), "rows": str(name)}:
            return fields, name
        case {"result": dict(fields)}:
            return fields, None
    raise NonsenseError("an answer begins with neither a result nor an error")


def rows(line: bytes) -> list[dict[str, Any]]:
    """The rows of a line of a stream. Raises as `Assembly.take`."""
    told = _read(line)
    if not isinstance(told, list):
        raise NonsenseError("a stream goes on with no rows")
    return told


def _read(line: bytes) -> object:
    """Raises CallError if the line is an error, and NonsenseError if it is no JSON."""
    try:
        told = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise NonsenseError(str(error)) from None
    match told:
        case {"error": {"kind": str(kind), "detail": str(detail)}}:
            raise CallError(kind, detail)
    return told


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"
