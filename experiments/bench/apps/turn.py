"""One turn: a setting's workloads, one after the other, under one contender.

    python -m experiments.bench.apps.turn SPEC FILE

as the first process of a new sandbox. FILE gets, by workload, what was played or the ``error`` that
it failed with; and the checks of the whole turn. These are without the one that wants idle
processors: some programs take all that there is, under every contender.
"""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from controller.ops.event_log import read_events
from experiments.bench.apps.matrix import SETTINGS, Setting, Workload, scheme_of
from experiments.bench.apps.play import Stage, as_record
from experiments.measure import counters, observation, validity
from experiments.measure.sampling import Stolen
from experiments.traffic.program import ProgramError
from experiments.traffic.programs.app import AppError
from testbed import dctcp, sandbox
from testbed.bed import Bed
from testbed.config import BedConfig, HostSettings
from testbed.controller import errors_in

MOST_STOLEN = 0.05
_OTHER_QUEUES = "other egress queues"


@dataclass(frozen=True)
class TurnSpec:
    """What is played: ``workloads``, by their names, of ``setting`` under ``contender``; ``label``
    begins each line about it, ``host`` has fields of HostSettings. ``senders`` are so many hosts
    that send instead of the setting's, for workloads that need no more."""

    setting: str
    contender: str
    workloads: Sequence[str]
    label: str = ""
    host: Mapping[str, Any] = field(default_factory=dict)
    senders: int | None = None


def bed_config(setting: Setting, contender: str, host: Mapping[str, Any]) -> BedConfig:
    """Return the network of ``setting`` as ``contender`` has it, on hosts with these fields of
    HostSettings."""
    chosen = scheme_of(contender)
    control = setting.congestion_control
    return BedConfig(
        topology=setting.topology,
        ipv6=setting.ipv6,
        senders=setting.senders,
        scheme=chosen.regulation,
        rate_bps=setting.rate_mbps * 1_000_000,
        bottleneck_limit_bytes=setting.buffer_kib * 1024,
        queue=setting.queue(chosen),
        host=HostSettings(
            congestion_control=control, ecn=True if control == dctcp.NAME else None
        ).over(HostSettings(**host)),
        # The default: a line for each connection would slow down what is measured.
        controller={"log": {"connections": False}},
    )


def play(spec: TurnSpec) -> dict[str, Any]:
    """Play a turn in this sandbox; return what is to be recorded."""
    setting = SETTINGS[spec.setting]
    if spec.senders is not None:
        setting = replace(setting, senders=spec.senders)
    by_name = {workload.name: workload for workload in setting.workloads}
    begun_s = time.monotonic()
    played: dict[str, Any] = {}
    with Bed(bed_config(setting, spec.contender, spec.host)) as bed:
        bed.require_forwarding()
        idle_rtt_ms = observation.idle_rtt(bed)
        stolen = Stolen()
        before = counters.snapshot(bed)
        with Stage(bed, ipv6=setting.ipv6) as stage:
            for name in spec.workloads:
                played[name] = _one(stage, by_name[name])
                _say(spec, begun_s, name, played[name])
        after = counters.snapshot(bed)
        settings = observation.settings(bed)
        assert bed.controller is not None
        bed.controller.require_running()
        checks = [
            validity.idle_round_trip(idle_rtt_ms),
            _nothing_lost(counters.by_kind_of_loss(before, after, bed.roles.bottleneck)),
            validity.no_faults("qdiscs as asked", settings["qdisc_faults"]),
            validity.no_faults("offloads off", settings["offload_faults"]),
            validity.no_faults("host settings as printed", settings["settings_faults"]),
            validity.connected(_events(bed, before.time_ns)),
            validity.without_errors(errors_in(bed.controller.log.read_text(errors="replace"))),
            _little_stolen(stolen.share()),
        ]
    return {
        "spec": asdict(spec),
        "setting": _described(setting),
        "played": played,
        "checks": [asdict(check) for check in checks],
    }


def _one(stage: Stage, workload: Workload) -> dict[str, Any]:
    try:
        return {"unit": workload.app.unit, **as_record(stage.play(workload))}
    except (AppError, ProgramError) as failed:
        return {"error": str(failed)}


def _say(spec: TurnSpec, begun_s: float, name: str, played: dict[str, Any]) -> None:
    if "error" in played:
        said = f"FAILED: {played['error']}"
    else:
        result = played["result"]
        unit = played["unit"].replace("_per_", "/").replace("mbps", "Mb/s")
        times = [
            f"{what} {result[key]:.3g}"
            for what, key in (("p50", "p50_ms"), ("p99", "p99_ms"))
            if result[key] is not None
        ]
        said = f"{result['throughput']:,.5g} {unit}" + (f", {', '.join(times)} ms" if times else "")
        if played["timeouts"]:
            said += f", {played['timeouts']} timeouts"
    where = f"{spec.label} {time.monotonic() - begun_s:4.0f} s"
    print(f"{where}  {spec.contender:<6} {name}: {said}", file=sys.stderr, flush=True)


def _described(setting: Setting) -> dict[str, Any]:
    return {
        name: value for name, value in vars(setting).items() if name not in ("workloads", "quick")
    }


def _events(bed: Bed, since_ns: int) -> list[dict[str, Any]]:
    return [event for event in read_events(bed.events) if event["time_ns"] >= since_ns]


def _nothing_lost(elsewhere: dict[str, dict[str, int]]) -> validity.Check:
    """Packets were lost only where networks lose them: at ports of switches and hosts. Such
    losses are a result."""
    lost = validity.lost_at(
        {
            kind: {p: count for p, count in places.items() if not _is_port_of_host(kind, p)}
            for kind, places in elsewhere.items()
            if kind != _OTHER_QUEUES
        }
    )
    return validity.Check(
        "drops only at the ports",
        ", ".join(lost) or "none elsewhere",
        "none in: devices, the switch's packet sockets, processor backlogs, hosts",
        not lost,
    )


def _is_port_of_host(kind: str, place: str) -> bool:
    return kind == "kernel qdiscs" and not place.startswith("switches/")


def _little_stolen(share: float) -> validity.Check:
    return validity.Check(
        "processors to itself",
        f"{share:.1%} were given to others by the hypervisor",
        f"at most {MOST_STOLEN:.0%}",
        share <= MOST_STOLEN,
    )


def main() -> int:
    """Entry point of the first process in a sandbox; returns the exit status."""
    spec, file = sys.argv[1:]
    try:
        sandbox.become_first_process()
        turn = play(TurnSpec(**json.loads(spec)))
    except (RuntimeError, TimeoutError) as error:
        print(f"weir-experiment: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    Path(file).write_text(json.dumps(turn))
    return 0


if __name__ == "__main__":
    sys.exit(main())
