"""The application: paths, who may ask for them, and what they answer; OpenAPI comes of it."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from ipaddress import ip_address
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import StreamingResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

from controller import __version__
from controller.api import problems
from controller.api.hub import FullError, Hub
from controller.api.limits import RateLimit
from controller.api.problems import PROBLEMS
from controller.api.settings import Settings
from controller.api.tokens import RefusedError, Scope, Token, TokenError, Tokens
from controller.api.upstream import UnavailableError, Upstream
from controller.northbound import queries, views

LOG = logging.getLogger("weir.api")

_LOOK_S = 1.0
_MOST_LISTENERS = 2048
# Of a token's requests a second, what one address has without a token that is good for them.
_STRANGERS_PART = 0.2
_MOST_SWITCH = 2**63 - 1

_DESCRIPTION = """\
What the controller of a Weir fabric knows, and its available-bandwidth service for senders with
fountain codes: such a sender announces its flow, follows its share, and withdraws the flow when it
has ended. A flow that is not renewed for a few seconds is forgotten.

Every request but those for health and this description takes a token (`Authorization: Bearer
TOKEN`) with the scope *read* or *announce*. Errors are problems as in RFC 9457. Rates are of whole
Ethernet frames, in bit/s.
"""


def _address(written: str) -> str:
    try:
        return str(ip_address(written))
    except ValueError:
        raise ValueError("is no address; write e.g. 10.0.0.1 or fd00::1") from None


Address = Annotated[
    str,
    AfterValidator(_address),
    WithJsonSchema(
        {"anyOf": [{"type": "string", "format": "ipv4"}, {"type": "string", "format": "ipv6"}]}
    ),
]
_FLOW_NAME = rf"^{queries.FLOW_NAME}$"
Flow = Annotated[str, Path(pattern=_FLOW_NAME, description="the flow's name")]
SwitchQuery = Annotated[int | None, Query(ge=0, le=_MOST_SWITCH, description="datapath id")]


class Announcement(BaseModel):
    """A flow that is about to send, between two hosts of the fabric. `most_bps` is what it wants at
    most; without it, all it can get."""

    model_config = ConfigDict(extra="forbid")

    src: Address
    dst: Address
    most_bps: Annotated[int, Field(ge=1, le=queries.MOST_BPS)] | None = None


class Renewal(BaseModel):
    """A flow that goes on. `sends_bps` is what it sends if that is less than it may."""

    model_config = ConfigDict(extra="forbid")

    sends_bps: Annotated[int, Field(ge=0, le=queries.MOST_BPS)] | None = None


class Health(BaseModel):
    """It answers, so it lives; `ready` tells whether what it says can be relied on."""

    status: Literal["ready", "not ready"]
    version: str
    detail: str | None = None


class Fountains(BaseModel):
    fountains: list[views.ShareView]


class Withdrawn(BaseModel):
    flow: str


class Switches(BaseModel):
    switches: list[views.SwitchView]


class Ports(BaseModel):
    ports: list[views.PortView]


class Regulated(BaseModel):
    scheme: str
    ports: list[views.RegulationView]


class Flows(BaseModel):
    """A page of the flows, the largest volume first. They go on changing in between."""

    total: int
    offset: int
    next_offset: int | None
    flows: list[views.FlowView]


class Events(BaseModel):
    """`next_after` is where to go on."""

    next_after: int
    events: list[dict[str, Any]]


class TopologyLink(BaseModel):
    """Both ends as "datapath id in hex:port"."""

    a: str
    b: str
    rtt_s: float | None


class TopologySwitch(BaseModel):
    switch: int
    connected: bool
    hosts: int


class Topology(BaseModel):
    switches: list[TopologySwitch]
    links: list[TopologyLink]


class Tallies:
    """What Prometheus is told."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "weir_api_requests", "Requests, by status", ["status"], registry=self.registry
        )
        self.refused = Counter(
            "weir_api_tokens_refused",
            "Refused tokens, by reason",
            ["reason"],
            registry=self.registry,
        )
        self.listeners = Gauge(
            "weir_api_listeners", "Who follows a stream", ["stream"], registry=self.registry
        )
        self.dropped = Counter(
            "weir_api_listeners_dropped", "Who did not read", ["stream"], registry=self.registry
        )


