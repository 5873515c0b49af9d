"""The available bandwidth that the controller reports, compared with the true one and with iperf3.

Two switches are joined by 100 Mb/s, as are hosts. Random background loads of UDP, constant, Poisson
or in bursts, from 10 to 90 Mb/s, are on the link between the switches, or, every other one, on that
of the sender, to a host of the same switch. Under each load the controller is asked five times, a
second apart. ``bound_held`` is the share of answers for which the mean of the second after was
within the stated error (answers under one load are not independent). Then iperf3 sends by TCP Reno
for some seconds: ``iperf3_ratio`` is its rate, in frames, over the last answer, ``agreed`` the
share of loads where both agree within 5 %.

Queue and congestion control are chosen so that TCP takes all that a load leaves, and not more: with
64 KiB it leaves a tenth of it beside bursts, and BBR pushes aside up to a tenth more of traffic
that does not yield. A trial that is void is repeated (``experiments.bench.valid``).
"""

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from controller.cli.client import Client
from experiments.bench import sandboxed
from experiments.bench.sandboxed import Incomplete
from experiments.bench.valid import VoidRuns
from experiments.bench.watched import until_valid, watched
from experiments.measure.record import bytes_between
from experiments.traffic.load import PATTERNS
from experiments.traffic.program import Program
from testbed import sandbox
from testbed.bed import Bed
from testbed.config import BedConfig, HostSettings

_LOADS = 20
_RATE_BPS = 100_000_000
_LEAST_BPS, _MOST_BPS = 10e6, 90e6
# 80 ms of the link; and of a host's own link, so much that TCP and a load that does not yield fit.
_BUFFER_BYTES, _HOSTS_BUFFER_BYTES = 1024 * 1024, 4 * 1024 * 1024
_SETTLE_S, _FORECAST_S, _PROBE_S = 4.0, 1.0, 8
_ANSWERS, _PROBE_SETTLE_S = 5, 2
# What of a frame of 1,514 bytes is data, with timestamps.
_SEGMENT_BYTES, _FRAME_BYTES = 1448, 1514
_IPERF_PORT = 5201
_AGREED = 0.05


def run(progress: Callable[[str], None], *, loads: int = _LOADS, seed: int = 1) -> dict[str, float]:
    """Measure; see ``experiments.bench``."""
    found = sandboxed.result("experiments.bench.controller.bandwidth", str(loads), str(seed))
    trials: list[dict[str, Any]] = found["trials"]
    counted = {"bandwidth_loads": len(trials), "bandwidth_void_runs": found["void_runs"]}
    if not trials:
        raise Incomplete(counted, ["every load"])
    for trial in trials:
        last = trial["answers"][-1]
        progress(
            f"{trial['pattern']:8} {trial['load_mbps']:4.1f} Mb/s {trial['on']}: available "
            f"{last['available_mbps']:.2f} +- {last['error_mbps']:.2f}, "
            f"was {last['true_mbps']:.2f}, iperf3 got {trial['iperf3_mbps']:.2f}"
        )
    answers = [answer for trial in trials for answer in trial["answers"]]
    off = [abs(answer["available_mbps"] - answer["true_mbps"]) for answer in answers]
    held = sum(miss <= answer["error_mbps"] for miss, answer in zip(off, answers, strict=True))
    ratios = [trial["iperf3_mbps"] / trial["answers"][-1]["available_mbps"] for trial in trials]
    of_senders = [
        ratio for ratio, trial in zip(ratios, trials, strict=True) if trial["on"] == "of the sender"
    ]
    figures = {
        **counted,
        "bandwidth_off_mean_mbps": sum(off) / len(off),
        "bandwidth_off_worst_mbps": max(off),
        "bandwidth_answers": len(answers),
        "bandwidth_error_mean_mbps": sum(a["error_mbps"] for a in answers) / len(answers),
        "bandwidth_bound_held": held / len(answers),
        "bandwidth_iperf3_ratio_least": min(ratios),
        "bandwidth_iperf3_ratio_mean": sum(ratios) / len(ratios),
        "bandwidth_iperf3_ratio_most": max(ratios),
        "bandwidth_iperf3_agreed": sum(abs(r - 1) <= _AGREED for r in ratios) / len(ratios),
        "bandwidth_loaded_senders": len(of_senders),
    }
    if of_senders:
        agreed = sum(abs(ratio - 1) <= _AGREED for ratio in of_senders)
        figures["bandwidth_loaded_senders_agreed"] = agreed / len(of_senders)
    if len(trials) < loads:
        raise Incomplete(figures, [f"{loads - len(trials)} loads"])
    return figures


