"""`weir-controller settings`, `set`, `undo` and `audit`: change a controller at work, take changes
back, and who has changed what."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from rich.console import Console

from controller.cli import listing, words
from controller.cli.client import AskError, Client
from controller.cli.listing import Column
from controller.cli.switching import user

Answer = Mapping[str, Any]

_TABLE = (
    Column("KEY", lambda row: row["key"], least=24),
    Column("VALUE", lambda row: row["value"], shrinks=True),
    Column("FILE", lambda row: _other(row, "configured"), shrinks=True),
    Column("DEFAULT", lambda row: _other(row, "default"), shrinks=True),
    Column("CHANGED", lambda row: "restart" if row["scope"] == "restart" else _changed(row)),
)


def settings(options: argparse.Namespace, console: Console) -> int:
    """Returns the exit status."""
    answer = Client(options.socket).ask("settings")
    rows = answer["settings"]
    if options.keys:
        unknown = [key for key in options.keys if not any(_fits(row, key) for row in rows)]
        if unknown:
            raise AskError(f"there is no setting {unknown[0]}; weir-controller settings lists all")
        rows = [row for row in rows if any(_fits(row, key) for key in options.keys)]
    if options.changed:
        rows = [row for row in rows if row["changed"]]
    if options.json:
        print(json.dumps({**answer, "settings": rows}))
        return 0
    console.print(listing.table(_TABLE, rows))
    if len(rows) == 1:
        print(words.plain(rows[0]["description"]))
    return 0


def change(options: argparse.Namespace) -> int:
    """Returns the exit status."""
    changes = dict(options.changes)
    if len(changes) < len(options.changes):
        raise AskError("a setting stands twice; write it once")
    asked = {"changes": changes, "only_try": options.only_try, "by": user()}
    return _print(options, Client(options.socket).change("change", asked))


def undo(options: argparse.Namespace) -> int:
    """Returns the exit status."""
    client = Client(options.socket)
    entry = options.id
    if entry is None:
        undoable = client.ask("settings")["undoable"]
        if undoable is None:
            raise AskError("there is no change to take back")
        entry = undoable["id"]
    return _print(options, client.change("undo", {"id": entry, "by": user()}))


def audit(options: argparse.Namespace) -> int:
    """Returns the exit status."""
    asked: dict[str, object] = {"limit": options.limit}
    if options.before is not None:
        asked["before"] = options.before
    answer = Client(options.socket).ask("audit", asked)
    if options.json:
        print(json.dumps(answer))
        return 0
    for entry in answer["entries"]:
        print(words.plain(_entry(entry)))
    if answer["next_before"] is not None:
        print(f"--before {answer['next_before']} shows older ones")
    return 0


def assignment(written: str) -> tuple[str, str | None]:
    """`KEY=VALUE`; without a value, None. Raises ArgumentTypeError."""
    key, equals, value = written.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(
            f"{written!r} is not KEY=VALUE; write e.g. regulation.max_hold=20ms, or "
            "regulation.max_hold= for what the file says"
        )
    return key.strip(), value.strip() or None


def _print(options: argparse.Namespace, answer: Answer) -> int:
    if options.json:
        print(json.dumps(answer))
        return 0
    for line in _lines(answer):
        print(words.plain(line))
    if answer["in_force"] and not answer["kept"]:
        print(
            "weir-controller: this does not hold over a restart of the controller: it could not "
            "write to its state directory (see its log), or has none (STATE_DIRECTORY)",
            file=sys.stderr,
        )
    return 0


def _lines(answer: Answer) -> Iterator[str]:
    for step in answer["changes"]:
        would = "is now" if answer["in_force"] else "would be"
        yield f"{step['key']} {would} {step['to']}, and was {step['from']}"
    if not answer["changes"]:
        yield "it is so already"


def _fits(row: Answer, key: str) -> bool:
    return key in (row["key"], row["section"])


def _other(row: Answer, key: str) -> str:
    """What is not as it is in force."""
    return words.NOTHING if row[key] == row["value"] else str(row[key])


def _changed(row: Answer) -> str:
    changed = row["changed"]
    return words.NOTHING if changed is None else f"{_time(changed['at_s'])} by {changed['by']}"


def _entry(entry: Answer) -> str:
    steps = [f"{step['key']} from {step['from']} to {step['to']}" for step in entry["changes"]]
    told = "; ".join([*steps, *([entry["detail"]] if entry["detail"] else [])])
    head = f"{entry['id']:>5} {_time(entry['at_s'])} {entry['by']}: {entry['what']}"
    return f"{head} {told}".rstrip()


def _time(at_s: float) -> str:
    return datetime.fromtimestamp(at_s).astimezone().strftime("%Y-%m-%d %H:%M:%S")
