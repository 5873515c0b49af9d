"""TCP-ACC between two switches, for hosts that know nothing of it: the groups ``edges_...``, one
for each way to regulate.

Racks at two switches have one link between them, which loses frames. Beside each switch a machine
runs ``fountain acc link``: its interface is a port of the switch, and the two of them are a second,
protected link. The controller sends TCP that way as long as it sees the first one lose packets
(its section ``protection``). So whoever reads from the other rack, without its knowing, has a link
that loses next to nothing, and whoever does so where nothing is lost has the first link.

Lines: without the protected link and with it, with the controller's windows (``weir``) and without
(``none``). Loads: an incast through the port of the receiver, blocks of one sender, and programs
that others wrote (PROGRAMS), most of which ask for little. A line is measured after the controller
has decided. What is not regulated is Linux's TCP as it comes.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from experiments.bench.apps.matrix import Workload
from experiments.bench.apps.play import Stage
from experiments.bench.comparison import Figures
from experiments.bench.sandboxed import Incomplete
from experiments.measure import netstat
from experiments.measure.netstat import TIMEOUTS
from experiments.network.acc import hear
from experiments.network.api import meet
from experiments.statistics import percentile
from experiments.traffic.fountain import find_fountain
from experiments.traffic.program import Command, ProgramError
from experiments.traffic.programs.app import REQUESTS, App, AppError
from experiments.traffic.programs.http import ConnectionEach, KeepAlive
from experiments.traffic.programs.redis import Redis
from experiments.traffic.reader import IncastSpec
from experiments.workloads import reads
from testbed.bed import Bed
from testbed.bottleneck import Bottleneck, Loss
from testbed.command import CommandError
from testbed.command import run as run_command
from testbed.config import BedConfig
from testbed.sandbox import RUN_DIR
from testbed.topologies import TOPOLOGIES, IncastTopo

PREFIX = "edges"
REGULATIONS = ("none", "weir")
LINES = {"raw": "one link", "protected": "with a protected link"}
SENDERS = 16
_CORE_BPS = 400_000_000
_CORE_MTU = 1600
_SWITCHES = {"s1": "g1", "s2": "g2"}
_WIRE, _BRIDGE = "wire", "wire0"
# Frames of discovery, which a bridge keeps to itself if it is not told otherwise.
_FORWARD_DISCOVERY = "0x4000"
_PORT_NUMBER = 1000
_DECIDE_S = 90.0
_KB = 1024
QUANTILES = {"p50": 50, "p99": 99, "max": 100}


class Racks(IncastTopo):
    """Senders at s1, a receiver at s2, whose port is the bottleneck, and beside each switch a
    machine for the protected link. ``wire`` is between the switches, and carries everything."""

    name = "racks"
    summary = """\
