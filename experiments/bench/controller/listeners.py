"""A thousand listeners to the shares of fountain flows, each served ten times a second.

The controller and its HTTP API share one processor, the listeners have the other one. Every 100 ms
a flow that all follow is announced anew, with another demand. A listener's delay is from the
beginning of that request until the event arrives.
"""

import json
import re
import resource
import selectors
import socket
import time
from collections.abc import Callable
from pathlib import Path

from controller.api.access.tokens import Scope, line, make
from experiments.bench.controller.process import Weir
from experiments.measure.process import processor_s
from experiments.statistics import percentile
from testbed import sandbox
from testbed.command import wait_until
from testbed.controller import listening

_PORT = 8181
_LISTENERS, _ALONE = 1000, 1
_EVERY_S, _MEASURED_S, _SETTLE_S = 0.1, 10.0, 1.0
_START_S = 30.0
_READ_BYTES = 1 << 16
_DEMAND = re.compile(rb'"most_bps": (\d+)')
_MS = 1e3


def run(progress: Callable[[str], None]) -> dict[str, float]:
    """Figures of one listener, and of a thousand."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * _LISTENERS)), hard))
    tokens = sandbox.RUN_DIR / "tokens.yaml"
    secret, token = make("bench", frozenset(Scope), None)
    tokens.write_text(f"tokens:\n{line(token)}\n")
    api = {"listen": f"127.0.0.1:{_PORT}", "tokens": str(tokens), "rate": 10**6}
    northbound = {"socket": str(sandbox.RUN_DIR / "controller.sock"), "api": api}
    figures: dict[str, float] = {}
    sections = {"northbound": northbound}
    with Weir(sandbox.RUN_DIR, sections=sections) as weir, weir.connect() as switch:
        switch.introduce()
        wait_until(lambda: listening(_PORT), timeout_s=_START_S, what="the API listens")
        for count, prefix in ((_ALONE, "alone_"), (_LISTENERS, "")):
            progress(f"{count} listeners")
            figures |= {f"{prefix}{name}": value for name, value in _measure(count, secret).items()}
            switch.settle()
    return figures


def _measure(count: int, secret: str) -> dict[str, float]:
    with selectors.DefaultSelector() as selector:
        announcer = _connect()
        selector.register(announcer, selectors.EVENT_READ)
        listeners = {_listen(secret) for _ in range(count)}
        for listener in listeners:
            selector.register(listener, selectors.EVENT_READ)
        rest: dict[socket.socket, bytes] = dict.fromkeys(listeners, b"")
        asked_s: dict[int, float] = {}
        delays_ms: list[float] = []
        ended = 0

        def read_until(until_s: float) -> None:
            nonlocal ended
            while (left_s := until_s - time.monotonic()) > 0:
                for key, _ in selector.select(left_s):
                    peer = key.fileobj
                    assert isinstance(peer, socket.socket)
                    data = peer.recv(_READ_BYTES)
                    now_s = time.monotonic()
                    if peer is announcer:
                        continue
                    if not data:
                        ended += 1
                        selector.unregister(peer)
                        continue
                    *events, rest[peer] = (rest[peer] + data).split(b"\n\n")
                    for event in events:
                        found = _DEMAND.search(event)
                        if found and int(found[1]) in asked_s:
                            delays_ms.append((now_s - asked_s[int(found[1])]) * _MS)

        read_until(time.monotonic() + _SETTLE_S)
        busy_s, begun_s = _processor_s(), time.monotonic()
        updates = round(_MEASURED_S / _EVERY_S)
        for n in range(updates):
            # Each is news: another demand, by more than a change that is not told.
            demand_bps = 10**6 * (1 + n % 2) * 10 + n
            asked_s[demand_bps] = time.monotonic()
            announcer.sendall(_announcement(secret, demand_bps))
            read_until(begun_s + (n + 1) * _EVERY_S)
        busy_s = _processor_s() - busy_s
        elapsed_s = time.monotonic() - begun_s
        read_until(time.monotonic() + _SETTLE_S)
        for peer in (announcer, *listeners):
            peer.close()
    return {
        "listeners": count,
        "listener_updates_per_s": len(delays_ms) / count / _MEASURED_S,
        "listener_delay_p50_ms": percentile(delays_ms, 50),
        "listener_delay_p99_ms": percentile(delays_ms, 99),
        "listener_updates_missed": updates * count - len(delays_ms),
        "listeners_lost": ended,
        "listeners_processor_share": busy_s / elapsed_s,
    }


def _connect() -> socket.socket:
    made = socket.create_connection(("127.0.0.1", _PORT))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def _listen(secret: str) -> socket.socket:
    made = _connect()
    made.sendall(_head("GET", "/v1/fountains/stream?flow=watched", secret) + b"\r\n")
    return made


def _announcement(secret: str, most_bps: int) -> bytes:
    body = json.dumps({"src": "10.0.0.1", "dst": "10.0.0.2", "most_bps": most_bps}).encode()
    head = _head("PUT", "/v1/fountains/watched", secret)
    return head + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def _head(method: str, path: str, secret: str) -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {secret}\r\n".encode()


def _processor_s() -> float:
    """The processor time of the controller and its API so far."""
    used_s = 0.0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            if b"-m\0controller\0" in command or b"controller.api" in command:
                used_s += processor_s(int(process.name))
        except OSError:
            continue
    return used_s
