"""The benchmarks, one module each. A new benchmark is a new module here.

A module makes a ``Suite`` and calls ``SUITES.add`` with it; ``weir-experiment bench NAME`` then
measures it and writes build/bench/NAME.json. What measures a group is a module's ``run``
(``experiments.bench``), which may be in the suite's own module.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from testbed.registry import Registry


@dataclass(frozen=True)
class Group:
    """``module`` measures it; ``arguments``, values of JSON, are for its ``run``.

    ``schemes`` are those that it compares. It then takes three more arguments: ``schemes``, some or
    all of these, ``repeats`` and ``records``, the folder for the records of runs. ``also`` are
    schemes that it compares only if one asks for them.
    ``seeded`` says that something in it is drawn: it then takes ``seed``, the first run's.
    ``quick``, if not None, is what of ``arguments`` differs in a short benchmark. What is
    ``tabled`` is in a table of the whole suite instead of the list.
    """

    module: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    schemes: Sequence[str] = ()
    also: Sequence[str] = ()
    quick: Mapping[str, Any] | None = None
    tabled: bool = False
    seeded: bool = False

    @property
    def known(self) -> tuple[str, ...]:
        """All schemes that it can compare."""
        return (*self.schemes, *self.also)


@dataclass(frozen=True)
class Conclusion:
    """What follows from all figures of a suite: ``conclude`` returns figures to add, ``show``
    prints them, given all figures and the file that they are in.

    ``draw``, given the same, makes pictures beside that file, named after it, and returns them:
    none, if nothing that it draws was measured.
    """

    conclude: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    show: Callable[[Mapping[str, Any], Path, Console], None]
    draw: Callable[[Mapping[str, Any], Path], Sequence[Path]] = lambda _figures, _out: ()


@dataclass(frozen=True)
class Suite:
    """A benchmark: groups of figures, by name. ``about`` is for help texts, a line and then more.

    ``has_switch`` says whether the patched switch is part of it, ``sets_hosts`` whether those of
    its groups that compare schemes take ``host``, fields of HostSettings. Where its conclusion
    draws nothing, ``report.bench_picture`` does.
    """

    name: str
    about: str
    groups: Mapping[str, Group]
    conclusion: Conclusion | None = None
    has_switch: bool = True
    sets_hosts: bool = False


SUITES: Registry[Suite] = Registry("benchmark", __name__)
