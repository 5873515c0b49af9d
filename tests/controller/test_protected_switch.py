"""A lossy link between two real switches, and a protected one beside it."""

import contextlib
import random
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.ops.event_log import read_events
from dummy_ovs import REPOSITORY, Controller, DummyOvs, controlled, free_endpoint, wait_for
from packets import ACK, SYN, Host, arp, ethernet, ipv4, segment, tcp_options

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

H1, H3 = Host(1), Host(3)
LINK, ACC = 10, 11
# Where others use the processors, too.
_LONG_S = 60.0

CONFIG = """
openflow: {{listen: "tcp:{listen}"}}
fabric: {{lldp_interval: 300 ms, link_timeout: 2 s}}
protection: {{ports: [acc*], on_loss: 0.01, off_loss: 0.001, hold: 1 s}}
log: {{events: "{events}"}}
"""


class LossyWire:
    """Carries the frames of two dummy ports that listen on sockets, but for some."""

    def __init__(self, ends: tuple[Path, Path], seed: int) -> None:
        self.loss = 0.0
        self._rng = random.Random(seed)
        self._sockets = []
        for end in ends:
            wait_for(end.exists, "the socket of a port")
            stream = socket.socket(socket.AF_UNIX)
            stream.connect(str(end))
            self._sockets.append(stream)
        self._threads = [
            threading.Thread(target=self._carry, args=way)
            for way in (self._sockets, self._sockets[::-1])
        ]
        for thread in self._threads:
            thread.start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        """A frame is its length in 16 bits, and itself."""
        with contextlib.suppress(OSError), source.makefile("rb") as stream:
            while head := stream.read(2):
                frame = stream.read(int.from_bytes(head, "big"))
                # Discovery goes through, so that the link stays.
                if frame[12:14] == b"\x88\xcc" or self._rng.random() >= self.loss:
                    sink.sendall(head + frame)

    def cut(self) -> None:
        for stream in self._sockets:
            with contextlib.suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for stream in self._sockets:
            stream.close()


class LossyWorld:
    """h1 at s1, h3 at s2, a lossy and a protected link between them."""

    def __init__(self, switch: DummyOvs, directory: Path) -> None:
        listen = free_endpoint()
        self._events = directory / "events.jsonl"
        self.controller = Controller(directory, CONFIG.format(listen=listen, events=self._events))
        self.controller.start()
        self.switch = switch
        ends = directory / "l1.sock", directory / "l2.sock"
        for name, dpid, end in zip(("s1", "s2"), (1, 2), ends, strict=True):
            switch.add_bridge(name, dpid, listen)
            port = f"l{dpid}"
            switch.vsctl(
                *("add-port", name, port, "--", "set", "interface", port, "type=dummy"),
                *(f"ofport_request={LINK}", f"options:pstream=punix:{end}"),
            )
        self.wire = LossyWire(ends, seed=1)
        switch.add_link(("s1", "s2"), ("acc1", "acc2"), ACC)
        switch.add_port("s1", "p1", 1)
        switch.add_port("s2", "p3", 3)

    def events(self, kind: str) -> list[dict[str, Any]]:
        return read_events(self._events, kind)

    def introduce(self) -> None:
        wait_for(lambda: len(self.events("link_up")) >= 2, "both links", _LONG_S)
        question, answer = arp(1, H1, H3), arp(2, H3, H1)

        def asked() -> bool:
            self.switch.inject("p1", question)
            return question in self.switch.sent("p3")

        def answered() -> bool:
            self.switch.inject("p3", answer)
            return answer in self.switch.sent("p1")

        wait_for(asked, "the question at h3", _LONG_S)
        wait_for(answered, "the answer at h1", _LONG_S)

    def send_datagrams(self) -> None:
        """200 of them from h1 to h3."""
        datagram = ipv4(H1.address, H3.address, bytes.fromhex("03e803e900080000"), protocol=17)
        frame = ethernet(H3.mac, H1.mac, 0x0800, datagram)
        self.switch.appctl("netdev-dummy/receive", "p1", *[frame.hex()] * 200)

    def way(self, protocol: str, source: str = "s1") -> int:
        """By which port frames of a protocol leave the switch of a host for the other one."""
        src, dst, port = (H1, H3, 1) if source == "s1" else (H3, H1, 3)
        flow = (
            f"in_port={port},{protocol},dl_src={src.mac.hex(':')},dl_dst={dst.mac.hex(':')},"
            f"nw_src=10.0.0.{src.number},nw_dst=10.0.0.{dst.number},tp_src=1000,tp_dst=80,nw_ttl=64"
        ).replace("tp_", "tcp_" if protocol == "tcp" else "udp_")
        if protocol == "tcp":
            flow += ",tcp_flags=ack"
        trace = self.switch.appctl("ofproto/trace", source, flow)
        ports = re.findall(r"^ *(?:\d+\. )?.*output:(\d+)$", trace, re.MULTILINE)
        return int(ports[-1])

    def set_up(self, port: str, up: bool) -> None:
        self.switch.appctl("netdev-dummy/set-admin-state", port, "up" if up else "down")

    def becomes_protected(self) -> None:
        def told() -> bool:
            self.send_datagrams()
            return len(self.events("protection_on")) >= 2

        wait_for(told, "TCP to be protected", _LONG_S)
        wait_for(lambda: self.way("tcp") == ACC, "the entry at s1")
        wait_for(lambda: self.way("tcp", "s2") == ACC, "the entry at s2")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LossyWorld]:
    script = REPOSITORY / "ovs-patches" / "stock"
    prefix = Path(subprocess.check_output([script], text=True).strip())
    with controlled(LossyWorld, prefix, tmp_path) as world:
        try:
            world.introduce()
            yield world
        finally:
            world.wire.cut()


