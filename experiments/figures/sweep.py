"""Measures a figure or a sweep: which runs there are, which are still to be done, and how.

A folder of results holds ``sweep.json`` (what was measured) and the raw data of every run:
``runs/LINE/AXIS=VALUE/REPEAT/``, or ``bench/REPEAT.json`` of a benchmark. What is there and valid
is not measured again, unless another switch or other code (``machine.code``) measured it. Repeats
have seeds of their own. A run that is void is kept as ``REPEAT-void1`` and done again, unless
MOST_VOID runs of its point were void already, by the rule of benchmarks (``bench.valid``); what is
void and not done again stays in its place, and is counted.
"""

import contextlib
import itertools
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
from experiments.measure.machine import code
from experiments.measure.netstat import TIMEOUTS
from experiments.measure.record import FORMAT, QUEUE, RECORD
from experiments.runner import RunSpec, usual_host
from experiments.schemes import available, carried_by_tcp
from testbed.config import HostSettings
from testbed.ovs import find_prefix

SWEEP, PROGRESS = "sweep.json", "progress.log"
RUNS, BENCH = "runs", "bench"
VOID = "-void"
"""In the folder's name of a run that was void and done again."""

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
    spec = axis.change(spec, value)
    # Whether hosts can be so, before any run.
    carried_by_tcp(spec.scheme).hosts(spec.host)
    return spec


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
    _require_same(out, name, quick=quick)
    described = {"name": name, "quick": quick, "figure": with_earlier(whole, out).model_dump()}
    (out / SWEEP).write_text(json.dumps(described, indent=2) + "\n")
    end_s = None if minutes is None else begun + 60 * minutes
    if figure.bench is not None:
        _measure_bench(figure, out, outcome, say, end_s)
    else:
        _measure_runs(plan(figure, ovs_prefix=ovs_prefix), figure, out, outcome, say, end_s)
    outcome.seconds = time.monotonic() - begun
    return outcome


def _require_same(out: Path, name: str, *, quick: bool) -> None:
    """Raise ValueError where ``out`` has results of another figure, or of the other variant."""
    try:
        told = json.loads((out / SWEEP).read_text())
        earlier = (told["name"], told["quick"])
    except (OSError, ValueError, KeyError):
        return
    if earlier != (name, quick):
        variant = "the quick variant of " if earlier[1] else ""
        raise ValueError(f"{out} has results of {variant}{earlier[0]}: choose another --out")


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


def unfinished(figure: Figure, out: Path) -> list[str]:
    """Return in words what of ``figure`` is not in ``out``, of what can be measured here."""
    if figure.bench is not None:
        files = bench_files(figure, out)
        return [
            f"repeat {n}" for n, file in files.items() if not _is_measured(file, asked(figure, n))
        ]
    lacks = Outcome(missing=catalogue.missing(figure))
    if "" in lacks.missing:
        return [lacks.missing[""]]
    possible = _possible(figure, lacks, lambda _: None)
    return [job.in_words() for job in plan(possible) if not is_done(job, out)]


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


def is_done(job: Job, out: Path, by: Mapping[str, str] | None = None) -> bool:
    """Whether a run is there, as it is wanted, and valid; or void, and was done again already.

    With ``by`` only if the environment that it recorded has these values.
    """
    record = _record(out / job.folder, by)
    if record is None or decisive(record["spec"]) != decisive(job.spec.as_record()):
        return False
    is_valid = all(check["holds"] for check in record["checks"])
    return is_valid or _void_before(job, out, by) >= MOST_VOID


def _record(folder: Path, by: Mapping[str, str] | None) -> Any:
    """Return the record of the run in ``folder``; None where there is no whole one, or one whose
    environment has other values than ``by``."""
    try:
        record = json.loads((folder / RECORD).read_text())
    except (OSError, json.JSONDecodeError):
        return None
    if record.get("format") != FORMAT or not (folder / QUEUE).exists():
        return None
    environment = record["environment"]
    same = all(environment.get(name) == value for name, value in (by or {}).items())
    return record if same else None


def decisive(spec: Mapping[str, Any]) -> Any:
    """Return what of a specification decides a run, as JSON has it; where the switch lies does
    not."""
    return json.loads(json.dumps({**spec, "ovs_prefix": None}))


def void_folders(job: Job, out: Path, by: Mapping[str, str] | None = None) -> list[Path]:
    """Return where the runs of ``job`` are that were void and done again, with ``by`` as for
    ``is_done``. Those of another setting are none of it."""
    wanted = decisive(job.spec.as_record())
    folder = out / job.folder
    return [
        void
        for void in sorted(folder.parent.glob(f"{folder.name}{VOID}*"))
        if (record := _record(void, by)) and decisive(record["spec"]) == wanted
    ]


