"""The packages in the life of a Debian 12 machine, beside Debian's own switch.

They are installed, used, upgraded, rolled back, removed and purged. Run by `make test-package`;
prints a line for each step with the seconds that it took, and ends with status 0 if all went well.
The machine runs systemd, has no network but its own, and leaves nothing behind (machine.py).
"""

import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from machine import Machine, MachineError, bootstrapped, end_on_signals
from testbed.command import CommandError, run, wait_until

DEBIANS = ("openvswitch-switch", "openvswitch-common")
# What the machine has, and what can be installed there without a network.
PACKAGES = (DEBIANS[0], "debsums", "ethtool", "curl", "openssl")
DOWNLOADS = ("prometheus",)
OURS = ("weir-switch", "weir-controller")
FOUNTAIN = "weir-fountain"
FOUNTAIN_UNITS = ("fountain-serve.service", "fountain-recv.service", "fountain-acc.service")
UNITS = ("weir-switch-db.service", "weir-switch.service", "weir-controller.service")
QUEUE_BPS = 20_000_000
_PACK_TIMEOUT_S = 300.0
_SCHEMA = "usr/lib/weir-switch/share/openvswitch/vswitch.ovsschema"

# A reader asks a sender through the bridge; the sender answers with N bytes.
_SEND = """
import socket
with socket.create_server(("", 5001)) as server:
    while True:
        peer, _ = server.accept()
        with peer:
            peer.sendall(bytes(int(peer.recv(16))))
"""
_READ = """
import socket, sys, time
size = int(sys.argv[2])
start = time.monotonic()
with socket.create_connection((sys.argv[1], 5001), timeout=30) as peer:
    peer.sendall(str(size).encode())
    got = 0
    while got < size:
        got += len(peer.recv(65536)) or sys.exit("it closed early")
print(size * 8 / (time.monotonic() - start))
"""


class TrialError(RuntimeError):
    """Something is not as it should be; the text says what."""


def expect(holds: object, told: str) -> None:
    """Raise TrialError with ``told`` unless it holds."""
    if not holds:
        raise TrialError(told)


def older(deb: Path, folder: Path) -> Path:
    """Repack a package as that of a lower version.

    The switch's gets an older schema: one column less, so that its database has to be converted.
    """
    tree = folder / "tree"
    run(["dpkg-deb", "--raw-extract", str(deb), str(tree)], timeout_s=_PACK_TIMEOUT_S)
    control = tree / "DEBIAN/control"
    control.write_text(re.sub(r"(?m)^Version: .*", "Version: 0.0.1", control.read_text()))
    schema_file = tree / _SCHEMA
    if schema_file.exists():
        schema = json.loads(schema_file.read_text())
        del schema["tables"]["Bridge"]["columns"]["mcast_snooping_enable"]
        schema["version"] = "8.2.0"
        schema.pop("cksum", None)
        schema_file.write_text(json.dumps(schema))
    repacked = folder / f"{deb.name.split('_')[0]}_0.0.1.deb"
    run(
        ["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", str(tree), str(repacked)],
        timeout_s=_PACK_TIMEOUT_S,
    )
    shutil.rmtree(tree)
    return repacked


