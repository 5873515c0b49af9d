"""The operator's policy: how connections are treated, by subnet and TCP port."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from controller.model.flow import FlowKey

_REMEMBERED_ADDRESSES = 65_536


class Treatment(Enum):
    """`exempt` connections are neither regulated nor counted, `protect` ones never become
    background flows, and `background` ones always are; all others are `ordinary`."""

    ORDINARY = "ordinary"
    EXEMPT = "exempt"
    PROTECT = "protect"
    BACKGROUND = "background"


@dataclass(frozen=True, slots=True)
class Rule:
    """Matches connections with one end in the network and at the TCP port.

    `network` is a packed address with no bit set past `prefix_bits`, empty for any address. `port`
    is 0 for any port.
    """

    treatment: Treatment
    network: bytes = b""
    prefix_bits: int = 0
    port: int = 0

    def covers(self, address: bytes) -> bool:
        if not self.network:
            return True
        if len(address) != len(self.network):
            return False
        shift = 8 * len(address) - self.prefix_bits
        return (
            int.from_bytes(address, "big") >> shift == int.from_bytes(self.network, "big") >> shift
        )


class Policy:
    """Rules in order; the first one that matches a connection decides."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)
        self._covering: dict[bytes, tuple[tuple[int, Rule], ...]] = {}

    def __bool__(self) -> bool:
        """Whether there are any rules."""
        return bool(self._rules)

    @property
    def exemptions(self) -> list[Rule]:
        return [rule for rule in self._rules if rule.treatment is Treatment.EXEMPT]

    def treatment(self, key: FlowKey) -> Treatment:
        """The same for both directions of a connection."""
        first = min(
            (
                place
                for address, port in ((key.src, key.src_port), (key.dst, key.dst_port))
                for place, rule in self._rules_of(address)
                if rule.port in (0, port)
            ),
            default=None,
        )
        return Treatment.ORDINARY if first is None else self._rules[first].treatment

    def _rules_of(self, address: bytes) -> tuple[tuple[int, Rule], ...]:
        covering = self._covering.get(address)
        if covering is None:
            if len(self._covering) >= _REMEMBERED_ADDRESSES:
                self._covering.clear()
            covering = tuple(
                (place, rule) for place, rule in enumerate(self._rules) if rule.covers(address)
            )
            self._covering[address] = covering
        return covering
