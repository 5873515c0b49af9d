"""What a sweep can vary: each axis changes a run's specification to one of its values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from experiments import workloads
from experiments.runner import MOST_HOSTS, RunSpec, spread
from experiments.workloads import Workload
from testbed.config import HostSettings


@dataclass(frozen=True)
class Axis:
    """``change`` returns the run at a value; ``label`` is what a picture calls the axis."""

    name: str
    label: str
    change: Callable[[RunSpec, Any], RunSpec]


def _connections(spec: RunSpec, value: Any) -> RunSpec:
    senders, each = spread(int(value))
    changes = {"senders": senders}
    if "connections_per_sender" in workloads.parameters(spec.workload.name):
        changes["connections_per_sender"] = each
    elif each > 1:
        raise ValueError(
            f"workload {spec.workload.name} has one connection a sender: "
            f"{MOST_HOSTS} at most, not {value}"
        )
    return replace(spec, workload=_with(spec.workload, **changes))


def _with(workload: Workload, **changes: Any) -> Workload:
    return workloads.from_record(workloads.as_record(workload) | changes)


def _field(name: str) -> Callable[[RunSpec, Any], RunSpec]:
    return lambda spec, value: replace(spec, workload=_with(spec.workload, **{name: value}))


def _host(name: str) -> Callable[[RunSpec, Any], RunSpec]:
    return lambda spec, value: replace(spec, host=replace(spec.host, **{name: value}))


AXES: Mapping[str, Axis] = {
    axis.name: axis
    for axis in (
        Axis("connections", "connections", _connections),
        Axis("senders", "senders", _field("senders")),
        Axis("block_bytes", "bytes of a block", _field("block_bytes")),
        Axis(
            "rate_mbps",
            "rate of a link [Mb/s]",
            lambda spec, value: replace(spec, rate_bps=round(value * 1e6)),
        ),
        Axis(
            "buffer_kib",
            "buffer [KiB]",
            lambda spec, value: replace(spec, buffer_bytes=round(value * 1024)),
        ),
        Axis(
            "delay_ms",
            "added delay per switch port [ms]",
            lambda spec, value: replace(spec, delay_us=round(value * 1000)),
        ),
        Axis("initial_window", "initial window [segments]", _host("initcwnd")),
        Axis("least_rto_ms", "least RTO [ms]", _host("rto_min_ms")),
        Axis("quickack", "immediate ACKs", _host("quickack")),
    )
}


def axis(name: str) -> Axis:
    """Return the axis called ``name``: one of AXES, or workload.FIELD or hosts.FIELD.

    Raises ValueError where there is none.
    """
    if name in AXES:
        return AXES[name]
    part, _, field = name.partition(".")
    if part == "workload" and field:
        return Axis(name, field.replace("_", " "), _field(field))
    if part == "hosts" and field in {one.name for one in fields(HostSettings)}:
        return Axis(name, field.replace("_", " "), _host(field))
    raise ValueError(f"no axis {name!r}: there are {', '.join(AXES)}, workload.FIELD, hosts.FIELD")
