"""Switches whose control channel is lost, and for how long they are waited for."""


class Departures:
    """A switch that stays away for `grace_ns` is given up. While it still has links, it may be
    forwarding, so it is not forgotten before these are gone."""

    def __init__(self, grace_ns: int) -> None:
        self._grace_ns = grace_ns
        self._until_ns: dict[int, int] = {}
        self._given_up: set[int] = set()

    def leave(self, switch: int, now_ns: int) -> None:
        """The control channel of a switch is lost."""
        self._until_ns[switch] = now_ns + self._grace_ns

    def come_back(self, switch: int) -> bool:
        """A switch is connected. Returns whether it was waited for."""
        self._given_up.discard(switch)
        return self._until_ns.pop(switch, None) is not None

    def give_up(self, now_ns: int) -> list[int]:
        """Give up those that have been away for too long; returns them."""
        due = [switch for switch, until_ns in self._until_ns.items() if until_ns <= now_ns]
        for switch in due:
            del self._until_ns[switch]
        self._given_up.update(due)
        return due

    @property
    def given_up(self) -> list[int]:
        """Those that were given up and not forgotten yet."""
        return list(self._given_up)

    def forget(self, switch: int) -> None:
        """A switch that was given up has no links any more."""
        self._given_up.discard(switch)
