"""Errors as problems (RFC 9457), and a limit on the size of requests."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from math import ceil
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.api.hub import FullError
from controller.api.upstream import UnavailableError, UnsureError
from controller.rpc import methods
from controller.rpc.messages import CallError, Kind

_TYPE = "application/problem+json"
_MOST_BODY_BYTES = 64 * 1024
_AGAIN_S = 1
_SHOWN = 64
_STATUSES: Mapping[str, HTTPStatus] = {
    Kind.REQUEST: HTTPStatus.BAD_REQUEST,
    Kind.PARAMETERS: HTTPStatus.BAD_REQUEST,
    Kind.UNKNOWN: HTTPStatus.NOT_FOUND,
    Kind.VALUE: HTTPStatus.UNPROCESSABLE_ENTITY,
    Kind.CONFLICT: HTTPStatus.CONFLICT,
    Kind.FORBIDDEN: HTTPStatus.FORBIDDEN,
    Kind.NOT_READY: HTTPStatus.SERVICE_UNAVAILABLE,
    Kind.BUSY: HTTPStatus.SERVICE_UNAVAILABLE,
}


class Problem(BaseModel):
    """RFC 9457 section 3. `detail` says what would be right."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str


def _described(*statuses: HTTPStatus) -> dict[int | str, dict[str, Any]]:
    return {
        status.value: {
            "description": status.phrase,
            "content": {_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
            "model": Problem,
        }
        for status in statuses
    }


PROBLEMS = _described(
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.CONFLICT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """A problem as a response."""
    body = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail)
    return Response(body.model_dump_json(), status, dict(headers or {}), media_type=_TYPE)


def too_many(wait_s: float) -> HTTPException:
    """The answer to a client that asks too often."""
    seconds = max(1, ceil(wait_s))
    return HTTPException(
        HTTPStatus.TOO_MANY_REQUESTS,
        f"too many requests; try again in {seconds} s",
        {"Retry-After": str(seconds)},
    )


async def of_http(request: Request, error: HTTPException) -> Response:
    """For errors that are raised on purpose, and for unknown paths and methods."""
    detail, path = str(error.detail), request.url.path
    # These are Starlette's own.
    if detail == HTTPStatus.NOT_FOUND.phrase:
        description = request.app.openapi_url
        hint = f"{description} describes what there is" if description else "there is /metrics"
        detail = f"there is no {path[:_SHOWN]}; {hint}"
    elif detail == HTTPStatus.METHOD_NOT_ALLOWED.phrase:
        allowed = (error.headers or {}).get("Allow", "another method")
        detail = f"{path} does not take {request.method}; it takes {allowed}"
    return problem(error.status_code, detail, error.headers)


async def of_request(_request: Request, error: RequestValidationError) -> Response:
    """For invalid parameters and bodies."""
    first: ErrorDetails = error.errors()[0]
    # The first part says whether the parameter is in the path, the query or the body.
    text = methods.explain({**first, "loc": first["loc"][1:]})
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, text)


async def of_call(_request: Request, error: CallError) -> Response:
    """For what the controller refuses."""
    status = _STATUSES.get(error.kind, HTTPStatus.INTERNAL_SERVER_ERROR)
    return problem(status, error.detail)


async def of_upstream(_request: Request, error: Exception) -> Response:
    """For a controller that does not answer, and for too many listeners."""
    headers = {"Retry-After": str(_AGAIN_S)}
    text = str(error) or type(error).__name__
    return problem(HTTPStatus.SERVICE_UNAVAILABLE, f"not now: {text}", headers)


async def of_unsure(_request: Request, error: Exception) -> Response:
    """For a controller that was asked to change something and has not answered. The same request
    may be wrong now, so it is not asked for again."""
    return problem(HTTPStatus.GATEWAY_TIMEOUT, str(error))


def install(app: FastAPI) -> None:
    """Turn exceptions into problems."""
    handlers: Mapping[type[Exception], Callable[..., Any]] = {
        HTTPException: of_http,
        RequestValidationError: of_request,
        CallError: of_call,
        UnavailableError: of_upstream,
        UnsureError: of_unsure,
        FullError: of_upstream,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


class SmallBodies:
    """Refuses bodies larger than any request of the API needs."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > _MOST_BODY_BYTES:
                text = f"a body has at most {_MOST_BODY_BYTES} bytes here"
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
            return message

        await self._app(scope, counted, send)
