"""The programs of Weir's Python parts, and their parsers of arguments."""

import argparse
from collections.abc import Callable, Sequence
from importlib import metadata
from unittest import mock

from controller.cli import COMMANDS


class _AskedError(Exception):
    """A program has come to its command line."""


def parsers() -> dict[str, argparse.ArgumentParser]:
    """The parser of every program that setup.py names, with all its commands."""
    scripts = metadata.distribution("weir").entry_points.select(group="console_scripts")
    found = {script.name: _parser(script.load(), []) for script in scripts}
    # It has a second one for the commands beside `run`, which import less.
    controller = found["weir-controller"]
    main = scripts["weir-controller"].load()
    commands = _parser(main, [next(iter(COMMANDS))])
    (action,) = (each for each in commands._actions if each.choices is not None)
    controller._add_action(action)
    return found


def _parser(main: Callable[[Sequence[str]], int], argv: Sequence[str]) -> argparse.ArgumentParser:
    """The parser that a program gives these arguments to."""

    def asked(parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        raise _AskedError(parser)

    # What a program does to its process it does not do to this one.
    with (
        mock.patch.object(argparse.ArgumentParser, "parse_known_args", asked),
        mock.patch("signal.signal"),
    ):
        try:
            main(argv)
        except _AskedError as found:
            parser: argparse.ArgumentParser = found.args[0]
            return parser
    raise LookupError(f"{main} reads no arguments")
