"""Which way packets take through the test bed's switches, as Open vSwitch tells it."""

import re
from typing import NamedTuple

from testbed.bed import Bed
from testbed.host import Host
from testbed.switch import Switch


class Step(NamedTuple):
    """A segment passes a switch, and there a window register, or None.

    `window_scale` is what the flow entry says of the segment's sender: None where it leaves that to
    the SYN that has come by.
    """

    switch: str
    in_port: int
    out_port: int
    register: int | None
    window_scale: int | None


class Fabric:
    """What the test bed's switches do with single segments."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self._peers = {}
        for link in bed.net.links:
            for near, far in ((link.intf1, link.intf2), (link.intf2, link.intf1)):
                self._peers[near.node.name, near.node.ports[near]] = far

    def way(self, src: Host, dst: Host, ports: tuple[int, int]) -> list[Step]:
        """The switches that a segment without payload passes, by Open vSwitch's own account."""
        return self._way(src, dst, "tcp", ports, "tcp_flags=ack")

    def datagrams_way(self, src: Host, dst: Host, ports: tuple[int, int]) -> list[Step]:
        """Those that a datagram of UDP passes."""
        return self._way(src, dst, "udp", ports)

    def _way(
        self, src: Host, dst: Host, protocol: str, ports: tuple[int, int], *more: str
    ) -> list[Step]:
        flow = ",".join(
            (
                *(f"dl_src={src.MAC()}", f"dl_dst={dst.MAC()}", protocol),
                *(f"nw_src={src.IP()}", f"nw_dst={dst.IP()}"),
                *(f"{protocol}_src={ports[0]}", f"{protocol}_dst={ports[1]}", *more),
            )
        )
        intf = self._peers[src.name, src.ports[src.defaultIntf()]]
        steps: list[Step] = []
        while isinstance(intf.node, Switch):
            in_port = intf.node.ports[intf]
            said = self.bed.ovs.appctl("ofproto/trace", intf.node.name, f"in_port={in_port},{flow}")
            out_port = int(re.findall(r"output:(\d+)", said)[-1])
            passed = re.findall(r"tcp_rwnd_register\(register=(\d+),wscale=(\w+)\)", said)
            register, scale = passed[-1] if passed else (None, "syn")
            steps.append(
                Step(
                    intf.node.name,
                    in_port,
                    out_port,
                    register and int(register),
                    None if scale == "syn" else int(scale),
                )
            )
            assert len(steps) < 10, steps
            intf = self._peers[intf.node.name, out_port]
        assert intf.node is dst
        return steps
