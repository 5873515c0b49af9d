"""Sessions of browsers: a cookie that stands for a token, so that no script can read the token.

A session may do what its token may, as long as the token is good. Sessions outlast the process
only in a file (`session_file`), and only as digests.
"""

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from fastapi import Response

from controller.api.access.session_file import Kept, SessionFile

COOKIE = "weir_session"
LIFETIME_S = 12 * 3600
_MOST, _MOST_OF_TOKEN = 4096, 256


class _Session(NamedTuple):
    token_digest: bytes
    ends_s: float


class Sessions:
    """At most `most`, and `of_token` of one token, so that nobody can end those of others. A new
    one takes the place of the one that was not used for longest. Those of `file` go on."""

    def __init__(
        self,
        clock: Callable[[], float],
        most: int = _MOST,
        of_token: int = _MOST_OF_TOKEN,
        file: SessionFile | None = None,
    ) -> None:
        self._clock = clock
        self._most, self._most_of_token = most, of_token
        # By digest, so that the time of a look-up says nothing about cookies.
        self._by_digest: OrderedDict[bytes, _Session] = OrderedDict()
        self._file = file
        for kept in file.read() if file else ():
            # The time of day may have been set back since.
            ends_s = clock() + min(kept.left_s, LIFETIME_S)
            self._begin(kept.digest, _Session(kept.token_digest, ends_s))

    def __len__(self) -> int:
        return len(self._by_digest)

    def begin(self, token_digest: bytes) -> str:
        """A new session of a token: the value of its cookie."""
        secret = secrets.token_urlsafe(32)
        self._begin(_digest(secret), _Session(token_digest, self._clock() + LIFETIME_S))
        self._keep()
        return secret

    def _begin(self, digest: bytes, session: _Session) -> None:
        of_token = session.token_digest
        same = [one for one, of in self._by_digest.items() if of.token_digest == of_token]
        if len(same) >= self._most_of_token:
            del self._by_digest[same[0]]
        self._by_digest[digest] = session
        if len(self._by_digest) > self._most:
            self._by_digest.popitem(last=False)

    def find(self, secret: str) -> bytes | None:
        """The digest of the session's token; None if there is no such session, or it is over."""
        digest = _digest(secret)
        session = self._by_digest.get(digest)
        if session is None:
            return None
        if self._clock() >= session.ends_s:
            del self._by_digest[digest]
            return None
        self._by_digest.move_to_end(digest)
        return session.token_digest

    def end(self, secret: str) -> None:
        """End a session, if there is one."""
        if self._by_digest.pop(_digest(secret), None) is not None:
            self._keep()

    def _keep(self) -> None:
        """Write those that are not over to the file."""
        if self._file is None:
            return
        now_s = self._clock()
        self._file.write(
            Kept(digest, session.token_digest, session.ends_s - now_s)
            for digest, session in self._by_digest.items()
            if session.ends_s > now_s
        )


def give(response: Response, secret: str, secure: bool) -> None:
    """Set the cookie, which browsers send over TLS only if `secure`."""
    _set(response, secret, LIFETIME_S, secure)


def take_back(response: Response, secure: bool) -> None:
    """Clear the cookie."""
    _set(response, "", 0, secure)


def _set(response: Response, secret: str, age_s: int, secure: bool) -> None:
    response.set_cookie(
        COOKIE, secret, max_age=age_s, path="/", secure=secure, httponly=True, samesite="strict"
    )


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="replace")).digest()
