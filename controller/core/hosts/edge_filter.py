"""Drops copied segments that did not enter at an edge port, and learns hosts from the others.

Called for every copied segment, so results are cached until the topology changes.
"""

from controller.core.hosts.resolution import Resolver
from controller.core.topology.fabric import Fabric
from controller.model.flow import ACK, FIN, RST, SYN, SegmentFields
from controller.model.values import PortId

_LIMIT = 65_536


class EdgeFilter:
    """Passes segments that entered by edge ports, and learns their senders."""

    def __init__(self, fabric: Fabric, resolver: Resolver) -> None:
        self._fabric = fabric
        self._resolver = resolver
        # Ethernet addresses by switch and port. A host with a bond is at several ports.
        self._known: dict[int, dict[int, set[bytes]]] = {}
        self._n_known = 0
        self._cached_at = 0

    def admit(self, switch: int, batch: list[SegmentFields], now_ns: int) -> list[SegmentFields]:
        """The segments of a batch that entered by edge ports; their senders are learnt."""
        if self._cached_at != self._fabric.changes or self._n_known > _LIMIT:
            self._known.clear()
            self._n_known = 0
            self._cached_at = self._fabric.changes
        known = self._known.setdefault(switch, {})
        for segment in batch:
            here = known.get(segment[0])
            if here is None or segment[1] not in here:
                return [
                    segment for segment in batch if self._enters(known, switch, segment, now_ns)
                ]
        return batch

    def _enters(
        self, known: dict[int, set[bytes]], switch: int, segment: SegmentFields, now_ns: int
    ) -> bool:
        in_port, macs = segment[:2]
        if macs in known.get(in_port, ()):
            return True
        port_id = PortId(switch, in_port)
        if not self._fabric.is_edge(port_id, now_ns):
            return False
        before = self._fabric.changes
        flags = segment[3]
        is_final = flags & (FIN | RST) or flags & (SYN | ACK) == SYN | ACK
        if not self._resolver.learn(macs[6:], port_id, now_ns):
            return False
        if self._fabric.changes != before:
            # A host came or moved, so cached places may be wrong.
            known.clear()
        if self._resolver.security.has_just_moved(macs[6:], now_ns):
            # If it has not, it has said so in a moment. What cannot be taken back has to wait.
            return not is_final
        known.setdefault(in_port, set()).add(macs)
        self._n_known += 1
        return True
