"""An operator's first day: what docs/ says, played by its letter in fresh Debian 12 machines.

The commands and what they should say are taken out of the pages (pages.py), in the order in which
docs/install.md leads through them. There are four machines: a switch with two hosts, two
controllers, and an authority. Their terminals share one folder, so what one has to bring to another
is there. Run by `make test-package`; prints a line for each section with the seconds that it took,
stops at the first deviation, and ends with status 0 if there was none.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from machine import Machine, MachineError, Terminal, bootstrapped, end_on_signals
from pages import DOCS, Block, blocks, says
from testbed.command import CommandError, wait_until
from trial import DOWNLOADS, OURS, PACKAGES, cache

ADDRESSES = {"switch": "10.0.0.11", "controller": "10.0.0.1", "standby": "10.0.0.2"}
MACHINES = (*ADDRESSES, "authority")
_FOLDER = "/mnt"
_CONFIGURATION = "/etc/weir/controller.yaml"
_COMMAND_TIMEOUT_S = 180.0
_AGAIN_TIMEOUT_S = 60.0
_JOURNAL = "journalctl --no-pager --lines 30 --unit 'weir*' --unit prometheus"
# The operator says yes, and finds hosts at two ports.
_OPERATOR = """
echo 'APT::Get::Assume-Yes "true";' >/etc/apt/apt.conf.d/90yes
"""
_HOSTS = """
for i in 1 2; do
    ip netns add h$i
    ip link add eth0 netns h$i type veth peer name eth$i
    ip netns exec h$i ip address add 10.9.0.$i/24 dev eth0
    ip netns exec h$i ip link set eth0 up
    # A pair of virtual devices computes no checksums.
    ip netns exec h$i ethtool -K eth0 tx off
    ip link set eth$i up
done
"""
# Stands in for a controller, and says by which certificate each switch connects.
_ASKER = """
import socket, ssl
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile="/etc/weir/tls/ca.pem")
context.verify_mode = ssl.CERT_REQUIRED
context.load_cert_chain("/etc/weir/tls/controller.pem", "/etc/weir/tls/controller-key.pem")
with socket.create_server(("", 6653)) as server:
    while True:
        peer, _ = server.accept()
        with context.wrap_socket(peer, server_side=True) as switch:
            print(switch.getpeercert()["serialNumber"], flush=True)
            switch.recv(1)
