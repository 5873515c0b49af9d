"""All packet counters of a test bed, read at one moment; a loss is a difference of two."""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from experiments.measure import netstat
from testbed.bed import Bed
from testbed.command import run

# Of the columns of /proc/net/dev: eight of what came, then bytes, packets and errors of what went.
_SENT_DROPPED = 11
_SOCKET_DROPS = re.compile(r"skmem:\(.*?,d(\d+)\)")


class MeasurementError(RuntimeError):
    """This machine does not provide a value that the run's validity rests on."""


@dataclass(frozen=True)
class Snapshot:
    """Counters at ``time_ns``.

    ``tcp`` is by host and counter, ``qdisc_drops`` and ``device_drops`` by node/device. ``queues``
    are the counters of the switches' egress queues, by device and field. ``packet_socket_drops``
    are packets that the switch was too slow to read, ``backlog_drops`` those that the machine was
    too slow for.
    """

    time_ns: int
    tcp: dict[str, dict[str, int]]
    qdisc_drops: dict[str, int]
    device_drops: dict[str, int]
    queues: dict[str, dict[str, str]]
    packet_socket_drops: int
    backlog_drops: int


def snapshot(bed: Bed) -> Snapshot:
    """Read all counters of ``bed``."""
    places = {"switches": None} | {host.name: host.pid for host in bed.hosts}
    qdiscs: dict[str, int] = {}
    devices: dict[str, int] = {}
    for place, pid in places.items():
        shown = run(["tc", "-j", "-s", "qdisc", "show"], pid=pid)
        qdiscs |= {f"{place}/{dev}": count for dev, count in parse_qdisc_drops(shown).items()}
        shown = Path(f"/proc/{pid or 'self'}/net/dev").read_text()
        devices |= {f"{place}/{dev}": count for dev, count in parse_device_drops(shown).items()}
    return Snapshot(
        time_ns=time.monotonic_ns(),
        tcp={host.name: netstat.counters(host.pid) for host in bed.hosts},
        qdisc_drops=qdiscs,
        device_drops=devices,
        queues={name: q for switch in bed.switches for name, q in switch.queues().items()},
        packet_socket_drops=parse_packet_socket_drops(run(["ss", "-0", "-m"])),
        backlog_drops=parse_backlog_drops(Path("/proc/net/softnet_stat").read_text()),
    )


def parse_qdisc_drops(shown: str) -> dict[str, int]:
    """Parse ``tc -j -s qdisc show``: drops by device.

    A classful qdisc counts its children's drops again, so the largest count of a device is its own.
    """
    drops: dict[str, int] = {}
    for qdisc in json.loads(shown or "[]"):
        device = qdisc["dev"]
        drops[device] = max(drops.get(device, 0), qdisc.get("drops", 0))
    return drops


def parse_device_drops(shown: str) -> dict[str, int]:
    """Parse /proc/net/dev: what each device failed to hand on, by device.

    Only the sending side: the receiving side also counts frames that no protocol wanted, such as
    the controller's link discovery at a host.
    """
    lines = (line.partition(":") for line in shown.splitlines()[2:])
    return {name.strip(): int(numbers.split()[_SENT_DROPPED]) for name, _, numbers in lines}


def parse_packet_socket_drops(shown: str) -> int:
    """Parse ``ss -0 -m``: packets lost at the packet sockets the switch receives from.

    Raises MeasurementError if no socket is shown with its memory, which needs the kernel's
    CONFIG_PACKET_DIAG: no news is not good news.
    """
    drops = [int(count) for count in _SOCKET_DROPS.findall(shown)]
    if not drops:
        raise MeasurementError(
            "'ss -0 -m' shows no drops of packet sockets: no CONFIG_PACKET_DIAG?"
        )
    return sum(drops)


def parse_backlog_drops(text: str) -> int:
    """Parse /proc/net/softnet_stat: packets that found a processor's backlog full."""
    return sum(int(line.split()[1], 16) for line in text.splitlines())


def by_kind_of_loss(
    before: Snapshot, after: Snapshot, *bottlenecks: str
) -> dict[str, dict[str, int]]:
    """Return the losses between two snapshots outside the queues of ``bottlenecks``, by kind of
    place and then by place. Zeros are left out; a kind without losses is empty."""
    hosts = {
        f"{host} {name}": count
        for host, counters in after.tcp.items()
        for name, count in netstat.grown(before.tcp[host], counters).items()
        if name in netstat.HOST_DROPS
    }
    other_queues = {
        name: dropped(after.queues[name]) - dropped(before.queues[name])
        for name in after.queues
        if name not in bottlenecks
    }
    return {
        "other egress queues": _lost({}, other_queues),
        "kernel qdiscs": _lost(before.qdisc_drops, after.qdisc_drops),
        "devices": _lost(before.device_drops, after.device_drops),
        "switch's packet sockets": _lost(
            {"all": before.packet_socket_drops}, {"all": after.packet_socket_drops}
        ),
        "processor backlogs": _lost({"all": before.backlog_drops}, {"all": after.backlog_drops}),
        "hosts": _lost({}, hosts),
    }


def arrived(queue: Mapping[str, str]) -> int:
    """Return the packets that came to an egress queue."""
    return int(queue["tx_packets"]) + dropped(queue)


def dropped(queue: Mapping[str, str]) -> int:
    """Return the packets that an egress queue has dropped."""
    return int(queue["dropped_packets"])


def _lost(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {place: lost for place, lost in netstat.grown(before, after).items() if lost}
