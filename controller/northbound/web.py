"""The northbound in HTTP: WSGI applications for the local API and for the metrics.

Errors are problems in the sense of RFC 9457.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from werkzeug.exceptions import (
    BadRequest,
    HTTPException,
    InternalServerError,
    MethodNotAllowed,
    NotFound,
    ServiceUnavailable,
)
from werkzeug.wrappers import Request, Response

from controller.northbound.metrics import CONTENT_TYPE, Exposition
from controller.northbound.queries import QueryError
from controller.northbound.resources import Answer, Document, Listing, Resources, Stream
from controller.northbound.scheduler import Scheduler
from controller.northbound.views import UnknownError

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

LOG = logging.getLogger("weir.northbound")

_JSON, _LINES, _PROBLEM = "application/json", "application/x-ndjson", "application/problem+json"
_ROWS_A_PIECE = 64
_FOLLOWERS = 32

Handler = Callable[[Request], Response]


class Site:
    """A WSGI application of a few paths, to be read but for the `changes`, by method and path."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        changes: Mapping[tuple[str, str], Handler] | None = None,
    ) -> None:
        self._handlers = handlers
        self._changes = changes or {}

    def __call__(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        try:
            response = self._respond(Request(environ))
        except HTTPException as error:
            response = _problem(error)
        except Exception:
            LOG.exception("a request for %.200r failed", environ.get("PATH_INFO"))
            response = _problem(InternalServerError("the log of the controller says why"))
        return response(environ, start_response)

    def _respond(self, request: Request) -> Response:
        handler = self._handlers.get(request.path)
        if handler is None:
            paths = ", ".join(self._handlers)
            raise NotFound(f"there is no {request.path[:200]}; there are {paths}")
        if request.method in ("GET", "HEAD"):
            return handler(request)
        change = self._changes.get((request.method, request.path))
        if change is None:
            methods = ["GET", "HEAD"]
            methods += [method for method, path in self._changes if path == request.path]
            told = "this takes " + ", ".join(methods) if methods[2:] else "this can only be read"
            raise MethodNotAllowed(methods, told)
        return change(request)


class Api(Site):
    """The local API."""

    def __init__(self, resources: Resources, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._followers = 0
        super().__init__(
            {path: self._handler(answer) for path, answer in resources.by_path.items()},
            {place: self._handler(answer) for place, answer in resources.changes.items()},
        )

    def _handler(self, ask: Callable[[Mapping[str, str]], Answer]) -> Handler:
        def handler(request: Request) -> Response:
            try:
                with self._scheduler.slice():
                    answer = ask(_parameters(request))
            except QueryError as error:
                raise BadRequest(str(error)) from None
            except UnknownError as error:
                raise NotFound(str(error)) from None
            match answer:
                case Document(fields, ok):
                    if not ok:
                        raise ServiceUnavailable(str(fields["reason"]))
                    return _response(_encode(fields) + b"\n", _JSON)
                case Listing():
                    return _response(_told(self._listing(answer)), _JSON)
                case Stream(batches):
                    if self._followers >= _FOLLOWERS:
                        raise ServiceUnavailable(f"{_FOLLOWERS} follow already; try again later")
                    # Whoever does not read what it follows is not to hold up the others.
                    request.environ["eventlet.minimum_write_chunk_size"] = 1
                    return _response(_told(self._follow(batches)), _LINES)

        return handler

    def _listing(self, listing: Listing) -> Iterator[bytes]:
        """One JSON object, a piece at a time; while the peer takes it, others compute."""
        head = b"".join(_encode({key: value})[1:-1] + b", " for key, value in listing.head.items())
        yield b"{" + head + _encode(listing.name) + b": ["
        between = b"\n"
        while True:
            piece = b""
            with self._scheduler.slice():
                for row in islice(listing.rows, _ROWS_A_PIECE):
                    piece += between + _encode(row)
                    between = b",\n"
                    self._scheduler.checkpoint()
            if not piece:
                yield b"\n]}\n"
                return
            yield piece

    def _follow(self, batches: Iterator[list[dict[str, object]]]) -> Iterator[bytes]:
        self._followers += 1
        try:
            for batch in batches:
                piece = b""
                with self._scheduler.slice():
                    for event in batch:
                        piece += _encode(event) + b"\n"
                        self._scheduler.checkpoint()
                yield piece or b"\n"
        finally:
            self._followers -= 1


class Metrics(Site):
    """What Prometheus asks for."""

    def __init__(self, exposition: Exposition, scheduler: Scheduler) -> None:
        def scrape(_request: Request) -> Response:
            with scheduler.slice():
                text = exposition.text()
            return _response(text, CONTENT_TYPE)

        super().__init__({"/metrics": scrape})


def _told(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces; what fails among them is logged, and the peer sees its answer cut off."""
    try:
        yield from pieces
    except Exception:
        LOG.exception("an answer could not be finished")
        raise


def _parameters(request: Request) -> dict[str, str]:
    """Raises QueryError if one stands twice, of which one would be ignored."""
    given = {}
    for name, values in request.args.lists():
        if len(values) > 1:
            raise QueryError(f"{name[:64]}: stands {len(values)} times; write it once")
        given[name] = values[0]
    return given


def _encode(value: object) -> bytes:
    return json.dumps(value).encode()


def _response(body: bytes | Iterator[bytes], content_type: str, status: int = 200) -> Response:
    return Response(body, status, content_type=content_type)


def _problem(error: HTTPException) -> Response:
    """RFC 9457 section 3."""
    problem = {
        "type": "about:blank",
        "title": error.name,
        "status": error.code,
        "detail": error.description,
    }
    response = _response(_encode(problem) + b"\n", _PROBLEM, error.code or 500)
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        response.headers["Allow"] = ", ".join(error.valid_methods)
    return response
