"""Incidents of a running controller, whose API and which itself are killed meanwhile."""

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.model.values import Notice
from dummy_ovs import wait_for
from experiments.bench.controller.fake_switch import notice
from test_api_live import ControllerWithApi

DATAPATH = "0000000000000001"
PORT = 3


class Watched(ControllerWithApi):
    """Its switch tells of congestion when it is asked to."""

    sequence = 0

    def congests(self) -> None:
        """A queue is long for a moment."""
        for kind in (Notice.CN_L, Notice.CN_M, Notice.CR):
            self.sequence += 1
            self.switch.send(notice(kind, PORT, self.sequence))

    def incident(self) -> dict[str, Any]:
        now_s = time.time()
        query = f"from={now_s - 600}&to={now_s}&switch={DATAPATH}&port={PORT}"
        response = self.ask(f"/v1/incident?{query}")
        assert response.status_code == 200, response.text
        told: dict[str, Any] = response.json()
        return told

    def notices(self) -> list[str]:
        events = self.incident()["events"]
        return [one["notice"] for one in events if one["event"] == "queue_event"]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    (tmp_path / "state").mkdir()
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "state"))
    world = Watched(tmp_path)
    try:
        yield world
    finally:
        world.stop()


def child(world: Watched) -> str:
    process = world.controller._process
    assert process is not None
    found = subprocess.run(
        ["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True
    )
    return found.stdout.strip()


def test_what_happened_outlasts_the_api_and_the_controller(world: Watched) -> None:
    wait_for(lambda: world.ask("/v1/overview").json()["ports"]["with_queue"], "a sample")
    once = ["CN-L", "CN-M", "CR"]
    world.congests()
    wait_for(lambda: world.notices() == once, "the notices")
    told = world.incident()
    assert told["gaps"] == []
    (port,) = told["ports"]
    assert (port["datapath_id"], port["port"], port["worst"], port["notices"]) == (
        *(DATAPATH, PORT),
        *("M", 3),
    )
    wait_for(lambda: world.ask("/v1/overview").json()["events_per_minute"] >= 3, "them to count")

    # The API is killed, and misses some.
    subprocess.run(["kill", "-KILL", child(world)], check=True)
    world.congests()
    wait_for(lambda: "the API and the metrics has ended" in world.controller.log, "its end")
    world.congests()
    wait_for(world._answers, "the API to answer again")
    wait_for(lambda: world.notices() == 3 * once, "all notices")
    assert world.incident()["gaps"] == []

    # The controller is killed, and the API with it.
    killed_s = time.time()
    world.stop(signal.SIGKILL)
    world.start()
    wait_for(lambda: world.incident()["gaps"], "the controller to be heard again")
    told = world.incident()
    assert world.notices() == 3 * once
    (gap,) = told["gaps"]
    assert gap["why"] == "the controller was started again"
    assert gap["from_s"] <= killed_s <= gap["to_s"]
    world.sequence = 0
    world.congests()
    wait_for(lambda: world.notices() == 4 * once, "notices to be recorded again")
