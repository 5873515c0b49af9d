"""A whole test bed: topology, switches, hosts, controller; built, checked, ready for traffic."""

import resource
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from mininet.net import Mininet

from controller.core.topology.fabric import PORT_GRACE_NS
from testbed import dctcp, sandbox
from testbed.command import in_network, run, wait_until
from testbed.config import BedConfig, HostSettings
from testbed.controller import Controller, QueueConfig, configuration
from testbed.host import Host
from testbed.link import ShapedLink
from testbed.ovs import Ovs, find_prefix
from testbed.sandbox import RUN_DIR
from testbed.switch import Switch
from testbed.topologies import IncastTopo, topology_of

_CONNECT_TIMEOUT_S = 20.0
_FORWARD_TIMEOUT_S = 20
# From and to nobody, with an EtherType for experiments (IEEE 802), of full size.
_MEANINGLESS = bytes.fromhex("020000000000 020000000000 88b5") + bytes(1500)
# How long a controller waits to see whether a port leads to a switch, and half of it more.
_GRACE_S = 1.5 * PORT_GRACE_NS / 1e9
# So far ahead of its link whoever brings a packet sends it (burst-us of the QoS type weir).
_AHEAD_S = 120e-6


class BedError(RuntimeError):
    """The test bed stands but does not work; the text says what does not."""


