"""What a package offers by name: one registry, to which every module of the package adds.

A registry reads all modules of its package when it is first asked, so a new thing is a new file and
no list has to be changed. Then it reads what is offered from outside the tree: the files, or all
files of the folders, that the environment variable WEIR_EXTENSIONS names, separated by colons; and
the entry points of the group ``weir.extensions`` of packages that are installed. Each of these
calls ``add`` of any registries as the tree's own modules do.
"""

import difflib
import importlib
import importlib.metadata
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

EXTENSIONS = "WEIR_EXTENSIONS"
GROUP = "weir.extensions"


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
        # Of those from outside the tree.
        self._from: dict[str, str] = {}
        self._is_read = False

    def add(self, thing: T) -> None:
        """Offer ``thing``. Raises ValueError if its name is taken."""
        if thing.name in self._things:
            theirs = self._from.get(thing.name) or _reading
            raise ValueError(
                f"two things of the kind {self.kind} are called {thing.name!r}"
                f"{f', and one is of {theirs}' if theirs else ''}"
            )
        self._things[thing.name] = thing
        if _reading:
            self._from[thing.name] = _reading

    def named(self, name: str) -> T:
        """Return the thing called ``name``. Raises ValueError naming those that there are."""
        if name not in self:
            close = difflib.get_close_matches(name, self, n=1)
            hint = f"did you mean {close[0]}? There are" if close else "there are"
            raise ValueError(f"no {self.kind} {name!r}: {hint} {', '.join(self)}")
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
        _read_extensions()


class ExtensionError(ValueError):
    """What is offered from outside the tree cannot be read; the text says which, and why."""


_extensions: set[str] = set()
_extension_files: set[Path] = set()
_reading = ""
"""What from outside the tree is being read."""


def extension_files() -> list[Path]:
    """Return the files from outside the tree that were read for registries, of an entry point the
    one of its module. Raises ExtensionError where one cannot be read."""
    _read_extensions()
    return sorted(_extension_files)


def _read_extensions() -> None:
    """Read what has not been read yet. Raises ExtensionError."""
    for named in filter(None, os.environ.get(EXTENSIONS, "").split(os.pathsep)):
        path = Path(named).resolve()
        if not path.exists():
            raise ExtensionError(f"{EXTENSIONS} names {named}, which is not there")
        for file in sorted(path.glob("*.py")) if path.is_dir() else [path]:
            _read_once(str(file), partial(_execute, file))
    for entry in importlib.metadata.entry_points(group=GROUP):
        _read_once(f"entry point {entry.name} ({entry.value})", partial(_load, entry))


def _read_once(what: str, read: Callable[[], object]) -> None:
    if what in _extensions:
        return
    _extensions.add(what)
    global _reading
    _reading = what
    try:
        read()
    except Exception as error:
        raise ExtensionError(f"{what}: {type(error).__name__}: {error}") from error
    finally:
        _reading = ""


def _load(entry: importlib.metadata.EntryPoint) -> None:
    entry.load()
    if file := getattr(sys.modules.get(entry.module), "__file__", None):
        _extension_files.add(Path(file))


def _execute(file: Path) -> None:
    _extension_files.add(file)
    name = f"weir_extension_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError("is no file of Python's")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by its name.
    sys.modules[name] = module
    spec.loader.exec_module(module)
