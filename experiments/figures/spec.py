"""What a figure or a sweep is: a file in TOML or YAML, and how it is read."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from experiments.figures.axes import AXES
from experiments.figures.metrics import METRICS

RIVALS = "rivals"
"""What ``lines`` and ``than`` of a claim call all of _RIVALS."""
_RIVALS: tuple[dict[str, str], ...] = (
    {"name": "reno"},
    {"name": "reno_rto10", "label": "Reno, RTO 10 ms, immediate ACKs"},
    {"name": "cubic"},
    {"name": "bbr"},
    {"name": "dctcp"},
    {"name": "dctcp_tuned"},
    {"name": "fair"},
    {"name": "sdtcp_letter", "label": "SDTCP as printed"},
    {"name": "sdtcp", "label": "SDTCP, notices repeated"},
)
"""The schemes over TCP beside which Weir stands: whatever one could have instead of it."""


class SpecError(ValueError):
    """A figure's file is wrong: which key, and what would be right."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Setting(_Strict):
    """The network of all runs, and the long background flow beside the workload, if any."""

    topology: str = "fig8"
    shape: dict[str, int] = {}
    rate_mbps: Annotated[float, Field(gt=0)] = 100
    buffer_kib: Annotated[float, Field(ge=1.5)] = 64
    delay_ms: Annotated[float, Field(ge=0, le=1000)] = 0
    background: bool = False
    warm_up_s: Annotated[float, Field(ge=0)] = 3
    tail_s: Annotated[float, Field(ge=0)] = 1
    followed: Annotated[int, Field(ge=0)] = 0
    """Of how many senders windows and round trips are recorded over time."""
    captures: bool = False
    """Whether the packets on the bottleneck's link are recorded."""


