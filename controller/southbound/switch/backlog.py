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
    """Events that wait, in order. `lost` counts those for which there was no room."""

    def __init__(self) -> None:
        self._states: dict[Hashable, E] = {}
        self._frames: list[E] = []
        self._n_frames = 0
        self.lost = 0

    def __len__(self) -> int:
        return len(self._states) + self._n_frames

    def last(self, key: Hashable) -> E | None:
        """The last word on this."""
        return self._states.get(key)

    def put_state(self, key: Hashable, event: E) -> bool:
        """The last word on something; returns whether there was room."""
        self._states.pop(key, None)
        if len(self._states) >= _LIMIT_STATES:
            self.lost += 1
            return False
        self._states[key] = event
        return True

    def put_frames(self, event: E, n_frames: int) -> bool:
        """Something that can be spared; returns whether there was room."""
        if self._n_frames + n_frames > _LIMIT_FRAMES:
            self.lost += n_frames
            return False
        self._frames.append(event)
        self._n_frames += n_frames
        return True

    def take(self) -> list[E]:
        """All of it: first how things stand, then what came in."""
        events = [*self._states.values(), *self._frames]
        self._states, self._frames, self._n_frames = {}, [], 0
        return events
