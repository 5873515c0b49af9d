"""A man page from a program's own parser of arguments."""

import argparse
import re
from collections.abc import Iterator

Parser = argparse.ArgumentParser


def page(parser: Parser, section: int, version: str) -> str:
    """The page of a program with all its commands, as troff's macros have it."""
    summary = " ".join((parser.description or parser.prog).split()).partition(". ")[0]
    lines = [
        f'.TH {parser.prog.upper()} {section} "" "Weir {version}" "Weir"',
        ".SH NAME",
        f"{_plain(parser.prog)} \\- {_plain(summary.rstrip('.'))}",
        ".SH SYNOPSIS",
        _plain(_usage(parser)),
        ".SH DESCRIPTION",
        *_verbatim(parser.description or ""),
        *([".SH OPTIONS", *options] if (options := _options(parser)) else []),
    ]
    commands = list(every(parser))[1:]
    if commands:
        lines.append(".SH COMMANDS")
    for command in commands:
        lines += [
            f'.SS "{_plain(_usage(command))}"',
            *_verbatim(command.description or ""),
            *_options(command),
            *_verbatim(command.epilog or ""),
        ]
    if parser.epilog:
        lines += [".SH NOTES", *_verbatim(parser.epilog)]
    return "\n".join(lines) + "\n"


def every(parser: Parser) -> Iterator[Parser]:
    """A program's parser, and those of its commands, and theirs."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from every(command)


def _usage(parser: Parser) -> str:
    usage = " ".join(parser.format_usage().split())
    return re.sub(r"^usage: | \[-h\]", "", usage)


def _options(parser: Parser) -> list[str]:
    lines = []
    formatter = parser._get_formatter()
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction | argparse._SubParsersAction):
            continue
        told = formatter._expand_help(action) if action.help else ""
        shown = formatter._format_action_invocation(action)
        lines += [".TP", f".B {_plain(shown)}", _plain(" ".join(told.split())) or "\\&"]
    return lines


def _verbatim(text: str) -> list[str]:
    """Text whose lines stay as they are."""
    if not text.strip():
        return []
    return [".PP", ".nf", *(_plain(line) for line in text.strip("\n").splitlines()), ".fi"]


def _plain(text: str) -> str:
    """Text that means to troff what it says: no requests, no escapes, hyphens as they are."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text[:1] in (".", "'") else text
