"""A real controller with its API and the page, and the large fabric that they watch."""

import contextlib
import json
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import psutil

from controller.api.access.tokens import Scope, line, make
from experiments.bench.controller.process import Weir
from experiments.measure.process import footprint, processor_s
from experiments.page.feed import Settings
from experiments.page.shape import LARGE, SMALL
from testbed import sandbox
from testbed.command import wait_until
from testbed.controller import listening

PORT = 8181
ORIGIN = f"http://127.0.0.1:{PORT}"
_NOTICES_PER_S = 1000
_LARGE_CONNECTIONS, _SMALL_CONNECTIONS = 500_000, 5_000
# A switch counts these, of all others the controller knows no volume.
_COUNTED_PER_SWITCH = 64
_START_S, _KNOWN_S, _END_S = 30.0, 120.0, 10.0


@dataclass(frozen=True)
class Watched:
    """What is watched. ``secret`` is a token of all scopes."""

    secret: str
    controller: int
    api: int
    flows: int
    setup_s: float

    def shares_of(self, for_s: float) -> tuple[float, float]:
        """Which share of a core the controller and the API's process take meanwhile."""
        pids, begun_s = (self.controller, self.api), time.monotonic()
        before = [processor_s(pid) for pid in pids]
        time.sleep(for_s)
        passed_s = time.monotonic() - begun_s
        controller, api = (
            (processor_s(pid) - used_s) / passed_s for pid, used_s in zip(pids, before, strict=True)
        )
        return controller, api

    def memory_mb(self) -> tuple[float, float]:
        """The memory (RSS) of the controller and of the API's process."""
        controller, api = (footprint(pid).rss_kb / 1000 for pid in (self.controller, self.api))
        return controller, api

    def ask(self, path: str) -> Any:
        """What the API answers."""
        headers = {"Authorization": f"Bearer {self.secret}"}
        with urllib.request.urlopen(urllib.request.Request(ORIGIN + path, headers=headers)) as told:
            return json.loads(told.read())


@contextmanager
def watched(
    progress: Callable[[str], None], page: Path, *, small: bool, least_known: float = 1.0
) -> Iterator[Watched]:
    """Start it all, and wait until every flow is known, or this part of them: a controller that
    gets too little of the processors does not take all that is copied to it."""
    directory = sandbox.RUN_DIR / "watched"
    directory.mkdir()
    secret, token = make("bench", frozenset(Scope), None)
    (directory / "tokens.yaml").write_text(f"tokens:\n{line(token)}\n")
    api = {
        "listen": f"127.0.0.1:{PORT}",
        "tokens": str(directory / "tokens.yaml"),
        "page": str(page),
    }
    sections: dict[str, dict[str, object]] = {
        "fabric": {
            "link_capacity": "10 Gbit/s",
            "egress_buffer": "512 KiB",
            # A probe a second of each of 5,000 ports would be most of the load.
            "lldp_interval": "10 s",
            "link_timeout": "40 s",
        },
        "classifier": {"expiry": "3600 s", "counted_per_switch": _COUNTED_PER_SWITCH},
        "northbound": {"socket": str(directory / "controller.sock"), "api": api},
    }
    connections = _SMALL_CONNECTIONS if small else _LARGE_CONNECTIONS
    settings = Settings(asdict(SMALL if small else LARGE), connections, _NOTICES_PER_S)
    with Weir(directory, sections=sections, pinned=False, state=directory) as weir:
        weir.wait_until_listening(_START_S)
        wait_until(lambda: listening(PORT), timeout_s=_START_S, what="the API listens")
        begun_s = time.monotonic()
        with _feeding(settings, progress):
            setup_s = time.monotonic() - begun_s
            found = Watched(secret, weir.pid, api_of(weir.pid), 2 * connections, setup_s)
            yield replace(found, flows=_require(found, settings, least_known))


@contextmanager
def _feeding(settings: Settings, progress: Callable[[str], None]) -> Iterator[None]:
    """The switches; their last step has been done."""
    command = [sys.executable, "-m", "experiments.page.feed", settings.written()]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as feed:
        assert feed.stdin is not None
        assert feed.stdout is not None
        try:
            for told in feed.stdout:
                step = json.loads(told)["step"]
                progress(f"the switches: {step}")
                if step == "feeding":
                    break
            else:
                raise RuntimeError(f"the switches have ended with status {feed.wait()}")
            yield
            if feed.poll() is not None:
                raise RuntimeError(f"the switches have ended with status {feed.returncode}")
        finally:
            feed.stdin.close()
            killer = threading.Timer(_END_S, feed.kill)
            killer.start()
            feed.wait()
            killer.cancel()


def _require(found: Watched, settings: Settings, least_known: float) -> int:
    """How many flows are known. Raises TimeoutError unless all there should be is known, and this
    part of the flows."""
    ports, seen = settings.shape["ports"], (0, 0, "nobody")

    def known() -> bool:
        nonlocal seen
        try:
            overview = found.ask("/v1/overview")
            flows = found.ask("/v1/flows?limit=1")["total"]
        except urllib.error.HTTPError as error:
            # A controller that has got so much to do answers late.
            if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
                raise
            return False
        ready = overview["switches"]
        seen = flows, overview["ports"]["with_queue"], f"{ready['ready']} of {ready['known']}"
        ready_all = ready["ready"] == ready["known"]
        return flows >= least_known * found.flows and seen[1] == ports and ready_all

    try:
        wait_until(known, timeout_s=_KNOWN_S, what="the controller knows the whole fabric")
    except TimeoutError as error:
        told = "flows {}, ports with a queue {}, switches {}".format(*seen)
        raise TimeoutError(f"{error}: {told}") from None
    return seen[0]


def api_of(controller: int) -> int:
    """The process of the API of a controller. Raises RuntimeError."""
    for child in psutil.Process(controller).children():
        # One that has ended is there until it is waited for.
        with contextlib.suppress(psutil.NoSuchProcess):
            if "controller.api" in child.cmdline():
                return int(child.pid)
    raise RuntimeError("the controller has no process of the API")
