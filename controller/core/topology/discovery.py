"""Whether discovery frames are as new as they have to be to show a link."""

from collections.abc import Callable

from controller.model.effects import Effect, Record
from controller.model.values import PortId


class Discovery:
    """A frame that is older than `timeout_ns` is a replay. The first one at a port is recorded."""

    def __init__(self, timeout_ns: int, emit: Callable[[Effect], None]) -> None:
        self._timeout_ns = timeout_ns
        self._emit = emit
        self._replaying: set[PortId] = set()

    def is_fresh(self, a: PortId, b: PortId, sent_ns: int, now_ns: int) -> bool:
        """Whether the frame that left by `a` at `sent_ns`, and came in by `b`, shows a link."""
        if 0 <= now_ns - sent_ns <= self._timeout_ns:
            return True
        if b not in self._replaying:
            self._replaying.add(b)
            self._emit(Record("discovery_replayed", {"port": str(b), "of": str(a)}))
        return False

    def forget_port(self, port_id: PortId) -> None:
        """A port is gone."""
        self._replaying.discard(port_id)
