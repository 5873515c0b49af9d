"""The budgets of packet-ins once more, before parsing, for switches without meters of their own.

A switch's meters limit what it sends up. Some switches have none, and none can be trusted. Copied
segments are charged in batches after they are read; a switch that has overdrawn its budget has its
segments dropped unread until the budget has recovered. So the normal case costs nothing per packet.
"""

from collections import Counter
from collections.abc import Callable

from controller.model.packet_ins import OverBudget, PacketClass
from controller.model.token_bucket import TokenBucket
from controller.southbound.switch.budgets import Limits
from controller.southbound.switch.pipeline import packet_class

_KEYS_LIMIT = 4096
_COOKIE, _FIRST_FIELD, _IN_PORT = slice(16, 24), slice(28, 32), bytes.fromhex("80000004")
_PORT = slice(32, 36)
_SEGMENTS = (PacketClass.SYN, PacketClass.SEGMENT, PacketClass.END)


class Admission:
    """The budgets of one switch, as token buckets."""

    def __init__(self, limits: Limits, clock_ns: Callable[[], int]) -> None:
        self._clock_ns = clock_ns
        self._over: Counter[tuple[int, PacketClass]] = Counter()
        self._over_since_ns = clock_ns()
        self.limit(limits)

    def limit(self, limits: Limits) -> None:
        """Use these limits from now on."""
        now_ns = self._clock_ns()
        self._segments = TokenBucket(limits.switch_segments_pps, now_ns)
        self._ends = TokenBucket(limits.switch_ends_pps, now_ns)
        self._frames = {
            packets: TokenBucket(limits.switch_frames_pps, now_ns)
            for packets in PacketClass
            if packets not in _SEGMENTS
        }

    def segments_open(self) -> bool:
        """Whether the next batch of copied segments is read."""
        return self._segments.has_any(self._clock_ns())

    def read(self, n_segments: int) -> None:
        """So many copied segments were read."""
        self._segments.pay(n_segments)

    def admits(self, packet_in: bytes) -> bool:
        """Whether to read this packet-in, which is not part of a batch."""
        packets = packet_class(int.from_bytes(packet_in[_COOKIE], "big"))
        now_ns = self._clock_ns()
        if packets in _SEGMENTS:
            bucket = self._segments
            if packets is PacketClass.END and not bucket.has_any(now_ns):
                bucket = self._ends
        else:
            bucket = self._frames[packets]
        if bucket.has_any(now_ns):
            bucket.pay(1)
            return True
        told = packet_in[_FIRST_FIELD] == _IN_PORT
        port = int.from_bytes(packet_in[_PORT], "big") if told else 0
        key = port, packets
        if key not in self._over and len(self._over) >= _KEYS_LIMIT:
            key = 0, packets
        self._over[key] += 1
        return False

    def take_dropped(self) -> list[OverBudget]:
        """What was dropped since the last call, by port (0 if there are too many ports)."""
        now_ns = self._clock_ns()
        elapsed_s = max(1, now_ns - self._over_since_ns) / 1e9
        over, self._over = self._over, Counter()
        self._over_since_ns = now_ns
        return [OverBudget(*key, count, count / elapsed_s) for key, count in over.items()]
