"""TCP's own counters, of a network namespace."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

TIMEOUTS = "TcpExt.TCPTimeouts"

# What was received and thrown away for want of memory or queue, or for its checksum, was not lost
# in the network. Tcp.InErrs counts more than that: a SYN-ACK that comes twice.
HOST_DROPS = (
    "TcpExt.TCPBacklogDrop", "TcpExt.TCPRcvQDrop", "TcpExt.RcvPruned", "TcpExt.OfoPruned",
    "TcpExt.TCPOFODrop", "TcpExt.PFMemallocDrop", "TcpExt.ListenDrops", "TcpExt.TCPZeroWindowDrop",
    "Ip.InDiscards", "Ip.OutDiscards", "Ip.InHdrErrors", "Tcp.InCsumErrors",
    "Udp.InErrors", "Udp.SndbufErrors",
)  # fmt: skip


def counters(pid: int) -> dict[str, int]:
    """Read all counters of the namespace of ``pid``, named like ``TcpExt.TCPTimeouts``."""
    return {
        name: value
        for table in ("netstat", "snmp")
        for name, value in parse(Path(f"/proc/{pid}/net/{table}").read_text()).items()
    }


def total(pids: Iterable[int]) -> Counter[str]:
    """The counters of several namespaces, added up."""
    added: Counter[str] = Counter()
    for pid in pids:
        added.update(counters(pid))
    return added


def parse(text: str) -> dict[str, int]:
    """Parse /proc/net/netstat or /proc/net/snmp: pairs of lines, names and then values.

    Raises ValueError where a line of values does not belong to the line of names before it.
    """
    values = {}
    lines = text.splitlines()
    for names_line, values_line in zip(lines[::2], lines[1::2], strict=True):
        section, *names = names_line.split()
        same_section, *numbers = values_line.split()
        if section != same_section or len(names) != len(numbers):
            raise ValueError(
                f"{section} {len(names)} names, but {same_section} {len(numbers)} values"
            )
        for name, number in zip(names, numbers, strict=True):
            values[f"{section}{name}".replace(":", ".")] = int(number)
    return values


def grown(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return by how much each counter has grown, leaving out those that have not."""
    return {
        name: value - before.get(name, 0)
        for name, value in after.items()
        if value != before.get(name, 0)
    }
