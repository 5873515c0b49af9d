"""`bandwidth`: available bandwidth, and announced flows."""

from pydantic import Field

from controller.config.fields import Section, Share, Time


class BandwidthSection(Section):
    """Shares of the links' capacities: `spare` is given to no announced flow; `reserved` is for
    them together, whoever else sends (0: they count as any other flow). `reserved_dscp` is that of
    the QoS of the switches, which their senders are told to write into their packets."""

    spare: Share = Field(default=0.01, ge=0, le=0.5)
    reserved: Share = Field(default=0.0, ge=0, lt=1)
    reserved_dscp: int = Field(default=11, ge=1, le=63)
    expiry: Time = Field(default=5 * 10**9, ge=5 * 10**8, le=3600 * 10**9)
