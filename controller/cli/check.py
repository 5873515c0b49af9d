"""`weir-controller check`: finds what is wrong with a configuration, and with all that it names,
before it is used."""

import argparse
import errno
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

VALID, INVALID, UNREADABLE = 0, 1, 2


def _right(error: OSError) -> str:
    return "try again with sudo" if error.errno == errno.EACCES else "name another file"


def check(options: argparse.Namespace) -> int:
    """Status 0: valid, perhaps with warnings, 1: not, 2: the file cannot be read."""
    from controller.config import readiness
    from controller.config.errors import ConfigError
    from controller.config.reading import load

    file: Path = options.file
    found = readiness.Report([], [])
    try:
        with file.open("rb") as opened:
            opened.read(1)
    except OSError as error:
        print(f"weir-controller: {file}: {error.strerror}; {_right(error)}", file=sys.stderr)
        return UNREADABLE
    try:
        found = readiness.inspect(load(file), datetime.now(UTC), options.user)
    except ConfigError as error:
        found.problems.extend(problem.removeprefix(f"{file}: ") for problem in error.problems)
    valid = not found.problems
    if options.json:
        told = {"file": str(file), "valid": valid, **found._asdict()}
        print(json.dumps(told))
        return VALID if valid else INVALID
    for problem in found.problems:
        print(f"{file}: {problem}")
    for warning in found.warnings:
        print(f"{file}: warning: {warning}")
    if valid:
        print(f"{file} is valid")
    return VALID if valid else INVALID
