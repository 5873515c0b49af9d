"""`policies`: connections that are treated differently."""

import ipaddress
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from controller.config.fields import Section
from controller.core.flows.policy import Rule, Treatment


def _tcp_port(written: object) -> object:
    if isinstance(written, str) and not written.isdecimal():
        raise ValueError(f"{written!r} is not a number; write the TCP port, e.g. 80 for http")
    return written


def _subnet(written: object) -> tuple[bytes, int]:
    """Packed network and length of the prefix."""
    try:
        network = ipaddress.ip_network(str(written), strict=False)
    except ValueError:
        raise ValueError(
            f"{written!r} is not a subnet; write e.g. 10.1.0.0/16 or fd00::/8"
        ) from None
    if "/" in str(written) and str(network) != ipaddress.ip_interface(str(written)).with_prefixlen:
        raise ValueError(f"{written!r} has bits set past its prefix; write {network}")
    if not network.prefixlen:
        raise ValueError(f"{written!r} holds every address; leave it out")
    return network.network_address.packed, network.prefixlen


def _written(subnet: tuple[bytes, int]) -> str:
    packed, length = subnet
    return f"{ipaddress.ip_address(packed)}/{length}"


Subnet = Annotated[
    tuple[bytes, int],
    BeforeValidator(_subnet),
    PlainSerializer(_written, return_type=str, when_used="json"),
]


class PolicyRule(Section):
    """What is done with the connections that have an end in the subnet, at the TCP port."""

    treatment: Literal["exempt", "protect", "background"]
    subnet: Subnet | None = None
    port: Annotated[int | None, BeforeValidator(_tcp_port)] = Field(default=None, ge=1, le=65_535)

    @model_validator(mode="after")
    def _says_of_whom(self) -> Self:
        if self.subnet is None and self.port is None:
            raise ValueError("neither subnet nor port; name at least one of them")
        return self

    def rule(self) -> Rule:
        return Rule(Treatment(self.treatment), *(self.subnet or (b"", 0)), self.port or 0)
