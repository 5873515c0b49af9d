"""The log: text lines for people or JSON objects for programs. Each says what it is about.

`LOG.warning("disconnected", extra=about(switch=1))` becomes
`switch=0000000000000001 disconnected`, or an object with the key `switch`. Lines that repeat are
written a few times, then counted.
"""

import json
import logging
import os
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import IO, Any

from controller.model.values import datapath_id

_ROOT = "weir"
_ABOUT = "weir_about"
_AT_ONCE = 5
_PERIOD_S = 10.0
_KINDS = 1024
# What journald takes for the priority of a line (sd-daemon(3)).
_PRIORITIES = {
    logging.CRITICAL: 2,
    logging.ERROR: 3,
    logging.WARNING: 4,
    logging.INFO: 6,
    logging.DEBUG: 7,
}
_BARE = re.compile(r"[^\s\"=\\]+")


def about(
    switch: int | None = None, port: int | None = None, flow: str | None = None
) -> dict[str, object]:
    """The `extra` of a log call: the switch, port or flow (`10.0.0.1:1024>10.0.0.2:80`) that the
    line is about."""
    written = None if switch is None else datapath_id(switch)
    named = {"switch": written, "port": port, "flow": flow}
    return {_ABOUT: {key: value for key, value in named.items() if value is not None}}


def configure(
    stream: IO[str],
    level: str,
    levels: Mapping[Any, str],
    as_json: bool,
    clock_s: Callable[[], float],
) -> None:
    """Write the log to a stream from now on. `levels` are for components whose level differs."""
    formatter = JsonFormatter() if as_json else TextFormatter(_is_journal(stream))
    handler = Handler(stream, clock_s)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    for former in root.handlers[:]:
        root.removeHandler(former)
        former.close()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    ours = logging.getLogger(_ROOT)
    ours.setLevel(level.upper())
    for name in list(logging.Logger.manager.loggerDict):
        if name.startswith(f"{_ROOT}."):
            logging.getLogger(name).setLevel(logging.NOTSET)
    for component, its_level in levels.items():
        logging.getLogger(f"{_ROOT}.{component}").setLevel(its_level.upper())


class TextFormatter(logging.Formatter):
    """`TIME LEVEL component: switch=ID port=3 message`, without time and level for a journal."""

    def __init__(self, for_journal: bool = False) -> None:
        head = "" if for_journal else "%(asctime)s %(levelname)-7s "
        super().__init__(f"{head}%(name)s: %(message)s")
        self._for_journal = for_journal

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        if not self._for_journal:
            return text
        prefix = f"<{_PRIORITIES.get(record.levelno, 6)}>"
        return "\n".join(prefix + line for line in text.splitlines())

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        words = [f"{key}={_word(value)}" for key, value in _named(record).items()]
        record.message = " ".join([*words, _one_line(record.message)])
        return super().formatMessage(record)


class JsonFormatter(logging.Formatter):
    """One object a line: time (UTC), level, component, message, and what it is about."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname.lower(),
            "component": record.name,
            "message": record.getMessage(),
            **_named(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


class _Kind:
    """Lines that count as alike."""

    __slots__ = ("last", "left_out", "n", "since_s")

    def __init__(self, since_s: float, last: logging.LogRecord) -> None:
        self.since_s = since_s
        self.n = self.left_out = 0
        self.last = last


class Handler(logging.StreamHandler[IO[str]]):
    """Writes the first few of lines that repeat, then how many more there were.

    Lines are alike if the same call logs them about the same things. The count is written before
    the first line, of any kind, after the period, or when the handler is closed.
    """

    def __init__(self, stream: IO[str], clock_s: Callable[[], float]) -> None:
        super().__init__(stream)
        self._clock_s = clock_s
        self._kinds: dict[tuple[object, ...], _Kind] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno <= logging.DEBUG:
            # Debug lines are wanted in full.
            super().emit(record)
            return
        now_s = self._clock_s()
        self._close_periods(now_s - _PERIOD_S)
        key = record.name, record.levelno, record.msg, *sorted(_named(record).items())
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = _Kind(now_s, record)
            if len(self._kinds) > _KINDS:
                self._end(next(iter(self._kinds)))
        kind.n += 1
        # Critical lines are never left out.
        if kind.n <= _AT_ONCE or record.levelno >= logging.CRITICAL:
            super().emit(record)
        else:
            kind.left_out += 1
            kind.last = record

    def close(self) -> None:
        for key in list(self._kinds):
            self._end(key)
        super().close()

    def _close_periods(self, begun_s: float) -> None:
        """The oldest stand first."""
        while self._kinds:
            key, kind = next(iter(self._kinds.items()))
            if kind.since_s > begun_s:
                break
            self._end(key)

    def _end(self, key: tuple[object, ...]) -> None:
        kind = self._kinds.pop(key)
        if kind.left_out:
            text = f"{kind.last.getMessage()} (and {kind.left_out} more like it were left out)"
            summary = logging.makeLogRecord({**vars(kind.last), "msg": text, "args": ()})
            summary.exc_info = summary.exc_text = None
            super().emit(summary)


def _named(record: logging.LogRecord) -> Mapping[str, object]:
    return getattr(record, _ABOUT, {})


def _word(value: object) -> str:
    text = str(value)
    return text if _BARE.fullmatch(text) else json.dumps(text)


def _one_line(text: str) -> str:
    """Escape line breaks: text of peers must not look like lines of ours."""
    return (
        text
        if text.isprintable()
        else "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    )


def _is_journal(stream: IO[str]) -> bool:
    """Whether journald reads the stream (systemd.exec(5), JOURNAL_STREAM)."""
    try:
        at = os.fstat(stream.fileno())
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{at.st_dev}:{at.st_ino}"
