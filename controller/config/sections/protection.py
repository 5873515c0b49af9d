"""`protection`: TCP over links that repair losses, where the path is lossy."""

from collections.abc import Iterable
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from controller.config.fields import Section, Share, Time
from controller.core.bandwidth.protection import ProtectionSettings

# Linux's names of devices have 15 characters at most; a pattern may take a few more.
Pattern = Annotated[str, Field(min_length=1, max_length=64)]


class ProtectionSection(Section):
    """`ports` are shell patterns of the names of ports that are ends of protected links.

    `on_loss` and `off_loss` are shares of the packets. By them links are reported to be lossy, and
    clean again, too. They are not called `on` and `off`: YAML takes these for true and false.
    """

    ports: tuple[Pattern, ...] = Field(
        default=(),
        description=(
            "names of the ports that are ends of protected links, e.g. acc*; without any, nothing "
            "is protected"
        ),
    )
    on_loss: Share = Field(
        default=0.001,
        ge=1e-6,
        le=0.5,
        description="TCP goes over a protected link where the path loses more than this share",
    )
    off_loss: Share = Field(
        default=0.0002,
        ge=0,
        le=0.5,
        description="TCP goes by the path again when this loses no more than this share",
    )
    hold: Time = Field(
        default=30 * 10**9,
        ge=10**9,
        le=3600 * 10**9,
        description="for how long the loss must have been no more than off_loss",
    )

    @field_validator("ports", mode="before")
    @classmethod
    def _is_one_or_several(cls, ports: object) -> object:
        if isinstance(ports, str):
            return (ports,)
        if not isinstance(ports, list | tuple):
            raise ValueError(f"{ports!r} is no list of names; write e.g. [acc*]")
        return ports

    @field_validator("ports")
    @classmethod
    def _names_no_port_of_hosts(cls, ports: Iterable[str]) -> tuple[str, ...]:
        """A port that a pattern fits has no hosts."""
        for pattern in ports:
            if not pattern[0].isalnum():
                raise ValueError(
                    f"{pattern!r} may fit any port; begin it with letters that only the names of "
                    "protected ports begin with, e.g. acc*"
                )
        return tuple(ports)

    @model_validator(mode="after")
    def _is_off_below_on(self) -> Self:
        if self.off_loss >= self.on_loss:
            raise ValueError(
                f"off_loss ({self.off_loss:g}) is not below on_loss ({self.on_loss:g}); write less"
            )
        return self

    def settings(self) -> ProtectionSettings:
        return ProtectionSettings(self.ports, self.on_loss, self.off_loss, self.hold)
