"""A Mininet switch on our Open vSwitch: userspace datapath, every port a queue of known size."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mininet import node
from testbed import shaping
from testbed.command import run, wait_until
from testbed.link import ShapedIntf
from testbed.ovs import Ovs, OvsError

_PORT_TIMEOUT_S = 10.0
_MAX_BACKOFF_MS = 1000
_INACTIVITY_PROBE_MS = 5000
_PACING = (1.0, 1.02)
_REFUSED = re.compile(r"([\w.-]+): QoS type weir refused: (.*)")


class Switch(node.Switch):
    """A bridge in ``ovs``.

    On the patched switch every port gets a QoS of type ``weir`` (an exact queue at the link's rate,
    with the buffer of that end of the link) in the transaction that adds it. An unpatched switch is
    shaped by the kernel instead, afterwards, since it removes what it finds on a port it adds.
    ``queue`` adds to that QoS's settings. ``fail_mode`` "standalone" makes it a learning switch
    that needs no controller.
    """

    def __init__(
        self,
        name: str,
        *,
        ovs: Ovs,
        fail_mode: str = "secure",
        queue: Mapping[str, str | int] | None = None,
        **params: Any,
    ) -> None:
        super().__init__(name, **params)
        self.ovs = ovs
        self.fail_mode = fail_mode
        self.queue = {key: str(value) for key, value in (queue or {}).items()}

    @property
    def links(self) -> list[ShapedIntf]:
        """The interfaces that are ports, in the order of their OpenFlow numbers."""
        return [intf for _port, intf in sorted(self.intfs.items()) if isinstance(intf, ShapedIntf)]

    def start(self, controllers: Sequence[node.Controller]) -> None:
        """Create the bridge with all ports and their queues at once, and check what came of it.

        Raises OvsError where the switch lacks something, refuses a queue, or has a link that is not
        Weir's.
        """
        if others := [i.name for i in self.intfList() if i.name != "lo" and i not in self.links]:
            raise OvsError(
                f"{self.name}: {', '.join(others)} would not be forwarded to: "
                "--switch weir needs --link weir (ShapedLink)"
            )
        patched = self.ovs.has_egress_queues()
        if self.queue and not patched:
            asked = ", ".join(self.queue)
            raise OvsError(f"{self.name}: {self.ovs.prefix} is unpatched, it has no {asked}")
        transaction = [
            "add-br", self.name, "--", "set", "Bridge", self.name, "datapath_type=netdev",
            f"fail_mode={self.fail_mode}", "protocols=OpenFlow13",
            f"other_config:datapath-id={self.dpid}", "other_config:disable-in-band=true",
            f"other_config:dp-desc={self.name}",
        ]  # fmt: skip
        for intf in self.links:
            transaction += ["--", "add-port", self.name, intf.name]
            transaction += [
                "--",
                "set",
                "Interface",
                intf.name,
                f"ofport_request={self.ports[intf]}",
            ]
            if patched:
                transaction += self._queue(intf)
        # Whoever sets a device up sets it down again: not the switch, whose end would then be seen.
        run(["ip", "-batch", "-"], stdin="".join(f"link set {i.name} up\n" for i in self.links))
        if controllers:
            uuids = [f"@{controller.name}" for controller in controllers]
            transaction += ["--", "set", "Bridge", self.name, f"controller=[{','.join(uuids)}]"]
            for uuid, controller in zip(uuids, controllers, strict=True):
                transaction += [
                    "--", f"--id={uuid}", "create", "Controller",
                    f'target="{controller.protocol}:{controller.IP()}:{controller.port}"',
                    f"max_backoff={_MAX_BACKOFF_MS}", f"inactivity_probe={_INACTIVITY_PROBE_MS}",
                ]  # fmt: skip
        self.ovs.vsctl(*transaction)
        wait_until(self._ports_are_up, timeout_s=_PORT_TIMEOUT_S, what=f"{self.name} has its ports")
        if not patched:
            for intf in self.links:
                shaping.install(intf.name, intf.egress)
        if faults := self.queue_faults():
            raise OvsError(f"{self.name}: {self._refusal() or '; '.join(faults)}")

    def stop(self, deleteIntfs: bool = True) -> None:  # noqa: N803  (Mininet's name)
        """Remove the bridge."""
        self.ovs.vsctl("--if-exists", "del-br", self.name)
        super().stop(deleteIntfs)

    def kill(self) -> None:
        """Die as a switch does whose power is cut but whose cables still glow.

        It forwards nothing and has no control channel any more, and its neighbours' ports stay up.
        """
        self.ovs.vsctl("--if-exists", "del-br", self.name)

    def connected(self) -> bool:
        """Whether a controller is connected (or none is wanted), as of the last such question."""
        self.ovs.refresh_status()
        uuids = re.findall(
            r"[0-9a-f-]{36}", self.ovs.vsctl("get", "Bridge", self.name, "controller")
        )
        connected = [self.ovs.vsctl("get", "Controller", uuid, "is_connected") for uuid in uuids]
        return not uuids or any(answer.strip() == "true" for answer in connected)

    def dpctl(self, *args: str) -> str:
        """ovs-ofctl for Mininet's prompt: ``dpctl dump-flows``."""
        return self.ovs.ofctl(args[0], self.name, *args[1:])

    def queues(self) -> dict[str, dict[str, str]]:
        """Return what ``netdev-egress/show`` says of each port, by device and field."""
        shown = parse_queues(self.ovs.appctl("netdev-egress/show"))
        return {intf.name: shown[intf.name] for intf in self.links if intf.name in shown}

    def registers(self) -> dict[int, dict[str, str]]:
        """Return what ``tcp-rwnd/show`` says of the window registers in force, by number and field.

        One that is in the account of a port has its ``interface`` and the ``class`` there.
        """
        shown = parse_registers(self.ovs.appctl("tcp-rwnd/show", self.name))
        return {number: fields for number, fields in shown.items() if int(fields["ttl_ms"])}

    def accounts(self) -> dict[str, dict[str, int]]:
        """Return what ``netdev-credit/show`` says of each port's account, by device and field."""
        shown = parse_accounts(self.ovs.appctl("netdev-credit/show"))
        return {intf.name: shown[intf.name] for intf in self.links if intf.name in shown}

    def queue_faults(self) -> list[str]:
        """Say where a port's queue is not as its link asks for; empty when all are.

        An exact queue's kernel shaper, if it has one, runs a little faster than the queue, so that
        packets never wait there.
        """
        if not self.ovs.has_egress_queues():
            return [
                f"{intf.name}: {fault}"
                for intf in self.links
                for fault in shaping.differences(shaping.installed(intf.name), intf.egress)
            ]
        shown = self.queues()
        is_paced = self.queue.get("release") != "thread"
        kinds = {} if is_paced else shaping.kinds_installed()
        faults = []
        for intf in self.links:
            asked = {"max_rate": intf.egress.rate_bps, "limit_bytes": intf.egress.limit_bytes}
            found = {key: int(shown.get(intf.name, {}).get(key, -1)) for key in asked}
            if found != asked:
                faults.append(f"{intf.name}: queue is {found}, asked for {asked}")
            faults += [
                f"{intf.name}: the kernel has a qdisc {kind} there, too"
                for kind in kinds.get(intf.name, ())
            ]
            if is_paced:
                faults += _pacing_faults(intf)
            if self.queue:
                in_force = parse_qos(self.ovs.appctl("qos/show", intf.name))
                faults += [
                    f"{intf.name}: {key} is {in_force.get(key)}, asked for {value}"
                    for key, value in self.queue.items()
                    if in_force.get(key) != value
                ]
        return faults

    def _refusal(self) -> str | None:
        """What the switch has said of the first queue of ours that it refused, if it did."""
        names = {intf.name for intf in self.links}
        for device, why in _REFUSED.findall(self.ovs.log.read_text(errors="replace")):
            if device in names:
                return f"it refuses the queue of {device}: {why}"
        return None

    def _queue(self, intf: ShapedIntf) -> list[str]:
        uuid = f"@{intf.name}"
        settings = {"max-rate": intf.egress.rate_bps, "limit-bytes": intf.egress.limit_bytes}
        return [
            "--", "set", "Port", intf.name, f"qos={uuid}",
            "--", f"--id={uuid}", "create", "QoS", "type=weir",
            *(f"other_config:{key}={value}" for key, value in (settings | self.queue).items()),
        ]  # fmt: skip

    def _ports_are_up(self) -> bool:
        state = parse_interfaces(
            self.ovs.vsctl("--format=json", "--columns=name,ofport,error", "list", "Interface")
        )
        for intf in self.links:
            ofport, error = state.get(intf.name, (None, ""))
            if error:
                raise OvsError(f"{self.name}: port {intf.name}: {error}")
            if ofport != self.ports[intf]:
                return False
        return True


