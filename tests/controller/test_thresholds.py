"""The thresholds that the API reports are those in force at the real switch."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from controller.northbound.views import QueueView
from dummy_ovs import (
    REPOSITORY,
    Controller,
    DummyOvs,
    controlled,
    free_endpoint,
    patched_prefix,
    wait_for,
)

pytestmark = pytest.mark.switch


class SwitchWithApi:
    """A switch whose port 1 has an egress queue and whose port 2 has none, and the API."""

    def __init__(self, switch: DummyOvs, directory: Path) -> None:
        listen, api = free_endpoint(), free_endpoint()
        tokens = directory / "tokens.yaml"
        program = (sys.executable, "-m", "controller", "token", str(tokens), "operator")
        secret = subprocess.check_output(program, cwd=REPOSITORY, text=True).strip()
        self._client = httpx.Client(
            base_url=f"http://{api}", headers={"Authorization": f"Bearer {secret}"}
        )
        self._switch = switch
        config = {
            "openflow": {"listen": f"tcp:{listen}"},
            "northbound": {
                "socket": str(directory / "controller.sock"),
                "api": {"listen": api, "tokens": str(tokens)},
            },
        }
        self.controller = Controller(directory, json.dumps(config))
        self.controller.start()
        switch.add_bridge("s1", 1, listen)
        for number in (1, 2):
            switch.add_port("s1", f"p{number}", number)
        switch.vsctl(
            *("set", "port", "p1", "qos=@q", "--", "--id=@q", "create", "qos", "type=weir"),
            *("other-config:max-rate=8000000", "other-config:limit-bytes=60000"),
        )

    def set(self, *settings: str) -> None:
        """Change the configuration of the queue."""
        uuid = self._switch.vsctl("get", "port", "p1", "qos").strip()
        self._switch.vsctl("set", "qos", uuid, *(f"other-config:{one}" for one in settings))

    def tells(self, levels: dict[str, int] | None, packet_levels: dict[str, int] | None) -> bool:
        """Whether `/v1/ports` has these thresholds, and has them of port 1 alone."""
        queues = self._queues()
        return queues.get(2) == [] and [
            (queue["levels"], queue["packet_levels"]) for queue in queues[1]
        ] == [(levels, packet_levels)]

    def wait_for_reading(self) -> None:
        """Until `/v1/ports` has what the switch told after now."""
        now_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        wait_for(
            lambda: any(queue["switch_time_ns"] > now_ns for queue in self._queues().get(1, [])),
            "a report of the queue",
        )

    def _queues(self) -> dict[int, list[QueueView]]:
        """By port, as `/v1/ports` has them; none while there is no answer."""
        try:
            answer = self._client.get("/v1/ports")
        except httpx.ConnectError:
            return {}
        ports = answer.json()["ports"] if answer.status_code == 200 else []
        return {port["port"]: port["queues"] for port in ports}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SwitchWithApi]:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    with controlled(SwitchWithApi, patched_prefix(), tmp_path) as world:
        yield world


def test_the_api_reports_changed_thresholds(world: SwitchWithApi) -> None:
    default = {"low_bytes": 18_000, "mid_bytes": 36_000, "high_bytes": 48_000}
    wait_for(lambda: world.tells(default, None), "the defaults: 30, 60 and 80 % of the limit")
    world.set("low=10%", "mid=20000", "high=30000")
    changed = {"low_bytes": 6000, "mid_bytes": 20_000, "high_bytes": 30_000}
    wait_for(lambda: world.tells(changed, None), "the thresholds that were set")
    # Less than L: the switch refuses the record, and keeps what it had.
    world.set("high=10")
    world.wait_for_reading()
    assert world.tells(changed, None)
    world.set("low=10p", "mid=20p", "high=30p")
    packets = {"low_packets": 10, "mid_packets": 20, "high_packets": 30}
    wait_for(lambda: world.tells(None, packets), "thresholds in packets")
    assert "Traceback" not in world.controller.log
