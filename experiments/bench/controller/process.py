"""A controller under measurement, in a process and on a processor of its own."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from controller.ops.event_log import read_events
from experiments.bench.controller.fake_switch import FakeSwitch
from experiments.measure.process import footprint, processor_s
from testbed.command import wait_until
from testbed.controller import listening

PORT = 6653
_START_TIMEOUT_S = 30.0
_END_TIMEOUT_S = 10.0
_LOG_TIMEOUT_S = 10.0


class ControllerProcess:
    """Context manager around a controller that listens on ``PORT``.

    It runs on the first of the processors that this process may use, this process on the last; or,
    if not ``pinned``, both on all of them. ``state`` is its directory for what outlasts it.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        pinned: bool = True,
        state: Path | None = None,
    ) -> None:
        processors = sorted(os.sched_getaffinity(0))
        if pinned:
            os.sched_setaffinity(0, {processors[0]})
        try:
            with log.open("ab") as out:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", *command],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                    env=os.environ | ({"STATE_DIRECTORY": str(state)} if state else {}),
                )
        finally:
            os.sched_setaffinity(0, processors)
        if pinned:
            os.sched_setaffinity(0, {processors[-1]})
        self._processors = processors

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.sched_setaffinity(0, self._processors)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process.poll() is not None

    def wait_until_listening(self, timeout_s: float = _START_TIMEOUT_S) -> None:
        """Raises TimeoutError, also if it has ended."""
        wait_until(
            lambda: self.ended or listening(PORT),
            timeout_s=timeout_s,
            what="the controller listens",
        )
        if self.ended:
            raise TimeoutError("the controller has ended at once")

    def connect(self) -> FakeSwitch:
        """A switch that has introduced itself and its hosts, as soon as the controller listens."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                return FakeSwitch(("127.0.0.1", PORT))
            except ConnectionRefusedError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.05)

    def processor_s(self) -> float:
        """The processor time that it has used so far."""
        return processor_s(self._process.pid)

    def resident_bytes(self) -> int:
        """Its memory (RSS)."""
        return footprint(self._process.pid).rss_kb * 1024


class Weir(ControllerProcess):
    """``weir-controller`` as a user starts it.

    Links are so fast and buffers so large that standing windows are far above those of a notice. So
    each notice of congestion lowers them, and each notice of recovery raises them again.
    ``sections`` are added to the configuration.
    """

    def __init__(
        self,
        directory: Path,
        scheme: str = "weir",
        sections: Mapping[str, Mapping[str, object]] | None = None,
        *,
        pinned: bool = True,
        state: Path | None = None,
    ) -> None:
        self._events = directory / "events.jsonl"
        config = {
            "openflow": {"listen": f"tcp:127.0.0.1:{PORT}"},
            "fabric": {"link_capacity": "10 Gbit/s", "egress_buffer": "2 GiB"},
            "regulation": {"scheme": scheme},
            # One connection stands for a whole fabric here: the budgets of a switch must not bind.
            "budgets": {"switch_segments": 10**7, "switch_ends": 10**7, "switch_frames": 10**7},
            "log": {"events": str(self._events)},
            **(sections or {}),
        }
        file = directory / "controller.yaml"
        file.write_text(json.dumps(config))
        command = ["controller", "--config", str(file)]
        super().__init__(command, directory / "weir.log", pinned=pinned, state=state)

    def burst_flows(self, port: int, notices: int = 1) -> list[int]:
        """The number of burst flows that every notice of a port found so far, as soon as so many
        ``notices`` are in the event log, which is written a little later. Raises TimeoutError."""

        def found() -> list[int]:
            events = read_events(self._events, "queue_event")
            return [event["burst"] for event in events if event["port"] == port]

        wait_until(
            lambda: len(found()) >= notices,
            timeout_s=_LOG_TIMEOUT_S,
            what=f"{notices} notices of port {port} are in the event log",
        )
        return found()


class StockRyu(ControllerProcess):
    """An ordinary Ryu application."""

    def __init__(self, directory: Path, *, flow_mods: bool) -> None:
        options = [] if flow_mods else ["--no-flow-mods"]
        super().__init__(
            ["experiments.bench.controller.stock_ryu", str(PORT), *options], directory / "ryu.log"
        )
