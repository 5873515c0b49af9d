"""A real Open vSwitch on dummy devices: no privileges, and every frame in the test's hands."""

import contextlib
import itertools
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import pytest

REPOSITORY = Path(__file__).parents[2]
PROGRAM = ("-m", "controller")
# On a busy machine an API alone takes 15 s to start.
DEADLINE_S = 60.0


# Those who share out the tests among them (pytest -n) take ports from different thousands, and
# nobody takes one that the kernel gives to others meanwhile.
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_numbers = itertools.count(os.getpid())


def free_endpoint() -> str:
    """HOST:PORT on loopback that nobody listens on."""
    while True:
        port = 10_000 + _WORKER % 20 * 1000 + next(_numbers) % 1000
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return f"127.0.0.1:{port}"


def wait_for(condition: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> object:
    """Poll until the condition holds; returns what it returned."""
    end = time.monotonic() + deadline_s
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s} s: {what}")
        time.sleep(0.02)


class DummyOvs:
    """ovsdb-server and ovs-vswitchd with dummy devices, in a directory of their own."""

    def __init__(self, prefix: Path, directory: Path) -> None:
        self._prefix = prefix
        self._directory = directory
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._environment = os.environ | {
            "OVS_RUNDIR": str(directory),
            "OVS_LOGDIR": str(directory),
            "OVS_DBDIR": str(directory),
            "OVS_SYSCONFDIR": str(directory),
        }

    def start(self) -> None:
        database, db_socket = self._directory / "conf.db", self._directory / "db.sock"
        schema = self._prefix / "share/openvswitch/vswitch.ovsschema"
        self._call("bin/ovsdb-tool", "create", database, schema)
        self._daemon("ovsdb-server", database, f"--remote=punix:{db_socket}")
        wait_for(db_socket.exists, "the database's socket")
        self.vsctl("--no-wait", "init")
        self._daemon(
            "ovs-vswitchd",
            f"unix:{db_socket}",
            "--enable-dummy",
            "--disable-system",
            "--disable-system-route",
        )
        self.vsctl("show")

    def stop(self) -> None:
        for daemon in reversed(self._daemons):
            daemon.terminate()
            daemon.wait()

    def vsctl(self, *arguments: object) -> str:
        database = f"--db=unix:{self._directory / 'db.sock'}"
        return self._call("bin/ovs-vsctl", database, *arguments)

    def appctl(self, *arguments: object) -> str:
        control = next(self._directory.glob("ovs-vswitchd.*.ctl"))
        return self._call("bin/ovs-appctl", "-t", control, *arguments)

    def flows(self, bridge: str) -> list[str]:
        """The flow entries without counters, as ovs-ofctl prints them."""
        text = self.ofctl("--no-stats dump-flows", bridge)
        return [line.strip() for line in text.splitlines() if "actions=" in line]

    def ofctl(self, command: str, bridge: str, *arguments: str) -> str:
        """ovs-ofctl with OpenFlow 1.3; `command` with its options."""
        switch = f"unix:{self._directory / bridge}.mgmt"
        words = (*command.split(), switch, *arguments)
        return self._call("bin/ovs-ofctl", "-OOpenFlow13", *words)

    def add_bridge(self, name: str, dpid: int, controller: str) -> None:
        """`controller` is HOST:PORT, or a target of Open vSwitch's for anything but plain TCP."""
        target = controller if controller.startswith("ssl:") else f"tcp:{controller}"
        self.vsctl(
            *("add-br", name),
            *("--", "set", "bridge", name, "datapath_type=dummy", "protocols=OpenFlow13"),
            *("fail-mode=secure", f"other-config:datapath-id={dpid:016x}"),
            "other-config:disable-in-band=true",
            *("--", "set-controller", name, target),
            # Heeded from the first successful connection on; before it, the switch waits up to 8 s.
            *("--", "set", "controller", name, "max_backoff=1000"),
        )

    def add_port(self, bridge: str, name: str, number: int) -> None:
        self.vsctl(
            *("add-port", bridge, name, "--", "set", "interface", name, "type=dummy"),
            *(f"ofport_request={number}", f"options:tx_pcap={self._pcap(name)}"),
        )

    def add_link(self, bridges: tuple[str, str], names: tuple[str, str], number: int) -> None:
        """Two dummy ports that carry each other's frames."""
        socket = self._directory / f"{names[0]}-{names[1]}.sock"
        for bridge, name, stream in zip(
            bridges, names, (f"pstream=punix:{socket}", f"stream=unix:{socket}"), strict=True
        ):
            self.vsctl(
                *("add-port", bridge, name, "--", "set", "interface", name, "type=dummy"),
                *(f"ofport_request={number}", f"options:{stream}"),
            )

    def add_bond(
        self, bridges: tuple[str, str], links: tuple[tuple[str, str], ...], number: int
    ) -> None:
        """Links between two bridges that are a bond at either end, with LACP."""
        for end, (bridge, stream) in enumerate(zip(bridges, ("pstream=p", "stream="), strict=True)):
            words = [
                *("add-bond", bridge, f"bond-{bridge}", *(link[end] for link in links)),
                *("bond_mode=balance-tcp", "lacp=active", "other_config:lacp-time=fast"),
            ]
            for n, link in enumerate(links):
                socket = self._directory / f"{'-'.join(link)}.sock"
                words += (
                    *("--", "set", "interface", link[end], "type=dummy"),
                    *(f"ofport_request={number + n}", f"options:{stream}unix:{socket}"),
                    f"options:tx_pcap={self._pcap(link[end])}",
                )
            self.vsctl(*words)

    def add_tunnel(
        self, kind: str, ends: tuple[tuple[str, str, str], ...], number: int, key: int
    ) -> None:
        """A tunnel, vxlan or geneve, between two bridges: of each end the bridge, the name of the
        port and the address of the other end, which is one of `add_underlay`."""
        for bridge, name, remote in ends:
            self.vsctl(
                *("add-port", bridge, name, "--", "set", "interface", name, f"type={kind}"),
                *(f"ofport_request={number}", f"options:remote_ip={remote}", f"options:key={key}"),
            )

    def add_underlay(self, name: str, address: str, remote: str) -> None:
        """A bridge that forwards by itself and has an address where tunnels from `remote` end."""
        self.vsctl(
            *("add-br", name, "--", "set", "bridge", name, "datapath_type=dummy"),
            "fail-mode=standalone",
        )
        self.appctl("netdev-dummy/ip4addr", name, f"{address}/24")
        self.appctl("ovs/route/add", f"{remote}/32", name)

    def inject(self, port: str, *frames: bytes) -> None:
        """The frames enter the switch by this port, one right after the other."""
        self.appctl("netdev-dummy/receive", port, *(frame.hex() for frame in frames))

    def sent(self, port: str) -> list[bytes]:
        """The frames that left the switch by this port, so far."""
        path = self._pcap(port)
        data = path.read_bytes() if path.exists() else b""
        frames, offset = [], 24
        while offset + 16 <= len(data):
            (length,) = struct.unpack_from("=I", data, offset + 8)
            frames.append(data[offset + 16 : offset + 16 + length])
            offset += 16 + length
        return frames

    def _pcap(self, port: str) -> Path:
        return self._directory / f"{port}.pcap"

    def _call(self, program: str, *arguments: object) -> str:
        done = subprocess.run(
            [self._prefix / program, *map(str, arguments)],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_S,
        )
        assert done.returncode == 0, f"{program} {arguments}: {done.stderr}"
        return done.stdout

    def _daemon(self, program: str, *arguments: object) -> None:
        with (self._directory / f"{program}.out").open("wb") as out:
            self._daemons.append(
                subprocess.Popen(
                    [
                        self._prefix / "sbin" / program,
                        *map(str, arguments),
                        "--no-chdir",
                        f"--pidfile={self._directory / program}.pid",
                        f"--unixctl={self._directory / program}.{len(self._daemons)}.ctl",
                    ],
                    env=self._environment,
                    stdout=out,
                    stderr=out,
                )
            )


