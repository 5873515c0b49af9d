"""Ports as an operator names them: by number, by name or by a pattern of names."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from controller.model.values import Port


@dataclass(frozen=True, slots=True)
class NamedPorts:
    """The ports of a switch (None: of all) whose name fits one of these patterns, or whose number
    is among them."""

    switch: int | None
    ports: tuple[int | str, ...]

    def fits(self, switch: int, port: Port) -> bool:
        return self.switch in (None, switch) and any(
            one == port.number if isinstance(one, int) else fnmatchcase(port.name, one)
            for one in self.ports
        )
