"""Turns regulation off and on for an operator, and keeps that over restarts.

What is off is written to `bypasses.json` in the state directory (systemd's STATE_DIRECTORY). If it
cannot be written, regulation is turned off all the same: that is urgent, and the answer says that
it is not kept.

Controllers of the same switches share it by their heartbeats. Its version is the time of the latest
change, and later than that of the change before: the newest wins, as a whole. A controller tells
each peer its version, and what is off to a peer whose version is older. How long something is off
is told as the time that is left, so clocks need not agree.
"""

import json
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from controller.core.congestion.bypasses import Bypass, Place
from controller.core.congestion.regulation import UnknownPlaceError
from controller.core.engine import Engine
from controller.model.effects import Effect
from controller.model.values import datapath_id
from controller.northbound.interfaces import UnknownError
from controller.northbound.views import BypassView, OffView, OnView
from controller.ops import directories

LOG = logging.getLogger("weir.app")

FILE = "bypasses.json"

# What fits into a line of a heartbeat, written as JSON within JSON.
_SHARED_BYTES = 48 * 1024

_COMPLAINTS = 32

_Version = Annotated[int, Field(ge=0, lt=2**62)]


class _Kept(BaseModel):
    """One bypass in the file."""

    model_config = ConfigDict(extra="forbid")

    switch: Annotated[int, Field(ge=0, lt=2**64)] | None = None
    port: str | None = None
    until: AwareDatetime | None = None
    by: str = ""


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    version: _Version = 0
    off: list[_Kept] = []


class _Told(BaseModel):
    """One bypass, as a peer tells it."""

    model_config = ConfigDict(strict=True)

    switch: Annotated[int, Field(ge=0, lt=2**64)] | None = None
    port: str | None = None
    left_s: Annotated[float, Field(ge=0, le=1e9)] | None = None
    by: str = ""


class _Shared(BaseModel):
    """What a peer tells; `off` is None if it tells its version only. A later release may tell
    more."""

    model_config = ConfigDict(strict=True)

    version: _Version
    off: list[_Told] | None = None