class Bed:
    """Context manager. Leaving it ends controller and switches; the rest ends with the sandbox."""

    def __init__(self, config: BedConfig, run_dir: Path = RUN_DIR) -> None:
        self.config = config
        self.run_dir = run_dir
        self.events = run_dir / "events.jsonl"
        self.ovs = Ovs(find_prefix(config.ovs_prefix), run_dir / "ovs")
        self.controller: Controller | None = None
        # As read back from the kernel, if hosts have DCTCP.
        self.dctcp_gain: float | None = None
        self.net: Mininet
        self.topo: IncastTopo
        self._flooded_from_s = 0.0
        self._registered = ExitStack()

    def __enter__(self) -> Self:
        sandbox.require_inside()
        if self.ovs.run_dir.exists():
            raise BedError(
                "there has been a test bed in this sandbox already, and its links are still there: "
                "start each one in a new sandbox (testbed.sandbox.run)"
            )
        try:
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the controller and the switches, both at once. Nothing happens the second time."""
        if self.controller is not None:
            self.controller.terminate()
        self.ovs.stop()
        if self.controller is not None:
            self.controller.stop()
        self._registered.close()

    def host(self, name: str) -> Host:
        """Return the host called ``name``. Raises ValueError naming those that there are."""
        host: Host = self._named(name, "host", self.net.hosts)
        return host

    @property
    def hosts(self) -> list[Host]:
        """All hosts, in the order of their addresses."""
        return list(self.net.hosts)

    @property
    def switches(self) -> list[Switch]:
        """All switches."""
        return list(self.net.switches)

    def switch(self, name: str) -> Switch:
        """Return the switch called ``name``. Raises ValueError naming those that there are."""
        switch: Switch = self._named(name, "switch", self.net.switches)
        return switch

    @property
    def bottleneck_switch(self) -> Switch:
        """The switch whose port is the bottleneck."""
        return self.switch(self.roles.switch)

    def switches_between(self, one: Host, other: Host) -> int:
        """Return how many switches the shortest way between two hosts passes."""
        neighbours: dict[str, set[str]] = {}
        for near, far in self.topo.links():
            neighbours.setdefault(near, set()).add(far)
            neighbours.setdefault(far, set()).add(near)
        reached, links = {one.name}, 0
        while other.name not in reached:
            reached |= {far for near in reached for far in neighbours[near]}
            links += 1
        return links - 1

    def round_trip_delay_us(self, one: Host, other: Host) -> int:
        """Return what the ports of switches add on purpose to a round trip between two hosts."""
        delay_us = int(self.config.queue.get("delay-us", 0))
        return 2 * self.switches_between(one, other) * delay_us

    @property
    def lossy_ports(self) -> list[str]:
        """The devices of the ports at which packets may be lost: the bottleneck, first, and those
        to hosts if their buffers are like its own."""
        edges = [f"{switch}-eth{port}" for switch, port in self._edge_ports()]
        return list(dict.fromkeys([self.roles.bottleneck, *edges]))

    def require_forwarding(self) -> None:
        """Have every host reach the receiver, and both ends of the background flow each other.
        Raises BedError naming those that do not.

        It is also how the controller comes to know where everybody is.
        """
        # The controller floods nothing before: who asks for an address then, asks again a second
        # later.
        time.sleep(max(0.0, self._flooded_from_s - time.monotonic()))
        roles = self.roles
        ends = [(host.name, roles.receiver) for host in self.hosts if host.name != roles.receiver]
        ends.append((roles.background_sender, roles.background_receiver))
        pairs = [(self.host(one), self.host(other)) for one, other in dict.fromkeys(ends)]
        ping = ("ping", "-q", "-c", "1", "-i", "0.1", "-w", str(_FORWARD_TIMEOUT_S))
        probes = [(f"{a.name} -> {b.name}", _probe(a, [*ping, b.IP()])) for a, b in pairs]
        silent = [name for name, probe in probes if probe.wait() != 0]
        if silent:
            raise BedError(f"no answer within {_FORWARD_TIMEOUT_S} s: {', '.join(silent)}")

    def put_release_first(self) -> None:
        """Let the thread of the switches that sends packets in their time, if they have it
        (``release=thread``), have a processor at once, as their main thread has.

        It is there once packets have had to wait, so some do: frames that mean nothing, to a host,
        twice as many as may be ahead of the link. Whoever starts the switches again calls this
        again.
        """
        if self.config.queue.get("release") != "thread":
            return
        bottleneck = (self.roles.switch, self.roles.bottleneck_port)
        # The bottleneck's buffer might have no room for them.
        switch, port = next(one for one in self._ports_to_hosts() if one != bottleneck)
        count = 2 + round(2 * _AHEAD_S * self.config.rate_bps / (8 * len(_MEANINGLESS)))
        actions = ",".join([f"output:{port}"] * count)
        frames = f"in_port=controller packet={_MEANINGLESS.hex()} actions={actions}"

        def is_first() -> bool:
            self.ovs.ofctl("packet-out", switch, frames)
            return self.ovs.put_release_first()

        wait_until(
            is_first,
            timeout_s=_CONNECT_TIMEOUT_S,
            what="the switches have a thread that sends packets in their time",
        )

    def _named(self, name: str, kind: str, nodes: Sequence[Any]) -> Any:
        for node in nodes:
            if node.name == name:
                return node
        raise ValueError(f"no {kind} {name}: there are {', '.join(node.name for node in nodes)}")

    def _build(self) -> None:
        config = self.config
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2
        )
        # The switches' ports are no hosts: without this each would announce an address of its own.
        run(["sysctl", "-e", "-q", "-w", "net.ipv6.conf.default.disable_ipv6=1"])
        # Mininet would raise limits of the whole machine.
        Mininet.inited = True
        topo = topology_of(config)
        self.topo, self.roles = topo, topo.roles
        if config.scheme is not None:
            self.controller = self._controller(config.scheme)
            # It takes a second until it listens: meanwhile there are the others to build.
            self.controller.launch()
        self.ovs.start()
        fail_mode = "standalone" if config.scheme is None else "secure"
        self.net = Mininet(
            topo=topo,
            switch=partial(Switch, ovs=self.ovs, fail_mode=fail_mode, queue=config.queue),
            host=partial(Host, settings=self._host_settings(), ipv6=config.ipv6),
            link=ShapedLink,
            controller=None,
            autoSetMacs=True,
        )
        if self.controller is not None:
            self.net.addController(self.controller)
        self.net.start()
        wait_until(
            lambda: all(switch.connected() for switch in self.switches),
            timeout_s=_CONNECT_TIMEOUT_S,
            what="all switches are connected to the controller",
        )
        if self.controller is not None:
            self._flooded_from_s = time.monotonic() + _GRACE_S
        self.put_release_first()

    def _host_settings(self) -> HostSettings:
        wanted = self.config.host
        if wanted.congestion_control != dctcp.NAME:
            return wanted
        made = dctcp.Dctcp(dctcp.GAIN if wanted.dctcp_gain is None else wanted.dctcp_gain)
        self.dctcp_gain = self._registered.enter_context(made).gain
        return replace(wanted, congestion_control=made.name)

    def _edge_ports(self) -> list[tuple[str, int]]:
        """Return the ports to hosts, if ``edge_limit_bytes`` is of them."""
        return [] if self.config.edge_limit_bytes is None else self._ports_to_hosts()

    def _ports_to_hosts(self) -> list[tuple[str, int]]:
        """Return switch and number of the ports to hosts."""
        topo = self.topo
        links = (sorted(link, key=topo.isSwitch, reverse=True) for link in topo.links())
        return [(a, topo.port(a, b)[0]) for a, b in links if not topo.isSwitch(b)]

    def _controller(self, scheme: str) -> Controller:
        roles, config = self.roles, self.config
        bottleneck = QueueConfig(
            switch=self.topo.switch_id(roles.switch),
            port=roles.bottleneck_port,
            egress_buffer_bytes=config.bottleneck_limit_bytes,
        )
        edges = [
            QueueConfig(self.topo.switch_id(name), port, config.edge_limit_bytes)
            for name, port in self._edge_ports()
            if config.edge_limit_bytes and (name, port) != (roles.switch, roles.bottleneck_port)
        ]
        settings = configuration(
            scheme=scheme,
            rate_bps=config.rate_bps,
            limit_bytes=config.limit_bytes,
            queues=[bottleneck, *edges],
            events=self.events,
            sections=config.controller,
        )
        return Controller("c0", config=settings, run_dir=self.run_dir)


def _probe(host: Host, argv: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        in_network(host.pid, argv), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
