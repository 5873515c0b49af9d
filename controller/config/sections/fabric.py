"""`fabric`: links, egress queues and hosts."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from controller.config.fields import Mac, Rate, Rtt, Section, Size, SwitchId, Time
from controller.core.topology.named_ports import NamedPorts
from controller.core.topology.vlans import Membership, VlanRule
from controller.model.vlans import MAX_VLAN, vlan_numbered

VlanNumber = Annotated[int, Field(ge=1, le=MAX_VLAN)]


class QueueSection(Section):
    """The egress queue of one port, where it differs from the rest of the fabric."""

    switch: SwitchId
    port: int | str
    capacity: Rate | None = None
    egress_buffer: Size | None = None
    rtt: Rtt | None = None


class BoundHostSection(Section):
    """A host that is at one port only."""

    mac: Mac
    switch: SwitchId
    port: int | str


class VlanSection(Section):
    """Ports for hosts, and the VLANs that they carry."""

    switch: SwitchId | None = None
    ports: tuple[int | str, ...] = Field(min_length=1)
    access: VlanNumber | None = None
    trunk: tuple[VlanNumber, ...] = ()
    native: VlanNumber | None = None

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        if self.access is not None and (self.trunk or self.native is not None):
            raise ValueError(
                "a port is an access port of one VLAN, or a trunk: leave out access, or trunk and "
                "native"
            )
        if self.access is None and not self.trunk and self.native is None:
            raise ValueError("write access: VLAN for ports without tags, or trunk: [VLAN, ...]")
        if self.native in self.trunk:
            raise ValueError(f"VLAN {self.native} is native: it has no tags, so it is not in trunk")
        return self

    def rule(self) -> VlanRule:
        untagged = self.native if self.access is None else self.access
        membership = Membership(
            frozenset(map(vlan_numbered, self.trunk)), vlan_numbered(untagged or 0)
        )
        return VlanRule(self.switch, self.ports, membership)


class BondSection(Section):
    """Ports of one switch that lead to the same hosts."""

    switch: SwitchId | None = None
    ports: tuple[int | str, ...] = Field(min_length=1)

    def rule(self) -> NamedPorts:
        return NamedPorts(self.switch, self.ports)


class FabricSection(Section):
    link_capacity: Rate = Field(
        default=10**8,
        description="of ports that tell neither a queue nor a speed",
    )
    egress_buffer: Size = Field(default=64 * 2**10, description="of ports that tell no queue")
    rtt: Rtt = Field(
        default=500_000,
        description="between hosts without queues, until it was measured",
    )
    lldp_interval: Time = Field(default=10**9, description="how often links are probed")
    link_timeout: Time = Field(
        default=4 * 10**9,
        le=65_535 * 10**9,
        description="when a link is gone that nobody said is down",
    )
    control_grace: Time = Field(
        default=5 * 10**8,
        description=(
            "how long a switch without a control connection stays part of paths that have "
            "an alternative"
        ),
    )
    switch_grace: Time = Field(
        default=60 * 10**9,
        description="how long a switch that is away is remembered",
    )
    host_age: Time = Field(default=1800 * 10**9, description="when a silent host is forgotten")
    hosts_per_port: int = Field(
        default=1024, ge=1, description="how many Ethernet addresses are believed behind one port"
    )
    addresses_per_port: int = Field(
        default=4096, ge=1, description="how many IP addresses the hosts behind one port have"
    )
    connections_per_port: int = Field(
        default=500_000,
        ge=1,
        description="how many connections that hosts behind one port have opened are known",
    )
    host_moves: bool = Field(
        default=True,
        description=(
            "whether hosts may move from port to port; if not, a host stays where it was first "
            "heard until its port goes down or it is silent for host_age"
        ),
    )
    bound_hosts: tuple[BoundHostSection, ...] = Field(
        default=(),
        description="hosts that are believed at one port only: mac, switch, port",
    )
    flood_rate: int = Field(
        default=100,
        ge=1,
        le=10**6,
        description=(
            "how many frames a second to unknown hosts (and, of switches without meters, to "
            "groups) are delivered to all ports for hosts"
        ),
    )
    multicast_snooping: bool = Field(
        default=False,
        description=(
            "whether what is sent to a multicast group goes only to ports whose hosts have joined "
            "it by IGMP or MLD, and to routers"
        ),
    )
    vlans: tuple[VlanSection, ...] = Field(
        default=(),
        description=(
            "which VLANs ports carry: switch (left out: all), ports (numbers or patterns of "
            "names), and access: VLAN, or trunk: [VLAN, ...] and native: VLAN; the first that "
            "names a port decides, and ports that none names carry frames without tags only. "
            "Without any, every port carries every VLAN"
        ),
    )
    bonds: tuple[BondSection, ...] = Field(
        default=(),
        description=(
            "which ports lead to the same hosts: switch (left out: on each switch the ports that "
            "it names are one bond), and ports (numbers or patterns of names)"
        ),
    )
    queues: tuple[QueueSection, ...] = Field(
        default=(),
        description=(
            "what is known better of single ports: switch, port, capacity, egress_buffer, rtt"
        ),
    )

    @model_validator(mode="after")
    def _links_outlive_probes(self) -> Self:
        if self.link_timeout <= self.lldp_interval:
            raise ValueError("link_timeout must be longer than lldp_interval, best three times")
        return self
