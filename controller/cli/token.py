"""`weir-controller token`: adds a token for the HTTP API to its file."""

import argparse
import contextlib
import grp
import json
import os
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import ValidationError

from controller.api.access.tokens import Scope, TokenError, line, make, read

_UNUSABLE = 2
_HEAD = "tokens:\n"
_SERVICE = "weir"


def token(options: argparse.Namespace) -> int:
    """Returns the exit status."""
    scopes = frozenset(Scope(scope) for scope in options.scope or ["read"])
    expires = datetime.now(UTC).replace(microsecond=0) + timedelta(days=options.days)
    file: Path = options.file
    try:
        secret, made = make(options.name, scopes, expires)
        if file.exists():
            named = {known.name for known in read(file).values()}
            if made.name in named:
                raise TokenError(f"{file} has a token {made.name}; remove its line to replace it")
        _append(file, line(made) + "\n")
    except ValidationError:
        text = f"NAME: {options.name!r} is no name; write 1 to 64 of A-Z a-z 0-9 . _ -"
        print(f"weir-controller: {text}", file=sys.stderr)
        return _UNUSABLE
    except (TokenError, OSError) as error:
        print(f"weir-controller: {error}", file=sys.stderr)
        return _UNUSABLE
    if options.json:
        told = {"name": made.name, "token": secret, "expires": expires.isoformat()}
        print(json.dumps(told | {"scopes": sorted(scope.value for scope in scopes)}))
    else:
        print(secret)
        print(f"good until {expires:%Y-%m-%d}; this is the only time it is shown", file=sys.stderr)
    return 0


def _append(file: Path, text: str) -> None:
    """Replace the whole file at once. It keeps its owner and mode; a new file is for its owner and,
    if there is one, the group of the service."""
    before = file.read_text(encoding="utf-8") if file.exists() else _HEAD
    if before and not before.endswith("\n"):
        before += "\n"
    if not before.strip().startswith(_HEAD.strip()) and "\ntokens:" not in before:
        before += _HEAD
    new = file.with_name(f".{file.name}.new")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    except FileNotFoundError:
        raise TokenError(f"there is no directory {file.parent}; make it first") from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as written:
        uid, gid, mode = _owner(file)
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, uid, gid)
            os.fchmod(descriptor, mode)
        written.write(before + text)
    try:
        # A line in another style than the other lines would break the list.
        read(new)
    except TokenError:
        new.unlink()
        raise TokenError(
            f"{file} is not as this command writes it; add this line:\n{text}"
        ) from None
    new.replace(file)


def _owner(file: Path) -> tuple[int, int, int]:
    """Owner, group and mode that the file is to have."""
    if file.exists():
        status = file.stat()
        return status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)
    try:
        return os.geteuid(), grp.getgrnam(_SERVICE).gr_gid, 0o640
    except KeyError:
        return os.geteuid(), os.getegid(), 0o600