def test_tcp_is_protected_from_losses_and_nothing_else_is(world: LossyWorld) -> None:
    assert (world.way("tcp"), world.way("udp")) == (LINK, LINK)
    world.wire.loss = 0.1
    world.becomes_protected()
    assert (world.way("udp"), world.way("udp", "s2")) == (LINK, LINK)
    # All of 20 segments pass, where one in ten would be lost.
    frames = [
        segment(H1, H3, (40_000 + n, 80), SYN, options=tcp_options(1460, 7)) for n in range(20)
    ]
    for frame in frames:
        world.switch.inject("p1", frame)
    wait_for(lambda: set(frames) <= set(world.switch.sent("p3")), "all segments at h3")
    (lossy,) = world.events("link_lossy")
    assert (lossy["port"], lossy["peer"]) == ("0000000000000001:10", "0000000000000002:10")
    assert lossy["loss"] == pytest.approx(0.1, abs=0.05)


def test_without_a_carrier_tcp_takes_the_path_with_and_without_a_controller(
    world: LossyWorld,
) -> None:
    world.wire.loss = 0.1
    world.becomes_protected()
    world.set_up("acc1", up=False)
    wait_for(lambda: len(world.events("protection_off")) == 2, "the end of protection")
    wait_for(lambda: world.way("tcp") == LINK, "TCP on its path from s1")
    wait_for(lambda: world.way("tcp", "s2") == LINK, "TCP on its path from s2")
    world.set_up("acc1", up=True)
    wait_for(lambda: world.way("tcp") == world.way("tcp", "s2") == ACC, "protection again")

    world.controller.stop(signal.SIGKILL)
    assert world.way("tcp") == ACC
    world.set_up("acc1", up=False)
    wait_for(lambda: world.way("tcp") == LINK, "TCP on its path from s1 by the switch alone")
    data = segment(H1, H3, (40_000, 80), ACK, 5, payload=b"without a controller")
    world.wire.loss = 0.0
    world.switch.inject("p1", data)
    wait_for(lambda: data in world.switch.sent("p3"), "data at h3")
    world.set_up("acc1", up=True)
    wait_for(lambda: world.way("tcp") == ACC, "TCP over the protected link again")


def test_a_restarted_controller_goes_on_and_ends_what_is_over(world: LossyWorld) -> None:
    world.wire.loss = 0.1
    world.becomes_protected()
    world.controller.stop(signal.SIGKILL)
    world.wire.loss = 0.0
    world.controller.start()
    wait_for(lambda: len(world.events("protection_on")) == 4, "the entries to be adopted")
    wait_for(lambda: len(world.events("protection_off")) == 2, "the end of protection")
    wait_for(lambda: world.way("tcp") == world.way("tcp", "s2") == LINK, "TCP on its path")
    flows = world.switch.flows("s1") + world.switch.flows("s2")
    assert not [flow for flow in flows if "bundle_load" in flow or "reg1" in flow]
