"""DFCP flows that share a link: with each other, over round-trip times from 10 to 100 ms, and with
TCP, where the switch reserves them a part of it.

Each flow goes from a host of its own to one receiver, through one egress queue with deficit round
robin. Flows have their rates from the controller; in the mix ``2whole`` each of them is told nine
tenths of the link, so that nothing but the queue makes them share. What of the link a flow has is
counted in frames, as they come to the receiver.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.bench.comparison import Figures
from experiments.bench.transport.mixes import measure_each, observe
from experiments.measure import observation
from experiments.network import api
from experiments.network.long_link import LongLink, long_link
from experiments.schemes import scheme
from experiments.statistics import jain
from experiments.traffic import fountain
from experiments.traffic.program import Command
from experiments.workloads.long_flows import long_flows
from testbed import sandbox
from testbed.bed import Bed
from testbed.config import BedConfig, HostSettings

_BUFFER_BYTES = 128 * 1024
_RECEIVE_BUFFER_BYTES = 16 * 1024 * 1024
_RESERVED = 0.3
_TCP = "cubic"
_RTTS_MS = (10.0, 100.0)
_TOLD_PART = 0.9
_SETTLE_S, _MEASURED_S, _PERIOD_S = 8.0, 30.0, 0.5
# More than one flow could send in all that time. A file with a hole: nothing of it is stored.
_OBJECT_BYTES = 1 << 30


@dataclass(frozen=True)
class Mix:
    """``dfcp`` flows and ``tcp`` connections, under a regulation scheme of the controller."""

    dfcp: int
    tcp: int = 0
    regulation: str = "none"
    # Each flow is told nearly the whole link.
    whole: bool = False
    rate_bps: int = 100_000_000


# A long link takes as much of a processor as the switch.
_LONG_BPS = 50_000_000
# Alone, with far and near ends; and beside TCP, with a part reserved.
MIXES = {
    "2": Mix(2, rate_bps=_LONG_BPS),
    "10": Mix(10, rate_bps=_LONG_BPS),
    "40": Mix(40, rate_bps=_LONG_BPS // 2),
    "2whole": Mix(2, whole=True, rate_bps=_LONG_BPS),
    "1d1t": Mix(1, 1),
    "1d8t": Mix(1, 8),
    "4d1t": Mix(4, 1),
    "4d8t": Mix(4, 8),
    "2d8t_weir": Mix(2, 8, regulation="weir"),
}


def run(
    progress: Callable[[str], None],
    *,
    mixes: Sequence[str] = tuple(MIXES),
    measured_s: float = _MEASURED_S,
) -> Figures:
    """Measure; see ``experiments.bench``."""
    return measure_each(
        progress,
        "experiments.bench.transport.dfcp_sharing",
        mixes,
        measured_s,
        "sharing",
        lambda name, measured: of_mix(MIXES[name], measured),
    )


def of_mix(mix: Mix, measured: Mapping[str, Any]) -> Figures:
    """Return the figures of a mix. ``shares`` of the link are measured, DFCP's first."""
    shares = np.array(measured["shares"])
    dfcp, tcp = shares[: mix.dfcp], shares[mix.dfcp :]
    figures = {
        "jain": jain(dfcp),
        "min": float(dfcp.min() / dfcp.mean()),
        "max": float(dfcp.max() / dfcp.mean()),
        "utilisation": float(shares.sum()),
        "drop_rate_pct": 100 * measured["dropped"] / measured["arrived"],
    }
    if mix.tcp:
        # Of what each of them is to have.
        figures["dfcp_part"] = float(dfcp.sum() / _RESERVED)
        figures["tcp_part"] = float(tcp.sum() / (1 - _RESERVED))
    return figures


