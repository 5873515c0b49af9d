"""What the hosts of a run do, one module each. A new workload is a new module here.

A module derives a frozen dataclass from ``Workload``, whose fields are what can be set, and calls
``WORKLOADS.add`` with it; ``weir-experiment run --workload NAME --set FIELD=VALUE`` then runs it,
under any scheme, on any topology, and with or without a long background flow beside it.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Protocol

from testbed.bed import Bed
from testbed.registry import Registry


class Stage(Protocol):
    """What a workload gets: the network ``bed``, which forwards already; ``log``, where its
    processes write their stderr; and ``servers``, which is what its ``serving`` has yielded."""

    bed: Bed
    log: Path
    servers: Any

    def say(self, text: str) -> None:
        """Print progress."""

    def begin(self) -> None:
        """The workload's traffic begins now: from here on the load of the processors counts."""


@dataclass(frozen=True)
class Done:
    """What a workload has done.

    ``operations`` are what its user waits for, blocks or flows or answers: of each ``start_ns``,
    ``end_ns`` (CLOCK_MONOTONIC) and ``bytes``, and whatever else is to be recorded. ``received`` is
    all that came, over time, as ``ByteBins.as_record`` has it.

    ``flows`` are what operations are made of, where these are more than a flow each. ``warm_up``
    are flows that are in neither of them. ``generator`` says how well the process kept up that
    began flows at set times (``experiments.traffic.flows``).
    """

    operations: Sequence[Mapping[str, Any]]
    received: Mapping[str, Any]
    flows: Sequence[Mapping[str, Any]] = ()
    warm_up: Sequence[Mapping[str, Any]] = ()
    generator: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def span_ns(operations: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Return when the first of them began and the last one ended."""
    return min(one["start_ns"] for one in operations), max(one["end_ns"] for one in operations)


def goodput_mbps(operations: Sequence[Mapping[str, Any]]) -> float:
    """Return the bytes of all operations over the time from the first one's start to the last end.

    For reads: from the first request to the last byte.
    """
    start_ns, end_ns = span_ns(operations)
    total: int = sum(one["bytes"] for one in operations)
    return total * 8e3 / (end_ns - start_ns)


class Workload:
    """What hosts do. Of a network's hosts, ``senders`` of them (``bed.roles.senders``) send to
    ``bed.roles.receiver``.

    ``name`` is what the command line calls it, ``about`` a line for help texts, ``unit`` what one
    operation is, ``has_background`` whether a long flow runs beside it unless one chooses.
    ``fills`` says that it has enough to send to fill the bottleneck link all the time. With
    ``fills_every_port`` the port to each host has the bottleneck's buffer, and may lose packets.
    Every field has a default, ``senders`` too.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    unit: ClassVar[str] = "operation"
    has_background: ClassVar[bool] = True
    fills_every_port: ClassVar[bool] = False
    fills: ClassVar[bool] = False
    senders: int

    @property
    def connections(self) -> int:
        """How many connections there are at once."""
        return self.senders

    def serving(self, stage: Stage) -> AbstractContextManager[Any]:  # noqa: ARG002
        """Return the servers that run before a background flow begins, and until all is over."""
        return nullcontext()

    def run(self, stage: Stage) -> Done:
        """Run the workload. Raises ProgramError where a process fails."""
        raise NotImplementedError

    def in_words(self) -> str:
        """Describe the workload, for reports."""
        return f"{self.name} with {self.senders} senders"


_TRUTHS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}

WORKLOADS: Registry[type[Workload]] = Registry("workload", __name__)


def workload(name: str, given: Mapping[str, Any]) -> Workload:
    """Make the workload called ``name`` with the fields ``given``, which may be text.

    Raises ValueError for a field that it does not have, or that cannot be so.
    """
    kind = WORKLOADS.named(name)
    types = parameters(name)
    for field in given:
        if field not in types:
            raise ValueError(f"workload {name} has no {field}: it has {', '.join(types)}")
    made: Workload = kind(**{field: _value(field, types[field], given[field]) for field in given})
    return made


def parameters(name: str) -> dict[str, type]:
    """Return the fields of the workload called ``name``, and what each is."""
    return {field.name: field.type for field in fields(WORKLOADS.named(name))}  # type: ignore


def defaults(name: str) -> dict[str, Any]:
    """Return what the fields of the workload called ``name`` are unless one sets them."""
    return {field.name: field.default for field in fields(WORKLOADS.named(name))}  # type: ignore


def as_record(made: Workload) -> dict[str, Any]:
    """Return a workload as values of JSON: its name and its fields."""
    return {"name": made.name, **asdict(made)}  # type: ignore[call-overload]


def from_record(record: Mapping[str, Any]) -> Workload:
    """Make a workload of what ``as_record`` gives."""
    return workload(record["name"], {k: v for k, v in record.items() if k != "name"})


def described() -> str:
    """Return all workloads and what --set chooses of each, for the help of a command."""
    lines = []
    for name, kind in WORKLOADS.items():
        lines.append(f"  {name:<12} {kind.about}")
        chosen = " ".join(f"{k}={_written(v)}" for k, v in defaults(name).items())
        lines.append(f"{'':15}--set {chosen}")
    return "\n".join(lines)


def _written(value: Any) -> str:
    """Return a field's value as --set takes it."""
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def _value(field: str, kind: type, given: Any) -> Any:
    words = {int: "a whole number", float: "a number", bool: "yes or no"}
    if not isinstance(given, str):
        return given
    try:
        return _TRUTHS[given.lower()] if kind is bool else kind(given)
    except (ValueError, KeyError):
        raise ValueError(f"{field} must be {words.get(kind, kind)}, not {given!r}") from None
