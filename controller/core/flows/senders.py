"""Whether copied segments come from where they say: hosts may pretend to be others."""

import operator
from collections.abc import Callable
from dataclasses import dataclass

from controller.model.flow import SegmentFields, source_of, vlan_of_key

# Whether a host, by its Ethernet address, has an IP address in a VLAN (empty: none); None if nobody
# has it there: it is beyond a router.
Ownership = Callable[[bytes, bytes, bytes], bool | None]


def _owned_by_nobody(_: bytes, __: bytes, ___: bytes) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Senders:
    """Judges segments by what is known of hosts.

    `together` tells whether two Ethernet addresses are at the same port. Without it and `owns`, an
    Ethernet address stands for its host.
    """

    together: Callable[[bytes, bytes], bool] = operator.eq
    owns: Ownership = _owned_by_nobody

    def is_at(self, segment: SegmentFields, mac: bytes) -> bool:
        """Whether a segment comes from the port of a host. The Ethernet addresses may differ:
        frames to a virtual router are answered by a real one."""
        sender = segment[1][6:]
        return sender == mac or self.together(sender, mac)

    def owns_source(self, segment: SegmentFields) -> bool:
        """Whether the sender of a segment has its source address."""
        return bool(self._owns_source(segment))

    def borrows_source(self, segment: SegmentFields) -> bool:
        """Whether the source address of a segment is another host's."""
        return self._owns_source(segment) is False

    def answers(self, syn: SegmentFields, answer: SegmentFields) -> bool:
        """Whether a SYN-ACK comes from where its SYN went."""
        if self.is_at(answer, syn[1][:6]):
            return True
        # From outside, answers may come by another router. Whoever knows the number has seen the
        # SYN; but so has its sender.
        return (
            answer[5] == (syn[4] + 1) & 0xFFFFFFFF
            and not self.is_at(answer, syn[1][6:])
            and self._owns_source(answer) is None
        )

    def _owns_source(self, segment: SegmentFields) -> bool | None:
        key = segment[2]
        return self.owns(segment[1][6:], source_of(key), vlan_of_key(key))