class Api:
    """What all requests share. `now` is the time of day, `clock` any clock that does not jump."""

    def __init__(
        self,
        settings: Settings,
        upstream: Upstream,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises TokenError."""
        self.settings = settings
        self.upstream = upstream
        self.tallies = Tallies()
        self.tokens = Tokens(settings.tokens)
        self._now = now
        self._limit = RateLimit(settings.rate, clock)
        self._strangers = RateLimit(_STRANGERS_PART * settings.rate, clock)
        self.shares = Hub(
            "share",
            lambda: upstream.follow("fountains", {}),
            _MOST_LISTENERS,
            key=lambda share: str(share["flow"]),
            gone=lambda share: share["src"] is None,
        )
        self.events = Hub(
            "event", lambda: upstream.follow("events", {"limit": "0"}), _MOST_LISTENERS
        )

    def admit_stranger(self, request: Request) -> None:
        """Raises HTTPException if this address has asked too often without a token."""
        wait_s = self._strangers.wait_s(_address_of(request))
        if wait_s:
            raise problems.too_many(wait_s)

    def admit(self, request: Request, shown: str | None, scope: Scope) -> Token:
        """Raises HTTPException if the request may not go on."""
        try:
            token = self.tokens.check(shown, scope, self._now())
        except RefusedError as refused:
            self.tallies.refused.labels(refused.reason).inc()
            self.admit_stranger(request)
            whose = f"token {refused.name}" if refused.name else "a request"
            LOG.warning("%s from %s was refused: %s", whose, _address_of(request), refused)
            status = HTTPStatus.FORBIDDEN if refused.reason == "scope" else HTTPStatus.UNAUTHORIZED
            error = "insufficient_scope" if refused.reason == "scope" else "invalid_token"
            # RFC 6750 section 3: without a token there is no error to name.
            told = "" if refused.reason == "missing" else f', error="{error}"'
            headers = {"WWW-Authenticate": f'Bearer realm="weir"{told}'}
            raise HTTPException(status, str(refused), headers) from None
        wait_s = self._limit.wait_s(token.name)
        if wait_s:
            raise problems.too_many(wait_s)
        return token

    async def ask(
        self, method: str, resource: str, parameters: Mapping[str, object] | None = None
    ) -> Response:
        """What the controller answers, as it has written it. Raises UnavailableError."""
        answer = await self.upstream.ask(method, resource, parameters)
        if answer.status != HTTPStatus.OK:
            raise HTTPException(answer.status, problems.detail_of(answer.body))
        return Response(answer.body, media_type="application/json")

    async def look(self) -> None:
        """Use the tokens as they are in the file, for ever."""
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                if self.tokens.follow():
                    LOG.info("tokens have been read again")
            except TokenError as error:
                LOG.error("tokens are not read again, the former ones stay in use: %s", error)
            for name, hub in (("shares", self.shares), ("events", self.events)):
                self.tallies.listeners.labels(name).set(len(hub))
                dropped, hub.dropped = hub.dropped, 0
                self.tallies.dropped.labels(name).inc(dropped)


def make(api: Api) -> FastAPI:
    """The application over what all requests share."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        tasks = [
            asyncio.create_task(work) for work in (api.shares.run(), api.events.run(), api.look())
        ]
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await api.upstream.close()

    app = FastAPI(
        title="Weir",
        version=__version__,
        description=_DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        responses=PROBLEMS,
    )
    problems.install(
        app,
        {
            HTTPException: problems.of_http,
            RequestValidationError: problems.of_request,
            UnavailableError: problems.of_upstream,
            FullError: problems.of_upstream,
        },
    )
    if api.settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(api.settings.origins),
            allow_methods=["GET", "PUT", "PATCH", "DELETE"],
            allow_headers=["Authorization", "Content-Type"],
        )
    app.add_middleware(problems.SmallBodies)

    app.add_middleware(_Counted, requests=api.tallies.requests)
    _add_paths(app, api)
    return app


