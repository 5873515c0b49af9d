"""`weir-controller top`: the live state, in a terminal of 80 by 24 or more.

What is shown follows from two looks at the controller; keys change how, never what is done.
"""

import os
import re
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from controller.cli import listing, words
from controller.cli.client import AskError, Client
from controller.cli.listing import Column, Row

_FLOWS = 100
_QUIT = "q\x03\x04"
_VIEWS = {"1": "all", "2": "ports", "3": "flows", "4": "switches"}
_HEAD_LINES, _TITLE_LINES = 3, 2
_PLAIN_LINES = 40
_KEYS_AT_ONCE = 64
_SEQUENCE = re.compile(r"\x1b(\[[0-9;]*[@-~]|O.|.)?")  # Arrows and such: ECMA-48 section 5.4.


class Look(NamedTuple):
    """The answers of the controller."""

    controller: dict[str, Any]
    switches: list[dict[str, Any]]
    ports: list[dict[str, Any]]
    flows: list[dict[str, Any]]


class Rate(NamedTuple):
    """Of a port's egress queues, a second, between the last two reports of the switch."""

    bits: float
    drops: float


def look(client: Client) -> Look:
    """Raises AskError."""
    ports = client.ask("ports")["ports"]
    return Look(
        client.ask("controller"),
        client.ask("switches")["switches"],
        listing.with_regulation(ports, client.ask("regulation")["ports"]),
        client.ask("flows", {"limit": _FLOWS})["flows"],
    )


class Rates:
    """How fast the counters of ports grow, by the clocks of their switches."""

    def __init__(self) -> None:
        self._counted: dict[tuple[int, int], tuple[int, int, int]] = {}
        self._rates: dict[tuple[int, int], Rate] = {}

    def of(self, row: Row) -> Rate | None:
        return self._rates.get((row["switch"], row["port"]))

    def read(self, ports: Iterable[Row]) -> None:
        for row in ports:
            queues = row["queues"]
            if not queues:
                continue
            key = row["switch"], row["port"]
            now = (
                max(queue["switch_time_ns"] for queue in queues),
                sum(queue["sent_bytes"] for queue in queues),
                sum(queue["dropped_packets"] for queue in queues),
            )
            before = self._counted.get(key)
            self._counted[key] = now
            # A queue that was set up again counts from zero.
            if before is None or now[1] < before[1] or now[2] < before[2]:
                self._rates.pop(key, None)
            elif now[0] > before[0]:
                seconds = (now[0] - before[0]) / 1e9
                sent, dropped = now[1] - before[1], now[2] - before[2]
                self._rates[key] = Rate(8 * sent / seconds, dropped / seconds)


