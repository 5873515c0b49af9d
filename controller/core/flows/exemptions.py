"""Which connections the switches pass by, as the operator's policy has it."""

from collections.abc import Callable, Iterable

from controller.core.desired.tables import Tables
from controller.core.flows.policy import Policy, Rule
from controller.model.entries import Exempt


class Exemptions:
    """An entry for each rule that exempts, on every switch that can lower windows."""

    def __init__(self, tables: Tables, can_lower: Callable[[int], bool], policy: Policy) -> None:
        self._tables = tables
        self._can_lower = can_lower
        self._wanted = _entries(policy.exemptions)

    def set_policy(self, policy: Policy) -> None:
        """Remove the entries of rules that are not in this policy, and put those that are."""
        former, self._wanted = self._wanted, _entries(policy.exemptions)
        for switch in self._tables.switches():
            if self._can_lower(switch):
                for entry in former:
                    if entry not in self._wanted:
                        self._tables.remove(switch, entry.key)
                self.connect(switch)

    def connect(self, switch: int) -> None:
        """Put them on a switch, if it can lower windows."""
        if self._can_lower(switch):
            for entry in self._wanted:
                self._tables.put(switch, entry)


def _entries(rules: Iterable[Rule]) -> list[Exempt]:
    entries = (Exempt(rule.network, rule.prefix_bits, rule.port) for rule in rules)
    return list(dict.fromkeys(entries))
