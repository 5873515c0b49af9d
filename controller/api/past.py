"""The paths that tell how it has been: history, incidents, recorded events."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from starlette.exceptions import HTTPException

from controller.api import answers
from controller.api.access.access import Caller
from controller.api.history.history import PortHistory
from controller.api.recording.export import Export
from controller.api.recording.incident import MOST_S, Incident
from controller.api.state import Api


def add(app: FastAPI, api: Api, reader: Any) -> None:
    """Add the paths, for whom `reader` admits."""
    reads: dict[str, Any] = {"dependencies": [reader]}

    @app.get(
        "/v1/history",
        summary="A port, or all together: the last hour, the last day, or longer with Prometheus",
        response_model=PortHistory,
        tags=["fabric"],
        **reads,
    )
    async def port_history(
        request: Request, asked: Annotated[answers.HistoryQuery, Query()]
    ) -> Response:
        begin_s, end_s = asked.interval(api.now_s())
        try:
            return await api.told_history(request, asked.port_id(), begin_s, end_s)
        except LookupError as error:
            raise HTTPException(HTTPStatus.NOT_FOUND, str(error)) from None

    @app.get(
        "/v1/incident",
        summary="Everything that happened in a time of at most an hour, everywhere or at a port",
        response_model=Incident,
        tags=["fabric"],
        **reads,
    )
    async def incident(
        request: Request, asked: Annotated[answers.HistoryQuery, Query()]
    ) -> Response:
        begin_s, end_s = asked.interval(api.now_s())
        _check_order(begin_s, end_s)
        if end_s - begin_s > MOST_S:
            raise HTTPException(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"from: an incident is of at most {MOST_S:.0f} s, and this is of "
                f"{end_s - begin_s:.0f} s; write a from and a to that are closer to each other",
            )
        try:
            return await api.incident(request, begin_s, end_s, asked.port_id())
        except LookupError as error:
            raise HTTPException(HTTPStatus.NOT_FOUND, str(error)) from None

    @app.get(
        "/v1/events/recorded",
        summary="The events of a time, as they were recorded, a line each",
        response_class=Export,
        tags=["events"],
    )
    async def recorded_events(
        asked: Annotated[answers.TimeQuery, Query()], caller: Annotated[Caller, reader]
    ) -> Response:
        begin_s, end_s = asked.interval(api.now_s())
        _check_order(begin_s, end_s)
        return api.exports.response(begin_s, end_s, caller.is_admitted)


def _check_order(begin_s: float, end_s: float) -> None:
    if begin_s > end_s:
        raise HTTPException(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"from: {begin_s} is after the end, {end_s}; write an earlier from, or a later to",
        )