def measure(mix: Mix, measured_s: float) -> dict[str, Any]:
    """Run the flows of ``mix``, and return what arrived from each of them."""
    served = api.prepare(sandbox.RUN_DIR / "api")
    queue = {"release": "thread", "scheduler": "drr"}
    controller: dict[str, Any] = {"northbound": served.section()}
    if mix.tcp:
        queue["reserved"] = f"{_RESERVED:.0%}"
        controller["bandwidth"] = {"reserved": _RESERVED}
    config = BedConfig(
        topology="star",
        senders=mix.dfcp + mix.tcp,
        scheme=mix.regulation,
        rate_bps=mix.rate_bps,
        bottleneck_limit_bytes=_BUFFER_BYTES,
        queue=queue,
        host=HostSettings(rmem_max_bytes=_RECEIVE_BUFFER_BYTES),
        controller=controller,
    )
    with Bed(config) as bed, ExitStack() as stack:
        bed.require_forwarding()
        senders = [bed.host(name) for name in bed.roles.senders]
        receiver = bed.host(bed.roles.receiver)
        for sender in senders[mix.dfcp :]:
            sender.apply(scheme(_TCP).host.over(sender.settings))
        api.reach(senders[: mix.dfcp])
        if not mix.tcp:
            _move_away(bed, mix.dfcp, stack)
        api.meet((sender, receiver) for sender in senders)
        seen = observe(
            bed,
            _flows(bed, mix, served),
            observation.idle_rtt(bed, more_ms=0.0 if mix.tcp else _RTTS_MS[0]),
            # By TCP, which takes what it finds, or by flows that are told more than there is.
            filled=bool(mix.tcp) or mix.whole,
            settle_s=_SETTLE_S,
            measured_s=measured_s,
            period_s=_PERIOD_S,
        )
    link_bytes = mix.rate_bps / 8e9 * (seen.time_ns[-1] - seen.time_ns[0])
    return {
        "shares": [float((counted[-1] - counted[0]) / link_bytes) for counted in seen.bytes],
        "dropped": seen.record["dropped"],
        "arrived": seen.record["arrived"],
        **seen.verdict,
    }


def _move_away(bed: Bed, flows: int, stack: ExitStack) -> None:
    """Put every sender behind a long link, the first the shortest."""
    log = bed.run_dir / "workload.log"
    for number, rtt_ms in enumerate(np.linspace(*_RTTS_MS, flows)):
        host = bed.host(bed.roles.senders[number])
        stack.enter_context(long_link(host, LongLink(float(rtt_ms)), log))


@contextmanager
def _flows(bed: Bed, mix: Mix, served: api.Api) -> Iterator[list[Command]]:
    """Context manager: all flows of ``mix`` send to the receiver. Yields DFCP's senders."""
    log = bed.run_dir / "workload.log"
    receiver = bed.host(bed.roles.receiver)
    place = fountain.Place(receiver.pid, receiver.IP(), fountain.PORT)
    with ExitStack() as stack:
        to = stack.enter_context(fountain.receiver(bed.run_dir / "in", place, log))
        sending = []
        for number, name in enumerate(bed.roles.senders[: mix.dfcp], 1):
            rate = served.send_options(f"flow{number}")
            if mix.whole:
                rate = [f"--rate={mix.rate_bps * _TOLD_PART:.0f}"]
            # A receiver takes a file of one name from one sender at a time.
            file = bed.run_dir / f"object{number}"
            fountain.make_hollow(file, _OBJECT_BYTES)
            argv = fountain.send_argv(to, file, rate)
            process = Command(argv, name="fountain send", log=log, pid=bed.host(name).pid)
            sending.append(stack.enter_context(process))
            process.ignore()
        if others := bed.roles.senders[mix.dfcp :]:
            hosts = [bed.host(name) for name in others]
            stack.enter_context(long_flows(hosts, receiver, log))
        yield sending
        for process in sending:
            if process.running():
                process.terminate()


def main() -> None:
    """Entry point of the first process in a sandbox: one mix."""
    sandbox.become_first_process()
    name, measured_s, file = sys.argv[1:]
    Path(file).write_text(json.dumps(measure(MIXES[name], float(measured_s))))


if __name__ == "__main__":
    main()
