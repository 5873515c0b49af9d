"""Each alert fires by the fault that it is for, and only then.

Two real controllers, one the standby of the other, and the real switch. Each fault is caused, what
the controllers serve to Prometheus before it, during it and after it is scraped, and promtool plays
the real rules on it (`scraping`). So names, labels and values are those that an operator's
Prometheus gets. Faults of switches that a real one does not have are in
tests/controller/test_switch_alerts.py.

WeirNoMaster is for a fault that the election leaves no room for: some controller is always master.
Here Prometheus does not ask the one that is.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from controller.southbound.switch.pipeline import Table
from experiments.traffic.reader import IncastSpec
from promtool import ALERTS
from scraping import Phase, Scrape, require_alerts, require_silence
from starving import starved
from testbed.bed import Bed
from testbed.command import run, wait_until
from testbed.controller import Controller
from testbed.host import Host
from testbed.sandbox import RUN_DIR
from traffic import flood, incast, is_regulated
from watched import SECRET, World, sections, signalled, token, world

# How often the controller reads the counters of queues and of meters.
READ_S, METERS_READ_S = 1.0, 2.0
FORWARD_TABLE = Table.FORWARD.value

# In tests/controller/test_switch_alerts.py.
OF_BROKEN_SWITCHES = {
    *("WeirSwitchNotReady", "WeirSwitchDoesNotRead", "WeirRegistersShort", "WeirNoticesMissed"),
    *("WeirMessagesUnusable", "WeirControlSlow"),
}


def live(test: Callable[[Path], None]) -> Callable[[Path], None]:
    """A test in a network of its own, with the real switch."""
    for mark in (pytest.mark.netns, pytest.mark.switch, pytest.mark.long, pytest.mark.timing):
        test = mark(test)
    return test


# The faults


class Fault(NamedTuple):
    """What fires by it: the alert that it is for, those that follow, and those that may."""

    alerts: frozenset[str]
    may: frozenset[str]
    cause: Callable[[World], AbstractContextManager[Phase | None]]


FAULTS: list[Fault] = []

Cause = Callable[[World], Iterator[Phase | None]]


def fault(*alerts: str, may: Sequence[str] = ()) -> Callable[[Cause], Cause]:
    """A fault, which goes on while its generator waits. It yields how it was scraped, if that takes
    more than a moment."""

    def add(cause: Cause) -> Cause:
        FAULTS.append(Fault(frozenset(alerts), frozenset(may), contextmanager(cause)))
        return cause

    return add


@fault("WeirPortWithoutQueue")
def a_port_loses_its_queue(world: World) -> Iterator[None]:
    name = world.bottleneck
    qos = world.bed.ovs.vsctl("get", "port", name, "qos").strip()
    world.bed.ovs.vsctl("clear", "port", name, "qos")
    world.wait("weir_port_has_queue", 0, name=name)
    yield
    world.bed.ovs.vsctl("set", "port", name, f"qos={qos}")
    world.wait("weir_port_has_queue", 1, name=name)


@fault("WeirNoStandby")
def the_standby_has_another_secret(world: World) -> Iterator[None]:
    world.b.kill()
    file = RUN_DIR / "b" / "secret"
    file.write_text("another secret!!")
    world.start_standby()
    world.wait("weir_standby_heard", 0, instance="a")
    yield
    world.b.kill()
    file.write_text(SECRET)
    world.b.start()
    world.wait_for_the_standby()


@fault("WeirDown", "WeirNoStandby")
def the_standby_is_killed(world: World) -> Iterator[None]:
    world.b.kill()
    world.wait("weir_standby_heard", 0, instance="a")
    yield
    world.b.start()
    world.wait_for_the_standby()


@fault("WeirDown")
def metrics_hang(world: World) -> Iterator[Phase]:
    child = api_process(world.b)
    os.kill(child, signal.SIGSTOP)
    patient_s, world.scraper.timeout_s = world.scraper.timeout_s, 0.5
    yield [world.scraper.scrape() for _ in range(2)]
    world.scraper.timeout_s = patient_s
    os.kill(child, signal.SIGCONT)
    world.wait("up", 1, instance="b")


@fault("WeirApiDown")
def the_address_of_the_api_is_taken(world: World) -> Iterator[None]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = sections("b")["northbound"]["api"] | {
            "listen": f"127.0.0.1:{other.getsockname()[1]}"
        }
        world.configure(world.b, {"northbound": {"api": taken}})
        world.wait("weir_api_up", 0, instance="b")
        yield
    world.wait("weir_api_up", 1, instance="b")


# As on a disk that is full.
@fault("WeirEventLogEnded")
def the_event_log_cannot_be_written(world: World) -> Iterator[None]:
    events = RUN_DIR / "b" / "events.jsonl"
    events.symlink_to("/dev/full")
    world.configure(world.b, {"log": {"events": str(events)}})
    world.b.kill()
    world.start_standby()
    world.wait("weir_event_log_written", 0, instance="b")
    yield
    events.unlink()
    world.configure(world.b, {})
    world.wait("weir_event_log_written", 1, instance="b")
    world.wait_for_the_standby()


@fault("WeirExpiresSoon")
def a_token_is_about_to_end(world: World) -> Iterator[None]:
    def ends_in_days(days: int) -> bool:
        ends_s = world.scraper.scrape().find("weir_token_expires_timestamp_seconds", instance="b")
        return ends_s is not None and abs(ends_s - time.time() - days * 86_400) < 3600

    token("b", 10)
    world.configure(world.b, {})
    world.wait_until(lambda: ends_in_days(10), "the end of the token is known")
    yield
    token("b", 90)
    world.configure(world.b, {})
    world.wait_until(lambda: ends_in_days(90), "the end of the new token is known")


# It has never heard of a, so that a does not hear it.
@fault("WeirTwoMasters", "WeirNoStandby")
def the_standby_has_no_standby_section(world: World) -> Iterator[None]:
    config = world.b.config_file.read_text()
    alone = {key: told for key, told in yaml.safe_load(config).items() if key != "standby"}
    world.b.kill()
    world.b.config_file.write_text(yaml.safe_dump(alone))
    world.start_standby()
    world.wait("weir_master", 1, instance="b")
    yield
    world.b.kill()
    world.b.config_file.write_text(config)
    world.b.start()
    world.wait_for_the_standby()


@fault("WeirNoMaster")
def prometheus_does_not_ask_the_master(world: World) -> Iterator[None]:
    asked = world.scraper.targets
    world.scraper.targets = {"b": asked["b"]}
    yield
    world.scraper.targets = asked


@fault("WeirMainLoopLate")
def the_standby_has_no_processor_for_long(world: World) -> Iterator[None]:
    with starved(partial(signalled, world.b), stopped_s=0.15, running_s=0.02):
        yield


# Datagrams that find the queue full are dropped, and there is no room for answers meanwhile.
@fault("WeirPortCongested", "WeirDrops", "WeirRequestsOverdue")
def datagrams_fill_a_port(world: World) -> Iterator[Phase]:
    bed = world.bed
    receiver = bed.host(bed.roles.receiver)
    one, other = (bed.host(name) for name in bed.roles.senders[-2:])
    with (
        requests(world, 500),
        flood("datagram", one, receiver, 7000),
        flood("datagram", other, receiver, 7000),
    ):
        world.wait_for_more("weir_port_overdue_requests_total")
        scraped: list[Scrape] = []

        # A machine that is busy otherwise may keep the floods from filling it for a while.
        def is_full() -> bool:
            scraped[:] = world.scraper.watch(0.7 * READ_S)
            return all(fullness(scrape, world.bottleneck) > 0.9 for scrape in scraped)

        world.wait_until(is_full, "the queue is full")
        yield scraped
    world.wait_still("weir_queue_dropped_packets_total", READ_S)
    world.wait_still("weir_port_overdue_requests_total", READ_S)


# Those that were held may be overdue in the end.
@fault("WeirRequestsNotHeld", may=["WeirRequestsOverdue"])
def more_is_asked_than_can_be_held(world: World) -> Iterator[Phase]:
    world.configure(world.a, {"regulation": {"max_hold": "1 s"}})
    with requests(world, 16_000):
        world.wait_for_more("weir_port_full_requests_total")
        yield world.scraper.watch(0.7 * READ_S)
    world.configure(world.a, {"regulation": {"max_hold": "160 ms"}})
    world.wait_still("weir_port_full_requests_total", READ_S)
    # What is held when the flood ends is overdue up to a second later.
    world.wait_still("weir_port_overdue_requests_total", READ_S)


@fault("WeirOverBudget")
def a_host_floods_arp(world: World) -> Iterator[Phase]:
    mad, other = (world.bed.host(name) for name in world.bed.roles.senders[:2])
    with flood("arp", mad, other, 2000):
        world.wait_for_more("weir_packet_ins_dropped_total")
        yield world.scraper.watch(0.5 * METERS_READ_S)
    world.wait_still("weir_packet_ins_dropped_total", METERS_READ_S)


@fault("WeirHalfOpenFlood")
def a_host_floods_syns(world: World) -> Iterator[None]:
    mad, other = (world.bed.host(name) for name in world.bed.roles.senders[:2])
    with flood("syn", mad, other, 8000, "10.0.0.250"):
        world.wait_for_more("weir_half_open_given_up_total", reason="flooded")
        yield


# What it does not take is refused again at each audit, and counted among what it says.
@fault("WeirEntriesRefused", may=["WeirMessagesUnusable"])
def a_table_is_full(world: World) -> Iterator[None]:
    (switch,), vsctl = world.bed.switches, world.bed.ovs.vsctl
    vsctl(
        *("set", "bridge", switch.name, f"flow_tables:{FORWARD_TABLE}=@full"),
        *("--", "--id=@full", "create", "flow_table", "flow_limit=1", "overflow_policy=refuse"),
    )
    world.bed.ovs.ofctl("del-flows", switch.name, f"table={FORWARD_TABLE}")
    world.wait_for_more("weir_switch_entries_refused")
    yield
    vsctl("clear", "bridge", switch.name, "flow_tables")
    world.wait("weir_switch_entries_refused", 0, instance="a")


@fault("WeirSwitchFlaps")
def the_control_network_blinks(world: World) -> Iterator[Phase]:
    (switch,) = world.bed.switches
    scrapes = []
    for _ in range(2):
        lost = world.scraper.scrape().find("weir_switch_disconnections_total", instance="a")
        world.bed.ovs.appctl("bridge/reconnect", switch.name)
        world.wait("weir_switch_disconnections_total", (lost or 0) + 1, instance="a")
        world.wait("weir_switch_ready", 1, instance="a")
        scrapes.append(world.scraper.scrape())
    yield scrapes
    world.wait("weir_switch_connected", 1, instance="b")


@fault("WeirSwitchAway")
def the_switch_is_killed(world: World) -> Iterator[None]:
    world.bed.ovs.kill_switch()
    world.wait("weir_switch_connected", 0, instance="a")
    yield
    world.bed.ovs.start_switch()
    world.wait("weir_switch_ready", 1, instance="a")
    world.bed.put_release_first()
    world.wait("weir_switch_connected", 1, instance="b")
    world.bed.require_forwarding()


@contextmanager
def requests(world: World, per_s: int) -> Iterator[None]:
    """The receiver asks a sender for data by connections that are not there."""
    bed, (name, *_) = world.bed, world.bed.roles.senders
    asking, asked = bed.host(bed.roles.receiver), bed.host(name)
    # It answers somebody, so that the switch looks at what is asked of it.
    spec = IncastSpec(senders=1, rounds=100_000, block_bytes=1000)
    with incast(bed, spec, [name]) as answered:
        answered.require_progress(1, 20, "before the flood")
        with flood("request", asking, asked, per_s):
            yield


def fullness(scrape: Scrape, port: str) -> float:
    """The length of a port's queue, by its limit."""
    queue_bytes = scrape.find("weir_queue_bytes", name=port)
    limit_bytes = scrape.find("weir_queue_limit_bytes", name=port)
    assert queue_bytes is not None and limit_bytes
    return queue_bytes / limit_bytes


