"""The soak of the switch: builds the network, changes it until the time is over, and judges.

    python -m experiments.soak.switch_soak --spec JSON --out DIR

is what ``experiments.soak.run`` starts as the first process of a new sandbox.
"""

import contextlib
import csv
import json
import os
import shutil
import sys
import time
from pathlib import Path

from experiments.measure.process import footprint
from experiments.network.bridge import add_host
from experiments.soak import SUMMARY, SoakSpec, entry, switch_verdict
from experiments.soak.changes import Changes, StuckError
from experiments.soak.entry import say
from experiments.soak.peers import Peers
from experiments.soak.trend import Sample, sample
from experiments.traffic.program import Program
from testbed import sandbox
from testbed.command import CommandError, wait_until
from testbed.host import Host
from testbed.ovs import Ovs

_HOSTS = 4
_SAMPLE_EVERY_S = 1.0
_SAY_EVERY_S = 10.0
_SETTLE_S = 30.0
_EXIT_S = 60.0
# Datapath threads, a log that is being rotated, a connection that was just refused.
_SPARE_DESCRIPTORS = 8


class Soak:
    """A soak in progress. ``faults`` collects what is wrong, as text."""

    def __init__(self, spec: SoakSpec, out: Path) -> None:
        self.faults: list[str] = []
        self._spec = spec
        self._out = out
        self._ovs = Ovs(
            Path(spec.prefix), sandbox.RUN_DIR / "ovs", vswitchd_options=("--enable-dummy",)
        )
        # A small quarantine, or freed memory that is only kept for later reports looks like a leak.
        log = f"log_path={out}/report"
        self._ovs.env["ASAN_OPTIONS"] = f"{log}:detect_leaks=1:quarantine_size_mb=8"
        self._ovs.env["UBSAN_OPTIONS"] = f"{log}:print_stacktrace=1"
        self._samples: list[Sample] = []
        self._received: dict[str, int] = {}

    def run(self) -> None:
        """The whole of it; ``faults`` is complete afterwards."""
        with (self._out / "changes.log").open("w") as log, contextlib.ExitStack() as stack:
            stack.callback(self._keep_logs)
            self._ovs.start()
            stack.callback(self._ovs.stop)
            changes = Changes(self._ovs, [f"s{n}" for n in range(1, _HOSTS + 1)], self._seed, log)
            hosts = [add_host(n, f"10.0.0.{n}/24", f"fd00::{n}/64") for n in range(1, _HOSTS + 1)]
            for host in hosts:
                stack.callback(host.terminate)
            peers = Peers(self._seed, changes.management_sockets)
            peers.start()
            try:
                # What a switch opens with its first bridge it keeps: it is no leak.
                changes.build()
                changes.clear()
                idle_descriptors = _descriptors(self._ovs.vswitchd_pid)
                changes.build()
                self._drive(changes, hosts)
                peers.stop()
                self._end(changes, idle_descriptors)
            except (StuckError, TimeoutError, ProcessLookupError) as fault:
                self.faults.append(str(fault))
            self._judge(changes, peers)

    @property
    def _seed(self) -> int:
        return self._spec.seed

    def _traffic(self, number: int, host: Host) -> Program:
        args = ["--address", f"10.0.0.{number}", "--address", f"fd00::{number}"]
        for other in range(1, _HOSTS + 1):
            if other != number:
                args += ["--peer", f"10.0.0.{other}", "--peer", f"fd00::{other}"]
        log = self._out / "traffic.log"
        return Program("experiments.soak.traffic", args, log=log, pid=host.pid)

    def _drive(self, changes: Changes, hosts: list[Host]) -> None:
        begun = time.monotonic()
        end = begun + self._spec.minutes * 60
        said = sampled = begun
        with contextlib.ExitStack() as programs:
            traffic = [
                programs.enter_context(self._traffic(number, host))
                for number, host in enumerate(hosts, 1)
            ]
            while (now := time.monotonic()) < end:
                changes.step()
                self._require_alive()
                if now - sampled >= _SAMPLE_EVERY_S:
                    sampled = now
                    self._samples.append(sample(self._ovs.vswitchd_pid, now - begun))
                if now - said >= _SAY_EVERY_S:
                    said = now
                    say(
                        f"{now - begun:5.0f} s  {changes.done.total()} changes, "
                        f"{self._samples[-1].rss_kb // 1024} MB"
                    )
                    self._require_silence()
            for program in traffic:
                program.finish()
            for program in traffic:
                for kind, count in program.expect("done").items():
                    if kind != "event":
                        self._received[kind] = self._received.get(kind, 0) + count

    def _require_alive(self) -> None:
        status = self._ended()
        if status is not None:
            raise StuckError(f"ovs-vswitchd has ended by itself, with status {status}")

    def _require_silence(self) -> None:
        """Stop at the first report: what follows may be its consequence."""
        told = switch_verdict.reports(self._out)
        if told:
            raise StuckError(f"stopped at the first report, {told[0].name}")

    def _ended(self) -> int | None:
        """The switch's exit status if it has ended; it can still be waited for."""
        found = os.waitid(os.P_PID, self._ovs.vswitchd_pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return None if found is None else found.si_status

    def _end(self, changes: Changes, idle_descriptors: int) -> None:
        """Clear the switch, check that nothing was kept open, and let it end by itself.

        Only then, not after a signal, does LeakSanitizer look for leaks.
        """
        changes.clear()
        pid = self._ovs.vswitchd_pid
        with contextlib.suppress(TimeoutError):
            wait_until(
                lambda: _descriptors(pid) <= idle_descriptors + _SPARE_DESCRIPTORS,
                timeout_s=_SETTLE_S,
                what="descriptors are closed",
            )
        left = _descriptors(pid)
        if left > idle_descriptors + _SPARE_DESCRIPTORS:
            targets = [str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir()]
            self.faults.append(
                f"{left} descriptors are open without any bridge, {idle_descriptors} were at the "
                f"beginning: {' '.join(sorted(targets))}"
            )
        self._ovs.appctl("exit", "--cleanup")
        wait_until(
            lambda: self._ended() is not None,
            timeout_s=_EXIT_S,
            what="ovs-vswitchd ends",
            poll_s=0.1,
        )
        if status := self._ended():
            self.faults.append(f"ovs-vswitchd ended with status {status}")

    def _judge(self, changes: Changes, peers: Peers) -> None:
        for report in switch_verdict.reports(self._out):
            self.faults.append(f"{report.name}: {switch_verdict.headline(report)}")
        with (self._out / "memory.csv").open("w") as file:
            table = csv.writer(file)
            table.writerow(("seconds", "rss_kb", "descriptors"))
            table.writerows((f"{s.at_s:.1f}", s.rss_kb, s.descriptors) for s in self._samples)
        summary: dict[str, object] = {
            "minutes": self._spec.minutes,
            "seed": self._spec.seed,
            "changes": changes.done.total(),
            "refused": changes.refused.total(),
            **{f"changes.{name}": count for name, count in sorted(changes.done.items())},
            **{f"refused.{name}": count for name, count in sorted(changes.refused.items())},
            **{f"openflow.{name}": count for name, count in sorted(peers.counts.items())},
            **{f"traffic.{kind}_bytes": count for kind, count in sorted(self._received.items())},
        }
        try:
            growth = switch_verdict.growth(self._samples)
        except ValueError as too_short:
            self.faults.append(str(too_short))
        else:
            summary["rss_first_third_kb"] = growth.first_kb
            summary["rss_last_third_kb"] = growth.last_kb
            summary["rss_kb_per_minute"] = round(growth.kb_per_minute, 1)
            if growth.fault:
                self.faults.append(growth.fault)
        # A soak in which nothing happened proves nothing.
        for wanted in ("openflow.queue_events", "openflow.type_1", "traffic.tcp_bytes"):
            if not summary.get(wanted) and not self.faults:
                self.faults.append(f"nothing seen of {wanted}")
        summary["faults"] = self.faults
        (self._out / SUMMARY).write_text(json.dumps(summary, indent=2) + "\n")

    def _keep_logs(self) -> None:
        for log in self._ovs.run_dir.glob("*.log"):
            shutil.copy(log, self._out / log.name)


def _descriptors(pid: int) -> int:
    """The number of descriptors that the switch has open."""
    return footprint(pid).descriptors


def _soak(spec: SoakSpec, out: Path) -> list[str]:
    say(f"{spec.minutes:g} minutes, seed {spec.seed}")
    soak = Soak(spec, out)
    try:
        soak.run()
    except CommandError as failed:
        soak.faults.append(str(failed))
    return soak.faults


if __name__ == "__main__":
    sys.exit(entry.run(SoakSpec, _soak))