"""


class DeviationError(RuntimeError):
    """Something is not as a page says; the text says what."""


@dataclass(frozen=True)
class Part:
    """A section of a page, and what has to be true of it besides what the page shows.

    ``reading`` replaces what the page leaves to its reader, ``on`` the machines that it names.
    Where traffic is ``steady``, pings between the hosts go on meanwhile, and none is lost.
    """

    page: str
    section: str
    reading: Mapping[str, str] = field(default_factory=dict)
    on: Mapping[str, str] = field(default_factory=dict)
    steady: bool = False
    before: Callable[[], None] | None = None
    after: Callable[[], None] | None = None

    def blocks(self) -> list[Block]:
        return [b for b in blocks(DOCS / self.page) if b.section == self.section and b.machines]


class FirstDay:
    """The sections in the order of the day."""

    def __init__(self, machines: Mapping[str, Machine], shared: Path) -> None:
        self.machines = machines
        self.shared = shared
        self.terminals: dict[str, Terminal] = {}
        self.commands = 0
        self._listings: dict[str, set[str]] = {}
        self._serials: subprocess.Popen[str] | None = None
        self._old_serial = ""
        self._held = ""

    def parts(self) -> list[Part]:
        """What is done."""
        # What the page says of controller a, done for b.
        b = {"CN=a": "CN=b", " a.": " b.", " a-": " b-"}
        return [
            Part("install.md", "packages", before=self.machines_are_fresh),
            Part("install.md", "a-first-bridge"),
            Part("certificates.md", "a-small-authority"),
            Part("certificates.md", "a-controller"),
            Part("certificates.md", "a-switch"),
            Part("install.md", "a-controller", after=self.hosts_reach_each_other),
            Part("configuration.md", "configuration-of-the-controller", steady=True),
            Part("api.md", "its-certificate", steady=True),
            Part("api.md", "http-api-and-available-bandwidth", steady=True),
            Part("api.md", "tokens", steady=True),
            Part("certificates.md", "a-controller", b, {"controller": "standby"}, steady=True),
            Part("install.md", "a-second-controller", steady=True),
            Part("monitoring.md", "prometheus", steady=True),
            Part("monitoring.md", "what-the-switch-shows", steady=True),
            Part("off.md", "turn-it-off", steady=True),
            Part("off.md", "without-the-controller", steady=True),
            Part("settings.md", "change-settings-at-work", steady=True),
            Part("tuning.md", "the-queue-of-a-port", {"eth1": "eth2"}, steady=True),
            Part("certificates.md", "replacing-them", steady=True,
                 before=self.serials_are_asked, after=self.the_new_serial_is_used),
            Part("upgrade.md", "back-up-and-restore", steady=True, after=self.machines_are_lost),
            Part("upgrade.md", "a-controller-from-its-backup", after=self.controller_is_as_before),
            Part("upgrade.md", "a-switch-from-its-backup", after=self.switch_is_as_before),
            Part("troubleshooting.md", "a-report", steady=True),
            Part("install.md", "removing", after=self.nothing_is_left),
        ]  # fmt: skip

    def play(self) -> None:
        """Play all parts. Raises DeviationError."""
        for part in self.parts():
            start = time.monotonic()
            print(f"{f'docs/{part.page}#{part.section}':<62} ", end="", flush=True)
            n_commands = self.commands
            if part.before:
                part.before()
            ping = self._ping() if part.steady else None
            for block in part.blocks():
                for machine in block.machines:
                    self._play(block, part, part.on.get(machine, machine))
            if ping is not None:
                self._no_ping_was_lost(ping, f"docs/{part.page}#{part.section}")
            if part.after:
                part.after()
            told = f"{self.commands - n_commands} commands"
            print(f"{told:>12}  ok ({time.monotonic() - start:.0f} s)", flush=True)

    def _play(self, block: Block, part: Part, machine: str) -> None:
        if block.skipped:
            return
        if block.language == "yaml":
            self._configure(machine, block.text)
            return
        commands = list(block.commands())
        for command in commands:
            text = command.text
            for written, read in part.reading.items():
                text = text.replace(written, read)
            last = command is commands[-1]
            expected = block.expected if last else None
            deadline = time.monotonic() + (_AGAIN_TIMEOUT_S if block.again and last else 0)
            self.commands += 1
            while why := self._tried(machine, text, expected):
                if time.monotonic() > deadline:
                    raise DeviationError(f"{command.place}, on {machine}:\n{text}\n{why}")
                time.sleep(0.5)

    def _tried(self, machine: str, text: str, expected: str | None) -> str | None:
        """Type a command; why it is not as it should be, if so."""
        if machine not in self.terminals:
            self.terminals[machine] = Terminal(self.machines[machine], _FOLDER)
        try:
            status, output = self.terminals[machine].type(text, _COMMAND_TIMEOUT_S)
        except TimeoutError as error:
            raise DeviationError(f"on {machine}:\n{text}\n{error}") from error
        if status != 0:
            return f"ended with status {status}, and said:\n{output}"
        if expected is not None and not says(expected, output):
            return f"said:\n{output}\nbut the page shows:\n{expected}"
        return None

    def _configure(self, machine: str, text: str) -> None:
        """Put what a page shows into the configuration, as an editor would."""
        config = yaml.safe_load(self.machines[machine].run("cat", _CONFIGURATION))
        written = self.shared / "edited.yaml"
        written.write_text(yaml.safe_dump(merged(config, yaml.safe_load(text)), sort_keys=False))
        self.machines[machine].shell(f"cat {_FOLDER}/edited.yaml >{_CONFIGURATION}")
        written.unlink()

    # What is true of the machines besides.

    def machines_are_fresh(self) -> None:
        for name, machine in self.machines.items():
            machine.shell(f"hostname {name}\n{_OPERATOR}")
            self._listings[name] = machine.listing()
        names = list(ADDRESSES)
        for i, here in enumerate(names):
            for there in names[i + 1 :]:
                self.machines[here].connect(ADDRESSES[here], self.machines[there], ADDRESSES[there])
        self.machines["switch"].shell(_HOSTS)

    def hosts_reach_each_other(self) -> None:
        wait_until(self._one_ping, timeout_s=30, what="a host reaches the other", poll_s=0.2)

    def serials_are_asked(self) -> None:
        """The second controller is away, and something in its place sees certificates."""
        self.machines["standby"].run("systemctl", "stop", "weir-controller")
        self._serials = self.machines["standby"].start("python3", "-c", _ASKER)
        assert self._serials.stdout is not None
        self._old_serial = self._serials.stdout.readline().strip()
        if self._old_serial != self._serial_of_the_file():
            raise DeviationError(f"the switch shows certificate {self._old_serial}")

    def the_new_serial_is_used(self) -> None:
        """What the switch shows now is what has been signed last."""
        assert self._serials is not None
        if self._serial_of_the_file() == self._old_serial:
            raise DeviationError("the switch has no new certificate")
        wait_until(self._new_serial_is_shown, timeout_s=30, what="the new serial number", poll_s=0)
        self.machines["standby"].run("pkill", "-x", "python3")
        self._serials.communicate(timeout=20)
        self.machines["standby"].run("systemctl", "start", "weir-controller")
        self.hosts_reach_each_other()

    def _new_serial_is_shown(self) -> bool:
        assert self._serials is not None
        assert self._serials.stdout is not None
        return self._serials.stdout.readline().strip() == self._serial_of_the_file()

    def _serial_of_the_file(self) -> str:
        told = self.machines["switch"].run(
            "openssl", "x509", "-noout", "-serial", "-in", "/etc/weir-switch/switch.pem"
        )
        return told.strip().removeprefix("serial=")

    def machines_are_lost(self) -> None:
        """The packages and all that belongs to them are gone, as on new machines."""
        self._held = self._holds()
        self.machines["controller"].shell(
            "apt-get purge weir-controller; rm -rf /etc/weir /var/lib/weir"
        )
        self.machines["switch"].shell(
            "apt-get purge weir-switch; rm -rf /etc/weir-switch /var/lib/weir-switch"
        )

    def controller_is_as_before(self) -> None:
        self.machines["controller"].run(
            "weir-controller", "check", "--user", "weir", _CONFIGURATION
        )

    def switch_is_as_before(self) -> None:
        if (held := self._holds()) != self._held:
            raise DeviationError(f"the switch held\n{self._held}\nand holds\n{held}")
        self.hosts_reach_each_other()

    def _holds(self) -> str:
        """What an operator has put into the switch's database."""
        columns = {
            "bridge": "name,ports,controller,fail_mode,datapath_type,protocols,other_config",
            "port": "name,qos",
            "qos": "_uuid,type,other_config",
            "controller": "target,max_backoff,connection_mode",
            "ssl": "private_key,certificate,ca_cert",
        }
        return "".join(
            self.machines["switch"].run(
                "weir-ovs-vsctl", "--timeout=20", f"--columns={named}", "list", table
            )
            for table, named in columns.items()
        )

    def nothing_is_left(self) -> None:
        """Nothing but what came with it from Debian, and the locked user."""
        for name, machine in self.machines.items():
            # Prometheus came from Debian, with files that the operator has put beside its own.
            machine.shell(
                "apt-get purge prometheus; apt-get autoremove --purge; rm -rf /etc/prometheus"
            )
            left = machine.listing() ^ self._listings[name]
            if left:
                raise DeviationError(f"not as before, on {name}:\n" + "\n".join(sorted(left)))

    def _one_ping(self) -> bool:
        with suppress(CommandError):
            self.machines["switch"].run(
                "ip", "netns", "exec", "h1", "ping", "-c", "1", "-W", "1", "10.9.0.2"
            )
            return True
        return False

    def _ping(self) -> subprocess.Popen[str]:
        return self.machines["switch"].start(
            "ip", "netns", "exec", "h1", "ping", "-i", "0.05", "-W", "1", "10.9.0.2"
        )

    def _no_ping_was_lost(self, ping: subprocess.Popen[str], place: str) -> None:
        self.machines["switch"].shell("pkill -INT -x ping")
        told, _ = ping.communicate(timeout=20)
        counted = re.search(r"(\d+) packets transmitted, (\d+) received", told)
        # The last one may be on its way.
        if not counted or int(counted[1]) - int(counted[2]) > 1:
            raise DeviationError(f"{place}: pings were lost meanwhile:\n{told[-2000:]}")


