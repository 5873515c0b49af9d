"""Which tests a change concerns, by what imports, starts or reads what.

A file of Python uses another if it imports it, if it starts it (`-m some.module`, or one of the
programs), or if it names its path. A test that uses what has changed, directly or by way of others,
is concerned by it. Strings are taken for what they look like: rather a test too many.
"""

import ast
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path

# Where modules are found, in this order. Those of tests and tools have no packages.
ROOTS = (
    ".", "mininet", "ovs-patches", "packaging", "tools",
    "tests/controller", "tests/dashboards", "tests/experiments", "tests/fuzz", "tests/system",
    "tests/testbed",
)  # fmt: skip
PROGRAMS = {
    "weir-controller": "controller.runtime.launcher",
    "weir-lab": "testbed.lab",
    "weir-experiment": "experiments.cli",
}
_STARTED = re.compile(r"-m ([a-z_.]+)")
_DOTTED = re.compile(r"[a-z_]+(\.[a-z_]+)+")
# A module that is made of what lies elsewhere.
BUILT = {"weir_transport": "transport"}


@dataclass
class Uses:
    """What a file names: modules, and paths of files and folders."""

    modules: set[str] = field(default_factory=set)
    paths: set[str] = field(default_factory=set)


def uses(source: str) -> Uses:
    """Read a file of Python."""
    found = Uses()
    tree = ast.parse(source)
    docs = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                found.modules |= {name.name for name in names}
            case ast.ImportFrom(module=str(module), names=names, level=0):
                found.modules |= {module, *(f"{module}.{name.name}" for name in names)}
            case ast.List(elements) | ast.Tuple(elements):
                found.modules |= set(_started(elements))
            case ast.BinOp(op=ast.Div()):
                found.paths.add("/".join(_joined(node)))
            case ast.Call(ast.Name("Path"), [ast.Constant(str(path))]):
                found.paths.add(path)
            case ast.Constant(str(text)) if node not in docs:
                found.paths |= {word.strip("/") for word in text.split() if {"/", "."} & {*word}}
                found.modules |= set(_STARTED.findall(text))
                if program := PROGRAMS.get(text.rpartition("/")[2]):
                    found.modules.add(program)
                if _DOTTED.fullmatch(text):
                    found.modules.add(text)
    return found


def _started(elements: list[ast.expr]) -> Iterator[str]:
    """The modules that a command runs."""
    words = [each.value if isinstance(each, ast.Constant) else None for each in elements]
    for option, module in pairwise(words):
        if option == "-m" and isinstance(module, str):
            yield module


def _joined(node: ast.expr) -> list[str]:
    """The constant parts at the end of a path that is put together with slashes."""
    match node:
        case ast.BinOp(left, ast.Div(), ast.Constant(value=str(part))):
            return [*_joined(left), part]
        case _:
            return []


@dataclass(frozen=True)
class Cause:
    """Why a test is concerned: the file that has changed, and by way of which others."""

    changed: str
    by_way_of: tuple[str, ...] = ()


class Project:
    """The files of a tree, and which of them use which."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """``texts`` has the files of Python, by their paths from the top."""
        self._texts = texts
        self._uses = {path: uses(text) for path, text in texts.items()}

    def concerned(self, changed: Iterable[str]) -> dict[str, Cause]:
        """The files with tests that a change of these files concerns, and why."""
        changed = set(changed)
        users = self._users(changed)
        causes = {path: Cause(path) for path in sorted(changed)}
        left = deque(causes)
        while left:
            path = left.popleft()
            cause = causes[path]
            way = cause.by_way_of if path == cause.changed else (*cause.by_way_of, path)
            for user in sorted(users.get(path, ())):
                if user not in causes:
                    causes[user] = Cause(cause.changed, way)
                    left.append(user)
        return {path: causes[path] for path in self.tests if path in causes}

    @property
    def tests(self) -> list[str]:
        """The files that pytest finds tests in."""
        return sorted(filter(is_test, self._texts))

    def _users(self, changed: set[str]) -> dict[str, set[str]]:
        """For every file of Python, and those that have changed, the files that use it."""
        known = {*self._texts, *changed}
        users: dict[str, set[str]] = {}
        for user, named in self._uses.items():
            used = {path for name in named.modules for path in modules(name) if path in known}
            here = str(Path(user).parent)
            used |= {path for path in changed if _named(path, named, here)}
            for path in used - {user}:
                users.setdefault(path, set()).add(user)
        # What a conftest.py itself uses is for some of the tests below it only.
        for conftest in (path for path in changed if path.endswith("/conftest.py")):
            below = conftest.removesuffix("conftest.py")
            users.setdefault(conftest, set()).update(
                path for path in self.tests if path.startswith(below)
            )
        return users


def _named(path: str, named: Uses, here: str) -> bool:
    """Whether a path is named, from the top or from the folder ``here``.

    What is not Python may be by a folder that it is in.
    """
    if any(path.startswith(f"{BUILT[name]}/") for name in named.modules & BUILT.keys()):
        return True
    within = [Path(path)] if path.endswith(".py") else [Path(path), *Path(path).parents[:-1]]
    return any(
        str(each) in named.paths
        or (each.is_relative_to(here) and str(each.relative_to(here)) in named.paths)
        for each in within
    )


@cache
def modules(name: str) -> frozenset[str]:
    """The files that are read when a module is imported or run, wherever they might be."""
    found = set()
    parts = name.split(".")
    for root in ROOTS:
        within = "" if root == "." else f"{root}/"
        for depth in range(1, len(parts) + 1):
            found.add(f"{within}{'/'.join(parts[:depth])}/__init__.py")
        found.add(f"{within}{'/'.join(parts)}.py")
        found.add(f"{within}{'/'.join(parts)}/__main__.py")
    return frozenset(found)


def is_test(path: str) -> bool:
    """Whether pytest finds tests in a file."""
    return path.startswith("tests/") and Path(path).name.startswith("test_")
