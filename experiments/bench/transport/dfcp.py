"""DFCP over a long and lossy link of 100 Mb/s, beside CUBIC and BBR: the paper's Table 3.

One sender, one receiver, a queue of 64 KiB that the switch divides by deficit round robin, and
behind it a link with loss and delay (``network.long_link``). DFCP is told 99 % of the link's
rate. As in the paper goodput leaves the beginning out: DFCP's is counted from the first block that
was delivered to the last, TCP's after some seconds. ``goodput_share`` is DFCP's over what loss and
headers leave of the link. Each is checked as every run is (``experiments.bench.valid``).
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from experiments.bench import sandboxed
from experiments.bench.sandboxed import Incomplete
from experiments.bench.valid import VoidRuns
from experiments.bench.watched import until_valid, watched
from experiments.measure.process import ended_children_s, processor_s
from experiments.measure.record import bytes_between
from experiments.network.long_link import LongLink, long_link
from experiments.schemes import scheme
from experiments.traffic import fountain
from experiments.traffic.program import Command
from experiments.workloads.long_flows import long_flows
from testbed import sandbox
from testbed.bed import Bed
from testbed.config import BedConfig, HostSettings

LOSSES_PCT = (0.1, 1.0, 5.0, 10.0)
RTTS_MS = (0, 10, 50, 100)
# Where half is lost, to see that it works at all.
_HEAVY_PCT = 50.0
TCPS = ("cubic", "bbr")
_RATE_BPS = 100_000_000
_TOLD_PART = 0.99
_SECONDS = 8.0
_TCP_SETTLE_S = 4.0
_SYMBOL_BYTES = 1408
# Ethernet, IPv4, UDP, the datagram's header and body, its tag.
_FRAME_BYTES = 14 + 20 + 8 + 11 + 15 + _SYMBOL_BYTES + 16
_BUFFER_BYTES = 64 * 1024
# A window of 100 ms at 100 Mb/s, and room for what is out of order.
_RECEIVE_BUFFER_BYTES = 16 * 1024 * 1024


def run(
    progress: Callable[[str], None],
    *,
    losses_pct: Sequence[float] = LOSSES_PCT,
    rtts_ms: Sequence[float] = RTTS_MS,
    tcps: Sequence[str] = TCPS,
    seed: int = 1,
) -> dict[str, float]:
    """Measure; see ``experiments.bench``. ``seed`` draws what links lose."""
    figures: dict[str, float] = {}
    missing = []
    asked = json.dumps({"losses": losses_pct, "rtts": rtts_ms, "tcps": tcps, "seed": seed})
    for trial in sandboxed.result("experiments.bench.transport.dfcp", asked):
        loss, rtt = trial["loss_pct"], trial["rtt_ms"]
        name = f"loss{loss:g}_rtt{rtt:g}"
        for who, count in trial["void"].items():
            figures[f"{who}_void_runs_{name}"] = count
            if who not in trial["mbps"]:
                missing.append(f"{who}_{name}")
        for who, mbps in trial["mbps"].items():
            figures[f"{who}_goodput_mbps_{name}"] = mbps
        told = ", ".join(f"{who} {mbps:.1f}" for who, mbps in trial["mbps"].items())
        told = f"loss {loss:g} %, {rtt:g} ms: {told or 'none'} Mb/s"
        if "dfcp" in trial["mbps"]:
            share = trial["mbps"]["dfcp"] * 1e6 / limit_bps(loss / 100)
            figures[f"goodput_share_{name}"] = share
            figures[f"sent_in_vain_pct_{name}"] = trial["sent_in_vain_pct"]
            told += f", share {share:.3f}"
        progress(told)
    if missing:
        raise Incomplete(figures, missing)
    return figures


def limit_bps(loss: float) -> float:
    """The rate that loss and headers leave of the link for data (the paper's Eq. 2, no
    redundancy)."""
    return _RATE_BPS * (1 - loss) * _SYMBOL_BYTES / _FRAME_BYTES


@contextmanager
def dumbbell() -> Iterator[Bed]:
    """One sender, one receiver, and the queue between them."""
    config = BedConfig(
        topology="star",
        senders=1,
        scheme=None,
        rate_bps=_RATE_BPS,
        bottleneck_limit_bytes=_BUFFER_BYTES,
        queue={"release": "thread", "scheduler": "drr"},
        host=HostSettings(rmem_max_bytes=_RECEIVE_BUFFER_BYTES),
    )
    with Bed(config) as bed:
        bed.require_forwarding()
        yield bed


def measure(
    losses: Sequence[float], rtts: Sequence[float], tcps: Sequence[str], seed: int
) -> list[Any]:
    """Send over each link in turn. Links, and those of other seeds, lose other packets."""
    trials = []
    with dumbbell() as bed:
        file = bed.run_dir / "object"
        combinations = [(loss, rtt, tcps) for loss in losses for rtt in rtts]
        combinations.append((_HEAVY_PCT, 10, ()))
        for number, (loss, rtt, peers) in enumerate(combinations):
            drawn = (seed - 1) * len(combinations) + number + 1
            link = LongLink(rtt, loss / 100, seed=drawn)
            trials.append(_trial(bed, link, file, peers) | {"loss_pct": loss, "rtt_ms": rtt})
    return trials


def _trial(bed: Bed, link: LongLink, file: Path, tcps: Sequence[str]) -> dict[str, Any]:
    size = make(file, link)
    log = bed.run_dir / "workload.log"
    mbps: dict[str, float] = {}
    found: dict[str, Any] = {"mbps": mbps}
    void = VoidRuns(say)
    with long_link(bed.host(bed.roles.receiver), link, log):
        sent = until_valid(
            void,
            "dfcp",
            lambda: watched(bed, lambda: send(bed, file, log).said, more_rtt_ms=link.rtt_ms),
        )
        if not sent.void:
            done = sent.found
            mbps["dfcp"] = done["span_bytes"] * 8e-6 / done["span_seconds"]
            needed = size / _SYMBOL_BYTES / (1 - link.loss)
            found["sent_in_vain_pct"] = 100 * (done["symbols"] / needed - 1)
        for name in tcps:
            tcp = partial(_tcp_mbps, bed, name, log)
            took = until_valid(void, name, partial(watched, bed, tcp, more_rtt_ms=link.rtt_ms))
            if not took.void:
                mbps[name] = took.found
    return found | {"void": {who: void.counts[who] for who in ("dfcp", *tcps)}}


def say(line: str) -> None:
    """Print a line of progress."""
    print(line, file=sys.stderr, flush=True)


def make(file: Path, link: LongLink) -> int:
    """Make ``file`` large enough for some seconds over ``link``; return its size."""
    size = round(limit_bps(link.loss) * _TOLD_PART * _SECONDS / 8)
    fountain.make_hollow(file, size)
    return size


@dataclass(frozen=True)
class Sent:
    """The last report of ``fountain send``, and the processor seconds of it and of its receiver."""

    said: Mapping[str, Any]
    sender_s: float
    receiver_s: float


def send(
    bed: Bed, file: Path, log: Path, code: str = "raptor", options: Sequence[str] = ()
) -> Sent:
    """Send a file from end to end, with a code of ``fountain send`` or, if it is ``none``, as it
    is. ``options`` are further ones of that command."""
    sender, receiver = bed.host(bed.roles.senders[0]), bed.host(bed.roles.receiver)
    place = fountain.Place(receiver.pid, receiver.IP(), fountain.PORT)
    rate = [f"--rate={_RATE_BPS * _TOLD_PART:.0f}", f"--symbol-bytes={_SYMBOL_BYTES}"]
    rate.append("--no-encode" if code == "none" else f"--code={code}")
    last: dict[str, Any] = {}
    before_s = ended_children_s()
    inbox = bed.run_dir / "in"
    with fountain.receiver(inbox, place, log, decode=code != "none") as receiving:
        argv = fountain.send_argv(receiving, file, [*rate, *options])
        with Command(argv, name="fountain send", log=log, pid=sender.pid) as sending:
            for message in sending.messages(timeout_s=120):
                last = message
        # The sender is the only child that has ended since.
        return Sent(last, ended_children_s() - before_s, processor_s(receiving.pid))


def _tcp_mbps(bed: Bed, name: str, log: Path) -> float:
    """The goodput of one connection that always has something to send."""
    sender, receiver = bed.host(bed.roles.senders[0]), bed.host(bed.roles.receiver)
    sender.apply(scheme(name).host.over(sender.settings))
    with long_flows([sender], receiver, log) as bulk:
        time.sleep(_TCP_SETTLE_S)
        begin_ns = time.monotonic_ns()
        time.sleep(_SECONDS)
        end_ns = time.monotonic_ns()
        bulk.finish()
        received = bulk.expect("done")["bytes"]
    return bytes_between(received, begin_ns, end_ns) * 8e3 / (end_ns - begin_ns)


def main() -> None:
    """Entry point of the first process in a sandbox."""
    sandbox.become_first_process()
    asked, file = json.loads(sys.argv[1]), Path(sys.argv[2])
    found = measure(asked["losses"], asked["rtts"], asked["tcps"], asked["seed"])
    file.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
