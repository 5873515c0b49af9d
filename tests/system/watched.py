"""Two controllers of one switch, one the standby of the other, and what Prometheus gathers of
them."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import yaml

from scraping import Scraper
from testbed.bed import Bed
from testbed.command import wait_until
from testbed.config import BedConfig
from testbed.controller import Controller
from testbed.sandbox import RUN_DIR

SENDERS = 8
SECRET = "0123456789abcdef"
OPENFLOW = {"a": 6653, "b": 6663}
PEER_PORTS = {"a": 6654, "b": 6664}
METRICS = {"a": 9464, "b": 9465}
API = {"a": 8181, "b": 8182}


def sections(name: str) -> dict[str, dict[str, Any]]:
    """What the configuration of a controller says beside the test bed's."""
    (other,) = OPENFLOW.keys() - {name}
    directory = RUN_DIR / name
    return {
        "openflow": {"listen": f"tcp:127.0.0.1:{OPENFLOW[name]}"},
        "fabric": {"switch_grace": "1 s"},
        "budgets": {"audit_interval": "1 s"},
        "log": {"events": None, "connections": False},
        "northbound": {
            "socket": str(directory / "socket"),
            "metrics": f"127.0.0.1:{METRICS[name]}",
            "api": {
                "listen": f"127.0.0.1:{API[name]}",
                "tokens": str(directory / "tokens.yaml"),
            },
        },
        "standby": {
            "name": name,
            "listen": f"tcp:127.0.0.1:{PEER_PORTS[name]}",
            "peers": {other: f"127.0.0.1:{PEER_PORTS[other]}"},
            "secret": str(directory / "secret"),
        },
    }


class World:
    """Controller a has the switch, b is its standby."""

    def __init__(self, bed: Bed) -> None:
        assert bed.controller is not None
        self.bed = bed
        self.a = bed.controller
        config = yaml.safe_load(self.a.config_file.read_text()) | sections("b")
        self.b = Controller("b", config=config, run_dir=RUN_DIR / "b")
        self.scraper = Scraper(
            {name: f"http://127.0.0.1:{port}/metrics" for name, port in METRICS.items()}
        )

    def start(self) -> None:
        self.b.start()
        targets = [f"tcp:127.0.0.1:{port}" for port in OPENFLOW.values()]
        vsctl, (switch,) = self.bed.ovs.vsctl, self.bed.switches
        vsctl("set-controller", switch.name, *targets)
        for uuid in vsctl("get", "bridge", switch.name, "controller").split():
            vsctl("set", "controller", uuid.strip("[],"), "max_backoff=1000")
        self.wait_for_the_standby()
        self.wait("weir_switch_ready", 1, instance="a")
        self.bed.require_forwarding()
        self.wait("weir_port_has_queue", 1)

    def start_standby(self) -> None:
        """Start b, whether or not it is to hear a. Its alerts are those of its fault only once it
        has the switch."""
        self.b.start()
        self.wait("weir_switch_connected", 1, instance="b")

    def wait_for_the_standby(self) -> None:
        self.wait("weir_standby_heard", 1, instance="a")
        self.wait("weir_standby_heard", 1, instance="b")
        self.wait("weir_switch_connected", 1, instance="b")

    def wait(self, name: str, value: float | None, /, **labels: str) -> None:
        """Wait until a metric has this value, the largest where there are several; None: until
        there is none."""
        self.wait_until(
            lambda: self.scraper.scrape().find(name, **labels) == value,
            f"{name} is {value} where {labels}",
        )

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        wait_until(condition, timeout_s=20, what=what, poll_s=0.1)

    def wait_for_more(self, metric: str, /, **labels: str) -> None:
        """Wait until a metric grows."""
        before = self.scraper.scrape().find(metric, **labels) or 0.0
        self.wait_until(
            lambda: (self.scraper.scrape().find(metric, **labels) or 0) > before,
            f"{metric} grows",
        )

    def wait_still(self, counter: str, period_s: float) -> None:
        """Wait until a counter grows no more, which the controller reads once in this time."""
        values: dict[str, float] = {}
        since_s = 0.0

        def still() -> bool:
            nonlocal values, since_s
            scraped, now_s = self.scraper.scrape().values, time.monotonic()
            now = {name: value for name, value in scraped.items() if name.startswith(counter)}
            if now != values:
                values, since_s = now, now_s
            return now_s - since_s > 1.2 * period_s

        self.wait_until(still, f"{counter} grows no more")

    def configure(self, controller: Controller, change: Mapping[str, Mapping[str, Any]]) -> None:
        """Change keys of a controller's configuration and have it reload them."""
        config = yaml.safe_load(controller.config_file.read_text())
        for section, keys in change.items():
            config.setdefault(section, {}).update(keys)
        done = "configuration reloaded"
        before = controller.log.read_text().count(done)
        controller.config_file.write_text(yaml.safe_dump(config))
        signalled(controller, signal.SIGHUP)
        self.wait_until(lambda: controller.log.read_text().count(done) > before, "it is reloaded")

    @property
    def bottleneck(self) -> str:
        return self.bed.roles.bottleneck


def signalled(controller: Controller, number: int) -> None:
    assert controller.process is not None
    controller.process.send_signal(number)


def token(name: str, days: int) -> None:
    """Give a controller's API a token that is good for so many days."""
    new = RUN_DIR / name / "tokens.new"
    argv = [sys.executable, "-m", "controller", "token", str(new), "dashboard"]
    subprocess.run([*argv, "--days", str(days)], check=True, capture_output=True)
    new.replace(RUN_DIR / name / "tokens.yaml")


@contextmanager
def world() -> Iterator[World]:
    for name in OPENFLOW:
        (RUN_DIR / name).mkdir()
        (RUN_DIR / name / "secret").write_text(SECRET)
        token(name, 90)
    config = BedConfig(topology="star", senders=SENDERS, scheme="weir", controller=sections("a"))
    with Bed(config) as bed:
        made = World(bed)
        try:
            made.start()
            yield made
        finally:
            made.b.kill()
            for each in (made.a, made.b):
                print(f"--- {each.name}\n{each.log.read_text()[-3000:]}")
