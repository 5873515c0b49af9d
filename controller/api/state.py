"""What all requests to the API share: the controller, tokens, limits, streams, counts."""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus

from fastapi import Request, Response
from prometheus_client import CollectorRegistry, Counter, Gauge
from starlette.exceptions import HTTPException

from controller.api import problems
from controller.api.hub import Hub
from controller.api.limits import RateLimit
from controller.api.settings import ApiSettings
from controller.api.tokens import RefusedError, Scope, Token, TokenError, Tokens
from controller.api.upstream import Upstream
from controller.rpc.methods import Parameters

LOG = logging.getLogger("weir.api")

_LOOK_S = 1.0
_MOST_LISTENERS = 2048
# An address without a valid token may make this part of the requests of a token.
_STRANGERS_PART = 0.2


class ApiMetrics:
    """The metrics of the API itself."""

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
            "weir_api_listeners", "Listeners of a stream", ["stream"], registry=self.registry
        )
        self.dropped = Counter(
            "weir_api_listeners_dropped",
            "Listeners that did not read",
            ["stream"],
            registry=self.registry,
        )


class Api:
    """What all requests share. `now` is the time of day, `clock` any clock that does not jump."""

    def __init__(
        self,
        settings: ApiSettings,
        upstream: Upstream,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises TokenError."""
        self.settings = settings
        self.upstream = upstream
        self.metrics = ApiMetrics()
        self.tokens = Tokens(settings.tokens)
        self._now = now
        self._limit = RateLimit(settings.rate, clock)
        self._strangers = RateLimit(_STRANGERS_PART * settings.rate, clock)
        self.shares = Hub(
            "share",
            lambda: upstream.follow("follow_fountains"),
            _MOST_LISTENERS,
            key=lambda share: str(share["flow"]),
            gone=lambda share: share["src"] is None,
        )
        self.events = Hub(
            "event", lambda: upstream.follow("follow_events", {"limit": 0}), _MOST_LISTENERS
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
            self.metrics.refused.labels(refused.reason).inc()
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

    async def ask(self, method: str, asked: Parameters | None = None, **more: object) -> Response:
        """The answer of the controller, unchanged. Raises CallError and UnavailableError."""
        params = asked.model_dump(mode="json", by_alias=True, exclude_none=True) if asked else {}
        answer = await self.upstream.ask(method, {**params, **more})
        return Response(answer, media_type="application/json")

    async def run(self) -> None:
        """The work in the background, for ever."""
        async with asyncio.TaskGroup() as tasks:
            for work in (self.shares.run(), self.events.run(), self._look()):
                tasks.create_task(work)

    async def _look(self) -> None:
        """Follow the token file and update the metrics, for ever."""
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                if self.tokens.follow():
                    LOG.info("tokens have been read again")
            except TokenError as error:
                LOG.error("tokens are not read again, the former ones stay in use: %s", error)
            for name, hub in (("shares", self.shares), ("events", self.events)):
                self.metrics.listeners.labels(name).set(len(hub))
                dropped, hub.dropped = hub.dropped, 0
                self.metrics.dropped.labels(name).inc(dropped)


def _address_of(request: Request) -> str:
    return request.client.host if request.client else "unknown"