@contextlib.contextmanager
def dummy_ovs(prefix: Path, directory: Path) -> Iterator[DummyOvs]:
    switch = DummyOvs(prefix, directory)
    try:
        switch.start()
        yield switch
    finally:
        switch.stop()


def patched_prefix() -> Path:
    """Where the patched switch is; skips the test where there is none."""
    prefix = os.environ.get("WEIR_OVS_PREFIX")
    if not prefix:
        pytest.skip("WEIR_OVS_PREFIX does not name the patched switch: make switch")
    return Path(prefix)


class Controlled(Protocol):
    """A switch and its controller."""

    controller: "Controller"


_Made = TypeVar("_Made", bound=Controlled)


@contextlib.contextmanager
def controlled(
    make: Callable[[DummyOvs, Path], _Made], prefix: Path, directory: Path
) -> Iterator[_Made]:
    """What is made of a switch, as long as both are there."""
    with dummy_ovs(prefix, directory) as switch:
        made = make(switch, directory)
        try:
            yield made
        finally:
            if made.controller.running:
                made.controller.stop(signal.SIGKILL)


class Controller:
    """weir-controller as a process of its own."""

    def __init__(self, directory: Path, config: str, program: Sequence[str] = PROGRAM) -> None:
        self._program = program
        self._config = directory / "weir.yaml"
        self._config.write_text(config)
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._runs = 0

    @property
    def log(self) -> str:
        return (self._directory / f"controller.{self._runs}.log").read_text()

    def start(self) -> None:
        """Start it and wait until it listens, or has given up."""
        self._runs += 1
        with (self._directory / f"controller.{self._runs}.log").open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, *self._program, "--config", str(self._config)],
                cwd=REPOSITORY,
                stdout=out,
                stderr=out,
            )
        wait_for(lambda: "listening" in self.log or not self.running, "the controller to listen")

    def tell(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def reconfigure(self, config: str) -> None:
        """Have it read this configuration, as it runs."""
        self._config.write_text(config)
        self.tell(signal.SIGHUP)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it with a signal; returns the exit status."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(DEADLINE_S)

    def wait(self) -> int:
        """Wait for its end; returns the exit status."""
        assert self._process is not None
        return self._process.wait(DEADLINE_S)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None
