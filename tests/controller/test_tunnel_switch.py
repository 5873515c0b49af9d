"""Tunnels of real Open vSwitches: VXLAN and Geneve between two switches, over a third one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.cli.client import Client
from dummy_ovs import DummyOvs, controlled, wait_for
from packets import ACK, PSH, SYN, Host, segment, tcp_options
from test_real_switch import CONFIG, World, stock_prefix

CLIENT, SERVER = Host(1), Host(2)
PORTS = {CLIENT: "p1", SERVER: "p2"}
CALL, ANSWER = (40_000, 80), (80, 40_000)
TRANSIT = 3


class Overlay(World):
    """Switches 1 and 2, with a tunnel between them that goes through switch 3."""

    ports = PORTS

    def __init__(self, switch: DummyOvs, directory: Path) -> None:
        self._socket = directory / "weir.sock"
        self.config = CONFIG + f"northbound: {{{{socket: {self._socket}}}}}\n"
        super().__init__(switch, directory)
        for name, dpid in (("s1", 1), ("s2", 2), ("s3", TRANSIT)):
            switch.add_bridge(name, dpid, self.listen)
        switch.add_port("s1", "p1", 1)
        switch.add_port("s2", "p2", 1)
        switch.add_underlay("u1", "10.9.0.1", "10.9.0.2")
        switch.add_underlay("u2", "10.9.0.2", "10.9.0.1")
        switch.add_link(("u1", "s3"), ("u1-s3", "s3-u1"), 1)
        switch.add_link(("u2", "s3"), ("u2-s3", "s3-u2"), 2)

    def connect(self, kind: str) -> None:
        self.switch.add_tunnel(kind, (("s1", "v1", "10.9.0.2"), ("s2", "v2", "10.9.0.1")), 5, 77)
        wait_for(lambda: self.events("link_up"), "the link through the tunnel")

    def told_ports(self) -> dict[tuple[int, int], dict[str, Any]]:
        rows = Client(str(self._socket)).ask("ports", {})["ports"]
        return {(row["switch"], row["port"]): row for row in rows}


@pytest.fixture
def overlay(tmp_path: Path) -> Iterator[Overlay]:
    with controlled(Overlay, stock_prefix(), tmp_path) as overlay:
        yield overlay


@pytest.mark.parametrize(("kind", "label"), [("vxlan", "VXLAN"), ("geneve", "Geneve")])
def test_connections_are_known_at_the_ends_and_tunnels_between(
    overlay: Overlay, kind: str, label: str
) -> None:
    overlay.connect(kind)
    overlay.resolve(CLIENT, SERVER)
    syn = segment(CLIENT, SERVER, CALL, SYN, options=tcp_options(1460, 7))
    syn_ack = segment(SERVER, CLIENT, ANSWER, SYN | ACK, options=tcp_options(1400, 9))
    overlay.send(syn, CLIENT)
    overlay.arrives(syn, SERVER)
    overlay.send(syn_ack, SERVER)
    overlay.arrives(syn_ack, CLIENT)
    wait_for(lambda: overlay.events("connection_opened"), "the connection")
    (opened,) = overlay.events("connection_opened")
    assert (opened["src_port"], opened["dst_port"]) == CALL

    sequences = iter(range(1, 10**6, 500))

    def told() -> bool:
        data = segment(CLIENT, SERVER, CALL, ACK | PSH, next(sequences), payload=bytes(500))
        overlay.send(data, CLIENT)
        return label in overlay.told_ports()[TRANSIT, 1]["tunnels"]

    wait_for(told, "the transit switch to say what it carries")
    ports = overlay.told_ports()
    assert ports[1, 5]["tunnel"]
    assert ports[2, 5]["tunnel"]
    assert ports[1, 5]["peer"] == "0000000000000002:5"
    assert not ports[1, 1]["tunnel"]
    assert ports[1, 1]["tunnels"] == []
    assert not ports[TRANSIT, 1]["tunnel"]
    assert "refused" not in overlay.controller.log