def _add_paths(app: FastAPI, api: Api) -> None:
    bearer = HTTPBearer(auto_error=False, description="a token of the controller's token file")

    def needs(scope: Scope) -> Any:
        async def check(
            request: Request,
            credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
        ) -> Token:
            return api.admit(request, credentials.credentials if credentials else None, scope)

        return Depends(check)

    reads: dict[str, Any] = {"dependencies": [needs(Scope.READ)]}
    announces: dict[str, Any] = {"dependencies": [needs(Scope.ANNOUNCE)]}

    @app.get("/v1/health", summary="Whether the controller is there", tags=["controller"])
    async def health(request: Request) -> Health:
        api.admit_stranger(request)
        answer = await api.upstream.ask("GET", "ready")
        ready = answer.status == HTTPStatus.OK
        detail = None if ready else problems.detail_of(answer.body)
        return Health(status="ready" if ready else "not ready", version=__version__, detail=detail)

    @app.get("/metrics", include_in_schema=False, **reads)
    async def metrics() -> Response:
        return Response(
            generate_latest(api.tallies.registry), media_type="text/plain; version=0.0.4"
        )

    # Bandwidth

    @app.get(
        "/v1/bandwidth",
        summary="What a path has left, link by link",
        response_model=views.PathView,
        tags=["bandwidth"],
        **reads,
    )
    async def bandwidth(
        src: Annotated[Address, Query(description="the host that sends")],
        dst: Annotated[Address, Query(description="the host that receives")],
    ) -> Response:
        return await api.ask("GET", "bandwidth", {"src": src, "dst": dst})

    @app.get(
        "/v1/fountains",
        summary="All announced flows and what they may send",
        response_model=Fountains,
        tags=["bandwidth"],
        **reads,
    )
    async def fountains() -> Response:
        return await api.ask("GET", "fountains")

    @app.get(
        "/v1/fountains/stream",
        summary="What announced flows may send, as it changes",
        response_class=_EventStream,
        tags=["bandwidth"],
        **reads,
    )
    async def follow_fountains(
        flow: Annotated[str | None, Query(pattern=_FLOW_NAME, description="only this flow")] = None,
    ) -> Response:
        return _EventStream(api.shares.listen(flow))

    @app.put(
        "/v1/fountains/{flow}",
        summary="Announce a flow, or that it wants another rate",
        response_model=views.ShareView,
        tags=["bandwidth"],
        **announces,
    )
    async def announce(flow: Flow, announcement: Announcement) -> Response:
        said = announcement.model_dump(exclude_none=True)
        return await api.ask("PUT", "fountains", {"flow": flow, **said})

    @app.patch(
        "/v1/fountains/{flow}",
        summary="Renew a flow",
        response_model=views.ShareView,
        tags=["bandwidth"],
        **announces,
    )
    async def renew(flow: Flow, renewal: Renewal) -> Response:
        said = renewal.model_dump(exclude_none=True)
        return await api.ask("PATCH", "fountains", {"flow": flow, **said})

    @app.delete(
        "/v1/fountains/{flow}",
        summary="Withdraw a flow",
        response_model=Withdrawn,
        tags=["bandwidth"],
        **announces,
    )
    async def withdraw(flow: Flow) -> Response:
        return await api.ask("DELETE", "fountains", {"flow": flow})

    # What there is

    @app.get("/v1/topology", summary="Switches and links", tags=["fabric"], **reads)
    async def topology() -> Topology:
        switches, ports = await asyncio.gather(api.ask("GET", "switches"), api.ask("GET", "ports"))
        return _topology(problems.read(switches), problems.read(ports))

    @app.get("/v1/switches", summary="Switches", response_model=Switches, tags=["fabric"], **reads)
    async def switches(switch: SwitchQuery = None) -> Response:
        return await api.ask("GET", "switches", {"switch": switch})

    @app.get(
        "/v1/ports",
        summary="Ports and their queues",
        response_model=Ports,
        tags=["fabric"],
        **reads,
    )
    async def ports(switch: SwitchQuery = None) -> Response:
        return await api.ask("GET", "ports", {"switch": switch})

    @app.get(
        "/v1/regulation",
        summary="How ports are regulated",
        response_model=Regulated,
        tags=["regulation"],
        **reads,
    )
    async def regulation(switch: SwitchQuery = None) -> Response:
        return await api.ask("GET", "regulation", {"switch": switch})

    @app.get(
        "/v1/flows", summary="TCP flows, by the page", response_model=Flows, tags=["flows"], **reads
    )
    async def flows(
        host: Annotated[Address | None, Query(description="an end of the flow")] = None,
        tcp_port: Annotated[int | None, Query(ge=0, le=65_535)] = None,
        flow_class: Annotated[Literal["burst", "background"] | None, Query(alias="class")] = None,
        switch: SwitchQuery = None,
        port: Annotated[int | None, Query(ge=1, le=2**32 - 1)] = None,
        limit: Annotated[int, Query(ge=1, le=queries.MOST_ROWS)] = 100,
        offset: Annotated[int, Query(ge=0, le=queries.FARTHEST_ROW)] = 0,
    ) -> Response:
        return await api.ask(
            "GET",
            "flows",
            {
                "host": host,
                "tcp_port": tcp_port,
                "class": flow_class,
                "switch": switch,
                "port": port,
                "limit": limit,
                "offset": offset,
            },
        )

    @app.get(
        "/v1/events",
        summary="The latest events: notices of queues, windows, links, hosts",
        response_model=Events,
        tags=["events"],
        **reads,
    )
    async def events(
        after: Annotated[int | None, Query(ge=0, le=2**63 - 1)] = None,
        limit: Annotated[int, Query(ge=0, le=10_000)] = 100,
    ) -> Response:
        return await api.ask("GET", "events", {"after": after, "limit": limit})

    @app.get(
        "/v1/events/stream",
        summary="Events as they come",
        response_class=_EventStream,
        tags=["events"],
        **reads,
    )
    async def follow_events() -> Response:
        return _EventStream(api.events.listen())