def api_process(controller: Controller) -> int:
    """The process of the API and the metrics, which is the controller's only child."""
    assert controller.process is not None
    pid = controller.process.pid
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


@contextmanager
def ordinary_traffic(bed: Bed) -> Iterator[None]:
    """redis, HTTP with a connection for each request, bulk, and reads from several at once."""
    receiver = bed.host(bed.roles.receiver)
    redis, web, bulk, *others = bed.roles.senders
    commands = (
        (bed.host(redis), "redis-server --port 6379 --protected-mode no --save"),
        (
            bed.host(web),
            f"{sys.executable} -m http.server 8000 --directory {Path(__file__).parent}",
        ),
        (bed.host(bulk), "iperf3 --server"),
        (receiver, f"redis-benchmark -h {bed.host(redis).IP()} -l -q -c 20 -t get"),
        (receiver, f"ab -t 600 -c 4 http://{bed.host(web).IP()}:8000/traffic.py"),
        (receiver, f"iperf3 --client {bed.host(bulk).IP()} --reverse --time 600"),
    )
    with ExitStack() as running:
        for host, command in commands:
            argv = [*command.split(), ""] if command.endswith("--save") else command.split()
            process = host.popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
            running.callback(process.wait)
            running.callback(process.kill)
            if host is not receiver:
                port = {redis: 6379, web: 8000, bulk: 5201}[host.name]
                wait_until(partial(listens, host, port), timeout_s=20, what=f"{command} listens")
        running.enter_context(incast(bed, IncastSpec(senders=len(others), rounds=100_000), others))
        yield


