"""The file that sessions outlast a restart of the API's process in.

It holds digests only, of cookies and of tokens: whoever reads it can sign in with neither. It is
readable for its owner alone. A file that cannot be used is reported and ignored: people sign in
again.
"""

import json
import logging
import os
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

LOG = logging.getLogger("weir.api")

NAME = "sessions.json"
# More than all sessions that there may be take.
_MOST_BYTES = 4 * 1024 * 1024

_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Kept(NamedTuple):
    """A session: the digests of its cookie and of its token, and for how long it goes on."""

    digest: bytes
    token_digest: bytes
    left_s: float


class _Session(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    sha256: _Digest
    token_sha256: _Digest
    ends: AwareDatetime


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    sessions: tuple[_Session, ...]


class SessionFile:
    """`now` is the time of day: other clocks begin anew with the machine."""

    def __init__(self, path: Path, now: Callable[[], datetime]) -> None:
        self._path = path
        self._now = now
        self._failed = False

    def read(self) -> list[Kept]:
        """The sessions that are not over, in the order in which they were kept."""
        try:
            with self._path.open("rb") as file:
                text = file.read(_MOST_BYTES + 1)
            if len(text) > _MOST_BYTES:
                raise ValueError(f"it has more than {_MOST_BYTES} bytes")
            sessions = _File.model_validate_json(text).sessions
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            LOG.error(
                "%s cannot be used: %s; it is written anew, and people sign in again",
                *(self._path, _first(error)),
            )
            return []
        now = self._now()
        return [
            Kept(bytes.fromhex(one.sha256), bytes.fromhex(one.token_sha256), left_s)
            for one in sessions
            if (left_s := (one.ends - now).total_seconds()) > 0
        ]

    def write(self, sessions: Iterable[Kept]) -> None:
        """Replace the file. What goes wrong is logged once."""
        now = self._now()
        told = [
            {
                "sha256": one.digest.hex(),
                "token_sha256": one.token_digest.hex(),
                "ends": (now + timedelta(seconds=one.left_s)).isoformat(),
            }
            for one in sessions
        ]
        new = self._path.with_suffix(".new")
        try:
            new.unlink(missing_ok=True)
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump({"sessions": told}, file)
            new.replace(self._path)
        except OSError as error:
            if not self._failed:
                LOG.error(
                    "%s cannot be written: %s; sessions end with the process of the API",
                    *(self._path, error.strerror or error),
                )
            self._failed = True
        else:
            self._failed = False


def _first(error: Exception) -> str:
    if isinstance(error, ValidationError):
        wrong = error.errors()[0]
        place = ".".join(map(str, wrong["loc"]))
        return f"{place}: {wrong['msg']}" if place else wrong["msg"]
    return str(error)
