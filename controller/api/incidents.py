"""Puts incidents together: what was recorded, histories, snapshots, and who has changed what."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import from_json

from controller import __version__
from controller.api import incident
from controller.api.history import History, PortHistory
from controller.api.incident import Found, Notices
from controller.api.recorder import Recorder
from controller.api.recording import Gap
from controller.api.segments import Segments
from controller.api.snapshots import Album
from controller.api.upstream import UnavailableError, Upstream
from controller.model.values import PortId, datapath_id
from controller.rpc.messages import CallError

_ENTRIES, _MOST_PAGES = 1000, 10
# They may take a second each, in which nobody's events are written.
_AT_ONCE = 2
_NO_NOTICES = Notices(0, None)


class Incidents:
    """`names` has the names of ports as their switches tell them."""

    def __init__(
        self, upstream: Upstream, recorder: Recorder, album: Album, history: History
    ) -> None:
        self._upstream, self._recorder = upstream, recorder
        self._album, self._history = album, history
        self._free = asyncio.Semaphore(_AT_ONCE)

    async def told(
        self,
        begin_s: float,
        end_s: float,
        now_s: float,
        port_id: PortId | None,
        names: Mapping[PortId, str],
    ) -> bytes:
        """An `incident.Incident` as JSON. Raises LookupError for a port that is not known."""
        async with self._free:
            audit, gaps = await self._audit(begin_s, end_s)

            def make(segments: Segments) -> bytes:
                port = None if port_id is None else str(port_id)
                found = incident.find(
                    segments.read(begin_s, end_s),
                    segments.read(begin_s, end_s),
                    begin_s,
                    end_s,
                    port,
                )
                told = self._told(found, begin_s, end_s, now_s, port_id, names)
                told["events_from_s"] = segments.begin_s
                all_gaps = [*told["gaps"], *gaps, *self._recorder.gaps()]
                told["gaps"] = _gaps(all_gaps, begin_s, end_s)
                return _written({**told, "audit": audit})

            return await self._recorder.read(make)

    def _told(
        self,
        found: Found,
        begin_s: float,
        end_s: float,
        now_s: float,
        port_id: PortId | None,
        names: Mapping[PortId, str],
    ) -> dict[str, Any]:
        chosen = [] if port_id is None else [str(port_id)]
        chosen += [name for name in found.ports if name not in chosen]
        chosen = chosen[: incident.MOST_PORTS]
        # Raises for the port that was asked for alone: others have had notices.
        if port_id is not None and str(port_id) not in found.ports:
            self._history.told(port_id, begin_s, end_s, now_s)
        ports = [_port_id(name) for name in chosen]

        def history(of: PortId | None) -> PortHistory:
            try:
                return self._history.told(of, begin_s, end_s, now_s)
            except LookupError:
                return self._history.unknown(begin_s, end_s, now_s)

        return {
            "from_s": begin_s,
            "to_s": end_s,
            "asked_s": now_s,
            "version": __version__,
            "port": None if port_id is None else _named(port_id, names),
            "totals": history(None).model_dump(),
            "ports": [
                {
                    **_named(of, names),
                    **found.ports.get(str(of), _NO_NOTICES)._asdict(),
                    "history": history(of).model_dump(),
                }
                for of in ports
            ],
            "events": found.events,
            "events_left_out": found.n_left_out,
            "gaps": found.gaps,
            "snapshots": self._album.told(begin_s, end_s, chosen, incident.MOST_SNAPSHOTS)
            if chosen
            else [],
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
                    break
        except (CallError, UnavailableError) as error:
            return [], [Gap(begin_s, end_s, f"it is not known who has changed what: {error}")]
        return entries[::-1], []


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
