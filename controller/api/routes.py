"""The paths of the API: who may ask for them, and with what."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.security import APIKeyCookie, HTTPAuthorizationCredentials, HTTPBearer
from prometheus_client import generate_latest
from starlette import types
from starlette.exceptions import HTTPException

from controller import __version__
from controller.api import answers, past, problems
from controller.api.access import sessions
from controller.api.access.access import PAGE_HEADER, Caller, Shown
from controller.api.access.tokens import Scope
from controller.api.hub import Hub
from controller.api.names import BusyError, UnknownNameError
from controller.api.overview import FabricOverview
from controller.api.state import Api
from controller.api.use import PortUse, use
from controller.northbound import views
from controller.rpc import methods
from controller.rpc.messages import CallError, Kind

Flow = Annotated[methods.FlowName, Path(description="the flow's name")]

_MOST_PAIRS = 8
# How old answers may be. That for all switches is renewed once a second, for the overview.
_ALL_S, _SOME_S, _EVENTS_S = 1.5, 0.5, 0.2


def add(app: FastAPI, api: Api) -> None:
    """Add all paths."""
    bearer = HTTPBearer(auto_error=False, description="a token of the controller's token file")
    cookie = APIKeyCookie(
        name=sessions.COOKIE,
        auto_error=False,
        description=f"a session of a browser; to change something takes {PAGE_HEADER}: 1, too",
    )

    def shown(
        credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
        session: Annotated[str | None, Depends(cookie)],
    ) -> Shown:
        return Shown(credentials.credentials if credentials else None, session)

    def needs(scope: Scope | None) -> Any:
        async def check(request: Request, who: Annotated[Shown, Depends(shown)]) -> Caller:
            return api.access.admit(request, who, scope)

        return Depends(check)

    reader = needs(Scope.READ)
    reads: dict[str, Any] = {"dependencies": [reader]}
    regulates = needs(Scope.REGULATE)
    announces = needs(Scope.ANNOUNCE)
    secure = api.settings.key is not None

    @app.get("/v1/health", summary="Whether the controller is there", tags=["controller"])
    async def health(request: Request) -> answers.Health:
        api.access.admit_stranger(request)
        try:
            await api.upstream.ask("ready")
        except CallError as error:
            if error.kind != Kind.NOT_READY:
                raise
            return answers.Health(status="not ready", version=__version__, detail=error.detail)
        return answers.Health(status="ready", version=__version__)

    @app.get("/metrics", include_in_schema=False, **reads)
    async def metrics() -> Response:
        return Response(
            generate_latest(api.metrics.registry), media_type="text/plain; version=0.0.4"
        )

    # Sessions of browsers

    @app.post(
        "/v1/session",
        summary="Sign in: a session in place of a token, as a cookie",
        tags=["session"],
    )
    async def sign_in(
        request: Request, response: Response, told: answers.SignIn
    ) -> answers.Session:
        former = request.cookies.get(sessions.COOKIE)
        token, secret = api.access.sign_in(request, told.token, former)
        sessions.give(response, secret, secure)
        return answers.session(token)

    @app.get(
        "/v1/session",
        summary="Who is signed in, and may what",
        tags=["session"],
        # Whoever shows nothing is told that nobody is.
        openapi_extra={"security": [{}]},
    )
    async def session(
        request: Request, who: Annotated[Shown, Depends(shown)]
    ) -> answers.Session | answers.Nobody:
        token = api.access.who(request, who)
        return answers.Nobody() if token is None else answers.session(token)

    @app.delete("/v1/session", summary="Sign out", status_code=204, tags=["session"])
    async def sign_out(request: Request, who: Annotated[Shown, Depends(shown)]) -> Response:
        api.access.sign_out(request, who)
        response = Response(status_code=204)
        sessions.take_back(response, secure)
        return response

    # Bandwidth

    @app.get(
        "/v1/bandwidth",
        summary="What a path has left, link by link",
        response_model=views.PathView,
        tags=["bandwidth"],
        **reads,
    )
    async def bandwidth(ends: Annotated[answers.NamedEnds, Query()]) -> Response:
        return await _between(api, ends)

    @app.get(
        "/v1/fountains",
        summary="All announced flows and what they may send",
        response_model=answers.Fountains,
        tags=["bandwidth"],
        **reads,
    )
    async def fountains() -> Response:
        return await api.ask("fountains")

    @app.get(
        "/v1/fountains/stream",
        summary="What announced flows may send, as it changes",
        response_class=_EventStream,
        tags=["bandwidth"],
    )
    async def follow_fountains(
        caller: Annotated[Caller, reader],
        flow: Annotated[methods.FlowName | None, Query(description="only this flow")] = None,
    ) -> Response:
        return _EventStream(api.shares, flow, caller.is_admitted)

    @app.put(
        "/v1/fountains/{flow}",
        summary="Announce a flow, or that it wants another rate",
        response_model=views.ShareView,
        tags=["bandwidth"],
    )
    async def announce(
        caller: Annotated[Caller, announces], flow: Flow, announcement: methods.Announcement
    ) -> Response:
        return await api.ask("announce", announcement, flow=flow, owner=caller.who)

    @app.patch(
        "/v1/fountains/{flow}",
        summary="Renew a flow",
        response_model=views.ShareView,
        tags=["bandwidth"],
    )
    async def renew(
        caller: Annotated[Caller, announces], flow: Flow, renewal: methods.Renewal
    ) -> Response:
        return await api.ask("renew", renewal, flow=flow, owner=caller.who)

    @app.delete(
        "/v1/fountains/{flow}",
        summary="Withdraw a flow",
        response_model=answers.Withdrawn,
        tags=["bandwidth"],
    )
    async def withdraw(caller: Annotated[Caller, announces], flow: Flow) -> Response:
        return await api.ask("withdraw", flow=flow, owner=caller.who)

    # How it is, and how it has been

    @app.get(
        "/v1/overview",
        summary="Whether all is well, and where it is congested",
        response_model=FabricOverview,
        tags=["fabric"],
        **reads,
    )
    async def fabric_overview() -> Response:
        # Asked for most of all: it is not looked through once more.
        told = api.told_overview().model_dump_json()
        return Response(told, media_type="application/json")

    past.add(app, api, reader)

    # What there is

    @app.get(
        "/v1/topology",
        summary="Switches and links",
        response_model=answers.Topology,
        tags=["fabric"],
        **reads,
    )
    async def topology(request: Request) -> Response:
        return await api.sampled(request, answers.topology)

    @app.get(
        "/v1/switches",
        summary="Switches",
        response_model=answers.Switches,
        tags=["fabric"],
        **reads,
    )
    async def switches(request: Request, asked: Annotated[methods.OfSwitch, Query()]) -> Response:
        return await api.share(request, "switches", asked, _fresh_s(asked))

    @app.get(
        "/v1/ports",
        summary="Ports and their queues",
        response_model=answers.Ports,
        tags=["fabric"],
        **reads,
    )
    async def ports(request: Request, asked: Annotated[methods.OfSwitch, Query()]) -> Response:
        return await api.share(request, "ports", asked, _fresh_s(asked))

    @app.get(
        "/v1/ports/use",
        summary="What each port with a queue sends, in columns",
        response_model=PortUse,
        tags=["fabric"],
        **reads,
    )
    async def port_use(request: Request) -> Response:
        return await api.sampled(request, use)

    @app.get(
        "/v1/regulation",
        summary="How ports are regulated",
        response_model=answers.Regulated,
        tags=["regulation"],
        **reads,
    )
    async def regulation(request: Request, asked: Annotated[methods.OfSwitch, Query()]) -> Response:
        return await api.share(request, "regulation", asked, _fresh_s(asked))

    @app.get(
        "/v1/bypasses",
        summary="Where regulation is turned off",
        response_model=answers.Bypasses,
        tags=["regulation"],
        **reads,
    )
    async def bypasses(request: Request) -> Response:
        return await api.share(request, "bypasses")

    @app.put(
        "/v1/bypasses",
        summary="Turn regulation off: everywhere, at a switch or at a port",
        response_model=views.OffView,
        tags=["regulation"],
    )
    async def off(bypass: methods.TimedBypass, caller: Annotated[Caller, regulates]) -> Response:
        return await api.change("off", bypass, by=caller.who)

    @app.delete(
        "/v1/bypasses",
        summary="Turn regulation on again, there and within",
        response_model=views.OnView,
        tags=["regulation"],
    )
    async def on(
        bypass: Annotated[methods.Bypass, Query()], caller: Annotated[Caller, regulates]
    ) -> Response:
        return await api.change("on", bypass, by=caller.who)

    # Settings

    @app.get(
        "/v1/settings",
        summary="What the controller is set to, and what of it can be changed at work",
        response_model=views.SettingsView,
        tags=["settings"],
        **reads,
    )
    async def read_settings(request: Request) -> Response:
        return await api.share(request, "settings")

    @app.patch(
        "/v1/settings",
        summary="Change settings at work",
        response_model=views.ChangeView,
        tags=["settings"],
    )
    async def change_settings(
        changes: methods.Changes, caller: Annotated[Caller, regulates]
    ) -> Response:
        return await api.change("change", changes, by=caller.who)

    @app.post(
        "/v1/settings/undo",
        summary="Take the latest change of settings back",
        response_model=views.ChangeView,
        tags=["settings"],
    )
    async def undo(change: methods.OfChange, caller: Annotated[Caller, regulates]) -> Response:
        return await api.change("undo", change, by=caller.who)

    @app.get(
        "/v1/audit",
        summary="Who has changed what, and when",
        response_model=answers.AuditLog,
        tags=["settings"],
        **reads,
    )
    async def audit(request: Request, asked: Annotated[methods.AuditQuery, Query()]) -> Response:
        return await api.share(request, "audit", asked)

    @app.get(
        "/v1/flows",
        summary="TCP flows, by the page",
        response_model=answers.Flows,
        tags=["flows"],
        **reads,
    )
    async def flows(request: Request, query: Annotated[methods.FlowQuery, Query()]) -> Response:
        return await api.share(request, "flows", query)

    @app.get(
        "/v1/flows/one",
        summary="A TCP flow, hop by hop",
        response_model=views.FlowDetailView,
        tags=["flows"],
        **reads,
    )
    async def one_flow(request: Request, ends: Annotated[methods.FlowEnds, Query()]) -> Response:
        return await api.share(request, "flow", ends)

    @app.get(
        "/v1/events",
        summary="The latest events: notices of queues, windows, links, hosts",
        response_model=answers.Events,
        tags=["events"],
        **reads,
    )
    async def events(request: Request, asked: Annotated[methods.EventQuery, Query()]) -> Response:
        return await api.share(request, "events", asked, _EVENTS_S)

    @app.get(
        "/v1/events/stream",
        summary="Events as they come",
        response_class=_EventStream,
        tags=["events"],
    )
    async def follow_events(caller: Annotated[Caller, reader]) -> Response:
        return _EventStream(api.events, None, caller.is_admitted)


def _fresh_s(asked: methods.OfSwitch) -> float:
    return _ALL_S if asked.switch is None else _SOME_S


async def _between(api: Api, ends: answers.NamedEnds) -> Response:
    """The path between two hosts. A name may have several addresses: the first pair counts whose
    hosts both are known."""
    try:
        pairs = await api.names.pairs(ends.src, ends.dst)
    except UnknownNameError as error:
        raise HTTPException(HTTPStatus.NOT_FOUND, str(error)) from None
    except BusyError:
        raise problems.too_many(1.0) from None
    unknown: CallError | None = None
    for src, dst in pairs[:_MOST_PAIRS]:
        try:
            return await api.ask("bandwidth", methods.Ends(src=src, dst=dst))
        except CallError as error:
            if error.kind != Kind.UNKNOWN:
                raise
            unknown = unknown or error
    assert unknown is not None
    raise unknown


class _EventStream(StreamingResponse):
    """Listens for as long as the response lasts, even if its peer leaves before the first byte."""

    media_type = "text/event-stream"

    def __init__(
        self, hub: Hub, wants: str | None, may: Callable[[], bool], status_code: int = 200
    ) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__((), status_code, headers)
        self._hub, self._wants, self._may = hub, wants, may

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        """Raises FullError before anything is sent."""
        with self._hub.listening(self._wants, self._may) as told:
            self.body_iterator = told
            await super().__call__(scope, receive, send)
