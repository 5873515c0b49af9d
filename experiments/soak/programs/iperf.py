"""iperf3 at a limited rate: there is nothing to compare, but it must go on."""

import json
import random
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.soak.programs.work import CheckError, Client, Tally
from experiments.traffic.programs.app import program
from experiments.traffic.programs.iperf import SERVER

STALLED_INTERVALS = 2
"""So many intervals of a second in succession without a byte are a fault."""

_WAYS = {"up": [], "down": ["-R"], "both": ["--bidir"]}
_RATE_MBPS = 15
_MOST_PAUSE_S = 10.0
_PATIENCE_S = 60.0
# The last one may be as short as it likes.
_LEAST_S = 0.9


def longest_silence(said: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many whole intervals there were, and the most in succession without a byte."""
    silent: dict[tuple[int, bool], int] = {}
    intervals = longest = 0
    for interval in said["intervals"]:
        for stream in interval["streams"]:
            if stream["seconds"] < _LEAST_S:
                continue
            intervals += 1
            key = (stream["socket"], stream["sender"])
            silent[key] = 0 if stream["bytes"] else silent.get(key, 0) + 1
            longest = max(longest, silent[key])
    return intervals, longest


class Bulk:
    """Runs of iperf3 of ``run_s``, each way and both at once by turns."""

    def __init__(
        self, server: str, pid: int, folder: Path, tally: Tally, seed: int,
        run_s: float, stopped: threading.Event,
    ) -> None:  # fmt: skip
        self._server, self._pid, self._folder, self._tally = server, pid, folder, tally
        self._run_s, self._stopped = run_s, stopped
        self._rng = random.Random(f"{seed} iperf3")
        self._ways: list[str] = []

    def step(self) -> None:
        """Do one run. Raises CheckError if it fails or stands still."""
        if not self._ways:
            self._ways = self._rng.sample(list(_WAYS), len(_WAYS))
        way = self._ways.pop()
        seconds = max(2, round(self._run_s))
        argv = [
            *(program("iperf3", "iperf3"), "-c", self._server, "-p", str(SERVER.port), "-J"),
            *("-i", "1", "-b", f"{_RATE_MBPS}M", "-t", str(seconds), *_WAYS[way]),
        ]
        client = Client(argv, self._pid, self._folder)
        self.take(way, json.loads(client.result(seconds + _PATIENCE_S, expected=(0, 1))))
        self._stopped.wait(self._rng.uniform(0, min(_MOST_PAUSE_S, self._run_s)))

    def take(self, way: str, said: Mapping[str, Any]) -> None:
        """Count what it reports of a run. Raises CheckError if it has failed or stood still."""
        if "error" in said:
            raise CheckError(f"{way}: {said['error']}")
        end = said["end"]
        sums = ("sum_received", "sum_received_bidir_reverse")
        carried = sum(end[name]["bytes"] for name in sums if name in end)
        intervals, longest = longest_silence(said)
        self._tally.count("iperf3.runs")
        self._tally.count("iperf3.intervals", intervals)
        self._tally.count("iperf3.carried", carried)
        if longest:
            self._tally.count("iperf3.runs_with_silence")
        if longest >= STALLED_INTERVALS:
            raise CheckError(f"{way}: not a byte in {longest} intervals of a second")