def _void_before(job: Job, out: Path, by: Mapping[str, str] | None) -> int:
    """How many runs of the same point, whatever their seed, were void and done again."""
    wanted = _unseeded(job.spec.as_record())
    records = [_record(void, by) for void in (out / job.folder).parent.glob(f"*{VOID}*")]
    return sum(_unseeded(record["spec"]) == wanted for record in records if record)


def _unseeded(spec: Mapping[str, Any]) -> Any:
    workload = {name: value for name, value in spec["workload"].items() if name != "seed"}
    return decisive({**spec, "workload": workload})


def _measure_runs(
    jobs: Sequence[Job],
    figure: Figure,
    out: Path,
    outcome: Outcome,
    say: Say,
    end_s: float | None,
) -> None:
    by: dict[str, str] = {}
    if jobs:
        # For all runs the same, whatever is built meanwhile.
        prefix = find_prefix(jobs[0].spec.ovs_prefix)
        jobs = [replace(job, spec=replace(job.spec, ovs_prefix=str(prefix))) for job in jobs]
        by = {"switch_build": prefix.name, "code": code()}
    todo = [job for job in jobs if not is_done(job, out, by)]
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
        status = _run(job, out, outcome, by)
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


def _run(job: Job, out: Path, outcome: Outcome, by: Mapping[str, str]) -> int:
    """Do a run, again if it is void and that may be; return the last exit status."""
    folder = out / job.folder
    void = _void_before(job, out, by)
    while True:
        status = runner.run(job.spec, folder, log=folder / PROGRESS)
        if status != runner.VOID:
            return status
        if void >= MOST_VOID:
            outcome.void += 1
            return status
        folder.rename(_free(folder))
        outcome.again += 1
        void += 1


def _free(folder: Path) -> Path:
    """A name for a void run's folder that is not taken."""
    names = (folder.with_name(f"{folder.name}{VOID}{n}") for n in itertools.count(1))
    return next(name for name in names if not name.exists())


def _result(record: Mapping[str, Any]) -> str:
    goodput = workloads.goodput_mbps(record["operations"])
    timeouts = sum(host.get(TIMEOUTS, 0) for host in record["tcp"].values())
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
    files = bench_files(figure, out)
    by = measuring.state(bench.suite)
    todo = [n for n, file in files.items() if not _is_measured(file, asked(figure, n) | by)]
    outcome.there = len(files) - len(todo)
    for number, repeat in enumerate(todo):
        file = files[repeat]
        if end_s is not None and time.monotonic() > end_s:
            say("the time is over; the same command goes on with the others")
            return
        left = in_words(pace.left_s([("", 0.0)] * (len(todo) - number)))
        what = f"[{outcome.there + number + 1}/{len(files)}] bench {bench.suite}"
        say(f"{what}: begins; {left} left")
        file.parent.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        with (out / "bench.log").open("a") as log, contextlib.redirect_stdout(log):
            status = measuring.run(
                bench.suite, bench.groups, file, _compared(figure, repeat), quick=bench.suites_quick
            )
        pace.took(("", 0.0), time.monotonic() - began)
        if status in INTERRUPTED:
            outcome.status = status
            return
        if status:
            outcome.failed.append(f"bench {bench.suite}, repeat {repeat}")
            say(f"{what}: parts of it failed")
        else:
            outcome.done += 1
            say(f"{what}: done")


def bench_files(figure: Figure, out: Path) -> dict[int, Path]:
    """Return where the repeats of a benchmark's figure are written down."""
    return {n: out / BENCH / f"{n}.json" for n in range(1, figure.repeats + 1)}


def asked(figure: Figure, repeat: int) -> dict[str, str]:
    """Return what a benchmark's figure asks for, as ``measuring.run`` writes it down."""
    bench = figure.bench
    assert bench is not None
    compared = _compared(figure, repeat)
    return measuring.asked(bench.suite, bench.groups, compared, quick=bench.suites_quick)


def _compared(figure: Figure, repeat: int) -> measuring.Comparison:
    assert figure.bench is not None
    return measuring.Comparison(figure.bench.schemes, 1, seed=figure.seed + repeat - 1)


def has(flat: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    """Whether a benchmark's figures were written down with these values."""
    return all(flat.get(name) == value for name, value in wanted.items())


def _is_measured(file: Path, wanted: Mapping[str, str]) -> bool:
    try:
        flat = json.loads(file.read_text())
    except (OSError, json.JSONDecodeError):
        return False
    return not flat.get("failed") and has(flat, wanted)


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
