"""The API as the page sees it, over a fabric that is none: what tests want otherwise, they set."""

import asyncio
import contextlib
import json
import secrets
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

import fake_fabric as fabric
import fake_incident
from controller.api.access.sessions import COOKIE
from controller.api.page import HEADERS
from controller.config import reading
from controller.model.values import datapath_id, switch_id
from controller.northbound.interfaces import ConflictError, ValueRefusedError
from controller.northbound.views import BypassView, ChangeView, FlowDetailView, PortView, ShareView
from controller.runtime.audit_log import AuditLog
from controller.runtime.changing import Changing

TOKENS = {"weir_viewer": ["read"], "weir_operator": ["read", "regulate"]}
# Why a path is broken.
BROKEN = "it is broken for a while"
Handler = Callable[[Request], Awaitable[Response]]


def problem(status: int, detail: str) -> JSONResponse:
    told = {"title": "no", "status": status, "detail": detail}
    return JSONResponse(told, status, media_type="application/problem+json")


class FakeApi:
    """What is told can be changed while it is served."""

    def __init__(self, page: Path) -> None:
        self.begun_s = time.time()
        self.sessions: dict[str, str] = {}
        self.bypasses: list[BypassView] = []
        self.events: list[dict[str, object]] = []
        # What an incident has otherwise than fake_incident says.
        self.incident_has: dict[str, object] = {}
        self.flows_known = fabric.FLOWS
        self.longer_history = False
        self.controller_age_s = 0.2
        # Controllers that should be heard.
        self.silent: list[str] = []
        # What an older API does not tell of the controller.
        self.not_told: set[str] = set()
        self.lately = {
            "over_s": 600.2,
            "dropped_packets": 1340,
            "timeouts": 54,
            "held_requests": 97_200,
        }
        self.congested = [fabric.name(*fabric.HOT)]
        self.clock_off_s = 0.0
        self.asked: list[tuple[str, str]] = []
        # Paths that are answered with an error; their streams end.
        self.broken: set[str] = set()
        # All that was ever told of announced flows.
        self.shares: list[ShareView] = []
        self.listeners = 0
        # Another topology, and another use of ports.
        self.other: tuple[dict[str, Any], dict[str, Any]] | None = None
        self.changing = Changing(
            reading.parse("regulation: {max_hold: 100 ms}\nfabric: {rtt: 200 us}"),
            AuditLog(None, lambda: self.now_s),
            lambda: self.now_s,
            None,
            lambda config: config,
        )
        routes = [
            Route("/v1/session", self.session, methods=["GET", "POST", "DELETE"]),
            Route("/v1/overview", self.signed_in(self.overview)),
            Route("/v1/history", self.signed_in(self.history)),
            Route("/v1/incident", self.signed_in(self.incident)),
            Route("/v1/topology", self.signed_in(self.topology)),
            Route("/v1/switches", self.signed_in(self.switches)),
            Route("/v1/ports", self.signed_in(self.ports)),
            Route("/v1/ports/use", self.signed_in(self.use)),
            Route("/v1/regulation", self.signed_in(self.regulation)),
            Route("/v1/bypasses", self.signed_in(self.bypass), methods=["GET", "PUT", "DELETE"]),
            Route("/v1/settings", self.signed_in(self.settings), methods=["GET", "PATCH"]),
            Route("/v1/settings/undo", self.signed_in(self.undo), methods=["POST"]),
            Route("/v1/audit", self.signed_in(self.audit)),
            Route("/v1/flows", self.signed_in(self.flows)),
            Route("/v1/flows/one", self.signed_in(self.one_flow)),
            Route("/v1/bandwidth", self.signed_in(self.bandwidth)),
            Route("/v1/fountains", self.signed_in(self.fountains)),
            Route("/v1/fountains/stream", self.signed_in(self.follow_fountains)),
            Route("/v1/events", self.signed_in(self.latest)),
            Route("/v1/events/stream", self.signed_in(self.stream)),
            Mount("/", StaticFiles(directory=page, html=True)),
        ]
        self.app = Starlette(routes=routes)
        for name in ("CN-L", "CN-M", "CN-H"):
            self.happens("queue_event", **fabric.notice(fabric.HOT, name, 61_440, 10**12))

    @property
    def now_s(self) -> float:
        return time.time() + self.clock_off_s

    def happens(self, event: str, **fields: object) -> None:
        serial = len(self.events) + 1
        head = {"serial": serial, "event": event, "time_ns": 1, "wall_s": round(self.now_s, 6)}
        self.events.append(head | fields)

    def misses(self, n: int) -> None:
        """So many events come faster than the controller can tell them."""
        self.events.append({"event": "events_missed", "missed": n})

    # Who asks

    def signed_in(self, handler: Handler) -> Handler:
        async def checked(request: Request) -> Response:
            self.asked.append((request.method, request.url.path))
            if self.scopes(request) is None:
                return problem(401, "this takes a token")
            if request.url.path in self.broken:
                return problem(500, BROKEN)
            return await handler(request)

        return checked

    def scopes(self, request: Request) -> list[str] | None:
        return TOKENS.get(self.sessions.get(request.cookies.get(COOKIE, ""), ""))

    async def session(self, request: Request) -> Response:
        if request.method == "POST":
            token = (await request.json()).get("token")
            if token not in TOKENS:
                return problem(401, "this token is not known: weir-controller token makes one")
            secret = secrets.token_hex(32)
            self.sessions[secret] = token
            response: Response = JSONResponse(self.who(token))
            response.set_cookie(COOKIE, secret, 43_200, httponly=True, samesite="strict")
            return response
        secret = request.cookies.get(COOKIE, "")
        if secret not in self.sessions:
            return JSONResponse({"name": None, "scopes": [], "expires": None})
        if request.method == "DELETE":
            del self.sessions[secret]
            response = Response(status_code=204)
            response.delete_cookie(COOKIE)
            return response
        return JSONResponse(self.who(self.sessions[secret]))

    def who(self, token: str) -> dict[str, object]:
        name = token.removeprefix("weir_")
        return {"name": name, "scopes": TOKENS[token], "expires": None}

    # What there is

    async def overview(self, _: Request) -> Response:
        hot = fabric.queue(*fabric.HOT, 0)
        return JSONResponse(
            {
                "at_s": self.now_s - self.controller_age_s,
                "controller": self.controller(),
                "switches": {"ready": 5, "known": 6},
                "ports": {"with_queue": 32, "congested": len(self.congested)},
                "congested": [
                    {
                        "switch": fabric.HOT[0],
                        "datapath_id": datapath_id(fabric.HOT[0]),
                        "port": fabric.HOT[1] + n,
                        "name": name,
                        "level": "H",
                        "queue_bytes": hot["queue_bytes"],
                        "limit_bytes": hot["limit_bytes"],
                        "sent_bps": 95_300_000,
                        "rate_bps": hot["rate_bps"],
                    }
                    for n, name in enumerate(self.congested)
                ],
                "totals": {
                    "sent_bps": 572_000_000,
                    "dropped_per_s": 0,
                    "timeouts_per_s": 0,
                    "requests_per_s": 1200,
                    "held_per_s": 900,
                    "held_s_per_s": 4.1,
                    "answer_s": 0.0134,
                },
                "held_times": {
                    "bounds_s": fabric.ACCOUNT["held_bounds_s"],
                    "counts": fabric.ACCOUNT["held_counts"],
                },
                "events_per_minute": 42,
                "lately": self.lately,
                "longer_history": self.longer_history,
            }
        )

    def controller(self) -> dict[str, object]:
        told = {
            "ready": True,
            "detail": None,
            "version": "0.1.0",
            "age_s": self.controller_age_s,
            "load": 0.043,
            "loop_late_s": {"p99": 0.001, "worst": 0.025},
            "rank": "master",
            "peers": ["spare"],
            "silent": self.silent,
        }
        return {name: value for name, value in told.items() if name not in self.not_told}

    async def history(self, request: Request) -> Response:
        begin_s = float(request.query_params.get("from", self.now_s - 600))
        step_s = 1 if begin_s > self.now_s - 3600 else 10
        # The same moments are told in the same way whenever they are asked for.
        begin = int(begin_s) // step_s * step_s
        length = max(1, int(self.now_s - begin) // step_s)
        told = fabric.history(begin, step_s, length, "port" in request.query_params)
        return JSONResponse(told)

    async def use(self, _: Request) -> Response:
        return JSONResponse(self.other[1] if self.other else fabric.port_use(self.now_s))

    async def incident(self, request: Request) -> Response:
        query = request.query_params
        from_s, to_s = float(query["from"]), float(query["to"])
        if to_s - from_s > 3600:
            return problem(422, "from, to: an incident has at most 1 h")
        if "refused" in self.incident_has:
            return problem(404, str(self.incident_has["refused"]))
        asked = None
        if "port" in query:
            asked = (switch_id(query["switch"]), int(query["port"]))
        return JSONResponse(
            fake_incident.incident(from_s, to_s, self.now_s, self.events, asked, self.incident_has)
        )

    async def topology(self, _: Request) -> Response:
        if self.other:
            return JSONResponse(self.other[0])
        links = [
            {"a": fabric.port_id(*a), "b": fabric.port_id(*b), "rtt_s": 0.0002}
            | {"protected": False, "loss": 0.0, "loss_back": None}
            for a, b in fabric.peers()
        ]
        told = [
            {key: view[key] for key in ("switch", "datapath_id", "connected")}
            | {"hosts": fabric.HOSTS if view["switch"] in fabric.LEAVES else 0}
            | {"edge_ports": fabric.HOSTS if view["switch"] in fabric.LEAVES else 0}
            for view in fabric.switches()
        ]
        return JSONResponse({"switches": told, "links": links})

    async def switches(self, request: Request) -> Response:
        return JSONResponse({"switches": self._of(request, fabric.switches())})

    async def ports(self, request: Request) -> Response:
        return JSONResponse({"ports": self._of(request, self.ports_told())})

    def ports_told(self) -> list[PortView]:
        return fabric.ports(self.now_s - self.begun_s)

    async def regulation(self, request: Request) -> Response:
        return JSONResponse({"scheme": "weir", "ports": self._of(request, fabric.regulation())})

    def _of(self, request: Request, views: Any) -> list[Any]:
        asked = request.query_params.get("switch")
        return [view for view in views if asked in (None, view["datapath_id"])]

    async def flows(self, request: Request) -> Response:
        query = request.query_params
        if "/99" in query.get("host", ""):
            return problem(422, f"host: '{query['host']}' is no address; write e.g. 10.0.0.1")
        offset, limit = int(query.get("offset", 0)), int(query.get("limit", 100))
        if offset > 100_000 or limit > 1000:
            return problem(422, "offset: at most 100000; limit: at most 1000")
        matching: Sequence[int] = range(self.flows_known)
        if query.keys() & {"class", "host"}:
            matching = [
                number
                for number, one in ((n, fabric.flow(n)) for n in matching)
                if query.get("class", one["class"]) == one["class"]
                and query.get("host", one["src"]) in (one["src"], one["dst"])
            ]
        if query.get("sort") in ("oldest", "dst"):
            matching = matching[::-1]
        end = offset + limit
        return JSONResponse(
            {
                "total": len(matching),
                "offset": offset,
                "next_offset": end if end < len(matching) and end <= 100_000 else None,
                "flows": [fabric.flow(number) for number in matching[offset:end]],
            }
        )

    async def one_flow(self, request: Request) -> Response:
        asked = {key: request.query_params[key] for key in ("src", "src_port", "dst", "dst_port")}
        told = self.flow_told(asked)
        if told is None:
            ends = "{src}:{src_port} to {dst}:{dst_port}".format(**asked)
            return problem(404, f"no flow from {ends} is known")
        return JSONResponse(told)

    def flow_told(self, asked: dict[str, str]) -> FlowDetailView | None:
        """The flow between these ends, if it is not gone."""
        for number in range(fabric.FLOWS):
            told = fabric.flow_detail(number, self.now_s - self.begun_s)
            if all(str(told["flow"][key]) == value for key, value in asked.items()):  # type: ignore[literal-required]
                return told
        return None

    async def bandwidth(self, request: Request) -> Response:
        asked = (request.query_params[end] for end in ("src", "dst"))
        src, dst = (fabric.NAMES.get(host, host) for host in asked)
        for host in (src, dst):
            if host not in fabric.ADDRESSES:
                detail = f"no host of this address is known: {host}; it has to send something first"
                return problem(404, detail)
        return JSONResponse(fabric.path(src, dst))

    async def fountains(self, _: Request) -> Response:
        return JSONResponse({"fountains": list(self.announced().values())})

    def announced(self) -> dict[str, ShareView]:
        """The flows that are announced, from all that was told of them."""
        last = {share["flow"]: share for share in self.shares}
        return {name: share for name, share in last.items() if share["src"] is not None}

    async def follow_fountains(self, _: Request) -> Response:
        async def told() -> AsyncIterator[bytes]:
            yield b": \n\n"
            n = 0
            while "/v1/fountains/stream" not in self.broken:
                for share in self.shares[n:]:
                    yield f"event: share\ndata: {json.dumps(share)}\n\n".encode()
                n = len(self.shares)
                yield await self.waited()

        return StreamingResponse(self.listened(told()), media_type="text/event-stream")

    async def waited(self) -> bytes:
        """After a while, a comment. It comes more often than from the real API: a page's clock may
        be fast."""
        await asyncio.sleep(0.05)
        return b": still here\n\n"

    async def listened(self, told: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The same stream, which counts as one that is listened to."""
        self.listeners += 1
        try:
            async for text in told:
                yield text
        finally:
            self.listeners -= 1

    async def latest(self, request: Request) -> Response:
        limit = int(request.query_params.get("limit", 100))
        told = [event for event in self.events if "serial" in event]
        return JSONResponse({"next_after": len(self.events), "events": told[-limit:]})

    async def stream(self, _: Request) -> Response:
        async def told() -> AsyncIterator[bytes]:
            yield b": \n\n"
            serial = len(self.events)
            while "/v1/events/stream" not in self.broken:
                for event in self.events[serial:]:
                    head = f"id: {event['serial']}\n" if "serial" in event else ""
                    yield f"{head}event: event\ndata: {json.dumps(event)}\n\n".encode()
                serial = len(self.events)
                yield await self.waited()

        return StreamingResponse(self.listened(told()), media_type="text/event-stream")

    async def settings(self, request: Request) -> Response:
        if request.method == "GET":
            return JSONResponse(self.changing.settings())
        asked = await request.json()
        by = self.who_is(request)
        return self.changed(
            request,
            lambda: self.changing.change(
                asked["version"], asked["changes"], asked.get("only_try", False), by
            ),
        )

    async def undo(self, request: Request) -> Response:
        asked = await request.json()
        by = self.who_is(request)
        return self.changed(request, lambda: self.changing.undo(asked["id"], by))

    def changed(self, request: Request, change: Callable[[], ChangeView]) -> Response:
        refused = self.may_change(request)
        if refused is not None:
            return refused
        try:
            return JSONResponse(change())
        except ConflictError as error:
            return problem(409, str(error))
        except ValueRefusedError as error:
            return problem(422, str(error))

    async def audit(self, request: Request) -> Response:
        query = request.query_params
        page = self.changing.audit(int(query.get("limit", 100)), query.get("before"))
        return JSONResponse({"next_before": page.next_before, "entries": [*page.entries]})

    def who_is(self, request: Request) -> str:
        token = self.sessions.get(request.cookies.get(COOKIE, ""), "")
        return f"token {token.removeprefix('weir_')}"

    def may_change(self, request: Request) -> Response | None:
        """Why a request may change nothing."""
        if request.headers.get("x-weir-page") != "1":
            return problem(403, "this takes the header X-Weir-Page")
        if "regulate" not in (self.scopes(request) or []):
            return problem(403, "this takes a token with the scope regulate")
        return None

    async def bypass(self, request: Request) -> Response:
        if request.method == "GET":
            return JSONResponse({"bypasses": self.bypasses})
        refused = self.may_change(request)
        if refused is not None:
            return refused
        if request.method == "PUT":
            asked = await request.json()
            switch = switch_id(asked["switch"]) if "switch" in asked else None
            off = fabric.bypass(switch, asked.get("port"), asked.get("for_s"), "token operator")
            self.bypasses.append(off)
            return JSONResponse({"off": off, "kept": True, "unaware": []})
        at = (request.query_params.get("switch"), request.query_params.get("port"))
        on = [
            one for one in self.bypasses if at in ((None, None), (one["datapath_id"], one["port"]))
        ]
        self.bypasses = [one for one in self.bypasses if one not in on]
        return JSONResponse({"on": on, "still_off": self.bypasses, "kept": True, "unaware": []})


class Served:
    """Serves an API in a thread of its own. It can be stopped and started again."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.port = 0
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def token(self, name: str) -> str:
        return f"weir_{name}"

    def start(self) -> None:
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", self.port))
        self.port = listening.getsockname()[1]
        config = uvicorn.Config(
            self.api.app, log_level="critical", lifespan="off", headers=[*HEADERS.items()]
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([listening],), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._server is None or self._thread is None:
            return
        # Streams would go on for ever.
        self._server.should_exit = self._server.force_exit = True
        self._thread.join()
        self._server = None

    @contextlib.contextmanager
    def running(self) -> Any:
        self.start()
        try:
            yield self
        finally:
            self.stop()
