"""Who may ask: by a token, or by the session of a browser, and how often."""

import logging
from collections.abc import Callable
from datetime import datetime
from http import HTTPStatus
from typing import NamedTuple

from fastapi import Request
from prometheus_client import Counter
from starlette.exceptions import HTTPException

from controller.api import problems
from controller.api.access.limits import RateLimit
from controller.api.access.session_file import SessionFile
from controller.api.access.sessions import Sessions
from controller.api.access.tokens import RefusedError, Scope, Token, Tokens, digest_of

LOG = logging.getLogger("weir.api")

PAGE_HEADER = "X-Weir-Page"
_READING = {"GET", "HEAD"}
_FORBIDDEN = {"scope", "forged"}
# An address without a valid token may make this part of the requests of a token.
_STRANGERS_PART = 0.2
# Each session may make this part of them, and all sessions of a token so many times as many: so one
# token may be used in many browsers, and nobody gets any number of requests by signing in again.
_SESSION_PART, _SESSIONS_PART = 0.25, 12.5


class Shown(NamedTuple):
    """What a request shows of who makes it. A token goes before a session."""

    token: str | None
    session: str | None


class Caller(NamedTuple):
    """Who asks. `is_admitted` says whether that still holds, for requests that last."""

    token: Token
    is_admitted: Callable[[], bool]

    @property
    def who(self) -> str:
        """The caller, for logs and as the owner of flows."""
        return f"token {self.token.name}"


class Access:
    """Admits requests. `rate` is the number of requests a second of each token; its sessions have
    limits of their own."""

    def __init__(
        self,
        tokens: Tokens,
        rate: float,
        refused: Counter,
        now: Callable[[], datetime],
        clock: Callable[[], float],
        session_file: SessionFile | None = None,
    ) -> None:
        self.sessions = Sessions(clock, file=session_file)
        self._tokens = tokens
        self._now = now
        self._refused = refused
        self._limit = RateLimit(rate, clock)
        self._session_limit = RateLimit(_SESSION_PART * rate, clock)
        self._sessions_limit = RateLimit(_SESSIONS_PART * rate, clock)
        self._strangers = RateLimit(_STRANGERS_PART * rate, clock)

    def admit_stranger(self, request: Request) -> None:
        """Raises HTTPException if this address has asked too often without a token."""
        _let_in(self._strangers.wait_s(_address_of(request)))

    def admit(self, request: Request, shown: Shown, scope: Scope | None) -> Caller:
        """Raises HTTPException if the request may not go on. Without `scope`, any token may."""
        try:
            if shown.token is None and shown.session is not None:
                _refuse_forged(request)
            token = self._check(shown, scope)
        except RefusedError as refused:
            raise self._refusal(request, refused) from None
        if shown.token is None and shown.session is not None:
            _let_in(self._session_limit.wait_s(shown.session))
            _let_in(self._sessions_limit.wait_s(token.name))
        else:
            _let_in(self._limit.wait_s(token.name))
        return Caller(token, lambda: self._is_admitted(shown, scope))

    def who(self, request: Request, shown: Shown) -> Token | None:
        """Who asks; None without a token or a session, and with a session that is over. To ask
        that is no mistake of a browser's. Raises HTTPException."""
        if shown.token is None and (shown.session is None or not self._is_admitted(shown, None)):
            self.admit_stranger(request)
            return None
        return self.admit(request, shown, None).token

    def sign_in(self, request: Request, token: str, former: str | None) -> tuple[Token, str]:
        """A session in place of the former one, if there was one: its token, and the value of its
        cookie. Raises HTTPException."""
        try:
            # A page of another site must not sign anybody in as somebody else.
            _refuse_other_origins(request)
        except RefusedError as refused:
            raise self._refusal(request, refused) from None
        caller = self.admit(request, Shown(token, None), None)
        if former is not None:
            self.sessions.end(former)
        return caller.token, self.sessions.begin(digest_of(token))

    def sign_out(self, request: Request, shown: Shown) -> None:
        """End a session. A token has none to end. Raises HTTPException."""
        if shown.session is None:
            self.admit(request, shown, None)
            return
        try:
            _refuse_forged(request)
        except RefusedError as refused:
            raise self._refusal(request, refused) from None
        self.sessions.end(shown.session)

    def _check(self, shown: Shown, scope: Scope | None) -> Token:
        """Raises RefusedError."""
        if shown.token is not None or shown.session is None:
            return self._tokens.check(shown.token, scope, self._now())
        digest = self.sessions.find(shown.session)
        if digest is None:
            raise RefusedError("session", "this session is over; sign in again")
        return self._tokens.check_digest(digest, scope, self._now())

    def _is_admitted(self, shown: Shown, scope: Scope | None) -> bool:
        try:
            self._check(shown, scope)
        except RefusedError:
            return False
        return True

    def _refusal(self, request: Request, refused: RefusedError) -> HTTPException:
        """The answer to a request that is refused, which is counted and logged. Raises
        HTTPException if there are too many."""
        self._refused.labels(refused.reason).inc()
        self.admit_stranger(request)
        whose = f"token {refused.name}" if refused.name else "a request"
        LOG.warning("%s from %s was refused: %s", whose, _address_of(request), refused)
        forbidden = refused.reason in _FORBIDDEN
        status = HTTPStatus.FORBIDDEN if forbidden else HTTPStatus.UNAUTHORIZED
        error = "insufficient_scope" if forbidden else "invalid_token"
        # RFC 6750 section 3: without a token there is no error to name.
        told = "" if refused.reason == "missing" else f', error="{error}"'
        headers = {"WWW-Authenticate": f'Bearer realm="weir"{told}'}
        return HTTPException(status, str(refused), headers)


def _let_in(wait_s: float) -> None:
    if wait_s:
        raise problems.too_many(wait_s)


def _refuse_forged(request: Request) -> None:
    """Browsers send the cookie with whatever a page of another site makes them ask. Such a page
    cannot add a header without asking first. Raises RefusedError."""
    if request.method in _READING:
        return
    if request.headers.get(PAGE_HEADER) != "1":
        text = f"a request by a session that changes something takes the header {PAGE_HEADER}: 1"
        raise RefusedError("forged", text)
    _refuse_other_origins(request)


def _refuse_other_origins(request: Request) -> None:
    """Raises RefusedError."""
    origin, host = request.headers.get("Origin"), request.headers.get("Host", "")
    if origin is not None and origin.partition("://")[2].lower() != host.lower():
        text = "pages of other origins cannot use sessions here; they take a token"
        raise RefusedError("forged", text)


def _address_of(request: Request) -> str:
    return request.client.host if request.client else "unknown"
