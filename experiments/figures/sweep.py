"""Measures a figure or a sweep: which runs there are, which are still to be done, and how.

A folder of results holds ``sweep.json`` (what was measured) and the raw data of every run:
``runs/LINE/AXIS=VALUE/REPEAT/``, or ``bench/REPEAT.json`` of a benchmark. What is there and valid
is not measured again. Repeats have seeds of their own. A run that is void is kept as
``REPEAT-void1`` and done again, unless MOST_VOID runs of its point were void already, by the rule
of benchmarks (``bench.valid``); what is void and not done again stays in its place, and is counted.
"""

import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from experiments import runner, workloads
from experiments.bench import measuring
from experiments.bench.sandboxed import INTERRUPTED
from experiments.bench.valid import MOST_VOID
from experiments.figures import axes, catalogue
from experiments.figures.spec import Figure, Line
from experiments.hosts import hosts as hosts_named
from experiments.measure.record import FORMAT, QUEUE, RECORD
from experiments.runner import RunSpec, usual_host
from experiments.schemes import available
from testbed.config import HostSettings
from testbed.ovs import find_prefix

SWEEP, PROGRESS = "sweep.json", "progress.log"
RUNS, BENCH = "runs", "bench"
VOID = "-void"
# In the folder's name of a run that was void and done again.

Say = Callable[[str], None]


@dataclass(frozen=True)
class Job:
    """A run that a figure wants: ``folder`` is where its raw data goes, below that of results."""

    line: Line
    x: float
    repeat: int
    spec: RunSpec
    folder: Path

    def in_words(self) -> str:
        return f"{self.line.name}, {self.x:g}, repeat {self.repeat}"


@dataclass
class Outcome:
    """What became of a measurement: numbers of runs, and what could not be measured and why."""

    wanted: int = 0
    there: int = 0
    done: int = 0
    void: int = 0
    again: int = 0
    failed: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    status: int = 0
    """130 or 143 if it was interrupted."""
    seconds: float = 0.0


def plan(figure: Figure, *, ovs_prefix: str | None = None) -> list[Job]:
    """Return the runs of ``figure`` in the order in which they are done: lines take turns, so that
    a noisy minute of the machine affects all alike. Raises ValueError where one cannot be."""
    assert figure.sweep is not None
    axis = axes.axis(figure.sweep.axis)
    jobs = []
    for repeat in range(1, figure.repeats + 1):
        for value in figure.sweep.values:
            for line in figure.lines:
                if line.values is not None and float(value) not in line.values:
                    continue
                spec = _spec(figure, line, axis, value, figure.seed + repeat - 1)
                folder = Path(RUNS) / line.name / f"{axis.name}={value}" / str(repeat)
                spec = replace(spec, ovs_prefix=ovs_prefix)
                jobs.append(Job(line, float(value), repeat, spec, folder))
    return jobs


def _spec(figure: Figure, line: Line, axis: axes.Axis, value: Any, seed: int) -> RunSpec:
    setting = figure.setting.model_copy(update=line.setting)
    given = {**figure.workload, **line.workload}
    name = given.pop("name", "reads")
    if "seed" in workloads.parameters(name):
        given["seed"] = seed
    spec = RunSpec(
        scheme=line.scheme_name,
        workload=workloads.workload(name, given),
        topology=setting.topology,
        shape=setting.shape,
        rate_bps=round(setting.rate_mbps * 1e6),
        buffer_bytes=round(setting.buffer_kib * 1024),
        delay_us=round(setting.delay_ms * 1000),
        background=setting.background,
        warm_up_s=setting.warm_up_s,
        tail_s=setting.tail_s,
        followed=setting.followed,
        captures=setting.captures,
        host=hosts(figure.hosts, line.hosts),
    )
    return axis.change(spec, value)


def hosts(*named_or_changed: str | Mapping[str, Any]) -> HostSettings:
    """Return the usual hosts with the changes that each of these names or is, the last prevailing.

    Raises ValueError for hosts of another name, and for a setting that hosts do not have.
    """
    changes: dict[str, Any] = {}
    for one in named_or_changed:
        changes |= hosts_named(one).changes if isinstance(one, str) else one
    known = [one.name for one in fields(HostSettings)]
    for name in changes:
        if name not in known:
            raise ValueError(f"hosts have no {name}: they have {', '.join(known)}")
    return usual_host(**changes)


