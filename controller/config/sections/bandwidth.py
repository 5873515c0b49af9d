"""`bandwidth`: available bandwidth, and announced flows."""

from pydantic import Field

from controller.config.fields import Section, Share, Time


class BandwidthSection(Section):
    """Shares of the links' capacities: `spare` is given to no announced flow; `reserved` is for
    them together, whoever else sends (0: they count as any other flow). `reserved_dscp` is that of
    the QoS of the switches, which their senders are told to write into their packets."""

    spare: Share = Field(
        default=0.01,
        ge=0,
        le=0.5,
        description="part of each link that is given to no announced flow",
    )
    reserved: Share = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="part of each link that is kept for all announced flows together",
    )
    reserved_dscp: int = Field(
        default=11,
        ge=1,
        le=63,
        description=(
            "by what the switches know the packets that the reserved part is for: "
            "reserved-dscp of their QoS"
        ),
    )
    expiry: Time = Field(
        default=5 * 10**9,
        ge=5 * 10**8,
        le=3600 * 10**9,
        description="an announced flow that is not renewed is forgotten",
    )
