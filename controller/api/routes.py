"""The paths of the API: who may ask for them, and with what."""

import asyncio
import json
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from prometheus_client import generate_latest
from starlette import types

from controller import __version__
from controller.api import answers
from controller.api.hub import Hub
from controller.api.state import Api
from controller.api.tokens import Scope, Token
from controller.northbound import views
from controller.rpc import methods
from controller.rpc.messages import CallError, Kind

Flow = Annotated[methods.FlowName, Path(description="the flow's name")]


def add(app: FastAPI, api: Api) -> None:
    """Add all paths."""
    bearer = HTTPBearer(auto_error=False, description="a token of the controller's token file")

    def needs(scope: Scope) -> Any:
        async def check(
            request: Request,
            credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
        ) -> Token:
            return api.admit(request, credentials.credentials if credentials else None, scope)

        return Depends(check)

    reads: dict[str, Any] = {"dependencies": [needs(Scope.READ)]}
    regulates = needs(Scope.REGULATE)
    announces: dict[str, Any] = {"dependencies": [needs(Scope.ANNOUNCE)]}

    @app.get("/v1/health", summary="Whether the controller is there", tags=["controller"])
    async def health(request: Request) -> answers.Health:
        api.admit_stranger(request)
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

    # Bandwidth

    @app.get(
        "/v1/bandwidth",
        summary="What a path has left, link by link",
        response_model=views.PathView,
        tags=["bandwidth"],
        **reads,
    )
    async def bandwidth(ends: Annotated[methods.Ends, Query()]) -> Response:
        return await api.ask("bandwidth", ends)

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
        **reads,
    )
    async def follow_fountains(
        flow: Annotated[methods.FlowName | None, Query(description="only this flow")] = None,
    ) -> Response:
        return _EventStream(api.shares, flow)

    @app.put(
        "/v1/fountains/{flow}",
        summary="Announce a flow, or that it wants another rate",
        response_model=views.ShareView,
        tags=["bandwidth"],
        **announces,
    )
    async def announce(flow: Flow, announcement: methods.Announcement) -> Response:
        return await api.ask("announce", announcement, flow=flow)

    @app.patch(
        "/v1/fountains/{flow}",
        summary="Renew a flow",
        response_model=views.ShareView,
        tags=["bandwidth"],
        **announces,
    )
    async def renew(flow: Flow, renewal: methods.Renewal) -> Response:
        return await api.ask("renew", renewal, flow=flow)

    @app.delete(
        "/v1/fountains/{flow}",
        summary="Withdraw a flow",
        response_model=answers.Withdrawn,
        tags=["bandwidth"],
        **announces,
    )
    async def withdraw(flow: Flow) -> Response:
        return await api.ask("withdraw", flow=flow)

    # What there is

    @app.get("/v1/topology", summary="Switches and links", tags=["fabric"], **reads)
    async def topology() -> answers.Topology:
        ask = api.upstream.ask
        switches, ports = await asyncio.gather(ask("switches"), ask("ports"))
        return answers.topology(json.loads(switches), json.loads(ports))

    @app.get(
        "/v1/switches",
        summary="Switches",
        response_model=answers.Switches,
        tags=["fabric"],
        **reads,
    )
    async def switches(asked: Annotated[methods.OfSwitch, Query()]) -> Response:
        return await api.ask("switches", asked)

    @app.get(
        "/v1/ports",
        summary="Ports and their queues",
        response_model=answers.Ports,
        tags=["fabric"],
        **reads,
    )
    async def ports(asked: Annotated[methods.OfSwitch, Query()]) -> Response:
        return await api.ask("ports", asked)

    @app.get(
        "/v1/regulation",
        summary="How ports are regulated",
        response_model=answers.Regulated,
        tags=["regulation"],
        **reads,
    )
    async def regulation(asked: Annotated[methods.OfSwitch, Query()]) -> Response:
        return await api.ask("regulation", asked)

    @app.get(
        "/v1/bypasses",
        summary="Where regulation is turned off",
        response_model=answers.Bypasses,
        tags=["regulation"],
        **reads,
    )
    async def bypasses() -> Response:
        return await api.ask("bypasses")

    @app.put(
        "/v1/bypasses",
        summary="Turn regulation off: everywhere, at a switch or at a port",
        response_model=views.OffView,
        tags=["regulation"],
    )
    async def off(bypass: methods.TimedBypass, token: Annotated[Token, regulates]) -> Response:
        return await api.ask("off", bypass, by=f"token {token.name}")

    @app.delete(
        "/v1/bypasses",
        summary="Turn regulation on again, there and within",
        response_model=views.OnView,
        tags=["regulation"],
    )
    async def on(
        bypass: Annotated[methods.Bypass, Query()], token: Annotated[Token, regulates]
    ) -> Response:
        return await api.ask("on", bypass, by=f"token {token.name}")

    @app.get(
        "/v1/flows",
        summary="TCP flows, by the page",
        response_model=answers.Flows,
        tags=["flows"],
        **reads,
    )
    async def flows(query: Annotated[methods.FlowQuery, Query()]) -> Response:
        return await api.ask("flows", query)

    @app.get(
        "/v1/events",
        summary="The latest events: notices of queues, windows, links, hosts",
        response_model=answers.Events,
        tags=["events"],
        **reads,
    )
    async def events(asked: Annotated[methods.EventQuery, Query()]) -> Response:
        return await api.ask("events", asked)

    @app.get(
        "/v1/events/stream",
        summary="Events as they come",
        response_class=_EventStream,
        tags=["events"],
        **reads,
    )
    async def follow_events() -> Response:
        return _EventStream(api.events)


class _EventStream(StreamingResponse):
    """Listens for as long as the response lasts, even if its peer leaves before the first byte."""

    media_type = "text/event-stream"

    def __init__(self, hub: Hub, wants: str | None = None, status_code: int = 200) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__((), status_code, headers)
        self._hub, self._wants = hub, wants

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        """Raises FullError before anything is sent."""
        with self._hub.listening(self._wants) as told:
            self.body_iterator = told
            await super().__call__(scope, receive, send)
