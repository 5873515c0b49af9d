"""`fabric`: links, egress queues and hosts."""

from typing import Self

from pydantic import Field, model_validator

from controller.config.fields import Rate, Rtt, Section, Size, SwitchId, Time


class QueueSection(Section):
    """The egress queue of one port, where it differs from the rest of the fabric."""

    switch: SwitchId
    port: int | str
    capacity: Rate | None = None
    egress_buffer: Size | None = None
    rtt: Rtt | None = None


class FabricSection(Section):
    link_capacity: Rate = 10**8
    egress_buffer: Size = 64 * 2**10
    rtt: Rtt = 500_000
    lldp_interval: Time = 10**9
    link_timeout: Time = Field(default=4 * 10**9, le=65_535 * 10**9)
    control_grace: Time = 5 * 10**8
    switch_grace: Time = 60 * 10**9
    host_age: Time = 1800 * 10**9
    flood_rate: int = Field(default=100, ge=1, le=10**6)
    queues: tuple[QueueSection, ...] = ()

    @model_validator(mode="after")
    def _links_outlive_probes(self) -> Self:
        if self.link_timeout <= self.lldp_interval:
            raise ValueError("link_timeout must be longer than lldp_interval, best three times")
        return self
