"""Whose windows are held to which registers, and whose are not touched: table REGULATE."""

from controller.model.entries import Exempt, FlowWindow, HostWindow, PortWindow
from controller.southbound.codec.ethernet import ETH_IPV4, ETH_IPV6
from controller.southbound.codec.extension import TcpRwndRegister, unpack_action
from controller.southbound.codec.match import (
    IN_PORT,
    IPV4_DST,
    IPV4_SRC,
    IPV6_DST,
    IPV6_SRC,
    TCP_DST,
    TCP_SRC,
    exact,
    in_vlan,
    prefix,
    vlan_in,
)
from controller.southbound.codec.openflow import FlowEntry
from controller.southbound.switch.encoding.coding import Coding, FlowEntries, Found
from controller.southbound.switch.encoding.flow_match import (
    address_fields,
    family,
    flow_of_match,
    match_of_flow,
)
from controller.southbound.switch.pipeline import Kind, Table, cookie_of, tcp

# What is exempt comes before the window of a flow, that before its host's, and that before its
# port's.
_EXEMPT, _FLOW_WINDOW, _HOST_WINDOW, _PORT_WINDOW = 300, 200, 100, 50


def _encode_host_window(entry: HostWindow) -> FlowEntries:
    eth_type, src, _ = family(entry.address)
    match = (
        *(exact(IN_PORT, entry.port), *tcp(eth_type), *in_vlan(entry.vlan)),
        exact(src, entry.address),
    )
    actions = TcpRwndRegister(entry.register, entry.window_scale).pack()
    cookie = cookie_of(Kind.HOST_WINDOW)
    return (FlowEntry(Table.REGULATE, _HOST_WINDOW, cookie, match, actions, Table.FORWARD),)


def _decode_host_window(found: Found) -> HostWindow:
    src, _ = address_fields(found.values)
    return HostWindow(
        found.number(IN_PORT),
        found.values[src],
        *_scaled_register(found),
        vlan_in(found.values),
    )


def _encode_port_window(entry: PortWindow) -> FlowEntries:
    actions = TcpRwndRegister(entry.register, None).pack()
    cookie = cookie_of(Kind.PORT_WINDOW)
    return tuple(
        FlowEntry(
            Table.REGULATE,
            _PORT_WINDOW,
            cookie,
            (exact(IN_PORT, entry.port), *tcp(eth_type)),
            actions,
            Table.FORWARD,
        )
        for eth_type in (ETH_IPV4, ETH_IPV6)
    )


def _decode_port_window(found: Found) -> PortWindow:
    action = _register_action(found)
    if action.window_scale is not None:
        raise ValueError("the window scale of one host for all hosts of a port")
    return PortWindow(found.number(IN_PORT), action.register)


def _encode_flow_window(entry: FlowWindow) -> FlowEntries:
    match = (exact(IN_PORT, entry.port), *match_of_flow(entry.segments))
    actions = TcpRwndRegister(entry.register, entry.window_scale).pack()
    cookie = cookie_of(Kind.FLOW_WINDOW)
    return (FlowEntry(Table.REGULATE, _FLOW_WINDOW, cookie, match, actions, Table.FORWARD),)


def _decode_flow_window(found: Found) -> FlowWindow:
    flow = flow_of_match(found.values)
    return FlowWindow(found.number(IN_PORT), flow, *_scaled_register(found))


def _encode_exempt(entry: Exempt) -> FlowEntries:
    """One for each direction, and without a network for each of both families."""
    network, port = entry.network, entry.port
    families = [family(network)] if network else [family(bytes(4)), family(bytes(16))]
    return tuple(
        FlowEntry(
            Table.REGULATE,
            _EXEMPT,
            cookie_of(Kind.EXEMPT),
            (
                *tcp(eth_type),
                *((prefix(address, network, entry.prefix_bits),) if entry.prefix_bits else ()),
                *((exact(tcp_port, port),) if port else ()),
            ),
            goto=Table.FORWARD,
        )
        for eth_type, *addresses in families
        for address, tcp_port in zip(addresses, (TCP_SRC, TCP_DST), strict=True)
    )


def _decode_exempt(found: Found) -> Exempt:
    network, prefix_bits, port = b"", 0, 0
    for field, value, mask in found.match:
        if field in (IPV4_SRC, IPV4_DST, IPV6_SRC, IPV6_DST):
            network, ones = value, 8 * len(value)
            prefix_bits = ones if mask is None else int.from_bytes(mask, "big").bit_count()
        elif field in (TCP_SRC, TCP_DST):
            port = int.from_bytes(value, "big")
    return Exempt(network, prefix_bits, port)


def _register_action(found: Found) -> TcpRwndRegister:
    action = unpack_action(found.instructions.actions)
    if not isinstance(action, TcpRwndRegister):
        raise ValueError("a window entry without a register")
    return action


def _scaled_register(found: Found) -> tuple[int, int]:
    """The register and the window scale of a host."""
    action = _register_action(found)
    if action.window_scale is None:
        raise ValueError("a window entry of one host without its window scale")
    return action.register, action.window_scale


CODINGS = (
    Coding(Kind.HOST_WINDOW, HostWindow, _encode_host_window, _decode_host_window),
    Coding(Kind.PORT_WINDOW, PortWindow, _encode_port_window, _decode_port_window),
    Coding(Kind.FLOW_WINDOW, FlowWindow, _encode_flow_window, _decode_flow_window),
    Coding(Kind.EXEMPT, Exempt, _encode_exempt, _decode_exempt),
)
