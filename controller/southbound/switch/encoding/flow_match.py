"""Flows and path ids as matches of flow entries, and back."""

from controller.model.flow import FlowKey
from controller.southbound.codec.ethernet import ETH_IPV4, ETH_IPV6
from controller.southbound.codec.match import (
    IPV4_DST,
    IPV4_SRC,
    IPV6_DST,
    IPV6_SRC,
    REG0,
    TCP_DST,
    TCP_SRC,
    Field,
    Match,
    exact,
    in_vlan,
    vlan_in,
)
from controller.southbound.switch.pipeline import HAS_PATH_ID, path_id_of, tcp


def match_of_flow(flow: FlowKey) -> Match:
    """The match for the segments of a flow."""
    eth_type, src, dst = family(flow.src)
    return (
        *tcp(eth_type),
        *in_vlan(flow.vlan),
        exact(src, flow.src),
        exact(dst, flow.dst),
        exact(TCP_SRC, flow.src_port),
        exact(TCP_DST, flow.dst_port),
    )


def flow_of_match(values: dict[Field, bytes]) -> FlowKey:
    """The flow whose segments match. Raises KeyError if a field is missing."""
    src, dst = address_fields(values)
    src_port, dst_port = (int.from_bytes(values[field], "big") for field in (TCP_SRC, TCP_DST))
    return FlowKey(values[src], src_port, values[dst], dst_port, vlan_in(values))


def of_path_id(path_id: int | None) -> Match:
    """The match for frames with a path id; if it is None, for all."""
    return () if path_id is None else (exact(REG0, HAS_PATH_ID | path_id),)


def path_id_in(values: dict[Field, bytes]) -> int | None:
    """The path id of a match; None without one."""
    return path_id_of(int.from_bytes(values[REG0], "big")) if REG0 in values else None


def address_fields(values: dict[Field, bytes]) -> tuple[Field, Field]:
    """The fields for the source and the destination in a match."""
    return (IPV4_SRC, IPV4_DST) if IPV4_SRC in values else (IPV6_SRC, IPV6_DST)


def family(address: bytes) -> tuple[int, Field, Field]:
    """The EtherType of an address, and the fields for source and destination."""
    if len(address) == 4:
        return ETH_IPV4, IPV4_SRC, IPV4_DST
    return ETH_IPV6, IPV6_SRC, IPV6_DST
