"""Events that come before a switch is ready: those that matter are kept, in bounded memory.

Of each port, queue and flow counter only the latest event is kept. Frames and segments may be
dropped, since hosts repeat themselves.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

E = TypeVar("E")

_LIMIT_FRAMES = 4096
_LIMIT_STATES = 65_536


class Backlog(Generic[E]):
    """Events in order. What is put in is kept or, at the limit, refused."""

    def __init__(self) -> None:
        self._states: dict[Hashable, E] = {}
        self._frames: list[E] = []
        self._n_frames = 0

    def __len__(self) -> int:
        return len(self._states) + self._n_frames

    def last(self, key: Hashable) -> E | None:
        """The latest event of this."""
        return self._states.get(key)

    def put_state(self, key: Hashable, event: E) -> bool:
        """Replace the latest event of something; returns whether it is kept."""
        self._states.pop(key, None)
        if len(self._states) >= _LIMIT_STATES:
            return False
        self._states[key] = event
        return True

    def put_frames(self, event: E, n_frames: int) -> bool:
        """Add an event that may be dropped; returns whether it is kept."""
        if self._n_frames + n_frames > _LIMIT_FRAMES:
            return False
        self._frames.append(event)
        self._n_frames += n_frames
        return True

    def take(self) -> list[E]:
        """Take all events: first the latest of each thing, then the frames."""
        events = [*self._states.values(), *self._frames]
        self._states, self._frames, self._n_frames = {}, [], 0
        return events