class _Counted:
    """Counts answers by their status. Streams go through it as they are, piece by piece."""

    def __init__(self, app: ASGIApp, requests: Counter) -> None:
        self._app = app
        self._requests = requests

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._requests.labels(message["status"]).inc()
            await send(message)

        await self._app(scope, receive, counted)


class _EventStream(StreamingResponse):
    media_type = "text/event-stream"

    def __init__(self, content: AsyncIterator[bytes], status_code: int = 200) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(content, status_code, headers)


def _address_of(request: Request) -> str:
    return request.client.host if request.client else "unknown"


def _topology(switches: Mapping[str, Any], ports: Mapping[str, Any]) -> Topology:
    hosts: dict[int, int] = {}
    links: dict[frozenset[str], TopologyLink] = {}
    for port in ports["ports"]:
        hosts[port["switch"]] = hosts.get(port["switch"], 0) + port["hosts"]
        if port["peer"]:
            end = f"{port['switch']:x}:{port['port']}"
            a, b = sorted((end, port["peer"]))
            links[frozenset((a, b))] = TopologyLink(a=a, b=b, rtt_s=port["link_rtt_s"])
    return Topology(
        switches=[
            TopologySwitch(
                switch=one["switch"], connected=one["connected"], hosts=hosts.get(one["switch"], 0)
            )
            for one in switches["switches"]
        ],
        links=list(links.values()),
    )
