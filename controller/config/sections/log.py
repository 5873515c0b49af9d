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

    level: Level = "info"
    levels: dict[Component, Level] = Field(default={})
    format: Literal["text", "json"] = "text"
    events: str | None = None
    connections: bool = False
