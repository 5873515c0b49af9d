"""What an account of credit adds where windows of a fixed size no longer help.

Many connections answer barrier reads over one link, hosts and reads as in the emulations. A window
register holds each connection to one segment, and still there are more segments than the buffer
holds; the same once more with the register in the account of credit of the port, without a window
of its own. No controller takes part: the register is set by hand, once, before the connections are
opened: Linux lets no request that is the first segment after the handshake lower the window that
the handshake opened, so later the first flights would have left. In return, a sender that never saw
a window larger than a segment sends segments of half of it.

Two rounds come first that are not counted, since connections are opened once and read from for
long; "cold" figures count them, too. Timeouts are counted from the first SYN. What is told is the
median by goodput of three runs, since whatever else runs on the machine costs timeouts.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments.bench import sandboxed
from experiments.measure import netstat
from experiments.traffic.reader import IncastSpec
from experiments.workloads import goodput_mbps, reads
from testbed import sandbox
from testbed.bed import Bed
from testbed.config import BedConfig, HostSettings

_LINK_BPS = 100_000_000
_HOSTS = 40
_CONNECTIONS_PER_HOST = 3
_ROUNDS = 15
_WARM_UP_ROUNDS = 2
_RUNS = 3

_REGISTER = 0
_TTL_MS = 600_000
_ONE_SEGMENT_BYTES = 1460


@dataclass(frozen=True)
class Setting:
    """What is read, and what the register does: a ``window_bytes`` of 0 sets no limit, and
    ``in_account`` puts it into the account of credit of the link's port.

    ``set_late`` sets it when the connections have been opened.
    """

    window_bytes: int = 0
    in_account: bool = True
    hosts: int = _HOSTS
    connections_per_host: int = _CONNECTIONS_PER_HOST
    rounds: int = _ROUNDS
    window_scale: int = 7
    set_late: bool = False

    @property
    def receive_buffer_bytes(self) -> int:
        """The bound of the receive buffer for which Linux chooses the window scale."""
        return 49_152 << self.window_scale


def run(progress: Callable[[str], None]) -> dict[str, float]:
    """Measure; see ``experiments.bench``."""
    figures: dict[str, float] = {}
    settings = {"windows": Setting(_ONE_SEGMENT_BYTES, in_account=False), "credit": Setting()}
    for name, setting in settings.items():
        senders = setting.hosts * setting.connections_per_host
        runs = []
        for number in range(1, _RUNS + 1):
            progress(f"{senders} connections, {name}, run {number} of {_RUNS}")
            runs.append(
                sandboxed.result("experiments.bench.switch.credit", json.dumps(asdict(setting)))
            )
        measured = sorted(runs, key=lambda run: run["goodput_mbps"])[_RUNS // 2]
        figures[f"{name}_goodput_mbps_{senders}_senders"] = measured["goodput_mbps"]
        figures[f"{name}_cold_goodput_mbps_{senders}_senders"] = measured["cold_goodput_mbps"]
        figures[f"{name}_timeouts_{senders}_senders"] = measured["timeouts"]
    return figures


def measure(setting: Setting) -> dict[str, Any]:
    """Read ``setting.rounds`` blocks; return goodput, timeouts and what the switch has counted."""
    host = HostSettings(congestion_control="reno", rmem_max_bytes=setting.receive_buffer_bytes)
    config = BedConfig(
        topology="star", senders=setting.hosts, scheme=None, rate_bps=_LINK_BPS, host=host
    )
    spec = IncastSpec(
        senders=setting.hosts,
        rounds=_WARM_UP_ROUNDS + setting.rounds,
        connections_per_sender=setting.connections_per_host,
    )
    with Bed(config) as bed:
        bed.require_forwarding()
        _apply(bed, setting)
        before = netstat.total(host.pid for host in bed.hosts)
        rounds = _read(bed, spec, setting)
        after = netstat.total(host.pid for host in bed.hosts)
        return {
            "goodput_mbps": goodput_mbps(rounds[_WARM_UP_ROUNDS:]),
            "cold_goodput_mbps": goodput_mbps(rounds),
            "timeouts": after[netstat.TIMEOUTS] - before[netstat.TIMEOUTS],
            "round_ms": [(r["end_ns"] - r["start_ns"]) / 1e6 for r in rounds],
            "queue": bed.bottleneck_switch.queues()[bed.roles.bottleneck],
            "register": _register(bed),
            "account": bed.bottleneck_switch.accounts().get(bed.roles.bottleneck),
        }


def _apply(bed: Bed, setting: Setting) -> None:
    """Have all that enters from the reader pass the register."""
    switch = bed.bottleneck_switch.name
    action = f"tcp_rwnd_register(register={_REGISTER},wscale={setting.window_scale})"
    match = f"priority=100,in_port={bed.roles.bottleneck_port}"
    for protocol in ("tcp", "tcp6"):
        bed.ovs.ofctl("add-flow", switch, f"{match},{protocol},actions={action},NORMAL")


def _set(bed: Bed, setting: Setting) -> None:
    words = (_REGISTER, setting.window_bytes, _TTL_MS)
    interface = [bed.roles.bottleneck] if setting.in_account else []
    bed.ovs.appctl("tcp-rwnd/set", bed.bottleneck_switch.name, *map(str, words), *interface)


def _read(bed: Bed, spec: IncastSpec, setting: Setting) -> list[dict[str, Any]]:
    log = bed.run_dir / "workload.log"
    if not setting.set_late:
        _set(bed, setting)
    with reads.responders(bed, log), reads.reader(bed, spec, log) as reader:
        reader.expect("connected")
        if setting.set_late:
            _set(bed, setting)
        set_ns = time.monotonic_ns()
        *_progress, done = reader.messages()
    rounds: list[dict[str, Any]] = done["rounds"]
    if rounds[0]["start_ns"] < set_ns:
        raise RuntimeError("the register was set too late: the first round had begun")
    return rounds


def _register(bed: Bed) -> dict[str, str]:
    """What the switch says of the register, by field."""
    return bed.bottleneck_switch.registers()[_REGISTER]


def main() -> None:
    """Entry point of the first process in a sandbox: one setting."""
    sandbox.become_first_process()
    setting, file = sys.argv[1:]
    Path(file).write_text(json.dumps(measure(Setting(**json.loads(setting)))))


if __name__ == "__main__":
    main()
