"""Records what a test bed carries and loses during a block."""

from types import TracebackType
from typing import Any, Self

from controller.model.values import datapath_id
from controller.ops.event_log import read_events
from experiments.measure import counters, netstat, trace
from experiments.measure.sampling import Sampler
from testbed import shaping
from testbed.bed import Bed
from testbed.ovs import OvsError

_TRACE_RECORDS = 1 << 20


class Observation:
    """Context manager. Afterwards ``record`` has the counters, for ``validity.network_checks``
    and for the reader, and ``queue`` every packet that came to the bottleneck's queue. After an
    exception, both are empty."""

    def __init__(self, bed: Bed) -> None:
        self.record: dict[str, Any] = {}
        self.queue = trace.parse("")
        self._bed = bed
        self._far_end = Sampler(bed.net.nameToNode[bed.roles.far_node].pid, bed.roles.far_end)

    def __enter__(self) -> Self:
        bed = self._bed
        bed.ovs.appctl("netdev-egress/trace-start", bed.roles.bottleneck, str(_TRACE_RECORDS))
        self._before = counters.snapshot(bed)
        self._far_end.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: object, _traceback: TracebackType | None
    ) -> None:
        self._far_end.__exit__()
        if kind is None:
            self._finish()

    def _finish(self) -> None:
        bed, before = self._bed, self._before
        bottleneck = bed.roles.bottleneck
        after = counters.snapshot(bed)
        self.queue = trace.parse(bed.ovs.appctl("netdev-egress/trace", bottleneck))
        queue, queue_before = after.queues[bottleneck], before.queues[bottleneck]
        lossy = bed.lossy_ports
        self.record = {
            "start_ns": before.time_ns,
            "end_ns": after.time_ns,
            "tcp": {host: netstat.grown(before.tcp[host], after.tcp[host]) for host in after.tcp},
            "queue": queue,
            "dropped": sum(
                counters.dropped(after.queues[name]) - counters.dropped(before.queues[name])
                for name in lossy
            ),
            "arrived": counters.arrived(queue) - counters.arrived(queue_before),
            "arrived_in_trace": self.queue.count("enqueue") + self.queue.count("drop"),
            "lost_elsewhere": counters.by_kind_of_loss(before, after, *lossy),
            "far_end": self._far_end.as_record(),
        }


def events(bed: Bed, since_ns: int = 0) -> list[dict[str, Any]]:
    """Return the events of the controller of ``bed`` since then; none without a controller."""
    if bed.controller is None:
        return []
    return [event for event in read_events(bed.events) if event["time_ns"] >= since_ns]


def controller(bed: Bed, since_ns: int) -> dict[str, Any]:
    """Return what the controller of ``bed`` has logged since then, for ``validity``.

    Raises ControllerError if it has ended.
    """
    errors = []
    if bed.controller is not None:
        bed.controller.require_running()
        errors = bed.controller.errors()
    return {"controller_errors": errors, "events": events(bed, since_ns)}


def require_extension(bed: Bed) -> None:
    """Raise OvsError if a switch of ``bed`` lacks what its controller would use."""
    for event in events(bed):
        if event["event"] == "switch_up" and not event["registers"]:
            switch = datapath_id(event["switch"])
            raise OvsError(
                f"switch {switch} ({bed.ovs.prefix}) lacks Weir's extension: run 'make switch'"
            )


def settings(bed: Bed) -> dict[str, Any]:
    """Return the settings of the hosts of ``bed``, and where these or a queue differ from what
    was asked for."""
    return {
        "hosts": {host.name: host.tcp_settings() for host in bed.hosts},
        "settings_faults": [fault for host in bed.hosts for fault in host.settings_faults()],
        "qdisc_faults": _qdisc_faults(bed),
    }


def _qdisc_faults(bed: Bed) -> list[str]:
    """Compare the qdiscs of all devices with those asked for."""
    at_switches = [fault for switch in bed.switches for fault in switch.queue_faults()]
    at_hosts = [
        f"{intf.name}: {fault}"
        for host in bed.hosts
        for intf in host.intfList()
        for fault in shaping.differences(shaping.installed(intf.name, pid=host.pid), intf.egress)
    ]
    return at_switches + at_hosts
