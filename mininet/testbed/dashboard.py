"""The operator's page of a lab: served by its controller, reached from outside of the sandbox."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from controller.api.access.tokens import Scope, line, make
from testbed import builds
from testbed.command import wait_until
from testbed.controller import listening
from testbed.forward import Forward
from testbed.sandbox import RUN_DIR, SandboxError

DEFAULT = "127.0.0.1:8181"
PREFIX_VARIABLE = "WEIR_PAGE_PREFIX"
_INSIDE = ("127.0.0.1", 8181)
_TOKENS = RUN_DIR / "tokens.yaml"
_GOOD_FOR = timedelta(days=1)
# The API is a process of its own, which the controller starts and does not wait for.
_START_TIMEOUT_S = 60.0


def find_page() -> Path:
    """Where the built page is: $WEIR_PAGE_PREFIX, else the newest build. Raises SandboxError."""
    given = os.environ.get(PREFIX_VARIABLE)
    built = [Path(given)] if given else list(builds.cache().glob("page-*"))
    indexes = [index for prefix in built if (index := prefix / "index.html").exists()]
    if not indexes:
        raise SandboxError(f"no built page in {given or builds.cache()}: run 'make page'")
    return max(indexes, key=lambda index: index.stat().st_mtime).parent.resolve()


def sections() -> Mapping[str, Mapping[str, Any]]:
    """What the controller's configuration says of it."""
    listen = f"{_INSIDE[0]}:{_INSIDE[1]}"
    api = {"listen": listen, "tokens": str(_TOKENS), "page": str(find_page())}
    return {"northbound": {"api": api}}


def forward(address: str) -> Forward:
    """Take an address of this machine, ADDRESS:PORT, for it. Raises ValueError and SandboxError."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"--dashboard: {address!r} is no address; write e.g. {DEFAULT}")
    try:
        return Forward((host.strip("[]"), int(port)), _INSIDE)
    except OSError as error:
        raise SandboxError(f"cannot serve the dashboard at {address}: {error.strerror}") from None


def make_token() -> str:
    """A token with which everything may be seen and done. To be called within the sandbox, before
    the controller starts."""
    expires = datetime.now(UTC).replace(microsecond=0) + _GOOD_FOR
    secret, token = make("lab", frozenset({Scope.READ, Scope.REGULATE}), expires)
    _TOKENS.touch(mode=0o600)
    _TOKENS.write_text(f"tokens:\n{line(token)}\n")
    return secret


def announce(address: str, token: str) -> None:
    """Print where the page is, once it is served, and the token. Raises TimeoutError."""
    _, port = _INSIDE
    wait_until(lambda: listening(port), timeout_s=_START_TIMEOUT_S, what="the page is served")
    print(f"dashboard: http://{address}/, sign in with {token}", flush=True)
