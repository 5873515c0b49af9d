"""What all requests to the API share: the controller, tokens, limits, streams, counts."""

import asyncio
import json
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastapi import Request, Response
from prometheus_client import CollectorRegistry, Counter, Gauge
from pydantic import BaseModel

from controller.api.access import session_file
from controller.api.access.access import Access
from controller.api.access.session_file import SessionFile
from controller.api.access.tokens import TokenError, Tokens
from controller.api.history import history, prometheus
from controller.api.history.history import History, Store
from controller.api.history.prometheus import Prometheus
from controller.api.hub import Hub
from controller.api.names import Names
from controller.api.overview import FabricOverview, Overview
from controller.api.page import Page, PageError, takes_gzip
from controller.api.recording import recorder, snapshots
from controller.api.recording.export import Exports
from controller.api.recording.incidents import Incidents
from controller.api.recording.recorder import Recorder
from controller.api.recording.segments import Files, Memory, Segments
from controller.api.recording.snapshots import Album, Snapshots
from controller.api.sampling import Sample, Sampler
from controller.api.settings import ApiSettings
from controller.api.sharing import Answer, Sharing
from controller.api.upstream import NoAnswerError, UnsureError, Upstream
from controller.model.values import PortId
from controller.rpc.messages import CallError, Kind
from controller.rpc.methods import Parameters

LOG = logging.getLogger("weir.api")

