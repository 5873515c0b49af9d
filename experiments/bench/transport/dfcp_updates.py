"""DFCP senders that take their rate from the controller, in the paper's parking lot (section 7.6).

Flow 1 crosses both bottlenecks, flow 2 the first, flow 3 joins at the second after ten seconds.
``drop_rate_pct`` is what the second bottleneck drops of what comes to it, over thirty seconds.
Then a flow joins and leaves at the second bottleneck many times: ``rate_update`` is the time from
its announcement to flow 1's sender having its changed rate.
"""

import json
import os
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from http import HTTPStatus
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from experiments.bench import sandboxed
from experiments.bench.sandboxed import Incomplete
from experiments.bench.valid import VoidRuns
from experiments.bench.watched import watched
from experiments.measure import observation
from experiments.network import api
from experiments.network.api import Api
from experiments.statistics import percentile
from experiments.traffic import fountain
from experiments.traffic.program import Command, ProgramError
from testbed import sandbox
from testbed.bed import Bed
from testbed.config import BedConfig
from testbed.ovs import prefer

# Three switches and six hosts have two processors or so: the faster the links are, the longer
# everybody waits for one of them, and that is not what is to be measured.
_RATE_BPS = 25_000_000
_BUFFER_BYTES = 64 * 1024
_OBSERVED_S, _JOINS_AFTER_S = 30.0, 10.0
_SETTLE_S = 5.0
_JOINS = 100
_PAUSE_S = 0.15
_WHAT = "rate updates"
# More than a flow could send in all that time. A file with a hole: nothing of it is stored.
_OBJECT_BYTES = 4 << 30
# Pairs of hosts, by the flow's number.
_FLOWS = {1: ("h1", "r1"), 2: ("h2", "r2"), 3: ("h3", "r3")}


def run(
    progress: Callable[[str], None], *, joins: int = _JOINS, observed_s: float = _OBSERVED_S
) -> dict[str, float]:
    """Measure; see ``experiments.bench``."""
    words = ("experiments.bench.transport.dfcp_updates", str(joins), str(observed_s))
    void = VoidRuns(progress)
    found = sandboxed.result(*words)
    while void.again(_WHAT, found["void"]):
        found = sandboxed.result(*words)
    if found["void"]:
        raise Incomplete({"rate_update_void_runs": void.counts[_WHAT]}, [_WHAT])
    took_ms = np.array(found["took_ms"])
    figures = {
        "drop_rate_pct": 100 * found["dropped"] / found["arrived"],
        "rate_update_void_runs": void.counts[_WHAT],
        "rate_updates": len(took_ms),
        "rate_updates_missed": joins - len(took_ms),
        "rate_update_p50_ms": percentile(took_ms, 50),
        "rate_update_p99_ms": percentile(took_ms, 99),
        **{f"rate_mbps_{flow}": bps / 1e6 for flow, bps in found["rates_bps"].items()},
    }
    progress(", ".join(f"{name} {value:.3g}" for name, value in figures.items()))
    return figures


