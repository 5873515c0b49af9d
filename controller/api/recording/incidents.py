"""Puts incidents together: what was recorded, histories, snapshots, and who has changed what."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic_core import from_json

from controller import __version__
from controller.api.history.history import History
from controller.api.hub import FullError
from controller.api.recording import incident
from controller.api.recording.incident import Found, Notices
from controller.api.recording.recorder import Recorder
from controller.api.recording.recording import Gap
from controller.api.recording.segments import Segments
from controller.api.recording.snapshots import Album
from controller.api.upstream import UnavailableError, Upstream
from controller.model.values import PortId, datapath_id
from controller.rpc.messages import CallError

_ENTRIES, _MOST_PAGES = 1000, 10
# They may take seconds each, of the one thread that reads: others are to try again.
_AT_ONCE = 4
_NO_NOTICES = Notices(0, None)


class _Asked(NamedTuple):
    """What an incident is asked for, at `now_s`. `names` has the names of ports as their switches
    tell them."""

    begin_s: float
    end_s: float
    now_s: float
    port_id: PortId | None
    names: Mapping[PortId, str]


class Incidents:
    """Puts together a few at once."""

    def __init__(
        self, upstream: Upstream, recorder: Recorder, album: Album, history: History
    ) -> None:
        self._upstream, self._recorder = upstream, recorder
        self._album, self._history = album, history
        self._n = 0

    async def told(
        self,
        begin_s: float,
        end_s: float,
        now_s: float,
        port_id: PortId | None,
        names: Mapping[PortId, str],
    ) -> bytes:
        """An `incident.Incident` as JSON; see `_Asked`. Raises LookupError for a port that is not
        known, and FullError if others are being put together already."""
        if self._n >= _AT_ONCE:
            raise FullError(f"{_AT_ONCE} incidents are put together already; try again later")
        self._n += 1
        try:
            return await self._put_together(_Asked(begin_s, end_s, now_s, port_id, names))
        finally:
            self._n -= 1

    async def _put_together(self, asked: _Asked) -> bytes:
        begin_s, end_s, port_id = asked.begin_s, asked.end_s, asked.port_id
        audit, gaps = await self._audit(begin_s, end_s)
        port = None if port_id is None else str(port_id)

        def find(segments: Segments) -> tuple[Found, float | None]:
            once, again = (segments.read(begin_s, end_s) for _ in range(2))
            return incident.find(once, again, begin_s, end_s, port), segments.begin_s

        found, from_s = await self._recorder.read(find)
        # The loop changes histories and gaps, so it takes them, one after the other.
        chosen = _chosen(found, port_id)
        gaps += self._recorder.gaps()
        told = await self._told(found, chosen, asked)
        told["events_from_s"] = from_s
        told["gaps"] = _gaps([*found.gaps, *gaps], begin_s, end_s)
        told["audit"] = audit

        def write() -> bytes:
            of = list(map(str, chosen))
            most = incident.MOST_SNAPSHOTS
            told["snapshots"] = self._album.told(begin_s, end_s, of, most) if of else []
            return _written(told)

        return await self._recorder.in_thread(write)

    async def _told(self, found: Found, chosen: Sequence[PortId], asked: _Asked) -> dict[str, Any]:
        begin_s, end_s, now_s, port_id, names = asked
        # Raises for the port that was asked for alone: others have had notices.
        if port_id is not None and str(port_id) not in found.ports:
            self._history.told(port_id, begin_s, end_s, now_s)

        async def history(of: PortId | None) -> dict[str, Any]:
            # Others have their turn between two ports.
            await asyncio.sleep(0)
            try:
                told = self._history.told(of, begin_s, end_s, now_s)
            except LookupError:
                told = self._history.unknown(begin_s, end_s, now_s)
            return told.model_dump()

        return {
            "from_s": begin_s,
            "to_s": end_s,
            "asked_s": now_s,
            "version": __version__,
            "port": None if port_id is None else _named(port_id, names),
            "totals": await history(None),
            "ports": [
                {
                    **_named(of, names),
                    **found.ports.get(str(of), _NO_NOTICES)._asdict(),
                    "history": await history(of),
                }
                for of in chosen
            ],
            "events": found.events,
            "events_left_out": found.n_left_out,
        }

    async def _audit(self, begin_s: float, end_s: float) -> tuple[list[dict[str, Any]], list[Gap]]:
        """The entries of this time, the oldest first; or that they are not known."""
        entries: list[dict[str, Any]] = []
        before: str | None = None
        try:
            for _ in range(_MOST_PAGES):
                page = from_json(
                    await self._upstream.ask("audit", {"limit": _ENTRIES, "before": before})
                )
                entries += [one for one in page["entries"] if begin_s <= one["at_s"] <= end_s]
                before = page["next_before"]
                if before is None or page["entries"][-1]["at_s"] < begin_s:
                    return entries[::-1], []
        except (CallError, UnavailableError) as error:
            return [], [Gap(begin_s, end_s, f"it is not known who has changed what: {error}")]
        oldest_s = page["entries"][-1]["at_s"]
        why = f"it is not known who has changed what: {_ENTRIES * _MOST_PAGES} changes are later"
        return entries[::-1], [Gap(begin_s, max(begin_s, min(oldest_s, end_s)), why)]


def _chosen(found: Found, port_id: PortId | None) -> list[PortId]:
    """The ports of an incident, the one that was asked for first."""
    chosen = [] if port_id is None else [port_id]
    noticed = map(_port_id, found.ports)
    chosen += [one for one in noticed if one != port_id]
    return chosen[: incident.MOST_PORTS]


def _written(told: Mapping[str, Any]) -> bytes:
    """As JSON. It is written piece by piece, between which the loop has its turn: megabytes at once
    would hold it up for a tenth of a second."""
    fields = []
    for name, value in told.items():
        if isinstance(value, list):
            text = f"[{','.join(json.dumps(one) for one in value)}]"
        else:
            text = json.dumps(value)
        fields.append(f"{json.dumps(name)}:{text}")
    return f"{{{','.join(fields)}}}".encode()


def _gaps(gaps: Sequence[Gap], begin_s: float, end_s: float) -> list[dict[str, Any]]:
    within = {gap for gap in gaps if gap.from_s <= end_s and gap.to_s >= begin_s}
    return [gap._asdict() for gap in sorted(within)]


def _named(port_id: PortId, names: Mapping[PortId, str]) -> dict[str, Any]:
    return {
        "switch": port_id.switch,
        "datapath_id": datapath_id(port_id.switch),
        "port": port_id.port,
        "name": names.get(port_id, str(port_id)),
    }


def _port_id(name: str) -> PortId:
    switch, _, port = name.partition(":")
    return PortId(int(switch, 16), int(port))
