"""`log`: what is logged, how, and where events go."""

from typing import Literal

from pydantic import Field

from controller.config.fields import Section

Level = Literal["debug", "info", "warning", "error"]
# fmt: off
Component = Literal["app", "channel", "eventlog", "northbound", "openflow", "peers", "refused",
                    "session", "standby"]
# fmt: on


class Log(Section):
    """`levels` are those of single components."""

    level: Level = Field(default="info", description="of all components")
    levels: dict[Component, Level] = Field(
        default={},
        description="of single components, such as {session: debug}",
    )
    format: Literal["text", "json"] = Field(
        default="text",
        description="text, or JSON for programs",
    )
    events: str | None = None
    connections: bool = Field(
        default=False,
        description="log and events per connection, too; not where there are 100,000 a second",
    )
