"""History over longer spans, from Prometheus (https://prometheus.io/docs/prometheus/latest/querying/
api/): what its scrapes of the controller say, in the form of `history`.

Several controllers tell of the same port, a master and its standbys: the largest value counts.
"""

import asyncio
import json
import logging
import math
from collections.abc import Mapping
from typing import Any

import httpx
from pydantic_core import from_json

from controller.api.history.history import PortHistory, Series
from controller.api.history.rings import Column
from controller.api.upstream import UnavailableError
from controller.model.values import PortId, datapath_id

LOG = logging.getLogger("weir.api")

# Further back, and with more steps, nobody looks.
MOST_S = 1000 * 86_400.0
_MOST_STEPS = 1000
_STEPS_S = (60, 300, 600, 1800, 3600, 7200, 21_600, 86_400)
# Rates take two scrapes at least, and these may be a minute apart.
_WINDOW_S = 150
_TIMEOUT_S = 10.0
_MOST_BYTES = 1024 * 1024
_SHOWN = 200


# What a metric tells several of at one time, whatever labels its scrapes add. Names of ports are
# left out: they may change.
_LABELS = "switch, port, queue, below_bytes"


def _rate(metric: str) -> str:
    return f"rate({metric}WHERE[WINDOWs])"


# By the fields of `Series`: what is added up over ports, once of each, and by which factor.
_ANSWERS = (_rate("weir_tcp_answer_seconds_sum"), _rate("weir_tcp_answer_seconds_count"))
_SUMS: Mapping[str, tuple[int, str]] = {
    "sent_bps": (8, _rate("weir_queue_sent_bytes_total")),
    "queue_bytes": (1, "avg_over_time(weir_queue_bytesWHERE[WINDOWs])"),
    "dropped_per_s": (1, _rate("weir_queue_dropped_packets_total")),
    "requests_per_s": (1, _rate("weir_port_requests_total")),
    "held_per_s": (1, _rate("weir_port_held_requests_total")),
    "held_s_per_s": (1, _rate("weir_port_held_seconds_sum")),
    "timeouts_per_s": (1, _rate("weir_tcp_timeouts_total")),
}


class Prometheus:
    """The one at `url`."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._client = httpx.AsyncClient(
            # What is packed could be of any size.
            headers={"Accept-Encoding": "identity"},
            timeout=_TIMEOUT_S,
            trust_env=False,
            follow_redirects=False,
        )
        self._why: str | None = None

    async def ask(self, _method: str, params: Mapping[str, object] | None = None) -> bytes:
        """A `PortHistory` as JSON, of the parameters of `longer`. Raises UnavailableError."""
        asked: dict[str, Any] = dict(params or {})
        return (await self.history(**asked)).model_dump_json().encode()

    async def history(
        self, switch: int | None, port: int | None, begin_s: int, n: int, step_s: int
    ) -> PortHistory:
        """`n` steps of `step_s`, of a port or of all together. Raises UnavailableError."""
        try:
            told = await self._history(switch, port, begin_s, n, step_s)
        except UnavailableError as error:
            # Where it is, is for those who run it alone.
            if str(error) != self._why:
                LOG.warning("no longer history from %s: %s", self._url, error)
            self._why = str(error)
            raise
        self._why = None
        return told

    async def _history(
        self, switch: int | None, port: int | None, begin_s: int, n: int, step_s: int
    ) -> PortHistory:
        port_id = None if switch is None or port is None else PortId(switch, port)
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                columns = await asyncio.gather(
                    *(
                        self._column(_query(name, port_id, step_s), begin_s, n, step_s)
                        for name in Series.model_fields
                    )
                )
        except TimeoutError:
            raise _unavailable("does not answer in time") from None
        series = Series(**dict(zip(Series.model_fields, columns, strict=True)))
        return PortHistory(step_s=step_s, begin_s=begin_s, series=series)

    async def _column(self, query: str, begin_s: int, n: int, step_s: int) -> Column:
        # What Prometheus tells of a time is of the window before it.
        first, last = begin_s + step_s, begin_s + n * step_s
        params = {"query": query, "start": first, "end": last, "step": step_s}
        body = await self._body({name: str(value) for name, value in params.items()})
        column: Column = [None] * n
        try:
            told = from_json(body)
            if told["status"] != "success":
                raise _unavailable(f"refuses: {str(told['error'])[:_SHOWN]}")
            for result in told["data"]["result"]:
                for time_s, value in result["values"]:
                    number, place = float(value), round((time_s - first) / step_s)
                    if 0 <= place < n and math.isfinite(number):
                        column[place] = number
        except (ValueError, OverflowError, KeyError, TypeError):
            right = "is northbound.api.prometheus its address?"
            raise _unavailable(f"answers with what is none of its answers; {right}") from None
        return column

    async def _body(self, params: Mapping[str, str]) -> bytes:
        body = b""
        try:
            # POST, since queries are long.
            url = f"{self._url}/api/v1/query_range"
            async with self._client.stream("POST", url, data=params) as response:
                async for piece in response.aiter_raw():
                    body += piece
                    if len(body) > _MOST_BYTES:
                        raise _unavailable("answers with more than it was asked for")
        except httpx.TimeoutException:
            raise _unavailable("does not answer in time") from None
        except httpx.HTTPError as error:
            raise _unavailable(f"does not answer: {error}") from None
        return body


def _unavailable(why: str) -> UnavailableError:
    return UnavailableError(f"Prometheus {why}")


def longer(
    port_id: PortId | None, begin_s: float, end_s: float, now_s: float
) -> dict[str, int | None]:
    """What to ask Prometheus for: from one time to another, in as many steps as can be looked
    at."""
    begin_s = max(begin_s, now_s - MOST_S)
    end_s = max(begin_s, min(end_s, now_s))
    wanted_s = (end_s - begin_s) / _MOST_STEPS
    step_s = next((step for step in _STEPS_S if step >= wanted_s), _STEPS_S[-1])
    first, last = math.floor(begin_s / step_s), math.ceil(end_s / step_s)
    return {
        "switch": None if port_id is None else port_id.switch,
        "port": None if port_id is None else port_id.port,
        "begin_s": first * step_s,
        "n": max(1, last - first),
        "step_s": step_s,
    }


def _query(name: str, port_id: PortId | None, step_s: int) -> str:
    """In Prometheus' language, with one result at most."""
    where = ""
    if port_id is not None:
        labels = {"switch": datapath_id(port_id.switch), "port": str(port_id.port)}
        # JSON's strings are strings there, too.
        where = ",".join(f"{label}={json.dumps(value)}" for label, value in labels.items())
        where = f"{{{where}}}"
    window = max(step_s, _WINDOW_S)

    def summed(of: str) -> str:
        text = of.replace("WHERE", where).replace("WINDOW", str(window))
        return f"sum(max by ({_LABELS}) ({text}))"

    if name == "answer_s":
        seconds, answers = map(summed, _ANSWERS)
        return f"{seconds} / ({answers} > 0)"
    factor, of = _SUMS[name]
    return summed(of) if factor == 1 else f"{factor} * {summed(of)}"
