"""`classifier`: which flows are background flows, and how long connections are kept."""

from pydantic import Field

from controller.config.fields import Section, Size, Time


class ClassifierSection(Section):
    background_bytes: Size = Field(
        default=10**6,
        description="a flow is a background flow when it exceeds this volume and background_age",
    )
    background_age: Time = Field(
        default=10**9,
        description="a flow is a background flow when it exceeds this age and background_bytes",
    )
    poll_interval: Time = Field(default=5 * 10**8, description="how often volumes are read")
    quiet: Time = Field(
        default=10 * 10**9,
        description=(
            "a background flow that was so long quiet starts anew as a burst flow; not with "
            "scheme sdtcp"
        ),
    )
    expiry: Time = Field(
        default=1800 * 10**9,
        le=3600 * 10**9,
        description=(
            "a connection that has moved nothing for so long is dormant: it counts for no port "
            "until it moves something again"
        ),
    )
    dormant: int = Field(
        default=10**6,
        ge=0,
        description=(
            "dormant connections, 0.7 kB each, before those that are dormant for longest are "
            "forgotten"
        ),
    )
    counted_per_switch: int = Field(
        default=16_384,
        ge=0,
        description="connections whose volumes one switch counts, two flow entries each",
    )
