"""`tls`: this controller's certificate, and whose others it accepts."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, model_validator

from controller.config.fields import Name, Section, SwitchId, Time


def _switch_ids(written: object) -> object:
    return (written,) if isinstance(written, int | str) else written


SwitchIds = Annotated[tuple[SwitchId, ...], BeforeValidator(_switch_ids)]


class TlsSection(Section):
    """PEM files, and the switches that a certificate of the authority is good for.

    `switches`: `named`: those whose datapath id, in 16 hexadecimal digits, is a name of the
    certificate (its CN or a DNS name); or the ids by name; or `any`.
    """

    key: Path | None = None
    certificate: Path | None = None
    ca: Path | None = None
    crl: Path | None = None
    minimum_version: Literal["1.2", "1.3"] = "1.2"
    switches: Literal["any", "named"] | dict[Name, SwitchIds] = "named"
    handshake_timeout: Time = 10 * 10**9

    @model_validator(mode="after")
    def _all_or_none(self) -> Self:
        needed = ("key", "certificate", "ca")
        missing = [key for key in needed if getattr(self, key) is None]
        if missing and (len(missing) < len(needed) or self.crl):
            raise ValueError(
                f"{' and '.join(missing)} missing; key, certificate and ca go together"
            )
        return self

    @property
    def given(self) -> bool:
        return self.key is not None
