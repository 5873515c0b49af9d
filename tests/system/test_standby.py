"""Two controllers of the same switches: one is the master, the other takes over.

Both are the real program, the switch is the patched one, and reads go on all the while.
"""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml

from certificates import Authority
from controller.cli.client import Client
from controller.ops.event_log import read_events
from experiments.measure import netstat
from experiments.traffic.reader import IncastSpec
from testbed.bed import Bed
from testbed.command import wait_until
from testbed.config import BedConfig
from testbed.switch import Switch
from traffic import account, accounts_in_force, incast, is_regulated, pinging

SENDERS = 16
TTL_S = 3.0
PORTS = {"a": 6653, "b": 6663}
PEER_PORTS = {"a": 6654, "b": 6664}
NOBODY = 6674
TAKEN_OVER_S = 2.0

pytestmark = [pytest.mark.netns, pytest.mark.switch, pytest.mark.timing]


class Member:
    """One of the controllers; with an authority, all that it says and hears is over TLS."""

    def __init__(
        self, bed: Bed, name: str, authority: Authority | None = None, *, cut: bool = False
    ) -> None:
        self.name = name
        other = "ab".replace(name, "")
        self.directory = bed.run_dir / name
        self.directory.mkdir()
        self.events_file = self.directory / "events.jsonl"
        self.log_file = self.directory / "controller.log"
        secret = bed.run_dir / "secret"
        secret.write_text("0123456789abcdef0123456789abcdef")
        assert bed.controller is not None
        config = yaml.safe_load(bed.controller.config_file.read_text())
        transport = "ssl" if authority else "tcp"
        config["openflow"] = {"listen": f"{transport}:127.0.0.1:{PORTS[name]}"}
        if authority is not None:
            own = authority.issue(name)
            files = {"key": own.key, "certificate": own.certificate, "ca": authority.certificate}
            config["tls"] = {key: str(file) for key, file in files.items()} | {"switches": "any"}
        config["log"] = {"events": str(self.events_file), "connections": True}
        config["northbound"] = {"socket": str(self.directory / "controller.sock")}
        config["standby"] = {
            "name": name,
            "listen": f"{transport}:127.0.0.1:{PEER_PORTS[name]}",
            "peers": {other: f"127.0.0.1:{NOBODY if cut else PEER_PORTS[other]}"},
        }
        if authority is None:
            config["standby"]["secret"] = str(secret)
        self.config_file = self.directory / "controller.yaml"
        self.config_file.write_text(yaml.safe_dump(config))
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def client(self) -> Client:
        return Client(str(self.directory / "controller.sock"))

    @property
    def off(self) -> list[dict]:
        """Where regulation is turned off, as far as it knows."""
        return self.client.ask("bypasses")["bypasses"]

    def start(self) -> None:
        starts = len(self.events("start"))
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "controller",
                    "--config",
                    str(self.config_file),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_until(
            lambda: len(self.events("start")) > starts, timeout_s=20, what=f"{self.name} is there"
        )

    def send(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def events(self, kind: str) -> list[dict]:
        return read_events(self.events_file, kind)

    @property
    def master(self) -> bool:
        return bool(ranks := self.events("rank")) and ranks[-1]["rank"] == "master"

    def wait_master(self, timeout_s: float = 10) -> None:
        wait_until(lambda: self.master, timeout_s=timeout_s, what=f"{self.name} is master")

    def since(self, kind: str, time_ns: int) -> list[float]:
        """When such things happened since then, in seconds after it."""
        times = (event["time_ns"] - time_ns for event in self.events(kind))
        return [after_ns / 1e9 for after_ns in times if after_ns > 0]

    @property
    def log(self) -> str:
        return self.log_file.read_text()


def give(switch: Switch, transport: str = "tcp") -> None:
    """Have a switch connect to both."""
    targets = [f"{transport}:127.0.0.1:{port}" for port in PORTS.values()]
    switch.ovs.vsctl("set-controller", switch.name, *targets)
    for uuid in switch.ovs.vsctl("get", "bridge", switch.name, "controller").split():
        switch.ovs.vsctl("set", "controller", uuid.strip("[],"), "max_backoff=1000")


@contextmanager
def pair(*, tls: bool = False, cut: bool = False) -> Iterator[tuple[Bed, Member, Member]]:
    """A bed whose switches have both controllers; a is the master. They do not hear each other if
    they are `cut` off."""
    config = BedConfig(
        topology="star",
        senders=SENDERS,
        scheme="weir",
        controller={"regulation": {"window_ttl": f"{TTL_S} s"}},
    )
    with Bed(config) as bed:
        assert bed.controller is not None
        bed.controller.stop()
        authority = Authority(bed.run_dir / "ca") if tls else None
        a, b = (Member(bed, name, authority, cut=cut) for name in "ab")
        try:
            a.start()
            a.wait_master()
            b.start()
            if authority is not None:
                own = authority.issue("switches")
                files = own.key, own.certificate, authority.certificate
                bed.ovs.vsctl("set-ssl", *map(str, files))
            for switch in bed.switches:
                give(switch, "ssl" if tls else "tcp")
            wait_until(lambda: bool(a.events("switch_up")), timeout_s=20, what="a has the switches")
            wait_until(
                lambda: roles(bed) == ["master", "slave"],
                timeout_s=20,
                what="the switches have a master and a slave",
            )
            bed.require_forwarding()
            yield bed, a, b
        finally:
            for member in (a, b):
                member.end()
                print(f"--- {member.name}\n{member.log}")


def roles(bed: Bed) -> list[str]:
    """The roles that the bottleneck's switch has given, sorted; those not connected have none."""
    bed.ovs.refresh_status()
    shown = bed.ovs.vsctl("--columns=role,is_connected", "--format=json", "list", "controller")
    rows = json.loads(shown)["data"]
    return sorted(str(role) for role, connected in rows if connected)


def timeouts(bed: Bed) -> int:
    """The retransmission timeouts of all hosts so far."""
    return netstat.total([host.pid for host in bed.hosts])[netstat.TIMEOUTS]


def flows(bed: Bed) -> set[str]:
    text = bed.bottleneck_switch.dpctl("dump-flows", "--no-stats")
    return {re.sub(r"idle_age=\d+", "", line) for line in text.splitlines() if "actions" in line}


@pytest.mark.slow
@pytest.mark.parametrize("tls", [False, True], ids=["tcp", "tls"])
def test_a_killed_master_is_replaced_within_two_seconds(tls: bool) -> None:
    with (
        pair(tls=tls) as (bed, a, b),
        incast(bed, IncastSpec(senders=SENDERS, rounds=100_000)) as reads,
    ):
        wait_until(lambda: is_regulated(bed), timeout_s=10, what="there is an account")
        reads.require_progress(20, 20, "under a")
        before, requests, rounds = timeouts(bed), account(bed)["requests.all"], reads.rounds
        killed_ns = time.monotonic_ns()
        a.send(signal.SIGKILL)
        b.wait_master(TAKEN_OVER_S)

        def regulated() -> bool:
            return bool(b.since("window_set", killed_ns))

        wait_until(regulated, timeout_s=TAKEN_OVER_S, what="b sets registers")
        (master_s, *_), (up_s, *_) = b.since("rank", killed_ns), b.since("switch_up", killed_ns)
        set_s = b.since("window_set", killed_ns)[0]
        print(f"master after {master_s:.3f} s, switch {up_s:.3f} s, registers {set_s:.3f} s")
        assert set_s < TAKEN_OVER_S
        reads.require_progress(20, 20, "under b")
        adopted = [event for event in b.events("connection_opened") if event["adopted"]]
        assert len(adopted) == SENDERS, (
            "the connections are older than b, and it knows each of them"
        )
        assert is_regulated(bed)
        kept = account(bed)
        assert kept["now.connections"] == SENDERS
        # Those that come by while there is no account are not counted.
        assert kept["requests.all"] - requests >= 0.95 * (reads.rounds - rounds - 1) * SENDERS
        assert timeouts(bed) == before

        # Whoever comes back finds a master, and leaves it alone.
        a.start()
        wait_until(lambda: roles(bed) == ["master", "slave"], timeout_s=20, what="a is slave")
        reads.require_progress(10, 20, "with a back")
        assert b.master
        assert "no longer master" not in b.log


def test_what_is_turned_off_stays_off_under_the_other_one_until_either_turns_it_on() -> None:
    with pair() as (bed, a, b), incast(bed, IncastSpec(senders=SENDERS, rounds=100_000)) as reads:
        wait_until(lambda: is_regulated(bed), timeout_s=10, what="there is an account")
        asked_s = time.monotonic()
        assert a.client.ask("off", {"by": "ada"})["unaware"] == []
        wait_until(lambda: bool(b.off), timeout_s=1, what="b knows")
        wait_until(lambda: not accounts_in_force(bed), timeout_s=5, what="it is in force")
        assert time.monotonic() - asked_s <= 1
        assert [one["by"] for one in b.off] == ["ada"]

        killed_ns = time.monotonic_ns()
        a.send(signal.SIGKILL)
        b.wait_master(TAKEN_OVER_S)
        wait_until(lambda: bool(b.since("switch_up", killed_ns)), timeout_s=5, what="b has it")
        reads.require_progress(5, 20, "under b, unregulated")
        assert accounts_in_force(bed) == {}
        assert b.since("window_set", killed_ns) == []

        # It kept nothing itself, since it has no state directory.
        a.start()
        wait_until(lambda: bool(a.off), timeout_s=5, what="a learns it from b")
        asked_s = time.monotonic()
        assert len(a.client.ask("on", {"by": "bob"})["on"]) == 1
        wait_until(lambda: is_regulated(bed), timeout_s=5, what="b regulates")
        assert time.monotonic() - asked_s <= 1
        assert a.off == b.off == []
        reads.require_progress(10, 20, "under regulation again")
        assert b.master


def test_sigterm_hands_over_at_once() -> None:
    with pair() as (bed, a, b), incast(bed, IncastSpec(senders=SENDERS, rounds=100_000)) as reads:
        reads.require_progress(10, 20, "under a")
        before = timeouts(bed)
        told_ns = time.monotonic_ns()
        a.send(signal.SIGTERM)
        b.wait_master(TAKEN_OVER_S)
        assert b.since("rank", told_ns)[0] < 0.5
        assert a.process is not None
        assert a.process.wait(10) == 0
        assert "INFO    weir.standby: a is no longer master" in a.log
        reads.require_progress(10, 20, "under b")
        assert timeouts(bed) == before


def test_a_master_that_was_frozen_writes_no_more() -> None:
    with pair() as (bed, a, b), incast(bed, IncastSpec(senders=SENDERS, rounds=100_000)) as reads:
        reads.require_progress(10, 20, "under a")
        frozen_ns = time.monotonic_ns()
        a.send(signal.SIGSTOP)
        b.wait_master(TAKEN_OVER_S)
        wait_until(
            lambda: bool(b.since("window_set", frozen_ns)),
            timeout_s=TAKEN_OVER_S,
            what="b regulates",
        )
        reads.require_progress(10, 20, "under b")
        held = flows(bed)
        thawed_ns = time.monotonic_ns()
        a.send(signal.SIGCONT)
        wait_until(
            lambda: "a is no longer master" in a.log,
            timeout_s=5,
            what="a notices what has happened",
        )
        reads.require_progress(10, 20, "under b, with a awake")
        assert b.master
        assert roles(bed) == ["master", "slave"]
        stepped_down_s = a.since("rank", thawed_ns)[0]
        assert not [
            after_s for after_s in a.since("window_set", thawed_ns) if after_s > stepped_down_s
        ]
        assert held <= flows(bed)


def test_a_switch_that_is_taken_from_both_and_given_back_goes_on_forwarding() -> None:
    with pair() as (bed, a, _):
        switch = bed.bottleneck_switch
        switch.ovs.vsctl("set", "bridge", switch.name, "other_config:keep-flows=true")
        # The others end by themselves.
        held = {flow for flow in flows(bed) if "timeout" not in flow}
        ends = (bed.host(name) for name in (bed.roles.senders[0], bed.roles.receiver))
        with pinging(*ends) as pings:
            switch.ovs.vsctl("del-controller", switch.name)
            wait_until(lambda: bool(a.events("switch_down")), timeout_s=5, what="a has lost it")
            assert held <= flows(bed)
            # By now the datapath has asked its tables anew.
            switch.ovs.appctl("revalidator/wait")
            bed.require_forwarding()
            assert roles(bed) == []

            give(switch)
            wait_until(
                lambda: roles(bed) == ["master", "slave"], timeout_s=10, what="both have it again"
            )
            bed.require_forwarding()
        assert held <= flows(bed)
        sent, answered = pings
        # One may be on its way at the end.
        assert answered >= sent - 1


@pytest.mark.slow
def test_two_that_cannot_hear_each_other_do_not_fight_for_the_switches() -> None:
    with (
        pair(cut=True) as (bed, a, b),
        incast(bed, IncastSpec(senders=SENDERS, rounds=100_000)) as reads,
    ):
        ranks = len(a.events("rank")) + len(b.events("rank"))
        for _ in range(3):
            reads.require_progress(20, 20, "under one of them")
            assert roles(bed) == ["master", "slave"]
        assert len(a.events("rank")) + len(b.events("rank")) == ranks
        master, other = (a, b) if a.master else (b, a)
        killed_ns = time.monotonic_ns()
        master.send(signal.SIGKILL)
        other.wait_master(TAKEN_OVER_S)
        wait_until(
            lambda: bool(other.since("window_set", killed_ns)),
            timeout_s=TAKEN_OVER_S,
            what="registers",
        )
