"""Asks the controller once a second how it, its switches and its ports are."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from pydantic_core import from_json

from controller.api.history.rates import NO_TIMES, UNKNOWN, Differences, Sampled
from controller.api.upstream import UnavailableError
from controller.rpc.messages import CallError, Kind


class Asked(Protocol):
    """`sharing.Sharing`, as far as it is used here."""

    async def renew(self, method: str) -> bytes: ...


class Sample(NamedTuple):
    """What was found at `at_s` of the day. `not_ready` says why the controller is not."""

    at_s: float
    not_ready: str | None
    switches: list[dict[str, Any]]
    ports: list[dict[str, Any]]
    sampled: Sampled
    controller: dict[str, Any] | None = None


class Sampler:
    """`take` gets each sample, or why there is none. `now_s` is the time of day, `clock` does not
    jump."""

    def __init__(
        self,
        controller: Asked,
        take: Callable[[Sample | str], None],
        now_s: Callable[[], float],
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._controller = controller
        self._take = take
        self._now_s, self._clock, self._sleep = now_s, clock, sleep
        self._differences = Differences()

    async def run(self) -> None:
        """Sample in the middle of each second, for ever."""
        last = 0
        while True:
            await self._sleep(pause_s(self._now_s(), last))
            last = math.floor(self._now_s())
            await self.sample()

    async def sample(self) -> None:
        """Sample once."""
        try:
            found = await self.ask()
        except (UnavailableError, CallError) as error:
            self._take(str(error))
        else:
            sampled = self._differences.take(found.ports, self._clock())
            self._take(found._replace(sampled=sampled))

    async def ask(self) -> Sample:
        """A sample by itself, whose rates are not known. Raises UnavailableError and CallError."""
        at_s = self._now_s()
        not_ready, switches, ports, told = await asyncio.gather(
            self._not_ready(),
            self._rows("switches"),
            self._rows("ports"),
            self._controller.renew("controller"),
        )
        unknown = Sampled({}, UNKNOWN, NO_TIMES)
        return Sample(at_s, not_ready, switches, ports, unknown, from_json(told))

    async def _not_ready(self) -> str | None:
        try:
            await self._controller.renew("ready")
        except CallError as error:
            if error.kind != Kind.NOT_READY:
                raise
            return error.detail
        return None

    async def _rows(self, method: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = from_json(await self._controller.renew(method))[method]
        return rows


def pause_s(now_s: float, last: int) -> float:
    """How long until the middle of the next second, where a clock that is a little off still says
    that second. The second `last` has its sample, even if it is not over."""
    second = math.floor(now_s + 0.5)
    return second + (1.5 if second == last else 0.5) - now_s