class Line(_Strict):
    """What is compared: a scheme, and in what it differs from the others' setting.

    ``paper`` is what the paper calls it, in the column ``line`` of paper.csv.
    """

    name: str
    scheme: str = ""
    label: str = ""
    paper: str = ""
    hosts: str | dict[str, Any] = {}
    """Named ones (``experiments.hosts``) or fields of HostSettings; what a scheme sets prevails."""
    workload: dict[str, Any] = {}
    setting: dict[str, Any] = {}
    values: list[float] | None = None
    """Of the sweep; those of all if it is missing."""

    @model_validator(mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        return {"name": given} if isinstance(given, str) else given

    @property
    def scheme_name(self) -> str:
        return self.scheme or self.name


class Sweep(_Strict):
    """What is varied: ``axis`` is one of ``axes.AXES``, or workload.FIELD or hosts.FIELD."""

    axis: str
    values: Annotated[list[bool | int | float], Field(min_length=1)]
    label: str = ""

    @model_validator(mode="after")
    def _known(self) -> "Sweep":
        if self.axis not in AXES and self.axis.partition(".")[0] not in ("workload", "hosts"):
            known = ", ".join(AXES)
            raise ValueError(
                f"no axis {self.axis!r}: there are {known}, workload.FIELD and hosts.FIELD"
            )
        return self


class Panel(_Strict):
    """One of a figure's axes: ``metric`` over what is swept, or over time ``at`` a value of it."""

    metric: str
    label: str = ""
    at: float | None = None
    log: bool = False
    low: float | None = None
    high: float | None = None

    @model_validator(mode="after")
    def _known(self) -> "Panel":
        known = METRICS.get(self.metric)
        if known is not None and known.over_time and self.at is None:
            raise ValueError(f"{self.metric} is over time: at which value of the sweep? at = ...")
        return self


class Quick(_Strict):
    """What differs in the quick variant, which takes less than three minutes."""

    lines: list[str] | None = None
    values: list[Any] | None = None
    repeats: Annotated[int, Field(ge=1)] = 1
    run_s: Annotated[float, Field(gt=0)] | None = None
    workload: dict[str, Any] = {}
    setting: dict[str, Any] = {}


class Bench(_Strict):
    """A figure whose values a benchmark measures: ``suite``, its ``groups``, and by ``patterns``
    which of its figures are of which line and value.

    A pattern is a regular expression for a figure's whole name. What its groups ``line`` and ``x``
    match are these; ``metric`` is in ``patterns``' key. Without a group ``line`` it is of the line
    that ``line`` names; without a group ``x`` it is drawn as a level.
    """

    suite: str = ""
    """May be missing in a figure that draws the runs of another one."""
    groups: list[str] = []
    suites_quick: bool = False
    """Whether even the full figure is what the suite measures quickly."""
    quick_groups: list[str] | None = None
    quick_schemes: list[str] | None = None
    patterns: Annotated[dict[str, str], Field(min_length=1)]
    line: str = ""
    schemes: list[str] | None = None
    names: dict[str, float] = {}
    """What a text that ``x`` matches stands for, where it is no number."""

    @model_validator(mode="after")
    def _has_lines(self) -> "Bench":
        for metric, pattern in self.patterns.items():
            if "(?P<line>" not in pattern and not self.line:
                raise ValueError(
                    f"patterns.{metric} has no group (?P<line>...): of which line is it? line = ..."
                )
        return self

    def is_level(self, metric: str) -> bool:
        """Whether ``metric`` is one value, whatever x."""
        return metric in self.patterns and "(?P<x>" not in self.patterns[metric]


class Scale(_Strict):
    """By what the paper's values are multiplied to stand beside ours, and why."""

    why: str = ""
    x: float = 1
    values: dict[str, float] = {}


class Claim(_Strict):
    """What a paper, or this project, claims; ``claims`` says how each ``kind`` is judged."""

    text: str
    source: str
    kind: Literal["order", "factor", "level", "knee", "none"]
    metric: str = ""
    line: str = ""
    than: list[str] = []
    at: list[float] = []
    least: float | None = None
    most: float | None = None
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    higher: bool = True
    why: str = ""
    """Of what cannot be compared (``kind = "none"``): why not."""

    @model_validator(mode="after")
    def _complete(self) -> "Claim":
        wanted: dict[str, tuple[str, ...]] = {
            "order": ("metric", "line", "than"),
            "factor": ("metric", "line", "than"),
            "level": ("metric", "line"),
            "knee": ("metric", "line"),
            "none": ("why",),
        }
        for name in wanted[self.kind]:
            if not getattr(self, name):
                raise ValueError(f"a claim of the kind {self.kind} needs {name}")
        if self.kind in ("factor", "level", "knee") and self.least is None and self.most is None:
            raise ValueError(f"a claim of the kind {self.kind} needs least, most or both")
        return self


class Figure(_Strict):
    """A figure: what is run or measured, drawn and claimed. Among its ``lines``, and those that a
    claim is about, "rivals" stands for all schemes that Weir is compared with."""

    title: str
    paper: str = ""
    source: str = ""
    about: str = ""
    differs: str = ""
    """In what the emulation differs from the paper, and what the paper does not say."""
    setting: Setting = Setting()
    workload: dict[str, Any] = {}
    hosts: str | dict[str, Any] = {}
    sweep: Sweep | None = None
    lines: list[Line] = []
    bench: Bench | None = None
    runs_of: str = ""
    """Another figure, as sdtcp-fig9, whose runs this one draws: it has none of its own."""
    repeats: Annotated[int, Field(ge=1)] = 3
    seed: int = 1
    run_s: Annotated[float, Field(gt=0)] = 8
    """About how long a run takes, for the first estimate of the time left."""
    bin_s: Annotated[float, Field(gt=0)] = 0.1
    """Of what is drawn over time."""
    x_label: str = ""
    x_log: bool = False
    panels: Annotated[list[Panel], Field(min_length=1)]
    quick: Quick = Quick()
    scale: Scale = Scale()
    claims: list[Claim] = []

    @model_validator(mode="before")
    @classmethod
    def _with_rivals(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        changes: dict[str, Any] = {}
        if isinstance(given.get("lines"), list):
            changes["lines"] = _expanded(given["lines"], _RIVALS)
        if isinstance(given.get("claims"), list):
            names = [line["name"] for line in _RIVALS]
            changes["claims"] = [
                {**claim, "than": _expanded(claim["than"], names)}
                if isinstance(claim, Mapping) and isinstance(claim.get("than"), list)
                else claim
                for claim in given["claims"]
            ]
        return {**given, **changes}

    @model_validator(mode="after")
    def _consistent(self) -> "Figure":
        if self.bench is None and not self.runs_of and (self.sweep is None or not self.lines):
            raise ValueError("needs sweep and lines, or bench, or runs_of")
        names = [line.name for line in self.lines]
        if len(set(names)) < len(names):
            raise ValueError(f"lines: two of them have the same name: {', '.join(names)}")
        if self.bench is None:
            for metric in {panel.metric for panel in self.panels}:
                if metric not in METRICS:
                    raise ValueError(f"no metric {metric!r}: there are {', '.join(METRICS)}")
        return self

    def with_runs_of(self, other: "Figure") -> "Figure":
        """Return this figure with what the other one runs."""
        theirs = {name: getattr(other, name) for name in _OF_RUNS}
        if self.bench is not None and other.bench is not None:
            own = {name: getattr(self.bench, name) for name in ("patterns", "names", "line")}
            theirs["bench"] = other.bench.model_copy(update=own)
        return Figure.model_validate({**self.model_dump(), "runs_of": "", **_dumped(theirs)})

    def quickly(self) -> "Figure":
        """Return the quick variant."""
        quick = self.quick
        changes: dict[str, Any] = {"repeats": quick.repeats}
        if quick.run_s is not None:
            changes["run_s"] = quick.run_s
        if self.bench is not None:
            bench: dict[str, Any] = {"groups": self.bench.quick_groups or self.bench.groups}
            bench |= {"schemes": self.bench.quick_schemes or self.bench.schemes}
            changes["bench"] = self.bench.model_copy(update=bench | {"suites_quick": True})
        if quick.lines is not None:
            changes["lines"] = [line for line in self.lines if line.name in quick.lines]
        if quick.values is not None and self.sweep is not None:
            changes["sweep"] = self.sweep.model_copy(update={"values": quick.values})
        changes["workload"] = {**self.workload, **quick.workload}
        changes["setting"] = Setting(**{**self.setting.model_dump(), **quick.setting})
        return self.model_copy(update=changes)


def _expanded(written: Sequence[Any], rivals: Sequence[Any]) -> list[Any]:
    return [one for each in written for one in (rivals if each == RIVALS else [each])]


_OF_RUNS = (
    "setting", "workload", "hosts", "sweep", "lines", "bench", "repeats", "seed", "run_s", "bin_s",
    "quick",
)  # fmt: skip
"""What decides a figure's runs."""


def _dumped(fields: Mapping[str, Any]) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(one) for one in value]
        return value.model_dump() if isinstance(value, BaseModel) else value

    return {name: plain(value) for name, value in fields.items()}


def read(path: Path) -> Figure:
    """Read a figure's file, in YAML if it is called so, else in TOML. Raises SpecError."""
    try:
        text = path.read_text(encoding="utf-8")
        parsed = yaml.safe_load if path.suffix in (".yaml", ".yml") else tomllib.loads
        written = parsed(text)
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: {' '.join(str(error).split())}") from error
    return parse(written, str(path))


def parse(written: object, where: str) -> Figure:
    """Make a figure of what was read from ``where``. Raises SpecError."""
    if not isinstance(written, Mapping):
        raise SpecError(f"{where}: holds no table of keys, as title, sweep and lines")
    try:
        figure = Figure.model_validate(dict(written))
    except ValidationError as error:
        raise SpecError(f"{where}: {explained(error)}") from error
    _require_known_lines(figure, where)
    return figure


def _require_known_lines(figure: Figure, where: str) -> None:
    """Raise SpecError where the quick variant or a claim is about a line that there is not."""
    if figure.runs_of:
        return
    names = [line.name for line in figure.lines]
    for name in figure.quick.lines or ():
        if name not in names:
            raise SpecError(f"{where}: quick.lines: no line {name!r}: there are {', '.join(names)}")
    if figure.bench is not None:
        return
    known = {*names, *(line.paper for line in figure.lines)}
    for claim in figure.claims:
        for name in filter(None, (claim.line, *claim.than)):
            if name not in known:
                raise SpecError(f"{where}: claims: no line {name!r}: there are {', '.join(names)}")


def explained(error: ValidationError) -> str:
    """Return which keys are wrong, and what would be right."""
    return "; ".join(_explained(one) for one in error.errors())


def _explained(error: Any) -> str:
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"{key}: there is no such key"
    if error["type"] == "missing":
        return f"{key} is missing"
    text = str(error["msg"]).removeprefix("Value error, ")
    text = text[0].lower() + text[1:]
    given = error.get("input")
    shown = f" (it is {given!r})" if isinstance(given, str | int | float) else ""
    return f"{key}: {text}{shown}" if key else f"{text}{shown}"