def listens(host: Host, port: int) -> bool:
    return f":{port}" in run(["ss", "-Hltn", f"sport = :{port}"], pid=host.pid)


@live
def test_nothing_fires_in_an_hour_of_ordinary_work(tmp_path: Path) -> None:
    with world() as made, ordinary_traffic(made.bed):
        wait_until(lambda: is_regulated(made.bed), timeout_s=20, what="there is an account")
        usual = made.scraper.watch(every_s=1.0, scrapes=20)
    require_silence(tmp_path, usual)


@live
def test_each_alert_fires_by_its_fault(tmp_path: Path) -> None:
    with world() as made, ThreadPoolExecutor(1) as player:
        played = {}
        after = made.scraper.watch()
        for alerts, may, cause in FAULTS:
            before = after
            with cause(made) as phase:
                during = phase or made.scraper.watch()
            after = made.scraper.watch()
            directory = tmp_path / cause.__name__
            directory.mkdir()
            scraped = before, during, after
            played[cause.__name__] = player.submit(require_alerts, directory, *scraped, alerts, may)
        failed = {name: str(done.exception()) for name, done in played.items() if done.exception()}
    assert not failed, "\n".join(f"{name}: {why}" for name, why in failed.items())


def test_every_alert_has_its_fault() -> None:
    provoked = {alert for fault in FAULTS for alert in fault.alerts}
    assert provoked | OF_BROKEN_SWITCHES == ALERTS.keys()