def measure(joins: int, observed_s: float) -> dict[str, Any]:
    """Let the flows send, and another one join and leave."""
    served = api.prepare(sandbox.RUN_DIR / "api")
    config = BedConfig(
        topology="parking-lot",
        senders=1,
        rate_bps=_RATE_BPS,
        bottleneck_limit_bytes=_BUFFER_BYTES,
        queue={"release": "thread", "scheduler": "drr"},
        controller={"northbound": served.section()},
    )
    with Bed(config) as bed, ExitStack() as stack:
        bed.require_forwarding()
        api.meet((bed.host(sender), bed.host(receiver)) for sender, receiver in _FLOWS.values())
        api.reach(bed.host(sender) for sender, _ in _FLOWS.values())
        idle_rtt_ms = observation.idle_rtt(bed)
        flows = {number: stack.enter_context(_flow(bed, served, number)) for number in (1, 2)}
        time.sleep(_SETTLE_S)

        def join() -> None:
            time.sleep(_JOINS_AFTER_S)
            flows[3] = stack.enter_context(_flow(bed, served, 3))
            time.sleep(observed_s - _JOINS_AFTER_S)

        seen = watched(bed, join, idle_rtt_ms=idle_rtt_ms)
        rates = {f"flow{number}": changes[-1]["bps"] for number, changes in flows.items()}
        ends = (bed.host("h3").IP(), bed.host("r3").IP())
        joined_ns = list(_join(served, ends, joins))
        changes = flows[1]
    told_ns = np.array([change["unix_ns"] for change in changes])
    after = np.searchsorted(told_ns, joined_ns)
    # One that follows the next joining was not of this one.
    took_ns = [
        told_ns[place] - begin
        for begin, place in zip(joined_ns, after, strict=True)
        if place < len(told_ns) and told_ns[place] - begin < _PAUSE_S * 1e9
    ]
    return {
        "took_ms": [float(ns) / 1e6 for ns in took_ns],
        "dropped": seen.record["dropped"],
        "arrived": seen.record["arrived"],
        "rates_bps": rates,
        "void": seen.void,
    }


@contextmanager
def _flow(bed: Bed, served: Api, number: int) -> Iterator[list[dict[str, Any]]]:
    """Context manager: a flow sends; the rates that its sender is told are added to the list."""
    names = _FLOWS[number]
    sender, receiver = bed.host(names[0]), bed.host(names[1])
    log = bed.run_dir / "workload.log"
    file = bed.run_dir / "object"
    fountain.make_hollow(file, _OBJECT_BYTES)
    place = fountain.Place(receiver.pid, receiver.IP(), fountain.PORT)
    with fountain.receiver(bed.run_dir / f"in{number}", place, log) as receiving:
        argv = fountain.send_argv(receiving, file, served.send_options(f"flow{number}"))
        with Command(argv, name="fountain send", log=log, pid=sender.pid) as sending:
            told: list[dict[str, Any]] = []
            first = threading.Event()

            def listen_to() -> None:
                # It ends when it is killed, in the midst of the file.
                try:
                    for message in sending.messages():
                        if message["event"] == "rate":
                            told.append(message)
                            first.set()
                except ProgramError:
                    pass

            thread = threading.Thread(target=listen_to, daemon=True)
            thread.start()
            if not first.wait(10):
                raise ProgramError(f"flow {number} has been told no rate; see {log}")
            try:
                yield told
            finally:
                if not sending.running():
                    raise ProgramError(f"flow {number} has ended too early; see {log}")
                sending.terminate()
                thread.join(10)


def _join(served: Api, ends: tuple[str, str], joins: int) -> Iterator[int]:
    """Announce and withdraw a flow many times; when each announcement began, since 1970 in ns."""
    # Whoever joins has a processor of its own, which those of the other hosts do not take from it.
    prefer(os.getpid())
    headers = {
        "Authorization": f"Bearer {served.token.read_text().strip()}",
        "Content-Type": "application/json",
    }
    body = json.dumps({"src": ends[0], "dst": ends[1]})
    trusted = ssl.create_default_context(cafile=served.certificate)
    place = urlsplit(served.url).netloc
    with closing(HTTPSConnection(place, context=trusted, timeout=5)) as connection:

        def ask(method: str, body: str | None) -> None:
            connection.request(method, "/v1/fountains/joining", body, headers)
            answer = connection.getresponse()
            said = answer.read()
            if answer.status != HTTPStatus.OK:
                raise ProgramError(f"{method}: {answer.status}: {said.decode()}")

        for _ in range(joins):
            yield time.time_ns()
            ask("PUT", body)
            time.sleep(_PAUSE_S)
            ask("DELETE", None)
            time.sleep(_PAUSE_S)


def main() -> None:
    """Entry point of the first process in a sandbox."""
    sandbox.become_first_process()
    joins, observed_s, file = sys.argv[1:]
    Path(file).write_text(json.dumps(measure(int(joins), float(observed_s))))


if __name__ == "__main__":
    main()
