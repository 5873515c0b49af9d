"""Soak: hours of everything at once, to find faults that show only in time.

*Of the switch*: the patched switch under sanitizers, while everything about it changes at random.
Queues are set, changed and removed, ports and bridges come and go, controllers connect, send
nonsense and vanish, window registers are set by the thousand, and TCP and UDP run through all of
it. Findings are the reports of AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer, a
switch that hangs or ends, a descriptor that stays open, and memory that keeps growing.

*Of the controller*: a real process with fake switches around it. Connections between their hosts
come and go by the thousand a second, while hosts come, move and go, ports flap and channels break.
Findings are memory that grows, a view that is wrong, a control delay that rises, and complaints in
the log.

*Of atp-proxy*: HTTP, redis and PostgreSQL over pairs of proxies, across a link that loses packets
both ways. Every byte is compared. Findings are content that differs, what was acknowledged and is
gone, a client that fails or hangs, connections, descriptors or memory that stay; and a run in which
nothing was compared or nothing was lost.

*Of TCP-ACC's layer*: the same programs, ssh and iperf3 over ``fountain acc up`` at two hosts, which
is killed, ended and begun again beneath them. Findings are the same, and connections that stand
still.
"""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from testbed import sandbox

SUMMARY = "soak.json"


@dataclass(frozen=True)
class SoakSpec:
    """``prefix`` is a switch built by ``ovs-patches/build --sanitize``; ``seed`` decides the order
    of changes (how they meet the traffic is the scheduler's)."""

    prefix: str
    minutes: float
    seed: int


@dataclass(frozen=True)
class ControllerSpec:
    """``rate`` is of new connections a second; ``seed`` decides what happens when, as far as the
    clock allows."""

    minutes: float
    rate: float
    seed: int


@dataclass(frozen=True)
class AtpSpec:
    """``seed`` decides what is fetched, set and lost, though not in which order of all."""

    minutes: float
    seed: int


@dataclass(frozen=True)
class AccSpec:
    """``seed`` decides the same, and when a layer is ended and begun again."""

    minutes: float
    seed: int


def run(spec: SoakSpec, out: Path) -> int:
    """Soak in a new sandbox; the exit status is 0 if there was nothing to find, 1 if there was.

    ``out`` gets soak.json, the reports of the sanitizers (report.*), what was done (changes.log),
    memory over time (memory.csv) and the switch's log. Progress goes to stderr.
    """
    out.mkdir(parents=True, exist_ok=True)
    for old in (*out.glob("report.*"), *out.glob("*.log"), out / SUMMARY):
        old.unlink(missing_ok=True)
    return _run("switch_soak", spec, out)


def run_controller(spec: ControllerSpec, out: Path) -> int:
    """The same of the controller. ``out`` gets soak.json, samples.csv (the process every other
    second), minutes.csv (control delays, connections) and the controller's log."""
    out.mkdir(parents=True, exist_ok=True)
    for old in (*out.glob("*.csv"), *out.glob("*.log"), out / SUMMARY):
        old.unlink(missing_ok=True)
    return _run("controller_soak", spec, out)


def run_atp(spec: AtpSpec, out: Path) -> int:
    """The same of atp-proxy. ``out`` gets soak.json, samples.csv (the proxies' processes, each
    10 s), counters.jsonl (what they count, as often), logs, and wrong/ (files that came wrong)."""
    _clear(out)
    return _run("atp.soak", spec, out)


def run_acc(spec: AccSpec, out: Path) -> int:
    """The same of TCP-ACC's layer at hosts. ``out`` gets the same (of the layers' processes, each
    2 s), and restarts.jsonl (when a layer was ended, how, and when it was back)."""
    _clear(out)
    return _run("acc.soak", spec, out)


def _clear(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    records = ("*.csv", "*.jsonl", "*.log", "wrong/*", SUMMARY)
    for old in (file for pattern in records for file in out.glob(pattern)):
        old.unlink()


def _run(module: str, spec: SoakSpec | ControllerSpec | AtpSpec | AccSpec, out: Path) -> int:
    argv = [sys.executable, "-m", f"experiments.soak.{module}", "--spec", json.dumps(asdict(spec))]
    return sandbox.run([*argv, "--out", str(out.resolve())])
