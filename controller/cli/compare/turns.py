"""Makes turns with and without regulation, and always leaves it on."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from controller.cli.client import AskError, Client
from controller.cli.compare.readings import Turn
from controller.cli.compare.verdict import Pair
from controller.rpc.spans import LostReadingError, Row

_READ_EVERY_S = 0.5
_SETTLED = 0.3
"""This part of a turn is not measured: windows, queues and senders take on what is new. It is at
least _SETTLES_S, since switches tell how they are only once a second."""
_SETTLES_S = 1.5
LEAST_TURN_S = 3.0


class Place(NamedTuple):
    """Everything, a switch, or a port of it by number or name, as `weir-controller off` has it."""

    switch: int | None
    port: str | None

    def holds(self, row: Row) -> bool:
        return self.switch in (None, row["switch"]) and (
            self.port is None or self.port in (row["name"], str(row["port"]))
        )


class Turns:
    """`clock_s` and `sleep` are the time, `rng` says which turn of a pair comes first. `by` is who
    compares."""

    def __init__(
        self,
        client: Client,
        place: Place,
        turn_s: float,
        by: str,
        clock_s: Callable[[], float],
        sleep: Callable[[float], object],
        rng: random.Random,
    ) -> None:
        self._client = client
        self._place = place
        self._turn_s = turn_s
        self._by = f"{by}, comparing"
        self._clock_s = clock_s
        self._sleep = sleep
        self._rng = rng
        self.lost: list[str] = []
        """Why pairs could not be used."""
        self.off_s = round(2 * turn_s + 10)
        """So long at most regulation is off, should nobody be there to turn it on."""

    def check(self) -> None:
        """Raises AskError if there is nothing to compare."""
        if self._client.ask("controller")["rank"] == "standby":
            raise AskError("this controller is a standby; ask the master")
        rows = self._read()
        if self._place.port is not None and rows:
            # Bypasses name their ports, whoever has turned regulation off by a number.
            self._place = self._place._replace(port=rows[0]["name"])
        for bypass in self._client.ask("bypasses")["bypasses"]:
            if self._touches(bypass):
                raise AskError(
                    f"regulation is turned off there, by {bypass['by']}; turn it on first: "
                    "weir-controller on"
                )
        ports = [row for row in rows if row["queues"]]
        if not ports:
            raise AskError("no port there has an egress queue (see weir-controller ports)")
        if not any(row["tcp"] for row in ports):
            raise AskError(
                "the switches do not tell what becomes of connections; install this version of "
                "weir-switch"
            )
        schemes = self._client.ask("regulation", {"switch": self._place.switch})["ports"]
        if all(row["scheme"] == "none" for row in schemes if self._place.holds(row)):
            raise AskError("no port there is regulated (regulation.scheme of the configuration)")

    def pairs(self, number: int) -> Iterator[Pair | None]:
        """So many pairs; None for one that could not be used. Regulation is on in between, and
        whenever the caller stops."""
        for _ in range(number):
            with_first = self._rng.random() < 0.5
            try:
                turns = [self._turn(on) for on in (with_first, not with_first)]
            except LostReadingError as lost:
                self.lost.append(str(lost))
                yield None
            else:
                on, off = turns if with_first else reversed(turns)
                yield Pair(on, off)

    def _turn(self, on: bool) -> Turn:
        with self._regulated(on):
            begin_s = self._clock_s()
            self._sleep(max(_SETTLES_S, self._turn_s * _SETTLED))
            first, others = self._read(), []
            while (left_s := begin_s + self._turn_s - self._clock_s()) > 0:
                self._sleep(min(left_s, _READ_EVERY_S))
                others.append(self._read())
            return Turn.between(first, others or [self._read()])

    @contextmanager
    def _regulated(self, on: bool) -> Iterator[None]:
        if on:
            yield
            return
        self._client.ask("off", {**self._place._asdict(), "for_s": self.off_s, "by": self._by})
        try:
            yield
        finally:
            self._client.ask("on", {**self._place._asdict(), "by": self._by})

    def _read(self) -> Sequence[Row]:
        rows: list[dict[str, Any]] = self._client.ask("ports", {"switch": self._place.switch})[
            "ports"
        ]
        return [row for row in rows if self._place.holds(row)]

    def _touches(self, bypass: Row) -> bool:
        """Whether a bypass covers any of the place, or the place any of it."""
        return self._place.switch is None or (
            bypass["switch"] in (None, self._place.switch)
            and (self._place.port is None or bypass["port"] in (None, self._place.port))
        )