def _pacing_faults(intf: ShapedIntf) -> list[str]:
    paced_bps = shaping.installed(intf.name).rate_bps or 0
    low, high = (intf.egress.rate_bps * factor for factor in _PACING)
    if low <= paced_bps <= high:
        return []
    return [f"{intf.name}: paced at {paced_bps:.0f} bit/s, not {low:.0f} or more"]


def parse_queues(text: str) -> dict[str, dict[str, str]]:
    """Parse ``netdev-egress/show``: a line per port, its name and then ``field=value`` pairs."""
    queues = {}
    for line in text.splitlines():
        name, *fields = line.split()
        queues[name] = dict(field.split("=", 1) for field in fields)
    return queues


def parse_registers(text: str) -> dict[int, dict[str, str]]:
    """Parse ``tcp-rwnd/show`` of one bridge: a line per register, ``field=value`` pairs."""
    registers = {}
    for line in text.splitlines():
        fields = dict(field.split("=", 1) for field in line.split()[1:])
        registers[int(fields["register"])] = fields
    return registers


def parse_accounts(text: str) -> dict[str, dict[str, int]]:
    """Parse ``netdev-credit/show``: a line per port that says whether its account is ``active`` (1,
    or 0), and below it lines of ``field=value`` pairs, the first word of some being their topic, as
    in ``requests.held``."""
    accounts: dict[str, dict[str, int]] = {}
    account: dict[str, int] = {}
    for line in text.splitlines():
        if not line.startswith(" "):
            name, state = line.rsplit(": ", 1)
            account = accounts[name] = {"active": int(state == "active")}
            continue
        topic = ""
        for word in line.split():
            if word.endswith(":"):
                topic = word[:-1] + "."
            else:
                field, value = word.split("=", 1)
                account[topic + field] = int(value)
    return accounts


def parse_qos(text: str) -> dict[str, str]:
    """Parse ``qos/show``: what is in force on a port, a line ``key: value`` each."""
    return dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)


def parse_interfaces(table_json: str) -> dict[str, tuple[int | None, str]]:
    """Parse OVSDB's Interface table (name, ofport, error) to each one's port number and error."""
    rows = json.loads(table_json)["data"]
    # An optional value is a set: the value itself, or ["set", []] when there is none.
    return {
        name: (ofport if isinstance(ofport, int) else None, error if isinstance(error, str) else "")
        for name, ofport, error in rows
    }