h1..hN at switch s1, r1 at s2, machines g1 and g2 beside them, and a host between
the switches that is their link; the port to r1 is the bottleneck"""

    def _build(self, senders: tuple[str, ...], bottleneck_limit_bytes: int) -> None:
        for switch in _SWITCHES:
            self.addSwitch(switch)
        # In this order: addresses follow it.
        self._hosts("s1", senders)
        self.addHost("r1")
        self._link("s2", "r1", limit_bytes=bottleneck_limit_bytes)
        self.addHost(_WIRE)
        for switch in _SWITCHES:
            self._link(switch, _WIRE, rate_bps=_CORE_BPS)
        for switch, gateway in _SWITCHES.items():
            self.addHost(gateway)
            self._link(switch, gateway, rate_bps=_CORE_BPS)
        self._set_roles(senders, "r1", background=(senders[-1], "r1"), bottleneck=("s2", "r1"))


@dataclass(frozen=True)
class Load:
    """Blocks of ``kb`` in all, from so many senders at once."""

    senders: int
    kb: int


LOADS = {"incast": Load(SENDERS, SENDERS * 32), "single": Load(1, 100)}
PROGRAMS = (
    Redis("get", connections=1, size_bytes=100, requests=3000),
    Redis("get", connections=50, size_bytes=100, requests=20_000),
    ConnectionEach(connections=8, size_bytes=64),
    KeepAlive(connections=16, size_bytes=25_000),
)
"""What the receiver runs, against a server at the first sender."""


class Wire:
    """The link between the switches of ``bed``: it loses frames of IP, both ways alike."""

    def __init__(self, bed: Bed) -> None:
        pid = bed.host(_WIRE).pid
        ends = [intf.name for intf in bed.host(_WIRE).intfList() if intf.name != "lo"]
        bridge = ("type", "bridge", "stp_state", "0", "mcast_snooping", "0")
        batch = [f"link add {_BRIDGE} {' '.join(bridge)} group_fwd_mask {_FORWARD_DISCOVERY}"]
        for end in ends:
            batch += [
                f"addr flush dev {end}",
                f"link set {end} master {_BRIDGE} mtu {_CORE_MTU} up",
                # Until the controller has seen that this is a link, it floods to both ends.
                f"link set {end} type bridge_slave learning off",
            ]
        batch.append(f"link set {_BRIDGE} mtu {_CORE_MTU} up")
        run_command(["ip", "-batch", "-"], pid=pid, stdin="\n".join(batch) + "\n")
        for switch, gateway in _SWITCHES.items():
            for far in (_WIRE, gateway):
                intf, _far_end = bed.net[switch].connectionsTo(bed.net[far])[0]
                run_command(["ip", "link", "set", "dev", intf.name, "mtu", str(_CORE_MTU)])
                request = f"mtu_request={_CORE_MTU}"
                bed.ovs.vsctl("set", "Interface", intf.name, request)
            host = bed.host(gateway)
            host.apply(replace(host.settings, mtu_bytes=_CORE_MTU))
        self._ends = [Bottleneck(end, _CORE_BPS, pid) for end in ends]

    def lose(self, share: float, seed: int) -> None:
        """Lose so many from now on."""
        for number, end in enumerate(self._ends):
            end.set(Loss(share), None, seed + 1000 * number)

    def lost(self) -> float:
        """Return how many frames of IP were lost since then."""
        seen = [end.seen() for end in self._ends]
        return float(sum(one.first.lost + one.others.lost for one in seen))


@contextmanager
def protected_link(bed: Bed) -> Iterator[list[Command]]:
    """Context manager: a protected link between the switches, which the controller has found."""
    key = RUN_DIR / "acc.key"
    if not key.exists():
        run_command([str(find_fountain()), "acc", "key", str(key)])
    with ExitStack() as stack:
        processes = []
        for number, (switch, gateway) in enumerate(_SWITCHES.items(), 1):
            device = f"acc{number}"
            (other,) = (host for name, host in _SWITCHES.items() if name != switch)
            argv = [
                *(str(find_fountain()), "acc", "link", "--json", f"--key={key}"),
                *(f"--other={bed.host(other).IP()}", f"--device={device}"),
                *(f"--mtu={_CORE_MTU}", f"--control={RUN_DIR / device}.sock"),
            ]
            log = bed.run_dir / f"{device}.log"
            pid = bed.host(gateway).pid
            process = stack.enter_context(Command(argv, name=device, log=log, pid=pid))
            hear(process, "up")
            processes.append(process)
            # The switch is here, and the machine's addresses are not.
            run_command(["ip", "link", "set", "dev", device, "netns", str(os.getpid())], pid=pid)
            run_command(["ip", "link", "set", "dev", device, "addrgenmode", "none", "up"])
            port = (f"ofport_request={_PORT_NUMBER}", f"mtu_request={_CORE_MTU - 80}")
            bed.ovs.vsctl("add-port", switch, device, "--", "set", "Interface", device, *port)
            stack.callback(bed.ovs.vsctl, "--if-exists", "del-port", device)
        for process in processes:
            hear(process, "peer")
            process.ignore()
        yield processes
        for process in processes:
            if status := process.terminate():
                raise ProgramError(f"{process} ended with status {status}")


def run(
    progress: Callable[[str], None],
    *,
    regulation: str,
    losses_pct: Sequence[float],
    rounds: Mapping[str, int],
    repeats: int,
) -> Figures:
    """Measure; see ``experiments.bench``. ``regulation`` is one of REGULATIONS, ``rounds`` are the
    blocks of a run of each load."""
    # Here, so that no other command offers a network whose link a benchmark has to make first.
    TOPOLOGIES.add(Racks)
    samples: dict[str, list[Figures]] = {}
    failed = []
    with Bed(bed_config(regulation)) as bed, Stage(bed, ipv6=False) as stage:
        wire = Wire(bed)
        hosts = [bed.host(name) for name in bed.roles.senders]
        meet([(host, bed.host(bed.roles.receiver)) for host in hosts])
        meet([(bed.host("g1"), bed.host("g2"))])
        for number, pct, line in product(range(1, repeats + 1), losses_pct, LINES):
            what = f"{regulation}_{pct:g}_{line}"
            try:
                found = _turn(bed, wire, pct / 100, line, rounds, stage, seed=number)
            except (AppError, CommandError, ProgramError, TimeoutError) as error:
                failed.append(f"{what}, turn {number}")
                progress(f"{what}, turn {number}: {error}")
                continue
            samples.setdefault(what, []).append(found)
            progress(f"{what}, turn {number} of {repeats}: {_in_words(found)}")
    figures = {
        f"{PREFIX}_{what}_{name}": median(one[name] for one in taken if name in one)
        for what, taken in samples.items()
        for name in dict.fromkeys(name for one in taken for name in one)
    }
    if failed:
        raise Incomplete(figures, failed)
    return figures


def bed_config(regulation: str) -> BedConfig:
    """Return the network: hosts as they come, and a controller that regulates or does not."""
    return BedConfig(
        topology=Racks.name,
        senders=SENDERS,
        scheme=regulation,
        controller={"protection": {"ports": ["acc*"], "hold": "5 s"}},
    )


def _turn(
    bed: Bed,
    wire: Wire,
    loss: float,
    line: str,
    rounds: Mapping[str, int],
    stage: Stage,
    seed: int,
) -> Figures:
    wire.lose(loss, seed)
    found: Figures = {}
    with ExitStack() as stack:
        log = bed.run_dir / "workload.log"
        stack.enter_context(reads.responders(bed, log))
        if line == "protected":
            before = _count(bed, "protection_on")
            begun = time.monotonic()
            stack.enter_context(protected_link(bed))
            _await_decision(bed, lambda: _has_decided(bed, loss, before), log)
            found["decided_s"] = time.monotonic() - begun
        wire.lose(loss, seed)
        for name, load in LOADS.items():
            of = _measure(bed, load, rounds[name], seed)
            found |= {f"{name}_{key}": value for key, value in of.items()}
        for app in PROGRAMS:
            found |= _of_program(app, stage)
        found["frames_lost"] = wire.lost()
    return found


def _has_decided(bed: Bed, loss: float, before: int) -> bool:
    """Whether the controller sends TCP over the protected link, which takes traffic, or, where
    nothing is lost, over the other one: it may not have forgotten what was lost in the last turn.
    ``before``: how often it had begun to protect TCP before this turn."""
    begun = _count(bed, "protection_on")
    return begun > before if loss else begun == _count(bed, "protection_off")


def _await_decision(bed: Bed, has_decided: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + _DECIDE_S
    while not has_decided():
        if time.monotonic() > deadline:
            raise ProgramError(f"the controller has not decided within {_DECIDE_S:g} s")
        _blocks(bed, IncastSpec(senders=4, rounds=5, block_bytes=400_000), log)


def _count(bed: Bed, event: str) -> int:
    """How often the controller has told of this."""
    text = bed.events.read_text() if bed.events.exists() else ""
    return text.count(f'"{event}"')


def _measure(bed: Bed, load: Load, rounds: int, seed: int) -> Figures:
    pids = [bed.host(name).pid for name in (*bed.roles.senders, bed.roles.receiver)]
    for pid in pids:
        run_command(["ip", "tcp_metrics", "flush", "all"], pid=pid)
    before = netstat.total(pids)
    spec = IncastSpec(senders=load.senders, rounds=rounds, block_bytes=load.kb * _KB, seed=seed)
    done = _blocks(bed, spec, bed.run_dir / "workload.log")
    grown = netstat.grown(before, netstat.total(pids))
    times_ms = [(one["end_ns"] - one["start_ns"]) / 1e6 for one in done]
    mean_ms = sum(times_ms) / len(times_ms)
    return {
        "goodput_mbps": sum(one["bytes"] for one in done) * 8e-3 / sum(times_ms),
        "mean_ms": mean_ms,
        **{f"{name}_ms": percentile(times_ms, pct) for name, pct in QUANTILES.items()},
        "timeouts": float(grown.get(TIMEOUTS, 0)),
    }


def _of_program(app: App, stage: Stage) -> Figures:
    played = stage.play(Workload(app))
    figures = {
        f"{app.name}_{app.unit}": played.result.throughput,
        f"{app.name}_timeouts": float(played.timeouts),
    }
    if played.result.p99_ms is not None:
        figures[f"{app.name}_p99_ms"] = played.result.p99_ms
    return figures


def _blocks(bed: Bed, spec: IncastSpec, log: Path) -> list[dict[str, Any]]:
    with reads.reader(bed, spec, log) as reader:
        *_progress, done = reader.messages()
    if done["event"] != "done":
        raise ProgramError(f"the reader has ended early: {json.dumps(done)[:200]}")
    blocks: list[dict[str, Any]] = done["rounds"]
    return blocks


def _in_words(found: Mapping[str, float]) -> str:
    def of(load: str) -> str:
        times = ", ".join(f"{found[f'{load}_{name}_ms']:.0f}" for name in ("mean", *QUANTILES))
        return (
            f"{load} {found[f'{load}_goodput_mbps']:.1f} Mb/s, {times} ms, "
            f"{found[f'{load}_timeouts']:.0f} timeouts"
        )

    rates = [
        f"{value:.0f} {name}" for name, value in found.items() if name.endswith(f"_{REQUESTS}")
    ]
    return "; ".join([*(of(load) for load in LOADS), *rates])
