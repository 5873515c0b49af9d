"""The commands of `weir-controller` beside `run`: they ask a running controller, or check a file.

They run beside the controller, not within it: what they need is imported when one is called.
"""

import signal
from typing import NamedTuple


class Command(NamedTuple):
    """The arguments of a command, and what it does."""

    synopsis: str
    text: str


COMMANDS = {
    "check": Command("check FILE", "say what is wrong with a configuration"),
    "token": Command("token FILE NAME", "make a token for the HTTP API"),
    "top": Command("top", "ports, queues, flows and regulation, live"),
    "switches": Command("switches", "the switches and what they can do"),
    "ports": Command("ports", "ports, their queues, and how they are regulated"),
    "off": Command(
        "off [--switch ID] [--port PORT]", "stop regulating everything, a switch, a port"
    ),
    "on": Command("on [--switch ID] [--port PORT]", "regulate again what was turned off"),
    "settings": Command("settings [KEY ...]", "what the controller is set to"),
    "set": Command("set KEY=VALUE ...", "change settings at work"),
    "undo": Command("undo", "take the latest change of settings back"),
    "audit": Command("audit", "who has changed what, and when"),
    "compare": Command(
        "compare --minutes N [--switch ID] [--port PORT]", "does regulation help here, or hurt?"
    ),
    "flows": Command("flows", "the flows with the largest volume first"),
    "groups": Command("groups", "multicast groups, and where their members are"),
    "bandwidth": Command("bandwidth SRC DST", "what a path has left, link by link"),
    "fountains": Command("fountains", "announced fountain flows and what they may send"),
    "events": Command("events [--follow]", "notices, windows, links, hosts as they come"),
    "ask": Command("ask METHOD ...", "whatever else can be asked, as JSON"),
}

SUMMARY = "".join(f"    {synopsis:<20}{text}\n" for synopsis, text in COMMANDS.values())


def main(argv: list[str]) -> int:
    """Run the command that `argv` begins with; nothing else runs in this process. Returns the exit
    status."""
    from controller.cli.commands import run

    # As with any filter, the end of the pipe ends the command.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    return run(argv)
