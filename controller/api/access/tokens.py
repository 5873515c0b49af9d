"""Tokens: who may ask for what, and until when. The file holds only their digests.

A token is 256 random bits, so its SHA-256 is as good as a slow hash would be. The file is YAML:

    tokens:
      - {name: dashboard, sha256: 5e88..., scopes: [read], expires: 2027-03-01T00:00:00Z}
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, model_validator

PREFIX = "weir_"


class Scope(StrEnum):
    """What a token allows: to read, to announce fountain flows, or to turn regulation off and
    on."""

    READ = "read"
    ANNOUNCE = "announce"
    REGULATE = "regulate"


class Token(BaseModel):
    """One line of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    scopes: Annotated[frozenset[Scope], Field(min_length=1)]
    expires: AwareDatetime | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tokens: tuple[Token, ...] = ()

    @model_validator(mode="after")
    def _no_name_twice(self) -> "_File":
        names = [token.name for token in self.tokens]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{twice[0]} stands more than once")
        return self


class TokenError(ValueError):
    """The file cannot be used; the message says what is wrong and where."""


class RefusedError(Exception):
    """The token does not allow the request. `name` is that of the token, if it is known."""

    def __init__(self, reason: str, text: str, name: str | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.name = name


class Tokens:
    """The tokens of a file, which is read again when it has changed."""

    def __init__(self, path: Path) -> None:
        """Raises TokenError."""
        self._path = path
        self._stamp = stamp(path)
        self._by_digest: Mapping[bytes, Token] = read(path)

    def follow(self) -> bool:
        """Read the file if it has changed; returns whether it has. If it cannot be used, raises
        TokenError and keeps the former tokens."""
        found = stamp(self._path)
        if found == self._stamp:
            return False
        self._stamp = found
        self._by_digest = read(self._path)
        return True

    def check(self, shown: str | None, scope: Scope | None, now: datetime) -> Token:
        """The token that was shown. Without `scope`, any will do. Raises RefusedError."""
        if shown is None:
            raise RefusedError("missing", "this takes a token: Authorization: Bearer TOKEN")
        return self.check_digest(digest_of(shown), scope, now)

    def check_digest(self, digest: bytes, scope: Scope | None, now: datetime) -> Token:
        """The token of a digest. Raises RefusedError."""
        # The time that a look-up of digests takes says nothing about tokens.
        token = self._by_digest.get(digest)
        if token is None or not hmac.compare_digest(digest, bytes.fromhex(token.sha256)):
            raise RefusedError(
                "unknown", "this token is not known here; weir-controller token FILE NAME makes one"
            )
        if token.expires is not None and now >= token.expires:
            raise RefusedError(
                "expired",
                f"this token has expired at {token.expires}; weir-controller token makes another",
                token.name,
            )
        if scope is not None and scope not in token.scopes:
            text = (
                f"this takes a token with the scope {scope.value}: "
                f"weir-controller token FILE NAME --scope {scope.value}"
            )
            raise RefusedError("scope", text, token.name)
        return token


def digest_of(secret: str) -> bytes:
    """What is kept of a token."""
    return hashlib.sha256(secret.encode(errors="replace")).digest()


def read(path: Path) -> dict[bytes, Token]:
    """The tokens of a file by their digests. Raises TokenError."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        right = f"weir-controller token {path} NAME makes it"
        raise TokenError(f"{path} is not there; {right}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise TokenError(f"{path}: {error}") from None
    try:
        written = yaml.safe_load(text)
    except Exception as error:
        # PyYAML raises other errors, too, such as ValueError for a 30th of February.
        raise TokenError(f"{path} is no YAML: {error}") from None
    try:
        tokens = _File.model_validate(written or {}).tokens
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        right = "mend that, or have weir-controller token write another file"
        raise TokenError(f"{path}: {place}: {first['msg']}; {right}") from None
    return {bytes.fromhex(token.sha256): token for token in tokens}


def make(name: str, scopes: frozenset[Scope], expires: datetime | None) -> tuple[str, Token]:
    """A new token: the secret, which is printed once, and the line for the file."""
    secret = PREFIX + secrets.token_urlsafe(32)
    digest = digest_of(secret).hex()
    return secret, Token(name=name, sha256=digest, scopes=scopes, expires=expires)


def line(token: Token) -> str:
    """A token as it stands in the file."""
    scopes = ", ".join(sorted(scope.value for scope in token.scopes))
    expires = ""
    if token.expires is not None:
        expires = f", expires: {token.expires.astimezone(UTC).isoformat(timespec='seconds')}"
    return f'  - {{name: {token.name}, sha256: "{token.sha256}", scopes: [{scopes}]{expires}}}'


def stamp(path: Path) -> tuple[int, int, int] | None:
    """What differs when a file has changed; None if it is not there."""
    try:
        told = path.stat()
    except OSError:
        return None
    return told.st_ino, told.st_size, told.st_mtime_ns
