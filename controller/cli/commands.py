"""The command line of all commands, and the commands that print an answer."""

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from controller.cli import COMMANDS, listing, settings, switching, words
from controller.cli.arguments import Parser
from controller.cli.check import check
from controller.cli.client import AskError, Client
from controller.cli.token import token
from controller.config import quantity
from controller.model.values import switch_id

_SOCKET = "/run/weir/controller.sock"
_FAILED = 1
_WIDTH_OF_A_PIPE = 160

_EXAMPLES = {
    "check": """\
    sudo weir-controller check --user weir /etc/weir/controller.yaml
    weir-controller check --json new.yaml && systemctl reload weir-controller

It looks at all that the file names, too: certificates, revocation lists and tokens and how long
they are good, who may read what, directories, addresses. It ends with status 0 if all of it can be
used, perhaps with warnings, 1 if not, 2 if the file cannot be read.""",
    "token": """\
    weir-controller token /etc/weir/tokens.yaml dashboard
    weir-controller token /etc/weir/tokens.yaml host-17 --scope announce --days 365

The token is printed once, and is nowhere else: the file holds its digest. Remove a line of the file
to revoke it; the API follows the file.""",
    "top": """\
    weir-controller top                     # live; q to leave, 1 to 4 for another view
    weir-controller top --interval 0.5
    weir-controller top --once              # the same, printed once

Keys: q leave | 1 all, 2 ports, 3 flows, 4 switches | sort ports by: b queue length, r rate,
d drops, f flows, n number""",
    "switches": """\
    weir-controller switches
    weir-controller switches --json | jq '.switches[] | select(.ready | not)'""",
    "ports": """\
    weir-controller ports --switch 1
    weir-controller ports --json | jq '.ports[] | select(.regulation.notice)'""",
    "off": """\
    weir-controller off --switch 1 --port eth2 --for 30min
    weir-controller off --switch 1          # until `weir-controller on`
    weir-controller off                     # everything
    weir-controller off --list              # what is off, and for how long

It is in force within a second, and traffic goes on. It holds over restarts of the controller.
Controllers that stand by for each other tell each other.""",
    "on": """\
    weir-controller on --switch 1 --port eth2
    weir-controller on --switch 1           # and all of its ports
    weir-controller on                      # everything""",
    "settings": """\
    weir-controller settings
    weir-controller settings regulation     # a section
    weir-controller settings --changed      # what was changed at work, by whom and when

FILE is what the configuration file says where that is not in force, DEFAULT the default where it is
not. "restart": it can only be changed in the file, and by a restart.""",
    "set": """\
    weir-controller set regulation.max_hold=20ms
    weir-controller set log.level=debug 'log.levels={session: warning}'
    weir-controller set regulation.max_hold=            # what the file says
    weir-controller set --try regulation.scheme=sdtcp   # would that be taken? changes nothing

All of it is in force at once, as after a reload of the file, or nothing is. It goes over what the
file says, and holds over reloads and restarts of the controller. Each controller of the same
switches has settings of its own: say it to each.""",
    "undo": """\
    weir-controller undo                    # an undo can be taken back, too
    weir-controller undo 17                 # only if 17 is the latest change""",
    "audit": """\
    weir-controller audit
    weir-controller audit --limit 100 --json | jq '.entries[] | select(.what == "settings")'""",
    "compare": """\
    weir-controller compare --minutes 10
    weir-controller compare --minutes 5 --switch 1 --port eth2
    weir-controller compare --minutes 10 --json | jq '.verdict, .measures'

Regulation is turned off and on in turns, in random order, while traffic goes on; in the end it is
on. Switches tell what becomes of a sample of connections. It stops as soon as regulation is clearly
worse. It ends with status 0 if regulation helps or makes no difference, 3 if it hurts, 4 if that
cannot be said, 1 if it could not compare.""",
    "flows": """\
    weir-controller flows --class background
    weir-controller flows --host 10.0.0.7 --limit 5
    weir-controller flows --host 10.1.0.0/16 --tcp-port 80
    weir-controller flows --switch 1 --port 3         # those that leave by that port""",
    "groups": """\
    weir-controller groups
    weir-controller groups --json | jq '.groups[] | select(.group == "239.1.2.3").ports'

Only with fabric.multicast_snooping. Ports of routers, and ports of which it is not known yet what
their hosts want, get what is sent to any group.""",
    "bandwidth": """\
    weir-controller bandwidth 10.0.0.1 10.0.1.7
    weir-controller bandwidth --json 10.0.0.1 10.0.1.7 | jq .available_bps""",
    "fountains": """\
    weir-controller fountains
    weir-controller fountains --follow --json   # each change as it comes, until interrupted""",
    "events": """\
    weir-controller events                  # the latest
    weir-controller events --follow         # and those to come, until interrupted
    weir-controller events --follow --json | jq -c 'select(.event == "queue_event")'""",
    "ask": """\
    weir-controller ask help                # all methods and their parameters
    weir-controller ask excesses switch=1   # which ports exceed their packet-in budgets
    weir-controller ask ready               # status 1 while the controller is not ready
    weir-controller ask follow_fountains    # a line for each change, until interrupted""",
}


