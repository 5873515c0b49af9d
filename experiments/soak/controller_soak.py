"""The soak of the controller: a real process, and a network's worth of switches that are none.

    python -m experiments.soak.controller_soak --spec JSON --out DIR

is what ``experiments.soak.run_controller`` starts as the first process of a new sandbox. What the
controller counts is read from its event log, and held against what was done.
"""

import contextlib
import csv
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, astuple
from pathlib import Path

from controller.cli.client import Client
from controller.model.values import Notice, datapath_id
from controller.southbound.codec.extension import TcpRwndRegister, Window, unpack_action
from controller.southbound.codec.match import IN_PORT, unpack_instructions, unpack_match
from controller.southbound.switch import encoding, pipeline
from experiments.bench.controller.fake_switch import notice
from experiments.bench.controller.process import PORT, Weir
from experiments.soak import SUMMARY, ControllerSpec, entry
from experiments.soak.calls import Calls
from experiments.soak.controller_verdict import LONG_TURN_S, Minute, judge, unexpected
from experiments.soak.entry import say
from experiments.soak.hosts import Place
from experiments.soak.network import EDGES, HOST_PORTS, Network
from experiments.soak.trend import Sample, sample
from experiments.statistics import percentile
from testbed import sandbox

_SOCKET = sandbox.RUN_DIR / "controller.sock"
_TICK_S = 0.002
_SAMPLE_EVERY_S = 2.0
_MINUTE_S = 60.0
_NOTICE_EVERY_S = 0.05
_START_S = 30.0
_DRAIN_S = 12.0
# Connections without a trace are given up after _EXPIRY_S, and looked at every few seconds.
_EXPIRY_S, _EXPIRED_WITHIN_S = 15, 25
# Those that end without a word are dormant for ever: so many within the warm-up.
_DORMANT = 1000
# Nobody sends while they are counted: far longer, and they would all be given up.
_SETTLE_S, _ANSWERED_WITHIN_S = 0.5, 8.0
# Hosts that only have connections are asked several times whether they are still there.
_HOST_AGE_S = 300
_LOG_LIMIT_BYTES = 32 * 2**20
# How often each of these happens, in seconds on average.
_FLAP_EVERY_S, _MOVE_EVERY_S, _REPLACE_EVERY_S, _RECONNECT_EVERY_S = 1.0, 2.0, 3.0, 30.0


class _Recurring:
    """Something that happens every ``mean_s`` on average, at times that ``rng`` decides.

    ``happen`` returns False if it cannot happen at present: it stays due.
    """

    def __init__(self, happen: Callable[[], bool], mean_s: float, rng: random.Random) -> None:
        self._happen = happen
        self._mean_s = mean_s
        self._rng = rng
        self._due_s: float | None = None

    def advance(self, now_s: float) -> None:
        """Let it happen if it is due."""
        if self._due_s is None or (now_s >= self._due_s and self._happen()):
            self._due_s = now_s + self._rng.expovariate(1 / self._mean_s)


