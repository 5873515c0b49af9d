"""The smallest network there is: one bridge, and hosts in namespaces whose links are bare veths."""

import tempfile
from pathlib import Path

from testbed.command import run
from testbed.host import Host
from testbed.link import OFFLOADS_OFF
from testbed.ovs import Ovs
from testbed.sandbox import RUN_DIR

BRIDGE = "br0"
# Goes to host 1, which nevertheless does not answer: it is not its address.
SINK = "02:00:00:00:00:ff"


def add_host(number: int, *addresses: str) -> Host:
    """Host hN with the device eth0, the other end of which is sN, here and up."""
    host = Host(f"h{number}")
    device = f"s{number}"
    run(
        ["ip", "link", "add", device, "type", "veth", "peer", "name", "eth0", "address",
         mac(number), "netns", str(host.pid)],
    )  # fmt: skip
    for address in addresses:
        nodad = ("nodad",) if ":" in address else ()
        run(["ip", "addr", "add", address, "dev", "eth0", *nodad], pid=host.pid)
    run(["ethtool", "-K", "eth0", *OFFLOADS_OFF], pid=host.pid)
    run(["ip", "link", "set", "eth0", "up"], pid=host.pid)
    run(["ip", "link", "set", device, "up"])
    return host


def mac(number: int) -> str:
    """The address of host hN."""
    return f"02:00:00:00:00:{number:02x}"


class Network:
    """Context manager: a started switch with hosts 1..``hosts``, 10.0.0.N, at ports 1..``hosts``.

    All know each other's addresses, so nothing but what a benchmark sends is on the wire. The
    bridge has no flows before ``deliver``.
    """

    def __init__(self, prefix: Path, hosts: int) -> None:
        self.ovs = Ovs(prefix, Path(tempfile.mkdtemp(dir=RUN_DIR)) / "ovs")
        self.hosts: list[Host] = []
        self._count = hosts

    def __enter__(self) -> "Network":
        self.ovs.start()
        words = [
            "add-br", BRIDGE, "--", "set", "bridge", BRIDGE, "datapath_type=netdev",
            "protocols=OpenFlow13", "fail_mode=secure", "other_config:disable-in-band=true",
        ]  # fmt: skip
        numbers = range(1, self._count + 1)
        for number in numbers:
            self.hosts.append(add_host(number, f"10.0.0.{number}/24"))
            port = ("add-port", BRIDGE, f"s{number}", "--", "set", "interface", f"s{number}")
            words += ["--", *port, f"ofport_request={number}"]
        self.ovs.vsctl(*words)
        for number in numbers:
            for other in numbers:
                if other != number:
                    entry = (f"10.0.0.{other}", "lladdr", mac(other), "nud", "permanent")
                    pid = self.hosts[number - 1].pid
                    run(["ip", "neigh", "replace", *entry, "dev", "eth0"], pid=pid)
        return self

    def deliver(self) -> None:
        """Install flows that deliver by destination. Call it once a controller is connected: the
        switch forgets all flows when its first controller connects."""
        for number in range(1, self._count + 1):
            flow = f"priority=1,dl_dst={mac(number)},actions=output:{number}"
            self.ovs.ofctl("add-flow", BRIDGE, flow)
        self.ovs.ofctl("add-flow", BRIDGE, f"priority=1,dl_dst={SINK},actions=output:1")

    def __exit__(self, *_exc: object) -> None:
        for host in self.hosts:
            run(["ip", "link", "del", f"s{host.name[1:]}"])
            host.terminate()
        self.ovs.stop()

    def set_queue(self, port: int, **other_config: object) -> None:
        """Set the QoS of a port; ``type`` is ``weir`` unless given, "_" in a key stands for "-".

        Raises CommandError if the port has no queue afterwards.
        """
        kind = other_config.pop("type", "weir")
        config = [f"other_config:{k.replace('_', '-')}={v}" for k, v in other_config.items()]
        self.ovs.vsctl(
            *("set", "port", f"s{port}", "qos=@q", "--", "--id=@q", "create", "qos"),
            f"type={kind}",
            *config,
        )
        if kind == "weir":
            # The switch reports a record that it refuses in its log only.
            self.ovs.appctl("netdev-egress/show", f"s{port}")