def run(argv: list[str]) -> int:
    """Run a command; returns the exit status."""
    options = _parser().parse_args(argv)
    try:
        status: int = options.run(options)
    except AskError as error:
        print(f"weir-controller: {error}", file=sys.stderr)
        return _FAILED
    except KeyboardInterrupt:
        return 0
    return status


def _parser() -> Parser:
    parser = Parser(prog="weir-controller")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    asking = Parser(add_help=False)
    asking.add_argument(
        "--socket",
        metavar="PATH",
        default=os.environ.get("WEIR_SOCKET", _SOCKET),
        help="where the controller listens (northbound.socket; WEIR_SOCKET; %(default)s)",
    )
    as_json = Parser(add_help=False)
    as_json.add_argument("--json", action="store_true", help="for programs: JSON")

    def add(name: str, run: Callable[[argparse.Namespace], int], *parents: Parser) -> Parser:
        text = COMMANDS[name].text
        made = commands.add_parser(
            name,
            help=text,
            description=f"{text[0].upper()}{text[1:]}{'' if text[-1] == '?' else '.'}",
            epilog=f"examples:\n{_EXAMPLES[name]}",
            parents=parents,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made.set_defaults(run=run)
        return made

    checked = add("check", check, as_json)
    checked.add_argument("file", metavar="FILE", type=Path)
    checked.add_argument("--user", help="look at files as this user would see them (you)")
    make = add("token", token, as_json)
    make.add_argument("file", metavar="FILE", type=Path, help="northbound.api.tokens")
    make.add_argument("name", metavar="NAME", help="whose it is: A-Z a-z 0-9 . _ -")
    make.add_argument(
        "--scope",
        action="append",
        choices=("read", "announce", "regulate"),
        help="what it is good for; may be given twice (read)",
    )
    make.add_argument("--days", metavar="N", type=_days, default=90, help="how long (90)")
    top = add("top", _top, asking)
    top.add_argument("--once", action="store_true", help="print it once; so without a terminal")
    top.add_argument("--interval", metavar="SECONDS", type=_interval, default=2.0, help="default 2")
    add("switches", _switches, asking, as_json).add_argument("--switch", **_SWITCH)
    add("ports", _ports, asking, as_json).add_argument("--switch", **_SWITCH)
    off = add("off", switching.off, asking, as_json)
    _add_place(off)
    off.add_argument(
        "--for", dest="for_s", metavar="TIME", type=_time, help="such as 30min or 2h (no end)"
    )
    off.add_argument("--list", action="store_true", help="say what is off, and change nothing")
    _add_place(add("on", switching.on, asking, as_json))
    shown = add("settings", lambda given: settings.settings(given, console()), asking, as_json)
    shown.add_argument("keys", metavar="KEY", nargs="*", help="a key, or a section")
    shown.add_argument("--changed", action="store_true", help="those that were changed at work")
    changed = add("set", settings.change, asking, as_json)
    changed.add_argument(
        "changes",
        metavar="KEY=VALUE",
        nargs="+",
        type=settings.assignment,
        help="without a value: what the file says",
    )
    changed.add_argument(
        "--try", dest="only_try", action="store_true", help="check it, and change nothing"
    )
    undone = add("undo", settings.undo, asking, as_json)
    undone.add_argument("id", metavar="ID", nargs="?", help="of the change (the latest)")
    audit = add("audit", settings.audit, asking, as_json)
    audit.add_argument("--limit", **_NUMBER, default=20, help="how many (20)")
    audit.add_argument("--before", metavar="ID", help="those before this one")
    compared = add("compare", _compare, asking, as_json)
    _add_place(compared)
    compared.add_argument("--minutes", metavar="N", type=_minutes, default=10.0, help="default 10")
    compared.add_argument(
        "--turn", metavar="SECONDS", type=_turn, default=5.0, help="length of a turn (5)"
    )
    flows = add("flows", _flows, asking, as_json)
    flows.add_argument("--host", metavar="ADDRESS", help="an end of it, or its subnet")
    flows.add_argument("--tcp-port", **_NUMBER, help="of either end")
    flows.add_argument("--class", dest="cls", choices=("burst", "background"))
    flows.add_argument("--switch", **_SWITCH, help="a switch that it leaves by")
    flows.add_argument("--port", **_NUMBER, help="a port that it leaves by")
    flows.add_argument("--limit", **_NUMBER, default=20, help="how many (20)")
    flows.add_argument("--offset", **_NUMBER, help="how many to leave out before")
    add("groups", _groups, asking, as_json)
    bandwidth = add("bandwidth", _bandwidth, asking, as_json)
    bandwidth.add_argument("src", metavar="SRC", help="the address of the host that sends")
    bandwidth.add_argument("dst", metavar="DST", help="and of the one that receives")
    fountains = add("fountains", _fountains, asking, as_json)
    fountains.add_argument("--follow", "-f", action="store_true", help="go on with what changes")
    events = add("events", _events, asking, as_json)
    events.add_argument("--follow", "-f", action="store_true", help="go on with those to come")
    events.add_argument("--limit", **_NUMBER, default=20, help="how many past ones (20)")
    ask = add("ask", _ask, asking)
    ask.add_argument("method", metavar="METHOD", help="the method; help lists all")
    ask.add_argument("params", metavar="NAME=VALUE", nargs="*", type=_param, help="a parameter")
    return parser


def _number(written: str) -> int:
    try:
        return int(written, 0)
    except ValueError:
        right = "write a number, such as 80"
        raise argparse.ArgumentTypeError(f"{written!r} is none; {right}") from None


def _switch(written: str) -> int:
    try:
        return switch_id(written)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


_NUMBER: dict[str, Any] = {"metavar": "N", "type": _number}
_SWITCH: dict[str, Any] = {"metavar": "ID", "type": _switch}


def _add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--switch", **_SWITCH, help="only this switch, by its datapath id")
    parser.add_argument("--port", metavar="PORT", help="only this port of it: its number or name")


def _time(written: str) -> int:
    try:
        seconds = round(quantity.parse(written, quantity.TIMES_S, "seconds", "30 min"))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not 1 <= seconds <= 365 * 86_400:
        raise argparse.ArgumentTypeError("is from 1 second to 365 days")
    return seconds


def _param(written: str) -> tuple[str, str]:
    name, equals, value = written.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{written!r} is not NAME=VALUE")
    return name, value


def _days(written: str) -> int:
    days = _number(written)
    if not 1 <= days <= 36_500:
        raise argparse.ArgumentTypeError("is from 1 to 36500 days")
    return days


def _decimal(written: str, of: str) -> float:
    try:
        return float(written)
    except ValueError:
        right = f"write a number of {of}"
        raise argparse.ArgumentTypeError(f"{written!r} is none; {right}") from None


def _minutes(written: str) -> float:
    minutes = _decimal(written, "minutes, such as 10")
    if not 0.1 <= minutes <= 1440:
        raise argparse.ArgumentTypeError("is from 0.1 to 1440 minutes")
    return minutes


def _turn(written: str) -> float:
    from controller.cli.compare.turns import LEAST_TURN_S

    seconds = _decimal(written, "seconds, such as 5")
    if not LEAST_TURN_S <= seconds <= 600:
        raise argparse.ArgumentTypeError(f"is from {LEAST_TURN_S:g} to 600 seconds")
    return seconds


def _interval(written: str) -> float:
    seconds = _decimal(written, "seconds, such as 0.5")
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError("is from 0.1 to 3600 seconds")
    return seconds


def console() -> Console:
    """Standard output; a pipe is wide, and gets no colours."""
    made = Console(highlight=False, emoji=False, markup=False)
    if not made.is_terminal:
        made.width = max(made.width, _WIDTH_OF_A_PIPE)
    return made


def _switches(options: argparse.Namespace) -> int:
    client = Client(options.socket)
    answer = client.ask("switches", {"switch": options.switch})
    if options.json:
        return _print_json(answer)
    console().print(listing.table(listing.SWITCHES, answer["switches"]))
    return 0


def _ports(options: argparse.Namespace) -> int:
    client, parameters = Client(options.socket), {"switch": options.switch}
    ports = client.ask("ports", parameters)["ports"]
    rows = listing.with_regulation(ports, client.ask("regulation", parameters)["ports"])
    if options.json:
        return _print_json({"ports": rows})
    console().print(listing.table(listing.PORTS, rows))
    return 0


def _flows(options: argparse.Namespace) -> int:
    client = Client(options.socket)
    answer = client.ask(
        "flows",
        {
            "host": options.host,
            "tcp_port": options.tcp_port,
            "class": options.cls,
            "switch": options.switch,
            "port": options.port,
            "limit": options.limit,
            "offset": options.offset,
        },
    )
    if options.json:
        return _print_json(answer)
    console().print(listing.table(listing.FLOWS, answer["flows"]))
    shown = len(answer["flows"])
    if shown < answer["total"]:
        first = answer["offset"] + 1
        print(f"{first} to {first + shown - 1} of {answer['total']}; --offset shows others")
    return 0


def _bandwidth(options: argparse.Namespace) -> int:
    ends = {"src": options.src, "dst": options.dst}
    path = Client(options.socket).ask("bandwidth", ends)
    if options.json:
        return _print_json(path)
    console().print(listing.table(listing.LINKS, path["links"]))
    available, share = words.rate(path["available_bps"]), words.rate(path["share_bps"])
    if path["error_bps"] is None:
        print(f"available at most {available}: a link is not measured")
        print(f"one more announced flow would get at most {share}")
    else:
        print(f"available {available} (+-{words.rate(path['error_bps'])})")
        print(f"one more announced flow would get {share}")
    return 0


def _groups(options: argparse.Namespace) -> int:
    answer = Client(options.socket).ask("groups")
    if options.json:
        return _print_json(answer)
    if not answer["snooping"]:
        print("what is sent to groups goes to all ports: fabric.multicast_snooping is false")
        return 0
    console().print(listing.table(listing.GROUPS, answer["groups"]))
    for ports, text in (("routers", "of routers"), ("unsure", "of which it is not known yet")):
        if answer[ports]:
            print(f"ports {text}, which get everything: {' '.join(answer[ports])}")
    return 0


def _fountains(options: argparse.Namespace) -> int:
    client = Client(options.socket)
    if not options.follow:
        answer = client.ask("fountains")
        if options.json:
            return _print_json(answer)
        console().print(listing.table(listing.FOUNTAINS, answer["fountains"]))
        return 0
    for share in client.follow("follow_fountains"):
        print(json.dumps(share) if options.json else words.share(share), flush=True)
    return 0


def _events(options: argparse.Namespace) -> int:
    client = Client(options.socket)
    if options.follow:
        told = client.follow("follow_events", {"limit": options.limit})
    else:
        told = iter(client.ask("events", {"limit": options.limit})["events"])
    for event in told:
        print(json.dumps(event) if options.json else words.event(event), flush=options.follow)
    return 0


def _ask(options: argparse.Namespace) -> int:
    client, params = Client(options.socket), dict(options.params)
    if len(params) < len(options.params):
        raise AskError("a parameter stands twice; write it once")
    if not options.method.startswith("follow_"):
        return _print_json(client.ask(options.method, params))
    for row in client.follow(options.method, params):
        print(json.dumps(row), flush=True)
    return 0


def _top(options: argparse.Namespace) -> int:
    from controller.cli.top import top

    return top(Client(options.socket), console(), options.interval, options.once)


def _compare(options: argparse.Namespace) -> int:
    from controller.cli.compare.command import compare

    return compare(options, console().print)


def _print_json(value: object) -> int:
    print(json.dumps(value))
    return 0
