"""The application: its description, cross-origin rules and errors."""

from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from fastapi.middleware.cors import CORSMiddleware
from prometheus_client import Counter
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller import __version__
from controller.api import problems, routes
from controller.api.page import HEADERS, Page
from controller.api.state import Api

_DESCRIPTION = """\
What the controller of a Weir fabric knows, and its available-bandwidth service for senders with
fountain codes: such a sender announces its flow, follows its share, and withdraws the flow when it
has ended. A flow that is not renewed for a few seconds is forgotten.

Every request but those for health and this description takes a token (`Authorization: Bearer
TOKEN`) with the scope *read*, *announce* or *regulate*, or in its place the cookie of a session.
Errors are problems as in RFC 9457. Rates are of whole Ethernet frames, in bit/s.
"""


def make(api: Api) -> FastAPI:
    """Make the application."""
    app = FastAPI(
        title="Weir",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        responses=problems.PROBLEMS,
    )
    problems.install(app)
    if api.settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(api.settings.origins),
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["Authorization", "Content-Type"],
        )
    app.add_middleware(problems.SmallBodies)
    app.add_middleware(_Counted, requests=api.metrics.requests)
    app.add_middleware(_WithHeaders)
    app.add_exception_handler(Exception, _of_failure)
    routes.add(app, api)
    app.router.default = _OrPage(api.page, app.router.default)
    return app


async def _of_failure(_request: Request, _error: Exception) -> Response:
    """For an error in Weir. Nothing that is added to the application sees this answer."""
    text = "an error in Weir; the log of the controller has its trace, please report it"
    return problems.problem(HTTPStatus.INTERNAL_SERVER_ERROR, text, HEADERS)


class _OrPage:
    """What is no path of the API may be a file of the page."""

    def __init__(self, page: Page, not_found: ASGIApp) -> None:
        self._page = page
        self._not_found = not_found

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = None
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            answer = self._page.answer(scope["method"], scope["path"], headers)
        await (answer or self._not_found)(scope, receive, send)


class _WithHeaders:
    """Adds what browsers are told with every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self._app(scope, receive, with_headers)


class _Counted:
    """Counts answers by their status. It passes streams on piece by piece."""

    def __init__(self, app: ASGIApp, requests: Counter) -> None:
        self._app = app
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._requests.labels(message["status"]).inc()
            await send(message)

        await self._app(scope, receive, counted)
