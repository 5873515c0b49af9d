"""Real TCP between the hosts of a test bed, for as long as a test wants it, and what the controller
makes of it."""

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from controller.cli.client import Client
from experiments.traffic.reader import PORT, IncastSpec
from testbed.bed import Bed
from testbed.command import wait_until
from testbed.host import Host

_PING_S = 0.02


class Incast:
    """Barrier-synchronised reads that go on in the background; `rounds` is how many are done."""

    def __init__(self, reader: subprocess.Popen[str]) -> None:
        self._reader = reader
        self.rounds = 0
        self.connected = False
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        assert self._reader.stdout is not None
        for line in self._reader.stdout:
            event = json.loads(line)["event"]
            self.connected |= event == "connected"
            self.rounds += event == "round"

    def require_progress(self, rounds: int, timeout_s: float, what: str) -> None:
        """Wait for so many more rounds."""
        goal = self.rounds + rounds
        wait_until(lambda: self.rounds >= goal, timeout_s=timeout_s, what=f"the reads go on {what}")

    def rounds_per_s(self, rounds: int) -> float:
        """How fast the next so many rounds are."""
        self.require_progress(1, 60, "to be timed")
        begun_s, begun = time.monotonic(), self.rounds
        self.require_progress(rounds, 60, "while they are timed")
        return (self.rounds - begun) / (time.monotonic() - begun_s)


@contextmanager
def responder(senders: Sequence[Host]) -> Iterator[None]:
    """These hosts answer reads until the end of the block."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "experiments.traffic.responder", "--port", str(PORT)),
            *(word for sender in senders for word in ("--pid", str(sender.pid))),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["event"] == "ready"
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def incast(bed: Bed, spec: IncastSpec, names: Sequence[str] = ()) -> Iterator[Incast]:
    """Start the reads, from these senders or from all, and end them with the block."""
    senders = [bed.host(name) for name in names or bed.roles.senders]
    with responder(senders):
        reader = bed.host(bed.roles.receiver).popen(
            [
                *(sys.executable, "-m", "experiments.traffic.reader"),
                *("--spec", json.dumps(asdict(spec))),
                *(word for sender in senders for word in ("--server", sender.IP())),
            ],
            text=True,
            stderr=None,
        )
        try:
            yield Incast(reader)
        finally:
            reader.kill()
            reader.wait()


class Flood:
    """`rates` are the frames a second that were sent, second by second."""

    def __init__(self, flooder: subprocess.Popen[str]) -> None:
        self.rates: list[int] = []
        self._flooder = flooder
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        assert self._flooder.stdout is not None
        self.rates += map(int, self._flooder.stdout)


@contextmanager
def flood(
    kind: str, source: Host, target: Host, per_s: int, address: str = "", claimed: str = ""
) -> Iterator[Flood]:
    """A host sends nothing else until the end of the block, to another one or, with an `address`,
    to nobody there; from its own IP address or the `claimed` one."""
    ends = (source.MAC(), claimed or source.IP(), target.MAC(), address or target.IP())
    script = Path(__file__).with_name("flooder.py")
    flooder = source.popen(
        [sys.executable, str(script), kind, str(source.defaultIntf()), str(per_s), *ends],
        text=True,
        stderr=None,
    )
    try:
        yield Flood(flooder)
    finally:
        flooder.kill()
        flooder.wait()


def tables(socket: str) -> dict[str, Any]:
    """What the controller at this socket says of its tables."""
    found: dict[str, Any] = Client(socket).ask("controller")["tables"]
    return found


def accounts_in_force(bed: Bed) -> dict[str, set[str]]:
    """The ports of the bottleneck's switch that have an account of credit, each with the classes of
    flows that are in it; only those whose account is active."""
    switch = bed.bottleneck_switch
    accounts = switch.accounts()
    classes: dict[str, set[str]] = {}
    for register in switch.registers().values():
        name = register.get("interface")
        if name in accounts and accounts[name]["active"]:
            classes.setdefault(name, set()).add(register["class"])
    return classes


def is_regulated(bed: Bed) -> bool:
    """Whether all flows through the bottleneck are in its account of credit."""
    return accounts_in_force(bed).get(bed.roles.bottleneck) == {"0", "1"}


def account(bed: Bed) -> dict[str, int]:
    """What the switch says of the bottleneck's account of credit."""
    return bed.bottleneck_switch.accounts()[bed.roles.bottleneck]


def ping_all(bed: Bed) -> list[str]:
    """Every host pings every other one; the pairs that had no answer."""
    pairs = [(a, b) for a in bed.hosts for b in bed.hosts if a is not b]
    pings = [
        (f"{a.name} -> {b.name}", a.popen(["ping", "-q", "-c", "1", "-w", "10", b.IP()]))
        for a, b in pairs
    ]
    return [name for name, ping in pings if ping.communicate() and ping.returncode != 0]


@contextmanager
def pinging(a: Host, b: Host) -> Iterator[list[int]]:
    """Ping all the time; how many were sent and how many answered is there after the block."""
    argv = ["ping", "-n", "-q", "-i", str(_PING_S), b.IP()]
    process: subprocess.Popen[str] = a.popen(argv, text=True)
    counts: list[int] = []
    try:
        yield counts
    finally:
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=10)
        found = re.search(r"(\d+) packets transmitted, (\d+) received", said)
        assert found, said
        counts += map(int, found.groups())


@contextmanager
def capture(device: str, what: str, file: Path, *, host: Host | None = None) -> Iterator[None]:
    """Write what passes a device (of `host`, else of the switches) to a file, without a gap."""
    argv = [
        "tcpdump",
        "--immediate-mode",
        "-i",
        device,
        "-U",
        "-s",
        "0",
        "-B",
        "16384",
        "-w",
        str(file),
        what,
    ]
    tcpdump = (host.popen if host else subprocess.Popen)(argv, stderr=subprocess.PIPE, text=True)
    try:
        assert tcpdump.stderr is not None
        assert "listening on" in tcpdump.stderr.readline()
        yield
        # What tcpdump has not read yet when it is told to end is lost, and not counted either.
        size = -1

        def written() -> bool:
            nonlocal size
            before, size = size, file.stat().st_size
            return size == before

        wait_until(
            written,
            timeout_s=30,
            what=f"tcpdump has written all to {file.name}",
            poll_s=0.25,
        )
    finally:
        tcpdump.terminate()
        _, said = tcpdump.communicate(timeout=10)
        assert "\n0 packets dropped by kernel" in said, said