def merged(config: Any, shown: Any) -> Any:
    """A configuration with what a page shows of it."""
    if not isinstance(config, dict) or not isinstance(shown, dict):
        return shown
    return config | {key: merged(config.get(key), value) for key, value in shown.items()}


def main(argv: Sequence[str]) -> int:
    """Play the day with the packages in the folder that is given."""
    end_on_signals()
    try:
        debs = [deb for name in OURS for deb in Path(argv[1]).glob(f"{name}_*.deb")]
        tree = bootstrapped(cache(), PACKAGES, debs, DOWNLOADS)
        with ExitStack() as stack:
            shared = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-day-")))
            for deb in debs:
                shutil.copy(deb, shared)
            start = time.monotonic()
            machines = {name: stack.enter_context(Machine(tree, shared)) for name in MACHINES}
            print(f"{'four fresh machines':<76}  ok ({time.monotonic() - start:.0f} s)", flush=True)
            day = FirstDay(machines, shared)
            return _played(day)
    except (MachineError, CommandError) as error:
        print(f"weir: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _played(day: FirstDay) -> int:
    try:
        day.play()
    except (DeviationError, CommandError, TimeoutError) as error:
        print(f"FAILED\n{error}", flush=True)
        for name, machine in day.machines.items():
            with suppress(CommandError):
                print(f"--- {name}\n{machine.shell(_JOURNAL)}")
        return 1
    finally:
        for terminal in day.terminals.values():
            terminal.close()
    n_pages = len({part.page for part in day.parts()})
    print(f"{day.commands} commands of {n_pages} pages, 0 deviations")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