def measure(
    figure: Figure,
    out: Path,
    say: Say,
    *,
    name: str = "",
    quick: bool = False,
    ovs_prefix: str | None = None,
    minutes: float | None = None,
) -> Outcome:
    """Measure what is not yet in ``out``, and say so to ``say`` line by line.

    Stops by itself after ``minutes``, if given, when the run that goes on then has ended. A line
    whose scheme or workload there is not, or that this kernel does not support, is left out and
    named. Raises ValueError where a run cannot be.
    """
    begun = time.monotonic()
    outcome = Outcome(missing=catalogue.missing(figure))
    out.mkdir(parents=True, exist_ok=True)
    whole = figure
    for line, why in outcome.missing.items():
        say(f"{f'{line}: ' if line else ''}left out: {why}")
    if "" in outcome.missing:
        return outcome
    figure = _possible(figure, outcome, say)
    described = {"name": name, "quick": quick, "figure": with_earlier(whole, out).model_dump()}
    (out / SWEEP).write_text(json.dumps(described, indent=2) + "\n")
    end_s = None if minutes is None else begun + 60 * minutes
    if figure.bench is not None:
        _measure_bench(figure, out, outcome, say, end_s)
    else:
        _measure_runs(plan(figure, ovs_prefix=ovs_prefix), figure, out, outcome, say, end_s)
    outcome.seconds = time.monotonic() - begun
    return outcome


def with_earlier(figure: Figure, out: Path) -> Figure:
    """Return ``figure`` with the lines, values and repeats that were measured into ``out`` before,
    if that was the same figure otherwise: what is there stays part of the results."""
    try:
        told = json.loads((out / SWEEP).read_text())
        earlier = Figure.model_validate(told["figure"])
    except (OSError, ValueError, KeyError):
        return figure
    same = {"lines", "sweep", "repeats"}
    if figure.model_dump(exclude=_MAY_CHANGE | same) != earlier.model_dump(
        exclude=_MAY_CHANGE | same
    ):
        return figure
    if figure.sweep is None or earlier.sweep is None or figure.sweep.axis != earlier.sweep.axis:
        return figure
    lines = {line.name: line for line in (*figure.lines, *earlier.lines)}
    mine = {line.name: line for line in figure.lines}
    values = sorted({*figure.sweep.values, *earlier.sweep.values})
    return figure.model_copy(
        update={
            "lines": [mine.get(name, line) for name, line in lines.items()],
            "sweep": figure.sweep.model_copy(update={"values": values}),
            "repeats": max(figure.repeats, earlier.repeats),
        }
    )


_MAY_CHANGE = {
    "title", "paper", "source", "about", "differs", "run_s", "bin_s", "x_label", "x_log", "panels",
    "quick", "scale", "claims",
}  # fmt: skip
"""What of a figure decides no run."""


def _possible(figure: Figure, outcome: Outcome, say: Say) -> Figure:
    """Return ``figure`` with those lines whose schemes there are here, and this kernel supports."""
    lines = []
    for line in figure.lines:
        if line.name in outcome.missing:
            continue
        why: list[str] = []
        if available(line.scheme_name, say=why.append):
            lines.append(line)
            continue
        outcome.missing[line.name] = why[0]
        say(why[0])
    return figure.model_copy(update={"lines": lines})


def is_done(job: Job, out: Path, build: str | None = None) -> bool:
    """Whether a run is there, as it is wanted, and valid; or void, and was done again already.

    With ``build`` only if the switch was this one.
    """
    folder = out / job.folder
    try:
        record = json.loads((folder / RECORD).read_text())
    except (OSError, json.JSONDecodeError):
        return False
    if record.get("format") != FORMAT or not (folder / QUEUE).exists():
        return False
    if _decisive(record["spec"]) != _decisive(job.spec.as_record()):
        return False
    if build is not None and record["environment"].get("switch_build") != build:
        return False
    is_valid = all(check["holds"] for check in record["checks"])
    return is_valid or _void_before(folder) >= MOST_VOID


def _decisive(spec: Mapping[str, Any]) -> Any:
    """What decides a run, as JSON has it; where the switch lies does not."""
    return json.loads(json.dumps({**spec, "ovs_prefix": None}))


def _void_before(folder: Path) -> int:
    """How many runs of the same point were void and done again."""
    return sum(1 for _ in folder.parent.glob(f"*{VOID}*"))


def _measure_runs(
    jobs: Sequence[Job],
    figure: Figure,
    out: Path,
    outcome: Outcome,
    say: Say,
    end_s: float | None,
) -> None:
    build = find_prefix(jobs[0].spec.ovs_prefix).name if jobs else None
    todo = [job for job in jobs if not is_done(job, out, build)]
    outcome.wanted, outcome.there = len(jobs), len(jobs) - len(todo)
    if outcome.there:
        say(f"{outcome.there} of {outcome.wanted} runs are there already")
    pace = Pace(figure.run_s)
    for number, job in enumerate(todo):
        if end_s is not None and time.monotonic() > end_s:
            say("the time is over; the same command goes on with the others")
            return
        at = f"[{outcome.there + number + 1}/{len(jobs)}] {job.in_words()}"
        left = in_words(pace.left_s([(one.line.name, one.x) for one in todo[number:]]))
        say(f"{at}: begins; {left} left")
        began = time.monotonic()
        status = _run(job, out, outcome)
        pace.took((job.line.name, job.x), time.monotonic() - began)
        if status in INTERRUPTED:
            outcome.status = status
            return
        if status not in (0, runner.VOID):
            outcome.failed.append(job.in_words())
            say(f"{at}: FAILED; {out / job.folder / PROGRESS} says why")
            continue
        outcome.done += 1
        record = json.loads((out / job.folder / RECORD).read_text())
        say(f"{at}: {_result(record)}")