class Trial:
    """The steps, in the order in which they are to be taken."""

    def __init__(self, machine: Machine, version: str) -> None:
        self.machine = machine
        self.version = version
        self.before: set[str] = set()
        self.debians: dict[str, str] = {}

    def steps(self) -> list[Callable[[], None]]:
        """What is done, each with what it says of itself as its docstring."""
        return [
            self.debians_switch_runs,
            self.an_older_version_is_installed,
            self.units_are_sound,
            self.hosts_are_connected,
            self.traffic_passes_the_queue,
            self.controller_reloads,
            self.what_dies_comes_back,
            self.upgrade_does_not_interrupt,
            self.new_switch_takes_over,
            self.it_can_be_rolled_back,
            self.regulation_is_turned_off_and_on,
            self.files_are_transferred,
            self.damaged_database_is_kept,
            self.units_stop_and_start,
            self.it_is_removed,
            self.it_is_purged,
        ]

    def debians_switch_runs(self) -> None:
        """Debian's openvswitch-switch runs, with something in its database"""
        self.machine.run(
            "ovs-vsctl", "--timeout=20", "set", "Open_vSwitch", ".", "external-ids:mine=kept"
        )
        self.debians = self._debians()
        self.before = self.machine.listing()

    def an_older_version_is_installed(self) -> None:
        """an older version of both packages is installed, offline, and starts"""
        self._install("/mnt/weir-switch_0.0.1.deb", "/mnt/weir-controller_0.0.1.deb")
        self._all_run()
        for unit in ("weir-switch.target", "weir-controller.service"):
            expect(
                self._says("systemctl", "is-enabled", unit) == "enabled", f"{unit} is not enabled"
            )
        self._debians_is_untouched()

    def units_are_sound(self) -> None:
        """systemd finds no fault with the units, and everything is where it should be"""
        told = self.machine.shell("systemd-analyze verify --man=no /lib/systemd/system/weir-* 2>&1")
        expect(not told, told)
        exposure = self.machine.run("systemd-analyze", "security", "--no-pager", *UNITS)
        marks = [
            float(mark)
            for mark in re.findall(r"Overall exposure level for \S+: ([\d.]+)", exposure)
        ]
        expect(len(marks) == len(UNITS) and max(marks) < 3, exposure)
        owners = self.machine.run(
            "stat", "-c", "%U %a %n", "/run/weir", "/var/lib/weir", "/var/log/weir"
        )
        expect(all(line.startswith("weir 750 ") for line in owners.splitlines()), owners)
        for name in ("conf.db", "db.sock", "ovs-vswitchd.log"):
            where = {"conf.db": "/var/lib", "db.sock": "/run"}.get(name, "/var/log")
            self.machine.run("test", "-e", f"{where}/weir-switch/{name}")
        for file in (
            "man/man8/weir-controller.8.gz",
            "bash-completion/completions/weir-controller",
            "zsh/vendor-completions/_weir-controller",
        ):
            self.machine.run("test", "-e", f"/usr/share/{file}")
        status = self.machine.shell("cat /proc/$(systemctl show -P MainPID weir-controller)/status")
        expect(re.search(r"(?m)^CapEff:\s+0+$", status), "the controller has capabilities")
        expect(re.search(r"(?m)^NoNewPrivs:\s+1$", status), "the controller could gain privileges")

    def hosts_are_connected(self) -> None:
        """two hosts and the controller are connected to a bridge"""
        self.machine.shell(
            f"""
            weir-ovs-vsctl add-br br0 -- set bridge br0 \\
                datapath_type=netdev protocols=OpenFlow13 fail-mode=secure
            for i in 1 2; do
                ip netns add h$i
                ip link add eth0 netns h$i type veth peer name p$i
                ip netns exec h$i ip address add 10.0.0.$i/24 dev eth0
                ip netns exec h$i ip link set eth0 up
                ip netns exec h$i ip link set lo up
                # A pair of virtual devices computes no checksums.
                ip netns exec h$i ethtool -K eth0 tx off
                ip link set p$i up
                weir-ovs-vsctl add-port br0 p$i
            done
            weir-ovs-vsctl set port p1 qos=@q -- --id=@q create qos type=weir \\
                other-config:max-rate={QUEUE_BPS} other-config:limit-bytes=65536 \\
                other-config:low=30% other-config:mid=60% other-config:high=80%
            weir-ovs-vsctl set-controller br0 tcp:127.0.0.1:6653
            systemd-run --quiet --unit=sender ip netns exec h2 python3 -c '{_SEND}'
            """
        )
        self._connected()

    def traffic_passes_the_queue(self) -> None:
        """traffic passes the switch, not faster than its queue"""
        self._hosts_reach_each_other()
        rate_bps = float(self._read(5_000_000))
        # A busy machine may be slower, but nothing is faster than the queue.
        expect(rate_bps < 1.05 * QUEUE_BPS, f"{rate_bps:.0f} bit/s through {QUEUE_BPS}")
        told = self.machine.run("weir-ovs-appctl", "netdev-egress/show")
        expect("p1" in told, told)
        entries = self.machine.run("weir-ovs-ofctl", "-O", "OpenFlow13", "dump-flows", "br0")
        expect("tcp_rwnd" in entries, f"no window is regulated:\n{entries}")

    def controller_reloads(self) -> None:
        """the controller reads its configuration anew"""
        controller = self._pid("weir-controller.service")
        self.machine.shell(
            "sed -i 's/level: info/level: debug/' /etc/weir/controller.yaml;"
            "systemctl reload weir-controller"
        )
        self._eventually(
            lambda: "log.level" in self._says("journalctl", "-u", "weir-controller", "--no-pager"),
            "the log tells of the change",
        )
        expect(self._pid("weir-controller.service") == controller, "the reload restarted it")

    def regulation_is_turned_off_and_on(self) -> None:
        """regulation is turned off, stays so over a restart, and is turned on again"""
        said = self.machine.run("weir-controller", "off", "--for", "2h")
        expect("regulation is off for everything, for 2:00:00" in said, said)
        self.machine.run("systemctl", "restart", "weir-controller")
        self._connected()
        said = self._says("weir-controller", "off", "--list")
        expect("regulation is off for everything" in said, said)
        self._hosts_reach_each_other()
        said = self.machine.run("weir-controller", "on")
        expect("regulation is on again for everything" in said, said)
        self._hosts_reach_each_other()

    def what_dies_comes_back(self) -> None:
        """a database, a switch and a controller that are killed come back by themselves"""
        switch = self._pid("weir-switch.service")
        self._kill("weir-switch-db.service")
        expect(
            self._pid("weir-switch.service") == switch, "the switch was restarted with its database"
        )
        self._kill("weir-switch.service")
        self._connected()
        self._hosts_reach_each_other()
        self._kill("weir-controller.service")
        self._connected()
        self._hosts_reach_each_other()

    def upgrade_does_not_interrupt(self) -> None:
        """an upgrade keeps the configuration and does not interrupt traffic"""
        self.machine.shell(
            """
            echo '# kept by the operator' >>/etc/weir/controller.yaml
            echo '# kept by the operator' >>/etc/default/weir-switch
            """
        )
        switch = self._pid("weir-switch.service")
        ping = self.machine.start(
            "ip", "netns", "exec", "h1", "ping", "-i", "0.05", "-W", "1", "10.0.0.2"
        )
        self._install("/mnt/weir-switch.deb", "/mnt/weir-controller.deb")
        self._all_run()
        self.machine.shell("pkill -INT -x ping")
        told, _ = ping.communicate(timeout=20)
        lost = re.search(r"(\d+) packets transmitted, (\d+) received", told)
        expect(lost and int(lost[1]) - int(lost[2]) <= 1, told)
        expect(self._pid("weir-switch.service") == switch, "the upgrade restarted the switch")
        for path in ("/etc/weir/controller.yaml", "/etc/default/weir-switch"):
            self.machine.run("grep", "-q", "kept by the operator", path)
        for package in OURS:
            version = self._says("dpkg-query", "-W", "-f", "${Version}", package)
            expect(version == self.version, f"{package} is {version}, not {self.version}")

    def new_switch_takes_over(self) -> None:
        """the new switch takes over with the bridge of the old one, its database converted"""
        expect(self._schema() == "8.2.0", "the older switch had no older schema")
        self.machine.run("systemctl", "restart", "weir-switch.target")
        expect(self._schema() != "8.2.0", "the database was not converted")
        self.machine.shell("ls /var/lib/weir-switch/conf.db.backup-8.2.0-*")
        self._connected()
        self._hosts_reach_each_other()
        self._read(1_000_000)

    def it_can_be_rolled_back(self) -> None:
        """both go back to the older version, and forward again"""
        self._install(
            "--allow-downgrades", "/mnt/weir-switch_0.0.1.deb", "/mnt/weir-controller_0.0.1.deb"
        )
        self.machine.run("systemctl", "restart", "weir-switch.target")
        expect(self._schema() == "8.2.0", "the database was not converted back")
        self._connected()
        self._hosts_reach_each_other()
        self._install("/mnt/weir-switch.deb", "/mnt/weir-controller.deb")
        self.machine.run("systemctl", "restart", "weir-switch.target")
        self._connected()

    def files_are_transferred(self) -> None:
        """fountain's services start as configured, move files, and leave nothing when purged"""
        before = self._listing_beside_what_runs()
        self._apt("install", f"/mnt/{FOUNTAIN}.deb")
        for unit in FOUNTAIN_UNITS:
            expect(self._says("systemctl", "is-enabled", unit) == "disabled", f"{unit} is enabled")
        told = self.machine.shell(
            "systemd-analyze verify --man=no /lib/systemd/system/fountain-* 2>&1"
        )
        expect(not told, told)
        self.machine.shell(
            """
            export HOME=/root
            mkdir -p /srv/files /root/got
            seq 100000 >/srv/files/numbers
            sed -i "s/^# client = .*/client = ['$(fountain id)']/" /etc/fountain/recv.toml
            fountain acc key /etc/fountain/acc.key
            chown fountain-acc /etc/fountain/acc.key
            systemctl start fountain-serve fountain-recv fountain-acc
            """
        )
        for unit in FOUNTAIN_UNITS:
            self._eventually(partial(self._is_active, unit), f"{unit} runs")
        self.machine.shell(
            """
            export HOME=/root
            fountain fetch --accept-new 127.0.0.1:files/numbers -o /root/got
            fountain send --accept-new --tfrc 127.0.0.1 /srv/files
            cmp /srv/files/numbers /root/got/numbers
            cmp /srv/files/numbers /var/lib/fountain-recv/inbox/files/numbers
            """
        )
        status = self.machine.shell("cat /proc/$(systemctl show -P MainPID fountain-serve)/status")
        expect(re.search(r"(?m)^CapEff:\s+0+$", status), "fountain-serve has capabilities")
        expect(not re.search(r"(?m)^Uid:\s+0\s", status), "fountain-serve runs as root")
        expect(
            "acc0" in self.machine.shell("ip rule list table 4881; fountain acc stats"),
            "fountain-acc has no interface",
        )
        self.machine.shell(
            "rm -r /etc/fountain/acc.key /srv/files /root/got /root/.local/state/fountain"
        )
        self._apt("purge", "--autoremove", FOUNTAIN)
        left = self.machine.shell("ls -d /var/lib/fountain* /var/lib/private/fountain* || :")
        expect(not left.strip().startswith("/"), left)
        now = self._listing_beside_what_runs()
        expect(now == before, "not as before:\n" + "\n".join(sorted(now ^ before)))

    def _listing_beside_what_runs(self) -> set[str]:
        """Without what the switch and the controller, which go on running, write meanwhile."""
        return {
            line
            for line in self.machine.listing()
            if not re.match("/var/(log|lib)/(weir|weir-switch)/", line)
        }

    def damaged_database_is_kept(self) -> None:
        """a database that cannot be read is not replaced by an empty one"""
        self.machine.shell(
            """
            systemctl stop 'weir-switch*'
            cp -p /var/lib/weir-switch/conf.db /root/conf.db
            echo damage >/var/lib/weir-switch/conf.db
            systemctl start --no-block weir-switch.target
            """
        )
        self._eventually(
            lambda: "conf.db cannot be read" in self._says("journalctl", "-u", "weir-switch-db"),
            "the journal says that the database cannot be read",
        )
        self.machine.shell(
            """
            systemctl stop 'weir-switch*'
            grep -qx damage /var/lib/weir-switch/conf.db
            mv /root/conf.db /var/lib/weir-switch/conf.db
            systemctl start weir-switch.target
            """
        )
        self._all_run()
        self._connected()

    def units_stop_and_start(self) -> None:
        """units stop, leave no process, and start again with the same devices"""
        self.machine.run("systemctl", "stop", "weir-switch*", "weir-controller")
        for unit in UNITS:
            expect(self._says("systemctl", "is-active", unit) == "inactive", f"{unit} goes on")
        processes = self.machine.run("ps", "-eo", "args")
        expect("weir-switch" not in processes, processes)
        self._debians_is_untouched()
        self.machine.run("systemctl", "start", "weir-switch.target", "weir-controller")
        self._all_run()
        self._connected()
        self._hosts_reach_each_other()

    def it_is_removed(self) -> None:
        """removed: no process, no device; configuration and database are kept"""
        self.machine.run("systemctl", "stop", "sender")
        self._apt("remove", *OURS)
        expect("weir" not in self.machine.run("ps", "-eo", "user,args"), "something still runs")
        links = self.machine.run("ip", "-o", "link")
        expect("ovs-netdev" not in links and "br0" not in links, links)
        for kept in (
            "/etc/weir/controller.yaml",
            "/etc/default/weir-switch",
            "/var/lib/weir-switch/conf.db",
        ):
            self.machine.run("test", "-e", kept)
        self.machine.shell("! test -e /usr/lib/weir-switch && ! test -e /usr/lib/weir-controller")
        self._debians_is_untouched()

    def it_is_purged(self) -> None:
        """purged, the machine is as it was before, but for the locked user"""
        self._apt("purge", "--autoremove", *OURS)
        self._debians_is_untouched()
        now = self.machine.listing()
        expect(now == self.before, "not as before:\n" + "\n".join(sorted(now ^ self.before)))
        expect(
            not self.machine.shell("ls -d /run/weir* 2>/dev/null || :"), "something is left in /run"
        )
        user = self.machine.run("getent", "passwd", "weir")
        expect(user.strip().endswith("nologin"), user)

    def _install(self, *what: str) -> None:
        self._apt("install", "--option=Dpkg::Options::=--force-confold", *what)

    def _apt(self, *what: str) -> None:
        self.machine.run("apt-get", "--yes", "--quiet", *what, timeout_s=180)
        audit = self.machine.run("dpkg", "--audit")
        expect(not audit, audit)

    def _says(self, *argv: str) -> str:
        """What a command says, whatever its status."""
        try:
            return self.machine.run(*argv).strip()
        except CommandError as error:
            return error.output.strip()

    def _pid(self, unit: str) -> str:
        return self._says("systemctl", "show", "-P", "MainPID", unit)

    def _all_run(self) -> None:
        for unit in UNITS:
            self._eventually(partial(self._is_active, unit), f"{unit} runs")

    def _is_active(self, unit: str) -> bool:
        return self._says("systemctl", "is-active", unit) == "active"

    def _kill(self, unit: str) -> None:
        """Kill the main process of a unit, and wait until there is another one."""
        before = self._pid(unit)
        self.machine.run("kill", "-KILL", before)
        self._eventually(
            lambda: (
                self._pid(unit) not in (before, "0")
                and self._says("systemctl", "is-active", unit) == "active"
            ),
            f"{unit} is there again",
        )

    def _connected(self) -> None:
        self._eventually(
            lambda: (
                self._says(
                    "weir-ovs-vsctl", "--timeout=5", "get", "controller", "br0", "is_connected"
                )
                == "true"
            ),
            "the controller is connected",
        )

    def _hosts_reach_each_other(self) -> None:
        self._eventually(
            lambda: "1 received" in self._says(
                "ip", "netns", "exec", "h1", "ping", "-c", "1", "-W", "1", "10.0.0.2"),
            "a host reaches the other",
        )  # fmt: skip

    def _read(self, size_bytes: int) -> str:
        return self.machine.run(
            "ip", "netns", "exec", "h1", "python3", "-c", _READ, "10.0.0.2", str(size_bytes)
        )

    def _schema(self) -> str:
        return self._says(
            "weir-ovsdb-client",
            "--timeout=20",
            "get-schema-version",
            "unix:/run/weir-switch/db.sock",
        )

    def _eventually(self, holds: Callable[[], bool], what: str) -> None:
        wait_until(holds, timeout_s=60, what=what, poll_s=0.2)

    def _debians(self) -> dict[str, str]:
        """All that would show a change of Debian's switch."""
        return {
            "files": self._says("dpkg", "--verify", *DEBIANS),
            "checksums": self._says("debsums", "--silent", *DEBIANS),
            "content": self._says("ovs-vsctl", "--timeout=5", "list", "Open_vSwitch"),
            "switch": self._pid("ovs-vswitchd.service"),
            "database": self._pid("ovsdb-server.service"),
            "state": self._says(
                "systemctl", "is-active", "ovs-vswitchd", "ovsdb-server", "openvswitch-switch"
            ),
            "schema": self._says("sha256sum", "/usr/share/openvswitch/vswitch.ovsschema"),
        }

    def _debians_is_untouched(self) -> None:
        now = self._debians()
        expect(now == self.debians, f"Debian's switch: {self.debians} became {now}")