class Soak:
    """A soak in progress. ``faults`` collects what is wrong, as text."""

    def __init__(self, spec: ControllerSpec, out: Path) -> None:
        self.faults: list[str] = []
        self._spec = spec
        self._out = out
        self._rng = random.Random(f"{spec.seed} controller")
        self._network = Network(("127.0.0.1", PORT))
        self._calls = Calls(self._network, self._rng)
        self._recurring = self._changes(spec.seed)
        self._events = sandbox.RUN_DIR / "events.jsonl"
        self._read_bytes = 0
        self._sequences: Counter[Place] = Counter()
        self._turn = 0
        self._congested: set[int] = set()
        self._asked_ns: dict[int, int] = {}
        self._delays_us: list[float] = []
        self._probe_registers: dict[int, set[int]] = {}
        self._counted: Counter[Place] = Counter()
        self._samples: list[Sample] = []
        self._minutes: list[Minute] = []
        self._network.on_windows = self._heard

    def _changes(self, seed: int) -> list[_Recurring]:
        calls = self._calls
        edges = random.Random(f"{seed} edges")
        return [
            _Recurring(happen, mean_s, random.Random(f"{seed} {name}"))
            for name, happen, mean_s in (
                ("flap", calls.flap, _FLAP_EVERY_S),
                ("move", calls.move, _MOVE_EVERY_S),
                ("replace", calls.replace_host, _REPLACE_EVERY_S),
                (
                    "reconnect",
                    lambda: calls.reconnect(edges.randint(1, EDGES)),
                    _RECONNECT_EVERY_S,
                ),
            )
        ]

    def run(self) -> None:
        """The whole of it; ``faults`` is complete afterwards."""
        sections: dict[str, dict[str, object]] = {
            "classifier": {"expiry": f"{_EXPIRY_S} s", "dormant": _DORMANT},
            "fabric": {"host_age": f"{_HOST_AGE_S} s"},
            "northbound": {"socket": str(_SOCKET)},
        }
        with (
            Weir(sandbox.RUN_DIR, sections=sections) as weir,
            contextlib.closing(self._network),
        ):
            try:
                self._connect(weir)
                self._calls.populate()
                self._drive(weir)
                self._drain()
            except OSError as lost:
                self.faults.append(f"the controller is lost: {lost}")
            if weir.ended:
                self.faults.append("the controller has ended by itself")
        self._judge()

    def _connect(self, weir: Weir) -> None:
        weir.wait_until_listening(_START_S)
        for number in self._network.switches:
            self._network.connect(number)
        # Ports that just came up may lead to switches yet; discovery tells.
        self._pass(2.0)

    def _pass(self, seconds: float) -> None:
        """Let time pass, without anything new."""
        end_s = time.monotonic() + seconds
        while (now_s := time.monotonic()) < end_s:
            self._calls.advance(now_s)
            self._network.exchange(_TICK_S)

    def _drive(self, weir: Weir) -> None:
        begun_s = last_s = time.monotonic()
        end_s = begun_s + self._spec.minutes * 60
        due = dict.fromkeys(("sample", "minute", "notice"), begun_s)
        due["minute"] = begun_s + _MINUTE_S
        owed = 0.0
        while (now_s := time.monotonic()) < end_s:
            owed += (now_s - last_s) * self._spec.rate
            self._calls.advance(now_s)
            for _ in range(int(owed)):
                self._calls.begin()
            owed -= int(owed)
            for recurring in self._recurring:
                recurring.advance(now_s)
            last_s = now_s
            if now_s >= due["notice"]:
                due["notice"] = now_s + _NOTICE_EVERY_S
                self._notify()
            if now_s >= due["sample"]:
                due["sample"] += _SAMPLE_EVERY_S
                self._sample(weir, now_s - begun_s)
            if now_s >= due["minute"] and self._calls.all_known:
                due["minute"] = now_s + _MINUTE_S
                self._minute(now_s - begun_s)
                last_s = time.monotonic()
            self._network.exchange(_TICK_S)

    # The control delay

    def _notify(self) -> None:
        """Send notices of congestion, or of its end, from the ports of the probes in turn."""
        self._turn += 1
        edge = self._turn % EDGES + 1
        line = self._network.lines[edge]
        if not line.up or not self._registers(edge) or edge in self._asked_ns:
            self._asked_ns.pop(edge, None)
            return
        # Each one is news.
        self._congested ^= {edge}
        kind = Notice.CN_H if edge in self._congested else Notice.CR
        self._say(kind, Calls.place_of_probe(edge))
        line.write()
        self._asked_ns[edge] = time.time_ns()

    def _heard(self, edge: int, windows: tuple[Window, ...], arrived_ns: int) -> None:
        asked_ns = self._asked_ns.get(edge)
        if asked_ns is None:
            return
        # What renews the windows of a switch renews them all.
        own = {register ^ 1 for register in self._registers(edge)} | self._registers(edge)
        if {window.register for window in windows} <= own:
            del self._asked_ns[edge]
            self._delays_us.append((arrived_ns - asked_ns) / 1e3)

    def _registers(self, edge: int) -> set[int]:
        """The registers of the host window of the probe's port, as the controller has installed
        it."""
        port = Calls.place_of_probe(edge).port.to_bytes(4, "big")
        known = self._probe_registers.get(edge)
        if known is None:
            known = set()
            for place, held in self._network.switches[edge].entries.items():
                if held.cookie & 0xFF == pipeline.Kind.HOST_WINDOW:
                    if (IN_PORT, port, None) not in unpack_match(place.match):
                        continue
                    action = unpack_action(unpack_instructions(held.instructions)[0])
                    assert isinstance(action, TcpRwndRegister)
                    known.add(action.register)
            if known:
                self._probe_registers[edge] = known
        return known

    def _say(self, kind: Notice, place: Place) -> None:
        if self._network.lines[place.switch].up:
            self._sequences[place] += 1
            message = notice(kind, place.port, self._sequences[place])
            self._network.switches[place.switch].outgoing += message

    # Counting

    def _minute(self, at_s: float) -> None:
        counted, truth, vanished = self._count()
        delays, self._delays_us = self._delays_us, []
        p50, p99 = (percentile(delays, q) if delays else 0.0 for q in (50, 99))
        turns = Client(str(_SOCKET)).ask("controller")["delays"]["main_loop_turn"]
        long = turns["cumulative"][-1] - turns["cumulative"][turns["bounds_s"].index(LONG_TURN_S)]
        self._minutes.append(
            Minute(
                *(at_s, p50, p99, len(delays), counted, truth, vanished),
                *(long, 1e3 * turns["longest_s"]),
            )
        )
        sample, done = self._samples[-1], self._calls.done
        say(
            f"{at_s / 60:4.0f} min  {done['opened']} connections, {truth // 2} open, "
            f"counted {counted // 2}; {sample.rss_kb / 1024:.1f} MiB; "
            f"control delay p50 {p50:.0f} us, p99 {p99:.0f} us; "
            f"longest turn {1e3 * turns['longest_s']:.0f} ms"
        )

    def _count(self) -> tuple[int, int, int]:
        """Count the flows that end at hosts: the controller's number, the true one, and those that
        vanished.

        Meanwhile no host does anything, and messages on their way arrive.
        """
        self._network.exchange(_SETTLE_S)
        self._read_events()
        self._counted.clear()
        self._congested.clear()
        self._asked_ns.clear()
        asked = {Place(e, p) for e in range(1, EDGES + 1) for p in range(1, HOST_PORTS + 1)}
        for place in asked:
            self._say(Notice.CR, place)
        truth = self._calls.flows
        deadline_s = time.monotonic() + _ANSWERED_WITHIN_S
        while not asked <= self._counted.keys() and time.monotonic() < deadline_s:
            self._network.exchange(_SETTLE_S)
            self._read_events()
        horizon_s = self._calls.now_s - _EXPIRED_WITHIN_S
        vanished = self._calls.vanished
        for call, since_s in list(vanished.items()):
            if since_s < horizon_s:
                del vanished[call]
        return sum(self._counted.values()), truth, 2 * len(vanished)

    def _read_events(self) -> None:
        """Read the flow counts in the notices of host ports since the last time."""
        with self._events.open("rb") as log:
            log.seek(self._read_bytes)
            data = log.read()
        end = data.rfind(b"\n") + 1
        for line in data[:end].splitlines():
            if line.startswith(b'{"event": "queue_event"'):
                event = json.loads(line)
                place = Place(event["switch"], event["port"])
                self._counted[place] = event["background"] + event["burst"]
        self._read_bytes += end
        if self._read_bytes > _LOG_LIMIT_BYTES:
            # The controller appends, so it goes on at the beginning.
            os.truncate(self._events, 0)
            self._read_bytes = 0

    def _sample(self, weir: Weir, at_s: float) -> None:
        self._samples.append(sample(weir.pid, at_s))

    # The end

    def _drain(self) -> None:
        """End all that comes and goes; then nothing of it may be left, here or on the switches."""
        self._calls.wind_up()
        deadline_s = time.monotonic() + _EXPIRED_WITHIN_S + _DRAIN_S
        while (left := self._left()) and time.monotonic() < deadline_s:
            self._pass(1.0)
        self.faults += left

    def _left(self) -> list[str]:
        """What is left of connections and hosts that are over, in words."""
        found = [] if self._calls.wound_up else ["connections are open that were to end"]
        counted, truth, _ = self._count()
        if counted != truth:
            found.append(f"in the end the controller counts {counted} flows, not {truth}")
        open_keys = set(self._calls.open)
        addresses = self._calls.addresses()
        for number, switch in self._network.switches.items():
            stale = strange = 0
            for place, held in switch.entries.items():
                kind = held.cookie & 0xFF
                if kind == pipeline.Kind.FLOW_COUNTER:
                    stale += encoding.counted_flow(place.match) not in open_keys
                elif kind == pipeline.Kind.FORWARD:
                    strange += unpack_match(place.match)[0][1] not in addresses
            if stale:
                found.append(f"switch {datapath_id(number)} counts {stale} flows that are over")
            if strange:
                found.append(
                    f"switch {datapath_id(number)} forwards to {strange} hosts that are gone"
                )
        return found

    def _judge(self) -> None:
        figures, faults = judge(self._samples, self._minutes)
        self.faults += faults
        log = (sandbox.RUN_DIR / "weir.log").read_text(errors="replace").splitlines()
        (self._out / "controller.log").write_text("\n".join(log) + "\n")
        complaints = unexpected(log)
        if complaints:
            self.faults.append(f"{len(complaints)} lines in the log, such as: {complaints[0]}")
        for name, rows in (("samples", self._samples), ("minutes", self._minutes)):
            if rows:
                with (self._out / f"{name}.csv").open("w") as file:
                    table = csv.writer(file)
                    table.writerow(asdict(rows[0]))
                    table.writerows(astuple(row) for row in rows)
        done = {f"done.{kind}": count for kind, count in sorted(self._calls.done.items())}
        summary = {**asdict(self._spec), **figures, **done, "faults": self.faults}
        (self._out / SUMMARY).write_text(json.dumps(summary, indent=2) + "\n")


def _soak(spec: ControllerSpec, out: Path) -> list[str]:
    say(f"{spec.minutes:g} minutes, {spec.rate:g} connections/s, seed {spec.seed}")
    soak = Soak(spec, out)
    soak.run()
    return soak.faults


if __name__ == "__main__":
    sys.exit(entry.run(ControllerSpec, _soak))
