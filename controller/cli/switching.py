"""`weir-controller off` and `on`: regulation of everything, a switch or a port."""

import argparse
import getpass
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from controller.cli import words
from controller.cli.client import AskError, Client

Answer = Mapping[str, Any]


def off(options: argparse.Namespace) -> int:
    """Returns the exit status."""
    client = Client(options.socket)
    if options.list:
        return _print(options, client.ask("bypasses"), _listed)
    answer = client.change("off", {**place(options), "for_s": options.for_s, "by": user()})
    return _print(options, answer, _turned_off)


def on(options: argparse.Namespace) -> int:
    """Returns the exit status."""
    client = Client(options.socket)
    answer = client.change("on", {**place(options), "by": user()})
    return _print(options, answer, _turned_on)


def _print(
    options: argparse.Namespace,
    answer: Answer,
    lines: Callable[[Answer], Iterator[str]],
) -> int:
    if options.json:
        print(json.dumps(answer))
        return 0
    for line in lines(answer):
        print(line)
    if "kept" in answer:
        _warn(answer)
    return 0


def _turned_off(answer: Answer) -> Iterator[str]:
    yield f"regulation is off for {_described(answer['off'])}"


def _turned_on(answer: Answer) -> Iterator[str]:
    for bypass in answer["on"]:
        yield f"regulation is on again for {_where(bypass)}"
    if not answer["on"]:
        yield "nothing was turned off there"
    for bypass in answer["still_off"]:
        yield f"it is still off for {_described(bypass)}"


def _listed(answer: Answer) -> Iterator[str]:
    for bypass in answer["bypasses"]:
        yield f"regulation is off for {_described(bypass)}, by {words.plain(bypass['by'])}"
    if not answer["bypasses"]:
        yield "nothing is turned off"


def place(options: argparse.Namespace) -> dict[str, Any]:
    """The place that was named, as methods take it. Raises AskError."""
    if options.port is not None and options.switch is None:
        raise AskError("--port needs --switch: ports of different switches have the same names")
    return {"switch": options.switch, "port": options.port}


def _where(bypass: Answer) -> str:
    if bypass["switch"] is None:
        return "everything"
    switch = f"switch {bypass['datapath_id']}"
    return words.plain(switch if bypass["port"] is None else f"port {bypass['port']} of {switch}")


def _described(bypass: Answer) -> str:
    left_s = bypass["left_s"]
    # A second after it was said, two hours are 1:59:59.
    until = "until it is turned on again"
    if left_s is not None:
        until = f"for {words.duration(round(left_s))}"
    return f"{_where(bypass)}, {until}"


def _warn(answer: Answer) -> None:
    if not answer["kept"]:
        print(
            "weir-controller: this does not hold over a restart of the controller: it could not "
            "write to its state directory (see its log), or has none (STATE_DIRECTORY)",
            file=sys.stderr,
        )
    if answer["unaware"]:
        peers = ", ".join(answer["unaware"])
        print(
            f"weir-controller: {peers} did not hear of it, being of an older release: "
            "say it there, too",
            file=sys.stderr,
        )


def user() -> str:
    """Who asks, as the event log is to have it."""
    try:
        return f"user {os.environ.get('SUDO_USER') or getpass.getuser()}"
    except (KeyError, OSError):
        return f"user {os.getuid()}"
