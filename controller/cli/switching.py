"""`weir-controller off` and `on`: regulation of everything, a switch or a port."""

import argparse
import getpass
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from controller.cli import words
from controller.cli.client import AskError, Client


def off(options: argparse.Namespace) -> int:
    """Returns the exit status."""
    client = Client(options.socket)
    if options.list:
        return _list(client, options.json)
    answer = client.ask("off", {**_place(options), "for_s": options.for_s, "by": _user()})
    if options.json:
        print(json.dumps(answer))
        return 0
    print(f"regulation is off for {_described(answer['off'])}")
    _warn(answer)
    return 0


def on(options: argparse.Namespace) -> int:
    """Returns the exit status."""
    client = Client(options.socket)
    answer = client.ask("on", {**_place(options), "by": _user()})
    if options.json:
        print(json.dumps(answer))
        return 0
    for bypass in answer["on"]:
        print(f"regulation is on again for {_where(bypass)}")
    if not answer["on"]:
        print("nothing was turned off there")
    for bypass in answer["still_off"]:
        print(f"it is still off for {_described(bypass)}")
    _warn(answer)
    return 0


def _list(client: Client, as_json: bool) -> int:
    answer = client.ask("bypasses")
    if as_json:
        print(json.dumps(answer))
        return 0
    for bypass in answer["bypasses"]:
        print(f"regulation is off for {_described(bypass)}, by {words.plain(bypass['by'])}")
    if not answer["bypasses"]:
        print("nothing is turned off")
    return 0


def _place(options: argparse.Namespace) -> dict[str, object]:
    if options.port is not None and options.switch is None:
        raise AskError("--port needs --switch: ports of different switches have the same names")
    return {"switch": options.switch, "port": options.port}


def _where(bypass: Mapping[str, Any]) -> str:
    if bypass["switch"] is None:
        return "everything"
    switch = f"switch {bypass['switch']}"
    return words.plain(switch if bypass["port"] is None else f"port {bypass['port']} of {switch}")


def _described(bypass: Mapping[str, Any]) -> str:
    left_s = bypass["left_s"]
    # A second after it was said, two hours are 1:59:59.
    until = "until it is turned on again"
    if left_s is not None:
        until = f"for {words.duration(round(left_s))}"
    return f"{_where(bypass)}, {until}"


def _warn(answer: Mapping[str, Any]) -> None:
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


def _user() -> str:
    """Who asks, as the event log is to have it."""
    try:
        return f"user {os.environ.get('SUDO_USER') or getpass.getuser()}"
    except (KeyError, OSError):
        return f"user {os.getuid()}"