_LOOK_S = 1.0
# A sample comes every second, a little later if there is much to tell.
_SAMPLE_S = 1.5
# It is of days, in steps of a minute at least.
_LONGER_FRESH_S = 30.0
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
        self.lost = Counter(
            "weir_api_events_lost",
            "Events that could not be recorded",
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
        directory: Path | None = None,
    ) -> None:
        """History is in `store`, sessions and recordings in `directory`; without these, they end
        with the process. Raises TokenError."""
        self.settings = settings
        self.upstream = upstream
        self._now, self._clock = now, clock
        self.metrics = ApiMetrics()
        self.tokens = Tokens(settings.tokens)
        file = SessionFile(directory / session_file.NAME, now) if directory else None
        self.access = Access(self.tokens, settings.rate, self.metrics.refused, now, clock, file)
        self.shares = Hub(
            "share",
            lambda: upstream.follow("follow_fountains"),
            _MOST_LISTENERS,
            key=lambda share: str(share["flow"]),
            gone=lambda share: share["src"] is None,
        )
        self.names = Names(clock)
        self.recorder = Recorder(
            upstream,
            _segments(directory, "events", recorder.MOST_BYTES, recorder.MOST_MEMORY_BYTES),
            self.metrics.lost.inc,
            self.now_s,
        )
        self.exports = Exports(self.recorder)
        self._album = Album(
            _segments(directory, "snapshots", snapshots.MOST_BYTES, snapshots.MOST_MEMORY_BYTES)
        )
        self.events = Hub(
            "event",
            self.recorder.follow,
            _MOST_LISTENERS,
            hear=lambda events: self.overview.hear(events, clock()),
        )

        self.history = History(store or history.Memory())
        self._prometheus = (
            Sharing(Prometheus(settings.prometheus), clock) if settings.prometheus else None
        )
        self.overview = Overview(settings.prometheus is not None)
        self._sample: tuple[Sample | None, float] = None, 0.0
        # By what makes it of a sample.
        self._made: dict[Callable[[Sample], BaseModel], tuple[Sample, Answer]] = {}
        self.page = Page(settings.page)
        self._follow_page()
        self.sharing = Sharing(upstream, clock)
        self._incidents = Incidents(upstream, self.recorder, self._album, self.history)
        self._snapshots = Snapshots(
            self.sharing,
            lambda: self.overview.congested(clock()),
            self._put,
            self.now_s,
            clock,
        )
        self._sampler = Sampler(self.sharing, self._take, self.now_s, clock)

    def now_s(self) -> float:
        """The time of day."""
        return self._now().timestamp()

    async def told_history(
        self, request: Request, port_id: PortId | None, begin_s: float, end_s: float
    ) -> Response:
        """A port, or all together, from one time to another. Raises LookupError and
        UnavailableError."""
        now_s = self.now_s()
        if self._prometheus is not None and begin_s < now_s - history.DAY_S:
            asked = prometheus.longer(port_id, begin_s, end_s, now_s)
            return await self.answer(
                request, await self._prometheus.ask("longer", asked, _LONGER_FRESH_S)
            )
        told = self.history.told(port_id, begin_s, end_s, now_s)
        return Response(told.model_dump_json(), media_type="application/json")

    async def incident(
        self, request: Request, begin_s: float, end_s: float, port_id: PortId | None
    ) -> Response:
        """Everything that happened from one time to another. Raises LookupError."""
        asked_s, now_s = self._clock(), self.now_s()
        sample, _ = self._sample
        rows = sample.ports if sample else ()
        names = {PortId(row["switch"], row["port"]): row["name"] for row in rows}
        told = await self._incidents.told(begin_s, end_s, now_s, port_id, names)
        return await self.answer(request, Answer(told, asked_s))

    def told_overview(self) -> FabricOverview:
        """The overview now."""
        return self.overview.told(self._clock())

    async def ask(self, method: str, asked: Parameters | None = None, **more: object) -> Response:
        """The answer of the controller, unchanged. Raises CallError and UnavailableError."""
        answer = await self.upstream.ask(method, {**_params(asked), **more})
        return Response(answer, media_type="application/json")

    async def change(self, method: str, asked: Parameters, **more: object) -> Response:
        """The answer to what changes something: if it does, who asks afterwards is told what is so
        then. Raises CallError, UnavailableError if nothing has changed, and UnsureError."""
        changed = True
        try:
            answer = await self.ask(method, asked, **more)
            # A change of settings without an entry in the audit log has changed nothing.
            changed = json.loads(bytes(answer.body)).get("id", "") is not None
            return answer
        except CallError as error:
            # After a conflict, what was asked before is too old.
            changed = error.kind == Kind.CONFLICT
            raise
        except NoAnswerError as error:
            raise UnsureError(
                f"{error}; whether this is in force is not known: read what is so now (GET), then "
                "decide"
            ) from None
        finally:
            if changed:
                self.sharing.clear()

    async def share(
        self, request: Request, method: str, asked: Parameters | None = None, fresh_s: float = 0.5
    ) -> Response:
        """The same as `ask`, asked once for all who want it within `fresh_s`, or a little longer
        (`sharing`). Raises as `ask`."""
        return await self.answer(
            request, await self.sharing.ask(method, _params(asked), fresh_s=fresh_s)
        )

    async def sampled(self, request: Request, make: Callable[[Sample], BaseModel]) -> Response:
        """What is made of the last sample, once for all who ask. Without one that is new enough,
        the controller is asked. Raises CallError and UnavailableError."""
        sample, sampled_s = self._sample
        if sample is None or self._clock() - sampled_s > _SAMPLE_S:
            sampled_s = self._clock()
            sample = await self._sampler.ask()
            self._sample = sample, sampled_s
        of = self._made.get(make)
        if of is None or of[0] is not sample:
            body = make(sample).model_dump_json().encode()
            of = self._made[make] = sample, Answer(body, sampled_s)
        return await self.answer(request, of[1])

    async def answer(self, request: Request, answer: Answer) -> Response:
        """An answer that others have, too, packed if the request takes that."""
        age_s = max(0, int(self._clock() - answer.asked_s))
        headers = {"Cache-Control": "no-store", "Age": str(age_s), "Vary": "Accept-Encoding"}
        body = answer.body
        if takes_gzip(request.headers.get("accept-encoding", "")):
            packed = await answer.packed()
            if packed is not None:
                body, headers["Content-Encoding"] = packed, "gzip"
        return Response(body, media_type="application/json", headers=headers)

    async def run(self) -> None:
        """The work in the background, for ever."""
        async with asyncio.TaskGroup() as tasks:
            for work in (
                self.shares.run(),
                self.events.run(),
                self.recorder.run(),
                self._take_snapshots(),
                self._sampler.run(),
                self._look(),
            ):
                tasks.create_task(work)

    async def _take_snapshots(self) -> None:
        await self.recorder.in_thread(self._album.open)
        await self._snapshots.run()

    async def _put(self, taken: list[dict[str, Any]]) -> None:
        await self.recorder.in_thread(self._album.put, taken, self.now_s())

    def _take(self, found: Sample | str) -> None:
        if isinstance(found, Sample):
            self.history.put(found.sampled, found.at_s)
            self._sample = found, self._clock()
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


def _segments(
    directory: Path | None, name: str, most_bytes: int, most_memory_bytes: int
) -> Segments:
    """In memory without a directory."""
    if directory is None:
        return Segments(Memory(), most_memory_bytes)
    return Segments(Files(directory / name), most_bytes)


def _params(asked: Parameters | None) -> dict[str, object]:
    return asked.model_dump(mode="json", by_alias=True, exclude_none=True) if asked else {}
