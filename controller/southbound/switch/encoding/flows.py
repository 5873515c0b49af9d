"""Which flows are counted, and what of the others is copied up: table COUNT."""

from functools import lru_cache

from controller.model.entries import FlowCounter, Relearn, ServiceWatch
from controller.model.flow import PSH, FlowKey
from controller.southbound.codec.ethernet import ETH_IPV4, ETH_IPV6
from controller.southbound.codec.match import (
    IN_PORT,
    TCP_DST,
    TCP_FLAGS,
    TCP_SRC,
    exact,
    fin_timeout,
    in_vlan,
    unpack_match,
    vlan_in,
)
from controller.southbound.codec.openflow import SEND_FLOW_REMOVED, FlowEntry
from controller.southbound.switch.encoding.coding import Coding, FlowEntries, Found
from controller.southbound.switch.encoding.flow_match import (
    address_fields,
    family,
    flow_of_match,
    match_of_flow,
)
from controller.southbound.switch.pipeline import (
    COPY,
    HAS_PATH_ID,
    Kind,
    Table,
    cookie_of,
    detail_of,
    path_id_of,
    tcp,
)

COUNTER_IDLE_S = 3600  # For counters that outlive their controller, which removes them earlier.
FINISHED_IDLE_S = 30
RELEARN_S = 5

# What is counted is not copied up.
_FLOW_COUNTER, _SERVICE_WATCH, _RELEARN = 100, 60, 50

_PUSHED = TCP_FLAGS, PSH.to_bytes(2, "big"), PSH.to_bytes(2, "big")


def _encode_relearn(entry: Relearn) -> FlowEntries:
    return tuple(
        FlowEntry(
            Table.COUNT,
            _RELEARN,
            cookie_of(Kind.RELEARN),
            (exact(IN_PORT, entry.port), *tcp(eth_type)),
            COPY,
            Table.REGULATE,
            hard_timeout_s=RELEARN_S,
        )
        for eth_type in (ETH_IPV4, ETH_IPV6)
    )


def _decode_relearn(found: Found) -> Relearn:
    return Relearn(found.number(IN_PORT))


def _encode_flow_counter(entry: FlowCounter) -> FlowEntries:
    """The switch reports a counter that was idle for COUNTER_IDLE_S or, after a FIN or RST, for
    FINISHED_IDLE_S: no controller may have been there to hear of the end."""
    path_id = 0 if entry.path_id is None else HAS_PATH_ID | entry.path_id
    return (
        FlowEntry(
            Table.COUNT,
            _FLOW_COUNTER,
            cookie_of(Kind.FLOW_COUNTER, int(entry.forward) | path_id << 1),
            match_of_flow(entry.flow),
            fin_timeout(FINISHED_IDLE_S),
            Table.REGULATE,
            idle_timeout_s=COUNTER_IDLE_S,
            flags=SEND_FLOW_REMOVED,
        ),
    )


def _decode_flow_counter(found: Found) -> FlowCounter:
    return flow_counter(flow_of_match(found.values), found.cookie)


def _encode_service_watch(entry: ServiceWatch) -> FlowEntries:
    """One for each direction. Wherever they enter: the client's switch sees both, and counts them.

    The last segment of what a program writes is pushed, so there is a copy for each request and
    answer, and none for each segment or ACK.
    """
    eth_type, src, dst = family(entry.client)
    return tuple(
        FlowEntry(
            Table.COUNT,
            _SERVICE_WATCH,
            cookie_of(Kind.SERVICE_WATCH),
            (
                *(*tcp(eth_type), _PUSHED, *in_vlan(entry.vlan)),
                *(exact(src, sender), exact(dst, receiver), exact(tcp_port, entry.tcp_port)),
            ),
            COPY,
            Table.REGULATE,
        )
        for sender, receiver, tcp_port in (
            (entry.client, entry.server, TCP_DST),
            (entry.server, entry.client, TCP_SRC),
        )
    )


def _decode_service_watch(found: Found) -> ServiceWatch:
    sender, receiver = (found.values[field] for field in address_fields(found.values))
    vlan = vlan_in(found.values)
    if TCP_DST in found.values:
        return ServiceWatch(sender, receiver, found.number(TCP_DST), vlan)
    return ServiceWatch(receiver, sender, found.number(TCP_SRC), vlan)


def flow_counter(flow: FlowKey, cookie: int) -> FlowCounter:
    """The counter of a flow, by the cookie of its flow entry."""
    detail = detail_of(cookie)
    return FlowCounter(flow, bool(detail & 1), path_id_of(detail >> 1))


@lru_cache(maxsize=65_536)
def counted_flow(match: bytes) -> FlowKey:
    """The flow of a FlowCounter, by the packed match of its flow entry. Raises ValueError."""
    try:
        return flow_of_match({field: value for field, value, _ in unpack_match(match)})
    except KeyError as missing:
        raise ValueError(f"a flow counter without the match field {missing}") from None


CODINGS = (
    Coding(Kind.RELEARN, Relearn, _encode_relearn, _decode_relearn),
    Coding(Kind.FLOW_COUNTER, FlowCounter, _encode_flow_counter, _decode_flow_counter),
    Coding(Kind.SERVICE_WATCH, ServiceWatch, _encode_service_watch, _decode_service_watch),
)
