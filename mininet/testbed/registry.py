"""What a package offers by name: one registry, to which every module of the package adds.

A registry reads all modules of its package when it is first asked, so a new thing is a new file and
no list has to be changed.
"""

import importlib
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from typing import Protocol, TypeVar


class Named(Protocol):
    """What can be in a registry."""

    @property
    def name(self) -> str:
        """What it is called on the command line, in records and in figures."""


T = TypeVar("T", bound=Named)


class Registry(Mapping[str, T]):
    """The things of one ``kind``, by name and in the order of their names.

    ``package`` is the package whose modules have them; each module calls ``add``.
    """

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self._package = package
        self._things: dict[str, T] = {}
        self._is_read = False

    def add(self, thing: T) -> None:
        """Offer ``thing``. Raises ValueError if its name is taken."""
        if thing.name in self._things:
            raise ValueError(f"two things of the kind {self.kind} are called {thing.name!r}")
        self._things[thing.name] = thing

    def named(self, name: str) -> T:
        """Return the thing called ``name``. Raises ValueError naming those that there are."""
        if name not in self:
            raise ValueError(f"no {self.kind} {name!r}: there are {', '.join(self)}")
        return self[name]

    def __getitem__(self, name: str) -> T:
        self._read()
        return self._things[name]

    def __iter__(self) -> Iterator[str]:
        self._read()
        return iter(sorted(self._things))

    def __len__(self) -> int:
        self._read()
        return len(self._things)

    def _read(self) -> None:
        if self._is_read:
            return
        self._is_read = True
        package = sys.modules[self._package]
        for module in pkgutil.iter_modules(package.__path__):
            if not module.ispkg:
                importlib.import_module(f"{self._package}.{module.name}")
