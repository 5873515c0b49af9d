"""What comes in within tunnels: table COUNT.

A datagram is counted by its destination port (RFC 7348 section 5, RFC 8926 section 3.3), whatever
is in it, and goes on as all others do.
"""

from controller.model.entries import TunnelCounter
from controller.model.values import TunnelKind
from controller.southbound.codec.ethernet import ETH_IPV4, ETH_IPV6
from controller.southbound.codec.match import (
    ETH_TYPE,
    IN_PORT,
    IP_PROTO,
    UDP_DST,
    exact,
    unpack_match,
)
from controller.southbound.codec.openflow import FlowEntry
from controller.southbound.switch.encoding.coding import Coding, FlowEntries, Found
from controller.southbound.switch.pipeline import PROTO_UDP, Kind, Table, cookie_of

_PRIORITY = 40


def _encode_tunnel_counter(entry: TunnelCounter) -> FlowEntries:
    return tuple(
        FlowEntry(
            Table.COUNT,
            _PRIORITY,
            cookie_of(Kind.TUNNEL_COUNTER),
            (
                *(exact(IN_PORT, entry.port), exact(ETH_TYPE, eth_type)),
                *(exact(IP_PROTO, PROTO_UDP), exact(UDP_DST, kind)),
            ),
            goto=Table.REGULATE,
        )
        for eth_type in (ETH_IPV4, ETH_IPV6)
        for kind in TunnelKind
    )


def _decode_tunnel_counter(found: Found) -> TunnelCounter:
    return TunnelCounter(found.number(IN_PORT))


def counted_tunnel(match: bytes) -> tuple[int, TunnelKind, int]:
    """The port, the kind and the version of IP of a TunnelCounter, by the packed match of a flow
    entry of it. Raises ValueError."""
    values = {field: int.from_bytes(value, "big") for field, value, _ in unpack_match(match)}
    try:
        version = 4 if values[ETH_TYPE] == ETH_IPV4 else 6
        return values[IN_PORT], TunnelKind(values[UDP_DST]), version
    except KeyError as missing:
        raise ValueError(f"a counter of tunnels without the match field {missing}") from None


CODINGS = (
    Coding(Kind.TUNNEL_COUNTER, TunnelCounter, _encode_tunnel_counter, _decode_tunnel_counter),
)
