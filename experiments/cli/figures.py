"""weir-experiment list, keep; and what 'run' and 'report' do with figures and sweeps."""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from experiments import workloads
from experiments.cli import options
from experiments.figures import axes, catalogue, claims, page, pairs, results, sweep
from experiments.figures.spec import Figure, Line, Panel, Setting, Sweep, read
from experiments.figures.table import show
from experiments.runner import RunSpec
from experiments.schemes import carried_by_tcp

FOLDER = Path("build/figures")
SWEEPS = Path("build/sweeps")
OUT_HELP = f"; of figures {FOLDER}/NAME, of sweeps in files {SWEEPS}/NAME"

_LIST = """\
Shows the papers' figures that can be measured here: how long that takes, in full and with --quick,
what is missing for it, and how many of the paper's claims were held when it was last measured.

Figures of one's own lie in folders below those that the environment variable WEIR_FIGURES names,
as PAPER/NAME/figure.toml (docs/extending.md).
"""

_KEEP = """\
Writes the medians and bands of DIR, and their provenance, beside the figure's own file, where
'weir-experiment report' finds them: results.csv, pairs.csv and provenance.json. That is what is
committed, so it must be the whole figure, measured by one state of the code, and that a committed
one.
"""


def add_list(commands: options.Commands) -> None:
    """Add the command list."""
    command = commands.add_parser(
        "list",
        help="the papers' figures that can be measured",
        description=_LIST,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--json", action="store_true", help="the same as JSON")
    command.set_defaults(handler=_list)


def add_keep(commands: options.Commands) -> None:
    """Add the command keep."""
    command = commands.add_parser(
        "keep",
        help="put a figure's medians and bands beside its file, for the report",
        description=_KEEP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("folders", type=Path, nargs="+", metavar="DIR", help="results of figures")
    command.add_argument("--quick", action="store_true", help="of the quick variant, too")
    command.set_defaults(handler=_keep)


def add_measuring(command: argparse.ArgumentParser) -> None:
    """Add the options of ``run`` for figures and sweeps."""
    option = command.add_argument_group(
        "figures and sweeps", "what else is set is the figure's own, or the file's"
    ).add_argument
    option("--quick", action="store_true", help="of a figure: less of it, in under three minutes")
    option(
        "--repeat", "--repeats", type=int, metavar="N",
        help="how often, each with a seed of its own: the first has --seed, the next one more "
        "(default 1; of a figure: its own)",
    )  # fmt: skip
    option(
        "--sweep", metavar="AXIS=VALUE,...",
        help="what is varied (below), as buffer_kib=16,64; of a figure: the values of its axis",
    )  # fmt: skip
    option(
        "--minutes", type=float, metavar="M",
        help="stop after M minutes, when the run that goes on then has ended; the same command "
        "goes on",
    )  # fmt: skip


def run(args: argparse.Namespace, command: argparse.ArgumentParser) -> int:
    """Measure what ``args``, of ``command``, names; return the exit status."""
    status = 0
    named = catalogue.names() if args.names == ["all"] else args.names
    if args.names == ["all"]:
        # Those that draw others' runs have none of their own.
        named = [name for name in named if catalogue.entry(name).runs == name]
    for name in _FIGURES_OWN:
        if getattr(args, name) != command.get_default(name):
            option = "no-background" if name == "background" else name.replace("_", "-")
            raise ValueError(
                f"--{option} is set by the figure: copy its figure.toml, change that, and run the "
                "copy"
            )
    end_s = None if args.minutes is None else time.monotonic() + 60 * args.minutes
    for name in dict.fromkeys(named):
        if end_s is not None:
            args.minutes = max(0.0, (end_s - time.monotonic()) / 60)
        figure, called, out = _figure(name, args, alone=len(named) == 1)
        drawn = figure if name not in catalogue.names() else catalogue.entry(name).figure
        try:
            found = _measure(figure, called, out, args, drawn)
        except ValueError as wrong:
            if len(named) == 1:
                raise
            print(f"{called}: cannot be measured: {wrong}", file=sys.stderr)
            found = 1
        status = max(status, found)
        if found >= sweep.INTERRUPTED[0]:
            return found
    return status


# What a figure's file sets, so that an option which sets it too is a mistake.
_FIGURES_OWN = (
    "workload", "set", "rounds", "block", "connections_per_sender", "topology", "shape", "rate",
    "buffer", "delay", "background", "receive_buffer", "hosts", "congestion_control", "quickack",
    "initial_window", "least_rto", "mss", "follow", "pcap", "no_timestamps", "no_sack",
    "no_window_scaling", "window_scale",
)  # fmt: skip


def _figure(name: str, args: argparse.Namespace, *, alone: bool) -> tuple[Figure, str, Path]:
    """Return the figure called ``name``, or of that file, as ``args`` wants it, what it is called,
    and where its results go: if it is ``alone``, to --out itself."""
    is_file = Path(name).suffix in (".toml", ".yaml", ".yml")
    if is_file:
        figure, called, folder = read(Path(name)), Path(name).stem, SWEEPS
    else:
        called = catalogue.entry(name).runs
        figure, folder = catalogue.entry(called).figure, FOLDER
    if args.quick:
        figure = figure.quickly()
    figure = _chosen(figure, args)
    own = f"{called}-quick" if args.quick else called
    if args.out == Path("build/run"):
        return figure, called, folder / own
    return figure, called, args.out if alone else args.out / own


def _chosen(figure: Figure, args: argparse.Namespace) -> Figure:
    changes: dict[str, Any] = {}
    if args.scheme:
        if figure.bench is not None:
            suite = figure.bench.model_copy(update={"schemes": args.scheme})
            changes["bench"] = suite
        else:
            changes["lines"] = _lines(figure, args.scheme)
    values = _values(figure, args)
    if values is not None:
        assert figure.sweep is not None
        changes["sweep"] = figure.sweep.model_copy(update={"values": values})
    if args.repeat is not None:
        if args.repeat < 1:
            raise ValueError(f"--repeat must be at least 1, not {args.repeat}")
        changes["repeats"] = args.repeat
    if args.seed is not None:
        changes["seed"] = args.seed
    return figure.model_copy(update=changes)


def _lines(figure: Figure, wanted: Iterable[str]) -> list[Line]:
    lines = []
    for name in wanted:
        own = [line for line in figure.lines if name in (line.name, line.scheme_name)]
        if not own and not catalogue.is_scheme(name):
            known = ", ".join(line.name for line in figure.lines)
            raise ValueError(f"no line and no scheme {name!r}: the figure's lines are {known}")
        for line in own or [Line(name=name)]:
            carried_by_tcp(line.scheme_name)
        lines += own or [Line(name=name)]
    return lines


def _values(figure: Figure, args: argparse.Namespace) -> list[Any] | None:
    if not args.senders and not args.sweep:
        return None
    if figure.sweep is None:
        raise ValueError("this figure's values are a benchmark's: they cannot be chosen")
    if args.sweep:
        axis, values = parsed_sweep(args.sweep)
        if axis != figure.sweep.axis:
            raise ValueError(f"--sweep {axis}: the figure varies {figure.sweep.axis}")
        return values
    if figure.sweep.axis not in ("senders", "connections"):
        raise ValueError(f"--senders: the figure varies {figure.sweep.axis}; use --sweep")
    return list(args.senders)


def parsed_sweep(written: str) -> tuple[str, list[Any]]:
    """Return the axis and the values of AXIS=VALUE,... Raises ValueError where it is none."""
    name, equals, rest = written.partition("=")
    values = [_value(word) for word in options.words(rest)]
    if not equals or not values:
        raise ValueError(f"--sweep {written}: is not AXIS=VALUE,...")
    axes.axis(name)
    for value in values:
        if isinstance(value, str):
            raise ValueError(f"--sweep {written}: {value!r} is neither a number nor true or false")
    return name, values


def _value(word: str) -> Any:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(word, word)


def run_adhoc(spec: RunSpec, args: argparse.Namespace) -> int:
    """Measure a sweep that options describe: ``spec`` is what all of its runs have."""
    workload = workloads.as_record(spec.workload)
    if args.sweep:
        axis, values = parsed_sweep(args.sweep)
        if len(args.senders) > 1:
            raise ValueError(f"--sweep {axis} and several --senders: one of them can be varied")
    else:
        axis, values = "senders", args.senders or [workload["senders"]]
    if args.repeat is not None and args.repeat < 1:
        raise ValueError(f"--repeat must be at least 1, not {args.repeat}")
    made = Figure(
        title=spec.workload.in_words(),
        setting=Setting(
            topology=spec.topology,
            shape=dict(spec.shape),
            rate_mbps=spec.rate_bps / 1e6,
            buffer_kib=spec.buffer_bytes / 1024,
            delay_ms=spec.delay_us / 1000,
            background=spec.background,
            warm_up_s=spec.warm_up_s,
            tail_s=spec.tail_s,
            followed=spec.followed,
            captures=spec.captures,
        ),
        workload=workload,
        hosts={name: value for name, value in asdict(spec.host).items() if value is not None},
        sweep=Sweep(axis=axis, values=values),
        lines=[Line(name=name) for name in args.scheme],
        repeats=args.repeat or 1,
        seed=workload.get("seed", 1),
        panels=[Panel(metric=name) for name in ("goodput_mbps", "fct_p99_ms", "timeouts")],
    )
    return _measure(made, args.out.name, options.folder(args.out), args, made)


def _measure(figure: Figure, name: str, out: Path, args: argparse.Namespace, drawn: Figure) -> int:
    """Measure ``figure`` into ``out``; show what ``drawn`` draws of it; return the exit status."""
    options.folder(out)

    def say(text: str) -> None:
        print(f"{name}: {text}", file=sys.stderr, flush=True)

    outcome = sweep.measure(
        figure, out, say, name=name, quick=args.quick, ovs_prefix=args.ovs, minutes=args.minutes
    )
    try:
        found = results.load(out)
    except results.NothingError as nothing:
        say(str(nothing))
        return outcome.status or int(bool(outcome.failed))
    results.write(found, out)
    if not {cell.metric for cell in found.cells} & {panel.metric for panel in drawn.panels}:
        say("nothing is measured of what is drawn" + "; without --quick it is" * args.quick)
    verdicts = claims.judge(drawn, found.cells, pairs.pairs(drawn, found.rows))
    if drawn is not figure:
        assert found.figure is not None
        own = {name: getattr(drawn, name) for name in ("title", "panels", "x_label", "bench")}
        found = replace(found, figure=found.figure.model_copy(update=own))
    if args.json:
        print(json.dumps(_as_json(found, verdicts, outcome, out), indent=2))
    else:
        show(found, verdicts, Console(highlight=False))
        print(_ending(outcome, out))
    return outcome.status or int(bool(outcome.failed))


def _as_json(
    found: results.Results,
    verdicts: Iterable[claims.Verdict],
    outcome: sweep.Outcome,
    out: Path,
) -> dict[str, Any]:
    points = [
        {
            "line": c.line, "x": c.x, "metric": c.metric, "median": c.band.median,
            "low": c.band.low, "high": c.band.high, "runs": c.runs, "void": c.void,
        }
        for c in found.cells
        if c.t is None
    ]  # fmt: skip
    judged = [{"claim": v.claim.text, "verdict": v.verdict, "why": v.why} for v in verdicts]
    told = {key: value for key, value in asdict(outcome).items() if key != "seconds"}
    return {"folder": str(out), **told, "points": points, "claims": judged}


def _ending(outcome: sweep.Outcome, out: Path) -> str:
    parts = [f"{outcome.there + outcome.done} of {outcome.wanted} runs are there"]
    if outcome.again:
        parts.append(f"{outcome.again} void and done again")
    if outcome.void:
        parts.append(f"{outcome.void} of these void again")
    if outcome.failed:
        parts.append(f"FAILED: {'; '.join(outcome.failed)}")
    parts += [f"left out: {line or 'all'} ({why})" for line, why in outcome.missing.items()]
    took = sweep.in_words(outcome.seconds)
    again = f"weir-experiment report {out}"
    return f"{', '.join(parts)}; {took}\nrecorded in: {out}   again: {again}"


def report(folders: Sequence[Path], out: Path, *, as_json: bool) -> int:
    """Build the page of all figures, with the results of ``folders`` in place of those that are
    committed; with ``folders``, of these figures alone. Return the exit status."""
    options.folder(out)
    if folders:
        found = [one for folder in page.sweeps(folders) for one in page.measured_all(folder)]
        # Where a figure is there in full and quickly, in full.
        found.sort(key=lambda one: bool(one.provenance.get("quick")))
        best: dict[str, page.Shown] = {}
        for one in found:
            best.setdefault(one.entry.name, one)
        shown = [best[name] for name in sorted(best, key=catalogue.order)]
    else:
        shown = [page.committed(entry) for entry in catalogue.entries()]
    written = page.build(shown, out)
    judged = [(one.entry.name, verdict) for one in shown for verdict in one.verdicts]
    if as_json:
        told = [
            {"figure": name, "claim": v.claim.text, "verdict": v.verdict, "why": v.why}
            for name, v in judged
        ]
        print(json.dumps({"page": str(written), "claims": told}, indent=2))
        return 0
    console = Console(highlight=False)
    table = Table("figure", "claim", "verdict", "why")
    for name, verdict in judged:
        table.add_row(name, verdict.claim.text, verdict.verdict, verdict.why)
    console.print(table)
    for kind in claims.VERDICTS:
        print(f"{sum(v.verdict == kind for _, v in judged)} {kind}", end="   ")
    print(f"\npage: {written}   pictures: {out / page.PICTURES}")
    return 0


def _list(args: argparse.Namespace) -> int:
    rows: list[dict[str, Any]] = []
    for entry in catalogue.entries():
        shown = page.committed(entry)
        held = [verdict.verdict for verdict in shown.verdicts]
        rows.append(
            {
                "name": entry.name,
                "runs": entry.runs,
                "title": entry.figure.title,
                "source": ", ".join(filter(None, (entry.figure.paper, entry.figure.source))),
                "full_s": round(sweep.estimate_s(entry.figure)),
                "quick_s": round(sweep.estimate_s(entry.figure.quickly())),
                "missing": catalogue.missing(entry.figure),
                "measured": bool(shown.cells),
                "claims": len(held),
                "held": held.count(claims.HELD),
            }
        )
    if args.json:
        print(json.dumps(rows, indent=2))
        return 0
    table = Table("name", "what", "full", "quick", "claims held", box=None)
    for row in rows:
        kept = f"{row['held']} of {row['claims']}" if row["measured"] else "not measured"
        lacks = "; ".join(f"{line}: {why}" if line else why for line, why in row["missing"].items())
        title = row["title"] + (f"\n[dim]left out: {lacks}[/dim]" if lacks else "")
        times = (sweep.in_words(row["full_s"]), sweep.in_words(row["quick_s"]))
        table.add_row(row["name"], title, *times, kept)
    Console(highlight=False).print(table)
    own = [row for row in rows if row["runs"] == row["name"]]
    total = [sweep.in_words(sum(row[key] for row in own)) for key in ("full_s", "quick_s")]
    print(f"all of them: {total[0]} in full, {total[1]} quickly; some share their runs")
    print("measure one: weir-experiment run NAME --quick      all of them: weir-experiment run all")
    return 0


def _keep(args: argparse.Namespace) -> int:
    for folder in page.sweeps(args.folders):
        found = results.load(folder)
        if found.name not in catalogue.names():
            raise ValueError(f"{folder}: {found.name} is no figure of this tree")
        if found.quick and not args.quick:
            raise ValueError(f"{folder}: is the quick variant; --quick keeps it nevertheless")
        _require_one_state(found, folder)
        told = json.dumps(results.provenance(found), indent=2) + "\n"
        for entry in catalogue.entries():
            if entry.runs != found.name:
                continue
            needed = {panel.metric for panel in entry.figure.panels}
            needed |= {claim.metric for claim in entry.figure.claims}
            file = entry.folder / catalogue.RESULTS
            results.write_summary(found.cells, file, needed)
            pairs.write(pairs.pairs(entry.figure, found.rows), entry.folder / catalogue.PAIRS)
            (entry.folder / catalogue.PROVENANCE).write_text(told)
            print(f"{entry.name}: {file}")
    return 0


def _require_one_state(found: results.Results, folder: Path) -> None:
    """Raise ValueError unless all of a figure is in ``folder``, measured by one committed state of
    the code. Commits may differ that do not touch what measures."""
    figure = catalogue.entry(found.name).figure
    left = sweep.unfinished(figure.quickly() if found.quick else figure, folder)
    again = f"weir-experiment run {found.name}{' --quick' if found.quick else ''} --out {folder}"
    if left:
        named = "; ".join(left[:3]) + ("; ..." if len(left) > 3 else "")
        raise ValueError(
            f"{folder}: {len(left)} of its runs are not there ({named}): {again} goes on"
        )
    commits = sorted({row.origin.commit for row in found.rows})
    dirty = [commit for commit in commits if commit.endswith("-dirty")]
    if dirty:
        raise ValueError(
            f"{folder}: measured with changes that are in no commit ({', '.join(dirty)}): commit "
            f"them, remove {folder}, and measure again: {again}"
        )
    codes = {row.origin.code for row in found.rows}
    if len(codes) > 1:
        raise ValueError(
            f"{folder}: measured by {len(codes)} states of the code (commits "
            f"{', '.join(commits)}): {again} measures again what the present one has not"
        )
