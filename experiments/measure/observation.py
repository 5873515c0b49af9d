"""Records what a test bed carries and loses during a block, and what ``validity`` goes by."""

import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from controller.model.values import datapath_id
from controller.ops.event_log import read_events
from experiments.measure import counters, netstat, trace
from experiments.measure.departures import Departures
from experiments.measure.sampling import Sampler
from experiments.statistics import percentile
from testbed import shaping
from testbed.bed import Bed, BedError
from testbed.command import run
from testbed.host import Host
from testbed.ovs import OvsError
from testbed.shaping import FULL_FRAME_BYTES

_TRACE_RECORDS = 1 << 20
_PINGS = 20
# Ethernet, IPv4, ICMP and ping's 56 bytes.
_PING_BYTES = 98
_PING = re.compile(r"= (?P<min>[\d.]+)/(?P<avg>[\d.]+)/(?P<max>[\d.]+)/")


class Observation:
    """Context manager. Afterwards ``record`` has the counters, for ``validity.network_checks``
    and for the reader, and ``queue`` every packet that came to the bottleneck's queue. After an
    exception, both are empty."""

    def __init__(self, bed: Bed) -> None:
        self.record: dict[str, Any] = {}
        self.queue = trace.parse("")
        self._bed = bed
        far_end = (bed.net.nameToNode[bed.roles.far_node].pid, bed.roles.far_end)
        self._far_end = Sampler(*far_end)
        self._departures = Departures(*far_end)
        self._measuring = ExitStack()

    def __enter__(self) -> Self:
        bed = self._bed
        bed.ovs.appctl("netdev-egress/trace-start", bed.roles.bottleneck, str(_TRACE_RECORDS))
        self._hosts = {host.name: host.tcp_settings() for host in bed.hosts}
        # From before the counters are read until after: what is counted is timed.
        self._measuring.enter_context(self._departures)
        try:
            self._before = counters.snapshot(bed)
            self._measuring.enter_context(self._far_end)
        except BaseException:
            self._measuring.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: object, _traceback: TracebackType | None
    ) -> None:
        with self._measuring:
            after = counters.snapshot(self._bed) if kind is None else None
        if after is not None:
            self._finish(after)

    def _finish(self, after: counters.Snapshot) -> None:
        bed, before = self._bed, self._before
        bottleneck = bed.roles.bottleneck
        self.queue = replace(
            trace.parse(bed.ovs.appctl("netdev-egress/trace", bottleneck)),
            departure_ns=self._departures.time_ns,
            departure_bytes=self._departures.bytes,
        )
        queue, queue_before = after.queues[bottleneck], before.queues[bottleneck]
        arrived = counters.arrived(queue) - counters.arrived(queue_before)
        dropped = counters.dropped(queue) - counters.dropped(queue_before)
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
            "arrived": arrived,
            "arrived_in_trace": self.queue.count("enqueue") + self.queue.count("drop"),
            "lost_elsewhere": counters.by_kind_of_loss(before, after, *lossy),
            "far_end": self._far_end.as_record(),
            "spacing": spacing(
                self.queue, bed.roles.bottleneck_bps, int(bed.config.queue.get("delay-us", 0))
            )
            | {
                "sent": arrived - dropped,
                "timed": len(self._departures.time_ns),
                "not_recorded": self._departures.lost,
            },
            # Only now: reading them takes the processors' time.
            **settings(bed, since=self._hosts),
        }


def spacing(queue: trace.QueueTrace, rate_bps: int, delay_us: int = 0) -> dict[str, Any]:
    """Return how evenly packets left the port while others waited: the number of ``gaps``, and the
    99th percentile of what these are off, beside the time that a full-size frame takes."""
    errors_ns = queue.spacing_errors_ns(rate_bps, delay_us * 1000)
    return {
        "gaps": len(errors_ns),
        "p99_error_us": percentile(errors_ns, 99) / 1000 if len(errors_ns) else None,
        "frame_us": FULL_FRAME_BYTES * 8e6 / rate_bps,
    }


def idle_rtt(bed: Bed, sender: Host | None = None, *, more_ms: float = 0.0) -> dict[str, float]:
    """Probe the way from the receiver to ``sender`` (by default the first one) while nothing else
    is sent: its round-trip times; ``delay``, what delays it on purpose, ``more_ms`` among it;
    ``links``, the time it is on links of that rate at most; and ``ports``, how many ports of
    switches it leaves by.

    Raises BedError if nothing comes back.
    """
    sender = sender or bed.host(bed.roles.senders[0])
    receiver = bed.host(bed.roles.receiver)
    argv = ["ping", "-q", "-c", str(_PINGS), "-i", "0.01", sender.IP()]
    shown = run(argv, pid=receiver.pid)
    times = _PING.search(shown)
    if times is None:
        raise BedError(f"ping shows no round-trip times: {shown}")
    found = {name: float(value) for name, value in times.groupdict().items()}
    switches = bed.switches_between(sender, receiver)
    delays_ms = bed.round_trip_delay_us(sender, receiver) / 1000
    links_ms = 2 * (switches + 1) * _PING_BYTES * 8e3 / bed.config.rate_bps
    return found | {"delay": delays_ms + more_ms, "links": links_ms, "ports": 2 * switches}


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


def settings(bed: Bed, since: Mapping[str, Mapping[str, str]] | None = None) -> dict[str, Any]:
    """Return the settings of the hosts of ``bed``, and where these, a queue or a device differ from
    what was asked for; ``since`` has settings of hosts that were read before."""
    hosts = {host.name: host.tcp_settings() for host in bed.hosts}
    changed = [
        f"{name}: {what} was {was[what]}, is {hosts[name].get(what)}"
        for name, was in (since or {}).items()
        for what in was
        if hosts[name].get(what) != was[what]
    ]
    return {
        "hosts": hosts,
        "settings_faults": [
            *(fault for host in bed.hosts for fault in host.settings_faults(hosts[host.name])),
            *changed,
        ],
        "qdisc_faults": _qdisc_faults(bed),
        "offload_faults": [
            fault
            for link in bed.net.links
            for end in (link.intf1, link.intf2)
            for fault in end.offload_faults()
        ],
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
