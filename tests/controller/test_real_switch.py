"""The controller, as it is started, and a real Open vSwitch: Debian's, without the extension."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.ops.event_log import read_events
from controller.southbound.switch.pipeline import Table
from dummy_ovs import REPOSITORY, Controller, DummyOvs, controlled, free_endpoint, wait_for
from packets import (
    ACK,
    FIN,
    PSH,
    SYN,
    Host,
    arp,
    ethernet,
    ipv4,
    neighbour_discovery,
    option,
    segment,
    solicited_node,
    tcp_options,
)

H1, H2, H3 = Host(1), Host(2), Host(3)
PORTS = {H1: "p1", H2: "p2", H3: "p3"}
CALL, ANSWER = (40_000, 80), (80, 40_000)

CONFIG = """
openflow: {{listen: "tcp:{listen}"}}
fabric: {{lldp_interval: 300 ms, link_timeout: 2 s}}
classifier: {{background_bytes: 10 kB, background_age: 500 ms, poll_interval: 100 ms}}
log: {{events: "{events}", connections: true}}
"""


def tagged(frame: bytes) -> bytes:
    """In VLAN 7."""
    return frame[:12] + bytes.fromhex("81000007") + frame[12:]


class World:
    """A controller, and hosts at ports of switches."""

    config = CONFIG
    ports = PORTS

    def __init__(self, switch: DummyOvs, directory: Path) -> None:
        self.switch = switch
        self.listen = free_endpoint()
        self._events = directory / "events.jsonl"
        self.controller = Controller(
            directory, self.config.format(listen=self.listen, events=self._events)
        )
        self.controller.start()

    def events(self, kind: str) -> list[dict[str, Any]]:
        return read_events(self._events, kind)

    def send(self, frame: bytes, by: Host) -> None:
        self.switch.inject(self.ports[by], frame)

    def received(self, at: Host) -> list[bytes]:
        """What a host has got so far."""
        return self.switch.sent(self.ports[at])

    def arrives(self, frame: bytes, at: Host) -> None:
        wait_for(lambda: frame in self.received(at), f"a frame at {self.ports[at]}")

    def resolve(self, a: Host, b: Host) -> None:
        """Let the fabric know two hosts, as hosts do it: by ARP."""
        question, answer = arp(1, a, b), arp(2, b, a)

        def asked() -> bool:
            self.send(question, a)
            return question in self.received(b)

        def answered() -> bool:
            self.send(answer, b)
            return answer in self.received(a)

        # While the fabric is becoming known, a frame may be lost: a host asks again.
        wait_for(asked, f"the question at {self.ports[b]}")
        wait_for(answered, f"the answer at {self.ports[a]}")


class TwoSwitchesAndController(World):
    """Two switches, h1 and h2 at the first, h3 at the second, and the controller."""

    def __init__(self, switch: DummyOvs, directory: Path) -> None:
        super().__init__(switch, directory)
        for name, dpid in (("s1", 1), ("s2", 2)):
            switch.add_bridge(name, dpid, self.listen)
        switch.add_link(("s1", "s2"), ("l1", "l2"), 10)
        switch.add_port("s1", "p1", 1)
        switch.add_port("s1", "p2", 2)
        switch.add_port("s2", "p3", 3)

    def wait_events(self, kind: str, count: int = 1) -> list[dict[str, Any]]:
        wait_for(lambda: len(self.events(kind)) >= count, f"{count} x {kind}")
        return self.events(kind)

    def introduce(self) -> None:
        """Let the fabric know h1 and h3."""
        self.wait_events("link_up")
        self.resolve(H1, H3)
        wait_for(lambda: len(self.forwards()) == 4, "forwarding entries on both switches")

    def forwards(self) -> list[str]:
        flows = self.switch.flows("s1") + self.switch.flows("s2")
        return [flow for flow in flows if f"table={Table.FORWARD.value}, priority=100" in flow]

    def open_connection(self) -> None:
        """SYN and SYN-ACK go through the switches, their copies to the controller."""
        syn = segment(H1, H3, CALL, SYN, options=tcp_options(1460, 7))
        syn_ack = segment(H3, H1, ANSWER, SYN | ACK, options=tcp_options(1400, 9))
        self.send(syn, H1)
        self.arrives(syn, H3)
        self.send(syn_ack, H3)
        self.arrives(syn_ack, H1)

    def send_data(self, sequence: int) -> None:
        data = segment(H3, H1, ANSWER, ACK | PSH, sequence, payload=bytes(1400))
        self.send(data, H3)

    def after_data(self, sequence: int, kind: str) -> list[dict]:
        """What events of a kind there are once more data has been sent."""
        self.send_data(sequence)
        return self.events(kind)


class Impatient(TwoSwitchesAndController):
    """Connections are soon dormant."""

    config = CONFIG.replace("classifier: {{", "classifier: {{expiry: 1 s, ")


def stock_prefix() -> Path:
    script = REPOSITORY / "ovs-patches" / "stock"
    return Path(subprocess.check_output([script], text=True).strip())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TwoSwitchesAndController]:
    with controlled(TwoSwitchesAndController, stock_prefix(), tmp_path) as world:
        yield world


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[Impatient]:
    with controlled(Impatient, stock_prefix(), tmp_path) as world:
        yield world


def test_a_connection_is_forwarded_known_classified_and_forgotten(
    world: TwoSwitchesAndController,
) -> None:
    world.introduce()
    world.open_connection()
    opened = world.wait_events("connection_opened")[0]
    assert (opened["src"], opened["dst_port"], opened["mss_bytes"]) == ("10.0.0.1", 80, 1400)
    assert opened["window_scales"] == [7, 9]

    sequence = iter(range(2000, 10**6, 1400))
    wait_for(
        lambda: world.after_data(next(sequence), "flow_classified"),
        "the answer to be a background flow",
    )
    classified = world.events("flow_classified")[0]
    assert (classified["src"], classified["class"]) == ("10.0.0.3", "background")

    world.send(segment(H1, H3, CALL, FIN | ACK), H1)
    world.send(segment(H3, H1, ANSWER, FIN | ACK), H3)
    closed = world.wait_events("connection_closed")[0]
    assert closed["reason"] == "finished"
    wait_for(
        lambda: not [flow for flow in world.switch.flows("s1") if "tp_dst=80" in flow],
        "the flow counters to go",
    )


def test_an_unpatched_switch_is_told_of_once_and_never_sent_a_window(
    world: TwoSwitchesAndController,
) -> None:
    world.introduce()
    world.open_connection()
    world.wait_events("connection_opened")
    assert world.controller.log.count("switch=0000000000000001 lacks Weir's extension") == 1
    assert "refused" not in world.controller.log
    assert "tcp_rwnd" not in "".join(world.switch.flows("s1"))
    assert world.controller.stop(signal.SIGTERM) == 0


def test_arp_is_answered_by_the_controller_once_the_host_is_known(
    world: TwoSwitchesAndController,
) -> None:
    world.introduce()
    question = arp(1, H2, H3)
    world.send(question, H2)
    world.arrives(arp(2, H3, H2), H2)
    assert question not in world.switch.sent("p3")


def test_a_question_under_a_tag_is_answered_under_the_same(world: TwoSwitchesAndController) -> None:
    world.introduce()
    for frame, host in ((arp(1, H3, H3), H3), (arp(1, H2, H2), H2)):
        world.send(tagged(frame), host)
    world.wait_events("host_address", 4)
    world.send(tagged(arp(1, H2, H3)), H2)
    world.arrives(tagged(arp(2, H3, H2)), H2)


def test_a_neighbour_solicitation_is_answered(world: TwoSwitchesAndController) -> None:
    world.introduce()
    everybody = bytes.fromhex("ff020000000000000000000000000001")
    announced = neighbour_discovery(
        *(136, H3.address6, everybody, H3.address6, option(2, H3.mac)),
        flags=1 << 29,
        macs=(bytes.fromhex("333300000001"), H3.mac),
    )
    world.send(announced, H3)
    world.arrives(announced, H1)
    solicited = solicited_node(H3.address6)
    question = neighbour_discovery(
        *(135, H2.address6, solicited, H3.address6, option(1, H2.mac)),
        macs=(b"\x33\x33" + solicited[-4:], H2.mac),
    )
    world.send(question, H2)
    answer = neighbour_discovery(
        *(136, H3.address6, H2.address6, H3.address6, option(2, H3.mac)),
        flags=1 << 30 | 1 << 29,
        macs=(H2.mac, H3.mac),
    )
    world.arrives(answer, H2)
    assert question not in world.switch.sent("p3")


def test_tagged_and_other_traffic_is_forwarded_as_it_is(world: TwoSwitchesAndController) -> None:
    world.introduce()
    udp = ethernet(H3.mac, H1.mac, 0x0800, ipv4(H1.address, H3.address, bytes(40), protocol=17))
    frames = [
        udp,
        tagged(udp),
        tagged(tagged(udp)),
        tagged(segment(H1, H3, CALL, ACK, payload=b"data")),
        ethernet(H3.mac, H1.mac, 0x88B5, bytes(60)),
    ]
    for frame in frames:
        world.send(frame, H1)
    for frame in frames:
        world.arrives(frame, H3)
        assert frame not in world.switch.sent("p2")


def test_unknown_destinations_reach_every_edge_once(world: TwoSwitchesAndController) -> None:
    world.introduce()
    frame = segment(H1, Host(9), (1, 2), ACK, payload=b"to nobody")
    world.send(frame, H1)
    world.arrives(frame, H2)
    world.arrives(frame, H3)
    assert world.switch.sent("p2").count(frame) == world.switch.sent("p3").count(frame) == 1
    assert frame not in world.switch.sent("p1")


def test_a_restarted_controller_takes_up_again(world: TwoSwitchesAndController) -> None:
    world.introduce()
    world.open_connection()
    world.wait_events("connection_opened")
    wait_for(
        lambda: len([flow for flow in world.switch.flows("s1") if "tp_dst=80" in flow]) == 1,
        "the flow counter of the call",
    )
    before = sorted(world.forwards())

    world.controller.stop(signal.SIGKILL)
    probe = segment(H1, H3, CALL, ACK | PSH, 3000, payload=b"nobody is watching")
    world.send(probe, H1)
    world.arrives(probe, H3)

    world.controller.start()
    sequence = iter(range(4000, 10**6))

    def adopted_again() -> bool:
        world.send(segment(H1, H3, CALL, ACK, next(sequence), payload=b"x"), H1)
        return len(world.events("connection_opened")) == 2

    wait_for(adopted_again, "the connection to be adopted")
    adopted = world.events("connection_opened")[1]
    assert adopted["adopted"] is True
    assert (adopted["src"], adopted["dst_port"]) == ("10.0.0.1", 80)
    assert sorted(world.forwards()) == before
    assert "refused" not in world.controller.log


def test_a_connection_without_account_is_relearnt_from_its_data(
    world: TwoSwitchesAndController,
) -> None:
    world.introduce()
    world.controller.stop(signal.SIGKILL)
    world.controller.start()
    world.wait_events("link_up", 2)
    sequence = iter(range(2000, 10**6, 1400))
    wait_for(
        lambda: world.after_data(next(sequence), "connection_opened"),
        "the connection to be adopted",
    )
    opened = world.events("connection_opened")
    assert [event["adopted"] for event in opened] == [True]
    assert opened[0]["src"] == "10.0.0.3"


def watches(world: TwoSwitchesAndController, switch: str) -> int:
    return sum("tcp_flags=+psh" in flow for flow in world.switch.flows(switch))


def relearning(world: TwoSwitchesAndController) -> bool:
    return any("hard_timeout=5" in flow for flow in world.switch.flows("s1"))


@pytest.mark.slow  # A new controller learns for some seconds what goes on.
def test_a_dormant_connection_is_known_again_by_its_first_data(impatient: Impatient) -> None:
    world = impatient
    world.introduce()
    world.open_connection()
    world.wait_events("connection_dormant")
    wait_for(lambda: watches(world, "s1") == 2, "the watch at the client's switch")
    assert watches(world, "s2") == 0
    assert not [flow for flow in world.switch.flows("s1") if "fin_timeout" in flow]

    world.send(segment(H3, H1, ANSWER, ACK, 2000, payload=b"not pushed"), H3)
    world.send(segment(H1, H3, CALL, ACK, 2000), H1)
    world.send_data(2000)  # It enters the client's switch from the other one.
    assert world.wait_events("connection_woken")[0]["dst_port"] == 80
    wait_for(lambda: watches(world, "s1") == 0, "the watch to end")
    wait_for(
        lambda: [flow for flow in world.switch.flows("s1") if "fin_timeout" in flow],
        "the flow counters to be back",
    )

    world.wait_events("connection_dormant", 2)
    world.send(segment(H1, H3, CALL, ACK | PSH, 3000, payload=b"a request"), H1)
    world.wait_events("connection_woken", 2)

    world.wait_events("connection_dormant", 3)
    wait_for(lambda: watches(world, "s1") == 2, "the watch")
    world.controller.stop(signal.SIGKILL)
    world.controller.start()
    wait_for(lambda: relearning(world), "the controller to learn what goes on")
    wait_for(lambda: not relearning(world), "only the watch to copy data up")
    assert watches(world, "s1") == 2
    assert len(world.events("connection_opened")) == 1
    world.send_data(4000)
    opened = world.wait_events("connection_opened", 2)[1]
    assert opened["adopted"] is True
    assert opened["window_scales"] == [None, None]  # Only a patched switch has entries with them.


def test_a_busy_port_is_told_in_one_line(world: TwoSwitchesAndController, tmp_path: Path) -> None:
    world.wait_events("start")
    second = Controller(tmp_path / "..", f'openflow: {{listen: "tcp:{world.listen}"}}')
    second.start()
    assert second.wait() == 2
    assert second.log.count("\n") == 1
    assert "cannot listen on" in second.log