def measure(loads: int, seed: int) -> dict[str, Any]:
    """Ask and probe under each load in turn."""
    rng = random.Random(seed)
    socket_path = str(sandbox.RUN_DIR / "controller.sock")
    config = BedConfig(
        senders=1,
        rate_bps=_RATE_BPS,
        bottleneck_limit_bytes=_BUFFER_BYTES,
        limit_bytes=_HOSTS_BUFFER_BYTES,
        scheme="none",
        host=HostSettings(congestion_control="reno"),
        controller={"northbound": {"socket": socket_path}},
    )
    trials = []
    void = VoidRuns(lambda line: print(line, file=sys.stderr, flush=True))
    with Bed(config) as bed:
        bed.require_forwarding()
        client = Client(socket_path)
        for number in range(loads):
            pattern = rng.choice(PATTERNS)
            rate_bps = rng.uniform(_LEAST_BPS, _MOST_BPS)
            name = f"{seed} {number}"
            at_sender = bool(number % 2)
            one = until_valid(
                void,
                number,
                # iperf3 takes what the load leaves.
                partial(
                    watched,
                    bed,
                    partial(_trial, bed, client, pattern, rate_bps, name, at_sender=at_sender),
                    filled=not at_sender,
                    narrowest=bed.host("b1") if at_sender else None,
                ),
            )
            if not one.void:
                trials.append(one.found)
    return {"trials": trials, "void_runs": void.counts.total()}


def _trial(
    bed: Bed, client: Client, pattern: str, rate_bps: float, seed: str, *, at_sender: bool
) -> dict[str, Any]:
    """Try one load. The probe goes from b1 to r1, the load from h1 to r2, or from b1 to h1."""
    names = ("b1", "h1", "b1", "r1") if at_sender else ("h1", "r2", "b1", "r1")
    loader, sink, sender, receiver = (bed.host(name) for name in names)
    args = [f"--sender-pid={loader.pid}", f"--receiver-pid={sink.pid}", f"--to={sink.IP()}"]
    args += [f"--rate-bps={rate_bps}", f"--pattern={pattern}", f"--seed={seed}"]
    ends = {"src": sender.IP(), "dst": receiver.IP()}
    log = bed.run_dir / "workload.log"
    with Program("experiments.traffic.load", args, log=log) as load:
        load.expect("sending")
        # While somebody asks, counters are read often.
        client.ask("bandwidth", ends)
        time.sleep(_SETTLE_S)
        asked = []
        for _ in range(_ANSWERS):
            path = client.ask("bandwidth", ends)
            asked.append((time.monotonic_ns(), path))
            time.sleep(_FORECAST_S + 0.2)
        iperf3_bps = _probe_bps(sender, receiver)
        load.finish()
        sent = load.expect("done")["bytes"]

    def answer(asked_ns: int, path: Mapping[str, Any]) -> dict[str, float]:
        """The answer, and the true bandwidth during the time that it was about."""
        until_ns = asked_ns + int(_FORECAST_S * 1e9)
        load_bps = bytes_between(sent, asked_ns, until_ns) * 8 / _FORECAST_S
        return {
            "available_mbps": path["available_bps"] / 1e6,
            "error_mbps": (path["error_bps"] or 0.0) / 1e6,
            "true_mbps": (_RATE_BPS - load_bps) / 1e6,
        }

    return {
        "pattern": pattern,
        "on": "of the sender" if at_sender else "on the path",
        "load_mbps": rate_bps / 1e6,
        "answers": [answer(*one) for one in asked],
        "iperf3_mbps": iperf3_bps / 1e6,
    }


def _probe_bps(sender: Any, receiver: Any) -> float:
    """The rate of a TCP connection of iperf3, in frames."""
    server = receiver.popen(
        ["iperf3", "--server", "--one-off", "--port", str(_IPERF_PORT)],
        stdout=subprocess.DEVNULL,
    )
    time.sleep(0.3)
    client = sender.popen(
        [
            *("iperf3", "--client", receiver.IP(), "--port", str(_IPERF_PORT)),
            *("--time", str(_PROBE_S), "--omit", str(_PROBE_SETTLE_S), "--json"),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    told, _ = client.communicate(timeout=60)
    server.wait(timeout=10)
    goodput_bps = json.loads(told)["end"]["sum_received"]["bits_per_second"]
    return float(goodput_bps) * _FRAME_BYTES / _SEGMENT_BYTES


def main() -> None:
    """Entry point of the first process in a sandbox."""
    sandbox.become_first_process()
    loads, seed, file = sys.argv[1:]
    Path(file).write_text(json.dumps(measure(int(loads), int(seed))))


if __name__ == "__main__":
    main()
