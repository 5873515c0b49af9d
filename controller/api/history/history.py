"""The last hour and day of each port with a queue, and of all together.

Each port has a file in the state directory (systemd's STATE_DIRECTORY), which is mapped into
memory: so the history goes on after a restart, however this process has ended. Without such a
directory, it is in memory alone.
"""

import contextlib
import logging
import math
import mmap
import os
import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel

from controller.api.history.rates import Rates, Sampled, ratio
from controller.api.history.rings import DAY_STEP_S, HOUR_STEP_S, SIZE_BYTES, Column, Record
from controller.model.values import PortId, datapath_id

LOG = logging.getLogger("weir.api")

MOST_PORTS = 5000
# To make files takes a while, in which nobody is answered.
_MOST_NEW = 256
_HOUR_S, DAY_S = 3600, 86_400
_TOTALS = "totals"
_PORT = re.compile(r"([0-9a-f]{16})-([1-9][0-9]{0,9})")


class Series(BaseModel):
    """Values of as many steps as there are; null: not known. Sums a second, but for the length of
    the queue and how long an answer took, which are means."""

    sent_bps: Column
    queue_bytes: Column
    dropped_per_s: Column
    requests_per_s: Column
    held_per_s: Column
    held_s_per_s: Column
    timeouts_per_s: Column
    answer_s: Column


class PortHistory(BaseModel):
    """Steps of `step_s`, the first of which begins at `begin_s`, in seconds since 1970."""

    step_s: int
    begin_s: int
    series: Series


class Store(Protocol):
    """Where the buffers of records are, by names."""

    def names(self) -> Iterable[str]:
        """Those that are kept of earlier."""

    def open(self, name: str) -> memoryview:
        """A new buffer, or that of earlier."""

    def forget(self, name: str) -> None: ...


class Memory:
    """A store that ends with the process."""

    def names(self) -> Iterable[str]:
        return ()

    def open(self, _name: str) -> memoryview:
        return memoryview(bytearray(SIZE_BYTES))

    def forget(self, _name: str) -> None:
        pass


class Files(Memory):
    """A store of files. A buffer whose file cannot be had is in memory alone."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._told = False
        with contextlib.suppress(OSError):
            directory.mkdir(mode=0o750, exist_ok=True)

    def names(self) -> Iterable[str]:
        with contextlib.suppress(OSError):
            return [path.name for path in self._directory.iterdir()]
        return ()

    def open(self, name: str) -> memoryview:
        try:
            return self._map(self._directory / name)
        except OSError as error:
            if not self._told:
                self._told = True
                LOG.warning("history will not outlast a restart: cannot write %s", error)
            return super().open(name)

    def _map(self, path: Path) -> memoryview:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, mode=0o640)
        try:
            # Of memory that maps a file, a page without a place on the disk ends the process.
            os.posix_fallocate(descriptor, 0, SIZE_BYTES)
            return memoryview(mmap.mmap(descriptor, SIZE_BYTES))
        finally:
            os.close(descriptor)

    def forget(self, name: str) -> None:
        with contextlib.suppress(OSError):
            (self._directory / name).unlink()


class History:
    """Of at most `most` ports."""

    def __init__(self, store: Store, most: int = MOST_PORTS) -> None:
        self._store = store
        self._most = most
        self._left_out = 0
        self._totals = Record(store.open(_TOTALS))
        self._ports: dict[PortId, Record] = {}
        for name in store.names():
            if (port_id := _port_of(name)) and len(self._ports) < most:
                self._ports[port_id] = Record(store.open(name))

    def __len__(self) -> int:
        """The number of ports."""
        return len(self._ports)

    def put(self, sampled: Sampled, now_s: float) -> None:
        """What was sampled at a time of day."""
        second = int(now_s)
        if second % DAY_STEP_S == 0:
            self._forget(second - DAY_S)
        self._totals.put(second, sampled.totals)
        for port_id in islice((one for one in sampled.rates if one not in self._ports), _MOST_NEW):
            if len(self._ports) < self._most:
                self._ports[port_id] = Record(self._store.open(_name_of(port_id)))
        left_out = 0
        for port_id, of_port in sampled.rates.items():
            if port_id in self._ports:
                self._ports[port_id].put(second, of_port)
            elif len(self._ports) >= self._most:
                left_out += 1
        if left_out > self._left_out:
            LOG.warning(
                "history is kept of %d ports, which is the most: there is none of %d others",
                *(self._most, left_out),
            )
        self._left_out = max(self._left_out, left_out)

    def _forget(self, second: int) -> None:
        """Forget the ports that were last there before a second."""
        for port_id, record in list(self._ports.items()):
            if record.hour.end <= second:
                del self._ports[port_id]
                self._store.forget(_name_of(port_id))

    def told(
        self, port_id: PortId | None, begin_s: float, end_s: float, now_s: float
    ) -> PortHistory:
        """From one time to another, of a port or of all together. Raises LookupError."""
        record = self._totals if port_id is None else self._ports.get(port_id)
        if record is None:
            raise LookupError(f"there is no history of {port_id}: no queue is known there")
        return self._told(record, begin_s, end_s, now_s)

    def unknown(self, begin_s: float, end_s: float, now_s: float) -> PortHistory:
        """The same of a port of which nothing is known."""
        return self._told(Record(memoryview(bytearray(SIZE_BYTES))), begin_s, end_s, now_s)

    def _told(self, record: Record, begin_s: float, end_s: float, now_s: float) -> PortHistory:
        is_hour = begin_s >= now_s - _HOUR_S
        step_s, ring = (HOUR_STEP_S, record.hour) if is_hour else (DAY_STEP_S, record.day)
        # The second that goes on is there as soon as it has been sampled.
        known = max(int(now_s // step_s), min(self._totals.hour.end, int(now_s) + 1) // step_s)
        first = math.floor(max(begin_s, now_s - DAY_S) / step_s)
        last = max(first, min(math.ceil(end_s / step_s), known))
        columns = dict(zip(Rates._fields, ring.columns(first, last), strict=True))
        answering, answers = columns.pop("answering_s_per_s"), columns.pop("answers_per_s")
        columns["answer_s"] = [
            ratio(part, whole) if part is not None and whole else None
            for part, whole in zip(answering, answers, strict=True)
        ]
        return PortHistory(step_s=step_s, begin_s=first * step_s, series=Series(**columns))


def _name_of(port_id: PortId) -> str:
    return f"{datapath_id(port_id.switch)}-{port_id.port}"


def _port_of(name: str) -> PortId | None:
    found = _PORT.fullmatch(name)
    return PortId(int(found[1], 16), int(found[2])) if found else None
