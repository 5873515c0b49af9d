"""Answers of the controller that many ask for: it is asked once, and they are packed once.

Who asks while the same question is on its way gets its answer. After that an answer is given for as
long as its kind may be old (docs/api.md), and for longer if it was expensive, so that readers
together take only a part of the controller's time. `clear` ends all of them, after a change.
"""

import asyncio
import gzip
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Protocol

_MOST = 64
_MOST_BYTES = 64 * 1024 * 1024
# A question may take this part of the controller's time, until its answer is too old.
_COSTS = 10
_OLDEST_S = 10.0
_WORTH_PACKING_BYTES = 1400
# What takes longer than a few milliseconds to pack is packed beside the loop.
_LARGE_BYTES = 64 * 1024


class Asked(Protocol):
    """`upstream.Upstream`, as far as it is used here."""

    async def ask(self, method: str, params: Mapping[str, object] | None = None) -> bytes: ...


class Answer:
    """JSON, of which nothing is older than `asked_s`."""

    def __init__(self, body: bytes, asked_s: float) -> None:
        self.body = body
        self.asked_s = asked_s
        self._packed: bytes | None = None
        self._packing: asyncio.Task[bytes] | None = None

    async def packed(self) -> bytes | None:
        """The same as gzip packs it; None if that is not worth it."""
        if self._packed is None and len(self.body) > _WORTH_PACKING_BYTES:
            if len(self.body) < _LARGE_BYTES:
                self._packed = _pack(self.body)
            else:
                if self._packing is None:
                    self._packing = asyncio.create_task(asyncio.to_thread(_pack, self.body))
                self._packed = await asyncio.shield(self._packing)
        return self._packed


class Sharing:
    """`clock` does not jump."""

    def __init__(self, controller: Asked, clock: Callable[[], float]) -> None:
        self._controller = controller
        self._clock = clock
        self._known: OrderedDict[str, tuple[Answer, float]] = OrderedDict()
        self._asking: dict[str, asyncio.Task[Answer]] = {}
        self._n_bytes = 0

    async def ask(
        self, method: str, params: Mapping[str, object] | None = None, fresh_s: float = 0.0
    ) -> Answer:
        """An answer that was asked for at most `fresh_s` ago, or longer if that took long. Raises
        CallError and UnavailableError."""
        key = json.dumps([method, params or {}], sort_keys=True)
        answer, until_s = self._known.get(key, (None, 0.0))
        if answer is not None and self._clock() < max(until_s, answer.asked_s + fresh_s):
            self._known.move_to_end(key)
            return answer
        return await self._ask(key, method, params)

    async def renew(self, method: str) -> bytes:
        """Ask now; all others get this answer, too. Raises as `ask`."""
        key = json.dumps([method, {}], sort_keys=True)
        return (await self._ask(key, method, None)).body

    def clear(self) -> None:
        """Something has changed: what was asked before is no answer any more."""
        self._known.clear()
        self._asking.clear()
        self._n_bytes = 0

    async def _ask(self, key: str, method: str, params: Mapping[str, object] | None) -> Answer:
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.create_task(self._question(key, method, params))
        # Who leaves does not end the question of the others.
        return await asyncio.shield(asking)

    async def _question(self, key: str, method: str, params: Mapping[str, object] | None) -> Answer:
        this, asked_s = asyncio.current_task(), self._clock()
        try:
            answer = Answer(await self._controller.ask(method, params), asked_s)
            if self._asking.get(key) is this:
                took_s = self._clock() - asked_s
                self._keep(key, answer, asked_s + min(_COSTS * took_s, _OLDEST_S))
            return answer
        finally:
            if self._asking.get(key) is this:
                del self._asking[key]

    def _keep(self, key: str, answer: Answer, until_s: float) -> None:
        former = self._known.pop(key, None)
        if former is not None:
            self._n_bytes -= len(former[0].body)
        self._known[key] = answer, until_s
        self._n_bytes += len(answer.body)
        while len(self._known) > _MOST or self._n_bytes > _MOST_BYTES:
            _, (oldest, _) = self._known.popitem(last=False)
            self._n_bytes -= len(oldest.body)


def _pack(body: bytes) -> bytes:
    # The fastest level: rows are much alike, and the others gain little.
    return gzip.compress(body, compresslevel=1, mtime=0)
