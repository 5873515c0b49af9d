"""Handshakes of TCP that are under way, from copies that come in any order.

Segments of different switches overtake each other: a SYN-ACK may come before its SYN, a FIN or RST
before either. How many are remembered is bounded, since anybody can begin one.
"""

from collections import Counter
from itertools import islice
from typing import NamedTuple

from controller.core.flows.host_pairs import FINISHED_INITIATOR, FINISHED_RESPONDER
from controller.core.flows.senders import Senders
from controller.model.flow import Segment, SegmentFields, reverse

HALF_OPEN_LIMIT = 16_384
HALF_OPEN_TIMEOUT_NS = 30 * 10**9
EARLY_ANSWER_TIMEOUT_NS = 10**9

_DROPPED_SHARE = 256
_BOTH_FINISHED = FINISHED_INITIATOR | FINISHED_RESPONDER

# A SYN without its SYN-ACK, or a SYN-ACK without its SYN: the segment, when it was last seen, if it
# was seen only once, and which sides have finished. A tuple, because most live for a moment.
Half = tuple[SegmentFields, int, bool, int]


class Established(NamedTuple):
    """A SYN and its SYN-ACK."""

    half: Half
    answer: SegmentFields


class Handshakes:
    """`counters` counts what did not come to an end, and what came from elsewhere than an end of
    its handshake.

    `awaited` are the SYNs by the key of their SYN-ACK. `forged` gets the SYN-ACKs with which
    somebody has answered a SYN of his own, in the name of another port's host.
    """

    def __init__(
        self,
        senders: Senders,
        counters: Counter[str],
        forged: list[SegmentFields],
        limit: int,
        timeout_ns: int,
    ) -> None:
        self.limit = limit
        self._senders = senders
        self._counters = counters
        self._forged = forged
        self._timeout_ns = timeout_ns
        # The oldest come first in all of these.
        self.awaited: dict[bytes, Half] = {}
        self._early: dict[bytes, Half] = {}  # SYN-ACKs by the key of their SYN.
        # Keys of SYN-ACKs whose initiator has reset the connection, and when.
        self._given_up: dict[bytes, int] = {}

    def is_under_way(self, key: bytes) -> bool:
        """Whether a part of a connection's handshake was seen, by the key of either direction."""
        answer_key = reverse(key)
        return any(
            side in halves for halves in (self.awaited, self._early) for side in (key, answer_key)
        )

    # Segments

    def syn(self, segment: SegmentFields, now_ns: int) -> Established | None:
        """A SYN; returns it with its SYN-ACK if that has come before."""
        key = segment[2]
        awaited, answer_key = self.awaited, reverse(key)
        is_first = True
        if key in awaited or answer_key in awaited:
            crossing, repeated = awaited.get(key), awaited.get(answer_key)
            if not all(self._is_of(segment, half) for half in (crossing, repeated) if half):
                if not self._senders.owns_source(segment):
                    self._counters["elsewhere"] += 1
                    return None
                # The other one has used an address that is not its own.
                crossing = repeated = None
            if crossing is not None and crossing[3] != _BOTH_FINISHED:
                # RFC 9293 section 3.5, simultaneous open: the sender of the first SYN is the
                # initiator.
                del awaited[key]
                awaited[key] = (crossing[0], now_ns, False, crossing[3])
                return None
            is_first = repeated is None
            awaited.pop(key, None)
        if self._early:
            early = self._early.pop(key, None)
            if early is not None and early[0][5] == (segment[4] + 1) & 0xFFFFFFFF:
                if self._senders.answers(segment, early[0]):
                    return Established((segment, now_ns, False, early[3]), early[0])
                self._refuse(segment, early[0])
        awaited.pop(answer_key, None)
        awaited[answer_key] = (segment, now_ns, is_first, 0)
        if len(awaited) > self.limit:
            self._drop_oldest(awaited)
        return None

    def answer(self, segment: SegmentFields) -> Half | None:
        """The SYN-ACK to one that is awaited; returns the SYN, unless all is over by now."""
        half = self.awaited[segment[2]]
        syn = half[0]
        # Mostly it comes from the address that was asked.
        if segment[1][6:] != syn[1][:6] and not self._senders.answers(syn, segment):
            self._refuse(syn, segment)
            return None
        del self.awaited[segment[2]]
        return None if half[3] == _BOTH_FINISHED else half

    def answer_early(self, segment: SegmentFields, now_ns: int) -> None:
        """A SYN-ACK from another switch than the SYN, whose copy may still be on its way."""
        if segment[2] in self._given_up:
            return
        awaited = reverse(segment[2])
        self._early.pop(awaited, None)
        self._early[awaited] = (segment, now_ns, False, 0)
        if len(self._early) > self.limit:
            self._drop_oldest(self._early)

    def finish(self, segment: SegmentFields) -> None:
        """A FIN of a connection that is not known to be open yet."""
        key = segment[2]
        answer_key = reverse(key)
        for halves, responder, initiator in (
            (self.awaited, key, answer_key),
            (self._early, answer_key, key),
        ):
            for place, finished in (
                (initiator, FINISHED_INITIATOR),
                (responder, FINISHED_RESPONDER),
            ):
                half = halves.get(place)
                if half is not None and self._is_of(segment, half):
                    halves[place] = (*half[:3], half[3] | finished)
                    return

    def reset(self, segment: SegmentFields, now_ns: int) -> bool:
        """An RST; returns whether it is believed, if there is a handshake that it is of."""
        if not self.awaited and not self._early:
            return True
        key = segment[2]
        answer_key = reverse(key)
        for halves in (self.awaited, self._early):
            half = halves.get(key) or halves.get(answer_key)
            if half is not None and not self._is_of(segment, half):
                self._counters["elsewhere"] += 1
                return False
        if answer_key in self.awaited:
            # The initiator's: the SYN-ACK may still come, from another switch.
            self._given_up.pop(answer_key, None)
            self._given_up[answer_key] = now_ns
            if len(self._given_up) > self.limit:
                del self._given_up[next(iter(self._given_up))]
        self.forget(key)
        return True

    # Changes that do not come from a segment

    def forget(self, key: bytes) -> None:
        """Forget the handshake of a connection, by the key of either direction."""
        for side in (key, reverse(key)):
            self.awaited.pop(side, None)
            self._early.pop(side, None)

    def expire(self, now_ns: int) -> list[tuple[Segment, int]]:
        """Drop SYNs that were never answered. Returns the SYN-ACKs whose SYN never came, each with
        the sides that have finished since."""
        unanswered = _take_older(self.awaited, now_ns - self._timeout_ns)
        self._counters["unanswered"] += len(unanswered)
        for key, since_ns in list(self._given_up.items()):
            if since_ns > now_ns - EARLY_ANSWER_TIMEOUT_NS:
                break
            del self._given_up[key]
        orphans = _take_older(self._early, now_ns - EARLY_ANSWER_TIMEOUT_NS)
        self._counters["orphaned"] += len(orphans)
        return [(Segment(*half[0]), half[3]) for half in orphans if half[3] != _BOTH_FINISHED]

    def _is_of(self, segment: SegmentFields, half: Half) -> bool:
        """Whether a segment comes from where that end of its handshake is."""
        known = half[0]
        return self._senders.is_at(
            segment, known[1][6:] if segment[2] == known[2] else known[1][:6]
        )

    def _refuse(self, syn: SegmentFields, answer: SegmentFields) -> None:
        """An answer does not come from where its SYN went."""
        self._counters["elsewhere"] += 1
        # Servers behind a balancer answer in its name, too, but they ask nothing of themselves; a
        # router sends on SYNs that are not its own.
        senders = self._senders
        is_own = senders.is_at(answer, syn[1][6:]) and senders.owns_source(syn)
        if is_own and senders.borrows_source(answer):
            self._forged.append(answer)

    def _drop_oldest(self, halves: dict[bytes, Half]) -> None:
        """Drop the oldest, several at once: to find the first key of a dict is slow after those
        before it were deleted one by one."""
        oldest = list(islice(halves, 1 + self.limit // _DROPPED_SHARE))
        for key in oldest:
            del halves[key]
        self._counters["flooded"] += len(oldest)


def _take_older(halves: dict[bytes, Half], seen_ns: int) -> list[Half]:
    """Remove and return those last seen at `seen_ns` or earlier; the oldest come first."""
    keys = []
    for key, half in halves.items():
        if half[1] > seen_ns:
            break
        keys.append(key)
    return [halves.pop(key) for key in keys]
