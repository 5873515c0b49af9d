"""Hosts that something can be measured on: named settings of their TCP, beneath what a scheme sets.

How a host acknowledges, begins and times out decides as much as its congestion control does. New
ones are a few lines in a module here.
"""

from dataclasses import asdict, dataclass
from typing import Any

from testbed.config import HostSettings
from testbed.registry import Registry


@dataclass(frozen=True)
class Hosts:
    """``about`` is a line for help texts, ``settings`` what differs from Linux as it comes."""

    name: str
    about: str
    settings: HostSettings

    @property
    def changes(self) -> dict[str, Any]:
        """The fields of ``settings`` that are not Linux's own."""
        return {name: value for name, value in asdict(self.settings).items() if value is not None}


HOSTS: Registry[Hosts] = Registry("hosts", __name__)
USUAL = "as-they-come"


def hosts(name: str) -> Hosts:
    """Return the hosts called ``name``. Raises ValueError naming those that there are."""
    return HOSTS.named(name)