class Screen:
    """What is shown: the view, and its order."""

    def __init__(self) -> None:
        self.view = "all"
        self.order = "b"
        self.rates = Rates()
        self._orders: dict[str, tuple[str, Callable[[Row], Any]]] = {
            "b": ("queue length", lambda row: -listing.queue(row).get("queue_bytes", -1)),
            "r": ("rate", lambda row: -self._rate(row).bits),
            "d": ("drops", lambda row: -self._rate(row).drops),
            "f": ("flows", lambda row: -_flows_of(row)),
            "n": ("number", lambda _: 0),
        }

    def press(self, key: str) -> bool:
        """Returns whether to go on."""
        if key in _VIEWS:
            self.view = _VIEWS[key]
        elif key in self._orders:
            self.order = key
        return key not in _QUIT

    def draw(self, seen: Look, trouble: str | None, lines: int) -> RenderableType:
        """The whole screen, in so many lines."""
        parts: list[RenderableType] = [*self._head(seen, trouble)]
        left = max(lines - _HEAD_LINES, 0)
        if self.view == "all":
            flows = min(len(seen.flows) + _TITLE_LINES, left // 3)
            parts += self._ports(seen, left - flows)
            parts += _section("flows, by volume", listing.FLOWS, seen.flows, flows)
        elif self.view == "ports":
            parts += self._ports(seen, left)
        elif self.view == "flows":
            parts += _section("flows, by volume", listing.FLOWS, seen.flows, left)
        else:
            parts += _section("switches", listing.SWITCHES, seen.switches, left)
        return Group(*parts)

    def _ports(self, seen: Look, lines: int) -> list[RenderableType]:
        name, key = self._orders[self.order]
        number = lambda row: (key(row), row["switch"], row["port"])  # noqa: E731 - sorted's key
        columns = (
            *(*listing.PORT, listing.LENGTH, listing.LIMIT),
            Column(
                "BIT/S", lambda row: self._written(row, lambda rate: words.rate(rate.bits)), True
            ),
            Column(
                "DROP/S", lambda row: self._written(row, lambda rate: f"{rate.drops:.0f}"), True
            ),
            Column("FLOWS", _flows_written, True),
            *(listing.NOTICE, listing.WINDOW, listing.HELD),
        )
        return _section(f"ports, by {name}", columns, sorted(seen.ports, key=number), lines)

    def _rate(self, row: Row) -> Rate:
        return self.rates.of(row) or Rate(-1, -1)

    def _written(self, row: Row, write: Callable[[Rate], str]) -> str:
        rate = self.rates.of(row)
        return write(rate) if rate else words.NOTHING

    def _head(self, seen: Look, trouble: str | None) -> Iterator[RenderableType]:
        told, tables = seen.controller, seen.controller["tables"]
        ready = sum(row["ready"] for row in seen.switches)
        yield _line(
            f"weir-controller {told['version']}, scheme {told['scheme']}, "
            f"up {words.duration(told['uptime_s'])}; {ready} of {len(seen.switches)} switches ready"
        )
        yield _line(
            f"{tables['connections']} connections ({tables['half_open']} half-open), "
            f"{tables['dormant']} dormant ones; flows: "
            f"{tables['burst_flows']} burst, {tables['background_flows']} background"
        )
        delays = told["delays"]
        yield _line(
            trouble
            or f"99% of notices answered within {_quantile(delays['control'], 0.99)}, "
            f"main loop late by less than {_quantile(delays['main_loop'], 0.99)}",
            "bold red" if trouble else "",
        )


def top(client: Client, console: Console, interval_s: float, once: bool) -> int:
    """Returns the exit status. Raises AskError if the first answer does not come."""
    screen = Screen()
    seen = look(client)
    screen.rates.read(seen.ports)
    if once or not console.is_terminal or not sys.stdin.isatty():
        console.print(screen.draw(seen, None, _PLAIN_LINES))
        return 0
    with _keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
        trouble: str | None = None
        due_s = time.monotonic() + interval_s
        while True:
            live.update(screen.draw(seen, trouble, console.height), refresh=True)
            keys = pressed(max(0.0, due_s - time.monotonic()))
            if not all(screen.press(key) for key in keys):
                return 0
            if time.monotonic() < due_s:
                continue
            due_s = time.monotonic() + interval_s
            try:
                seen, trouble = look(client), None
                screen.rates.read(seen.ports)
            except AskError as error:
                trouble = str(error)


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """A function that waits so many seconds for keys; it returns those that were pressed."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def pressed(timeout_s: float) -> str:
        if not select.select([descriptor], [], [], timeout_s)[0]:
            return ""
        # The end of the input means to leave, too.
        keys = os.read(descriptor, _KEYS_AT_ONCE).decode(errors="replace") or "q"
        return _SEQUENCE.sub("", keys)

    try:
        tty.setcbreak(descriptor)
        yield pressed
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _section(
    title: str, columns: Iterable[Column], rows: Iterable[Row], lines: int
) -> list[RenderableType]:
    """A title and a table, as many rows as there is room for."""
    if lines <= _TITLE_LINES:
        return []
    rows = list(rows)
    room = lines - _TITLE_LINES
    more = f" ({room} of {len(rows)})" if len(rows) > room else ""
    return [_line(f"{title}{more}", "reverse"), listing.table(list(columns), rows[:room])]


def _line(text: str, style: str = "") -> Text:
    return Text(words.plain(text), style, no_wrap=True, overflow="ellipsis")


def _flows_written(row: Row) -> str:
    """Burst and background flows in one column: there is room for no more in 80 columns."""
    told = row["regulation"]
    return f"{told['burst_flows']}+{told['background_flows']}" if told else words.NOTHING


def _flows_of(row: Row) -> int:
    told = row["regulation"]
    return told["burst_flows"] + told["background_flows"] if told else 0


def _quantile(told: Row, share: float) -> str:
    """The bound of the bucket that a share of all durations is within."""
    cumulative, bounds_s = told["cumulative"], told["bounds_s"]
    if not cumulative[-1]:
        return words.NOTHING
    for bound_s, n in zip(bounds_s, cumulative[:-1], strict=True):
        if n >= share * cumulative[-1]:
            return words.duration(bound_s)
    return f"more than {words.duration(bounds_s[-1])}"
