"""`standby`: the other controllers of the same switches."""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from controller.config.fields import Endpoint, Listener, Name, Section, Time


class StandbySection(Section):
    """The other controllers of the same switches; without peers there are none. All name all.

    `name` is this controller's own. Over `ssl` a peer's certificate must bear the peer's name, over
    `tcp` all must know the same secret. Who has more `priority` goes first, else by name.
    """

    name: Name | None = None
    peers: dict[Name, Endpoint] = Field(default={}, max_length=15)
    listen: Listener | None = None
    secret: Path | None = None
    priority: int = Field(
        default=100,
        ge=0,
        le=1000,
        description=(
            "of several standbys, who has more takes over first; a master keeps the switches"
        ),
    )
    heartbeat: Time = Field(
        default=150 * 10**6,
        description="how often controllers tell each other that they are there",
    )
    timeout: Time = Field(
        default=600 * 10**6,
        description="the master is gone when it was silent for this long",
    )

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if not self.peers:
            if self.model_fields_set:
                raise ValueError("peers is missing; name the other controllers: {NAME: HOST:PORT}")
            return self
        if self.name is None or self.listen is None:
            raise ValueError("name and listen are needed beside peers")
        if self.name in self.peers:
            raise ValueError(f"peers holds this controller itself, {self.name!r}; leave it out")
        if self.listen.transport == "tcp" and self.secret is None:
            raise ValueError("secret is missing; over tcp: it is what tells peers from strangers")
        if self.timeout < 3 * self.heartbeat:
            raise ValueError("timeout must be at least three times heartbeat")
        return self
