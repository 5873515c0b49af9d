"""`classifier`: which flows are background flows, and how long connections are kept."""

from pydantic import Field

from controller.config.fields import Section, Size, Time


class ClassifierSection(Section):
    background_bytes: Size = 10**6
    background_age: Time = 10**9
    poll_interval: Time = 5 * 10**8
    quiet: Time = 10 * 10**9
    expiry: Time = Field(default=1800 * 10**9, le=3600 * 10**9)
    counted_per_switch: int = Field(default=16_384, ge=0)