def cache() -> Path:
    """Where what is made once is kept."""
    return Path(
        os.environ.get("WEIR_CACHE")
        or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weir"
    )


def main(argv: list[str]) -> int:
    """Try the packages in the folder that is given."""
    built = Path(argv[1])
    end_on_signals()
    start = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="weir-trial-") as folder:
            shared = Path(folder)
            debs = []
            for name in (*OURS, FOUNTAIN):
                (deb,) = built.glob(f"{name}_*.deb")
                debs.append(deb)
                shutil.copy(deb, shared / f"{name}.deb")
                if name in OURS:
                    older(deb, shared)
            tree = bootstrapped(cache(), PACKAGES, debs, DOWNLOADS)
            print(f"{'fresh Debian 12':<82} ok ({time.monotonic() - start:.0f} s)", flush=True)
            with Machine(tree, shared) as machine:
                return _try(
                    Trial(machine, run(["dpkg-deb", "--field", str(debs[0]), "Version"]).strip())
                )
    except (MachineError, CommandError) as error:
        print(f"weir: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _try(trial: Trial) -> int:
    for step in trial.steps():
        start = time.monotonic()
        print(f"{step.__doc__:<82} ", end="", flush=True)
        try:
            step()
        except (TrialError, CommandError, TimeoutError) as error:
            print(f"FAILED\n{error}", flush=True)
            with suppress(CommandError):
                print(
                    trial.machine.shell(
                        "journalctl --no-pager -n 60; systemctl --failed --no-pager"
                    )
                )
            return 1
        print(f"ok ({time.monotonic() - start:.0f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