class Bypassing:
    """`engine` returns the present core, `apply` carries out its effects. `clock_ns` is the core's
    clock, `wall_s` the time of day. Without a `path`, nothing is kept. `changed` is called when
    there is something to tell the peers, `audited` with what was turned `off` or `on`, by whom, and
    where."""

    def __init__(
        self,
        engine: Callable[[], Engine],
        apply: Callable[[list[Effect]], None],
        clock_ns: Callable[[], int],
        wall_s: Callable[[], float],
        path: Path | None,
    ) -> None:
        self._engine = engine
        self._apply = apply
        self._clock_ns = clock_ns
        self._wall_s = wall_s
        self._path = path
        self.changed: Callable[[], object] = lambda: None
        self.audited: Callable[[Literal["off", "on"], str, list[str]], object] = lambda *_: None
        self._version = 0
        self._versions: dict[str, int | None] = {}
        self._refused: set[str] = set()

    def off(self, switch: int | None, port: str | None, for_s: float | None, by: str) -> OffView:
        """Do not regulate a place, for so many seconds or until it is turned on again.

        Raises UnknownError.
        """
        place, now_ns = self._place(switch, port), self._clock_ns()
        until_ns = None if for_s is None else now_ns + round(for_s * 1e9)
        bypass = Bypass(place, until_ns, by)
        self._apply(self._engine().turn_off(bypass, now_ns))
        LOG.warning("regulation is off for %s%s, by %s", place, _for_how_long(for_s), by)
        self.audited("off", by, [f"{place}{_for_how_long(for_s)}"])
        return {"off": self._view(bypass), "kept": self._change(), "unaware": self._unaware()}

    def on(self, switch: int | None, port: str | None, by: str) -> OnView:
        """Regulate a place, and all within it, again. Raises UnknownError."""
        place = self._place(switch, port)
        ended, effects = self._engine().turn_on(place, by, self._clock_ns())
        self._apply(effects)
        for bypass in ended:
            LOG.warning("regulation is on again for %s, by %s", bypass.place, by)
        self.audited("on", by, [str(bypass.place) for bypass in ended])
        return {
            "on": [self._view(bypass) for bypass in ended],
            "still_off": list(map(self._view, self._engine().regulation.bypasses.covering(place))),
            "kept": self._change(),
            "unaware": self._unaware(),
        }

    def bypasses(self) -> Iterator[BypassView]:
        """What is off."""
        return map(self._view, self._engine().regulation.bypasses)

    def restore(self) -> None:
        """Turn off what was off when the controller ended. A file that cannot be used is logged,
        and nothing is off."""
        if self._path is None or not self._path.exists():
            return
        try:
            read = _File.model_validate_json(self._path.read_bytes())
        except (OSError, ValidationError) as error:
            LOG.error(
                "what was turned off is not known, regulation is on: cannot use %s: %s",
                *(self._path, error),
            )
            return
        self._version = read.version
        bypasses = []
        for one in read.off:
            left_s = None if one.until is None else one.until.timestamp() - self._wall_s()
            if left_s is None or left_s > 0:
                until_ns = None if left_s is None else self._clock_ns() + round(left_s * 1e9)
                bypasses.append(Bypass(Place(one.switch, one.port), until_ns, one.by))
                LOG.warning(
                    "regulation is still off for %s%s, by %s",
                    *(bypasses[-1].place, _for_how_long(left_s), one.by),
                )
        self._engine().restore_bypasses(bypasses)

    # With other controllers

    def shared(self, peer: str, brief: bool) -> str:
        """What to tell a peer now; if it is to be `brief`, the version only."""
        told = _Shared(version=self._version)
        known = self._versions.get(peer)
        if not brief and known is not None and known < self._version:
            told.off = [
                _Told(switch=of["switch"], port=of["port"], left_s=of["left_s"], by=of["by"])
                for of in self.bypasses()
            ]
        text = told.model_dump_json(exclude_none=True)
        if len(text.encode()) <= _SHARED_BYTES:
            return text
        self._complain(f"more is off than can be told to controller {peer}")
        return _Shared(version=self._version).model_dump_json(exclude_none=True)

    def heard(self, peer: str, text: str) -> None:
        """What a peer tells; nothing if it is of an older release."""
        if not text:
            self._versions[peer] = None
            return
        try:
            told = _Shared.model_validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            why = f"{'.'.join(map(str, first['loc']))} {first['msg']}".strip()
            self._complain(f"what controller {peer} has turned off cannot be used: {why}")
            return
        self._versions[peer] = told.version
        if told.off is None or told.version <= self._version:
            return
        self._version, now_ns = told.version, self._clock_ns()
        bypasses = [
            Bypass(
                Place(one.switch, one.port),
                None if one.left_s is None else now_ns + round(one.left_s * 1e9),
                one.by,
            )
            for one in told.off
        ]
        self._apply(self._engine().replace_bypasses(bypasses, f"controller {peer}", now_ns))
        off = ", ".join(str(bypass.place) for bypass in bypasses) or "nothing"
        LOG.warning("controller %s has changed where regulation is off: now %s", peer, off)
        self.audited("off" if bypasses else "on", f"controller {peer}", [f"now off: {off}"])
        self._keep()

    def _change(self) -> bool:
        """What is off has changed here: tell the peers and keep it. Returns whether it is kept."""
        self._version = max(self._version + 1, round(self._wall_s() * 1e6))
        self.changed()
        return self._keep()

    def _unaware(self) -> list[str]:
        """The peers that cannot be told."""
        return sorted(peer for peer, version in self._versions.items() if version is None)

    def _complain(self, text: str) -> None:
        if text not in self._refused and len(self._refused) < _COMPLAINTS:
            self._refused.add(text)
            LOG.error("%s", text)

    def _place(self, switch: int | None, port: str | None) -> Place:
        # What was turned off can be turned on, whether it is still there or not.
        place = Place(switch, port)
        if any(place.covers(bypass.place) for bypass in self._engine().regulation.bypasses):
            return place
        try:
            return self._engine().regulation.place(switch, port)
        except UnknownPlaceError as error:
            raise UnknownError(str(error)) from None

    def _view(self, bypass: Bypass) -> BypassView:
        left_ns = None if bypass.until_ns is None else bypass.until_ns - self._clock_ns()
        switch = bypass.place.switch
        return {
            "switch": switch,
            "datapath_id": None if switch is None else datapath_id(switch),
            "port": bypass.place.port,
            "left_s": None if left_ns is None else max(0.0, left_ns / 1e9),
            "by": bypass.by,
        }

    def _keep(self) -> bool:
        """Write what is off to the file; returns whether it is there."""
        if self._path is None:
            return False
        kept = [
            _Kept(
                switch=bypass.place.switch,
                port=bypass.place.port,
                until=self._wall(bypass.until_ns),
                by=bypass.by,
            )
            for bypass in self._engine().regulation.bypasses
        ]
        file = _File(version=self._version, off=kept)
        text = json.dumps(file.model_dump(mode="json"), indent=1) + "\n"
        try:
            directories.replace(self._path, text)
        except OSError as error:
            LOG.error("what is off is not kept: cannot write %s: %s", self._path, error.strerror)
            return False
        return True

    def _wall(self, until_ns: int | None) -> datetime | None:
        if until_ns is None:
            return None
        return datetime.fromtimestamp(self._wall_s() + (until_ns - self._clock_ns()) / 1e9, tz=UTC)


def _for_how_long(for_s: float | None) -> str:
    return " until it is turned on again" if for_s is None else f" for {for_s:.0f} s"
