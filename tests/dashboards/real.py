"""The page as a controller serves it, over a real switch under real traffic. All is in the sandbox
of the test, the browser as well."""

import json
import os
import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from controller.api.access.tokens import Scope, line, make
from experiments.page.watched import api_of
from looking import Looking, chromium
from testbed import dashboard
from testbed.bed import Bed
from testbed.command import wait_until
from testbed.config import BedConfig
from testbed.controller import listening
from testbed.sandbox import RUN_DIR
from way import Way

SENDERS = 16
API_PORT = 8181
SCOPES = {
    "operator": frozenset({Scope.READ, Scope.REGULATE}),
    "viewer": frozenset({Scope.READ}),
    "sender": frozenset({Scope.ANNOUNCE}),
}
_START_S = 20
_UNITS = {
    **dict.fromkeys(("", "B", "s", "b/s", "/s"), 1.0),
    "k": 1e3,
    "M": 1e6,
    "k/s": 1e3,
    "kb/s": 1e3,
    "Mb/s": 1e6,
    "Gb/s": 1e9,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "µs": 1e-6,
    "ms": 1e-3,
    "min": 60.0,
    "%": 1e-2,
}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?) ?(µs|ms|min|[KMG]iB|[kMG]?b/s|k?/s|[kM](?!\w)|[Bs%](?!\w))?")


def numbers(text: str) -> list[float]:
    """The quantities of a text as the page writes them, in bytes, seconds, bits per second or
    alone."""
    return [float(value) * _UNITS[unit] for value, unit in _NUMBER.findall(text)]


class Real:
    """A star of hosts under regulation. The page is at ``origin``."""

    def __init__(self, bed: Bed, tokens: Path, secrets: dict[str, str]) -> None:
        self.bed = bed
        self.origin = f"http://127.0.0.1:{API_PORT}"
        self.way: Way | None = None
        self._tokens = tokens
        self._secrets = secrets

    @property
    def pid(self) -> int:
        """The controller's."""
        assert self.bed.controller is not None
        assert self.bed.controller.process is not None
        return self.bed.controller.process.pid

    @property
    def api_pid(self) -> int | None:
        """That of the API's process; None while there is none."""
        with suppress(RuntimeError):
            return api_of(self.pid)
        return None

    def token(self, name: str) -> str:
        return self._secrets[name]

    def revoke(self, name: str) -> None:
        """Take a token's line out of the file."""
        lines = self._tokens.read_text().splitlines(keepends=True)
        self._tokens.write_text("".join(one for one in lines if f"name: {name}" not in one))

    def ask(self, path: str) -> Any:
        """What the API answers."""
        headers = {"Authorization": f"Bearer {self.token('operator')}"}
        request = urllib.request.Request(f"http://127.0.0.1:{API_PORT}{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=10) as told:
            return json.loads(told.read())

    def bottleneck(self) -> dict[str, Any]:
        """What the API says of the bottleneck's port."""
        ports: list[dict[str, Any]] = self.ask("/v1/ports")["ports"]
        (found,) = (port for port in ports if port["name"] == self.bed.roles.bottleneck)
        return found

    def port_hash(self) -> str:
        """Where the page has the bottleneck's port."""
        port = self.bottleneck()
        return f"#/port/{port['datapath_id']}/{port['port']}"

    def queue(self) -> dict[str, str]:
        """What the switch says of the bottleneck's queue."""
        return self.bed.bottleneck_switch.queues()[self.bed.roles.bottleneck]

    def settled(self) -> dict[str, str]:
        """What the switch says of the bottleneck's queue once the API says it as well."""
        found = self.queue()

        def same() -> bool:
            nonlocal found
            found = self.queue()
            told = self.bottleneck()["queues"][0]
            return told["sent_bytes"] == int(found["tx_bytes"])

        wait_until(same, timeout_s=10, what="the API says what the switch says", poll_s=0.2)
        return found

    def notices(self) -> list[dict[str, Any]]:
        """The notices that the controller has heard, from its event log."""
        lines = self.bed.events.read_text().rpartition("\n")[0].splitlines()
        return [one for one in map(json.loads, lines) if one["event"] == "queue_event"]


@contextmanager
def real(**controller: dict[str, Any]) -> Iterator[Real]:
    """Start it all. ``controller`` are sections of its configuration beside the page's."""
    tokens = RUN_DIR / "tokens.yaml"
    expires = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    made = {name: make(name, scopes, expires) for name, scopes in SCOPES.items()}
    tokens.touch(mode=0o600)
    tokens.write_text("tokens:\n" + "".join(f"{line(token)}\n" for _, token in made.values()))
    api = {
        "listen": f"127.0.0.1:{API_PORT}",
        "tokens": str(tokens),
        "page": str(dashboard.find_page()),
    }
    config = BedConfig(
        topology="star",
        senders=SENDERS,
        scheme="weir",
        controller={"northbound": {"api": api}, **controller},
    )
    with Bed(config) as bed, _log_of(bed):
        bed.require_forwarding()
        wait_until(lambda: listening(API_PORT), timeout_s=_START_S, what="the API listens")
        found = Real(bed, tokens, {name: secret for name, (secret, _) in made.items()})
        wait_until(
            lambda: found.ask("/v1/overview")["ports"]["with_queue"] == len(bed.hosts),
            timeout_s=_START_S,
            what="all queues are known",
        )
        yield found


@contextmanager
def _log_of(bed: Bed) -> Iterator[None]:
    """For whoever looks at why a test has failed."""
    assert bed.controller is not None
    try:
        yield
    finally:
        print(bed.controller.log.read_text(errors="replace")[-5000:])


def watch(page: Any, selector: str, text: str) -> Callable[[], float | None]:
    """Have the page note when there is another first element with this text than there is now.
    Returns what tells that time of day, in seconds since 1970, or None."""
    page.evaluate(
        """([selector, text]) => {
            const first = () => [...document.querySelectorAll(selector)]
                .map((one) => one.textContent).find((one) => one.includes(text)) ?? null;
            const before = first();
            window.seenAt = null;
            const look = () => {
                if (window.seenAt === null && first() !== null && first() !== before) {
                    window.seenAt = Date.now() / 1000;
                }
            };
            new MutationObserver(look).observe(document.body,
                {subtree: true, childList: true, characterData: true});
        }""",
        [selector, text],
    )
    return lambda: page.evaluate("window.seenAt")


def until(page: Any, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Wait while the browser goes on."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"not within {timeout_s:g} s: {what}")
        page.wait_for_timeout(50)


@contextmanager
def looked_at(way: bool = False, **controller: dict[str, Any]) -> Iterator[Looking[Real]]:
    """A browser that looks at it all, straight or by a ``way`` that can be cut. In the end it must
    not have complained, nor asked for anything off the page's origin."""
    with TemporaryDirectory() as state, ExitStack() as stack:
        os.environ["STATE_DIRECTORY"] = state
        served = stack.enter_context(real(**controller))
        if way:
            served.way = stack.enter_context(Way(API_PORT).running())
            served.origin = served.way.origin
        looking = Looking(stack.enter_context(chromium()), served)
        yield looking
        looking.context.close()
        assert looking.errors == []
        assert looking.off_origin() == []