def _run(job: Job, out: Path, outcome: Outcome) -> int:
    """Do a run, again if it is void and that may be; return the last exit status."""
    folder = out / job.folder
    while True:
        status = runner.run(job.spec, folder, log=folder / PROGRESS)
        if status != runner.VOID:
            return status
        if _void_before(folder) >= MOST_VOID:
            outcome.void += 1
            return status
        folder.rename(_free(folder))
        outcome.again += 1


def _free(folder: Path) -> Path:
    """A name for a void run's folder that is not taken."""
    numbers = range(1, MOST_VOID + 2)
    return next(
        p for n in numbers if not (p := folder.with_name(f"{folder.name}{VOID}{n}")).exists()
    )


def _result(record: Mapping[str, Any]) -> str:
    goodput = workloads.goodput_mbps(record["operations"])
    timeouts = sum(host.get("TcpExt.TCPTimeouts", 0) for host in record["tcp"].values())
    void = [check["name"] for check in record["checks"] if not check["holds"]]
    judged = f"void: {', '.join(void)}" if void else "valid"
    return f"{goodput:.1f} Mb/s, {timeouts} timeouts, {judged}"


def _measure_bench(
    figure: Figure, out: Path, outcome: Outcome, say: Say, end_s: float | None
) -> None:
    bench = figure.bench
    assert bench is not None
    outcome.wanted = figure.repeats
    pace = Pace(figure.run_s)
    files = [out / BENCH / f"{repeat}.json" for repeat in range(1, figure.repeats + 1)]
    todo = [file for file in files if not _is_measured(file)]
    outcome.there = len(files) - len(todo)
    for number, file in enumerate(todo):
        if end_s is not None and time.monotonic() > end_s:
            say("the time is over; the same command goes on with the others")
            return
        left = in_words(pace.left_s([("", 0.0)] * (len(todo) - number)))
        what = f"[{outcome.there + number + 1}/{len(files)}] bench {bench.suite}"
        say(f"{what}: begins; {left} left")
        file.parent.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        comparison = measuring.Comparison(bench.schemes, 1)
        with (out / "bench.log").open("a") as log, contextlib.redirect_stdout(log):
            status = measuring.run(
                bench.suite, bench.groups, file, comparison, quick=bench.suites_quick
            )
        pace.took(("", 0.0), time.monotonic() - began)
        if status in INTERRUPTED:
            outcome.status = status
            return
        if status:
            outcome.failed.append(f"bench {bench.suite}, repeat {file.stem}")
            say(f"{what}: parts of it failed")
        else:
            outcome.done += 1
            say(f"{what}: done")


def _is_measured(file: Path) -> bool:
    try:
        return not json.loads(file.read_text()).get("failed")
    except (OSError, json.JSONDecodeError):
        return False


class Pace:
    """How long runs take: those of the same kind so far, else all so far, else a guess."""

    def __init__(self, guess_s: float) -> None:
        self._guess_s = guess_s
        self._took: dict[tuple[str, float], list[float]] = {}

    def took(self, kind: tuple[str, float], seconds: float) -> None:
        self._took.setdefault(kind, []).append(seconds)

    def left_s(self, kinds: Sequence[tuple[str, float]]) -> float:
        """Return how long runs of these kinds will take."""
        everything = [one for times in self._took.values() for one in times]
        usual = sum(everything) / len(everything) if everything else self._guess_s
        return sum(
            sum(self._took[kind]) / len(self._took[kind]) if kind in self._took else usual
            for kind in kinds
        )


def in_words(seconds: float) -> str:
    """Return a duration as people say it: 40 s, 3 min, 1 h 20 min."""
    if seconds < 60:
        return f"{round(seconds)} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def estimate_s(figure: Figure) -> float:
    """Return about how long measuring ``figure`` takes."""
    if figure.bench is not None:
        return figure.repeats * figure.run_s
    assert figure.sweep is not None
    runs = sum(
        len(figure.sweep.values)
        if line.values is None
        else sum(float(value) in line.values for value in figure.sweep.values)
        for line in figure.lines
    )
    return runs * figure.repeats * figure.run_s
