"""What all requests to the API share: the controller, tokens, limits, streams, counts."""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from fastapi import Response
from prometheus_client import CollectorRegistry, Counter, Gauge

from controller.api.access import Access
from controller.api.history import History, Memory, Store
from controller.api.hub import Hub
from controller.api.overview import FabricOverview, Overview
from controller.api.page import Page, PageError
from controller.api.sampling import Sample, Sampler
from controller.api.settings import ApiSettings
from controller.api.tokens import TokenError, Tokens
from controller.api.upstream import Upstream
from controller.rpc.methods import Parameters

LOG = logging.getLogger("weir.api")

_LOOK_S = 1.0
_MOST_LISTENERS = 2048


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
        store: Store | None = None,
    ) -> None:
        """History is in `store`; without one, it ends with the process. Raises TokenError."""
        self.settings = settings
        self.upstream = upstream
        self._now, self._clock = now, clock
        self.metrics = ApiMetrics()
        self.tokens = Tokens(settings.tokens)
        self.access = Access(self.tokens, settings.rate, self.metrics.refused, now, clock)
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

        self.history = History(store or Memory())
        self.overview = Overview()
        self.page = Page(settings.page)
        self._follow_page()
        self._sampler = Sampler(upstream, self._take, self.now_s, clock)

    def now_s(self) -> float:
        """The time of day."""
        return self._now().timestamp()

    def told_overview(self) -> FabricOverview:
        """The overview now."""
        return self.overview.told(self._clock())

    async def ask(self, method: str, asked: Parameters | None = None, **more: object) -> Response:
        """The answer of the controller, unchanged. Raises CallError and UnavailableError."""
        params = asked.model_dump(mode="json", by_alias=True, exclude_none=True) if asked else {}
        answer = await self.upstream.ask(method, {**params, **more})
        return Response(answer, media_type="application/json")

    async def run(self) -> None:
        """The work in the background, for ever."""
        async with asyncio.TaskGroup() as tasks:
            for work in (
                self.shares.run(),
                self.events.run(),
                self._sampler.run(),
                self._look(),
            ):
                tasks.create_task(work)

    def _take(self, found: Sample | str) -> None:
        if isinstance(found, Sample):
            self.history.put(found.sampled, found.at_s)
        happened, self.events.told = self.events.told, 0
        self.overview.take(found, happened, self._clock())

    def _follow_page(self) -> None:
        try:
            if self.page.follow():
                LOG.info("the dashboard's page has been read")
        except PageError as error:
            LOG.error("the dashboard's page is not read: %s", error)

    async def _look(self) -> None:
        """Follow the token file and the page, end the streams of tokens that are no longer good,
        and update the metrics, for ever."""
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                if self.tokens.follow():
                    LOG.info("tokens have been read again")
            except TokenError as error:
                LOG.error("tokens are not read again, the former ones stay in use: %s", error)
            self._follow_page()
            for hub in (self.shares, self.events):
                hub.part()
            for name, hub in (("shares", self.shares), ("events", self.events)):
                self.metrics.listeners.labels(name).set(len(hub))
                dropped, hub.dropped = hub.dropped, 0
                self.metrics.dropped.labels(name).inc(dropped)
