"""Command lines that suggest what an unknown option may stand for."""

import argparse
import difflib
from collections.abc import Sequence
from typing import Any


class Parser(argparse.ArgumentParser):
    """An ArgumentParser; the parsers of its commands are of this kind, too."""

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            parser = self._of_command(options)
            hint = parser._hint(unknown)
            parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return options

    def _of_command(self, options: argparse.Namespace) -> "Parser":
        """The parser of the command that was given, or this one."""
        for action in self._subparsers._group_actions if self._subparsers else ():
            chosen = getattr(options, action.dest, None)
            if isinstance(action.choices, dict) and chosen in action.choices:
                made: Parser = action.choices[chosen]
                return made._of_command(options)
        return self

    def _hint(self, unknown: Sequence[str]) -> str:
        known = [option for action in self._actions for option in action.option_strings]
        for word in unknown:
            if word.startswith("-"):
                close = difflib.get_close_matches(word.partition("=")[0], known, 1)
                return f"; did you mean {close[0]}?" if close else f"; there are {' '.join(known)}"
        return "; see --help"
