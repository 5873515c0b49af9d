"""The controller, as it is started, and the patched switch: windows in real segments."""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from dummy_ovs import Controller, DummyOvs, controlled, free_endpoint, patched_prefix, wait_for
from packets import ACK, PSH, SYN, Host, arp, segment, tcp_checksum, tcp_options, window_of

pytestmark = pytest.mark.switch

RECEIVER = Host(100)
SENDERS = [Host(number) for number in range(1, 13)]
*REGULATED, EXEMPT = SENDERS
MSS = 1460
SCALE = 7

# 0.9 x 65536 = 58982 bytes for flows of 1526-byte segments: 3 for each of 11.
SHARED = 3 * MSS
FLOOR = 2 * MSS
RAW = -(-SHARED // 2**SCALE)
OPEN = 502
# 160 kbit/s, of which 1460 of every 1526 bytes are data.
RATE = 160_000 // 8 * 1460 // 1526

CONFIG = """
openflow: {{listen: "tcp:{listen}"}}
fabric: {{lldp_interval: 300 ms, link_timeout: 2 s}}
regulation: {{window_ttl: 1500 ms, buffer_share: 0.9}}
classifier: {{poll_interval: 60 s}}  # nobody is found idle meanwhile, so shares stay as they are
policies: [{{subnet: 10.0.0.12/32, treatment: exempt}}]
log: {{events: "{events}", connections: true}}
"""
QOS = "max-rate=160000 limit-bytes=65536 low=30% mid=60% high=80% cr-hold-ms=1000"


class World:
    """A switch with 12 senders, and a receiver at port 40 behind a queue of 64 KiB."""

    def __init__(self, switch: DummyOvs, directory: Path) -> None:
        listen = free_endpoint()
        self._events = directory / "events.jsonl"
        self.switch = switch
        self.config = CONFIG.format(listen=listen, events=self._events)
        self.controller = Controller(directory, self.config)
        self.controller.start()
        switch.add_bridge("s1", 1, listen)
        for host in SENDERS:
            switch.add_port("s1", f"p{host.number}", host.number)
        switch.add_port("s1", "p100", 40)
        other_config = (f"other-config:{setting}" for setting in QOS.split())
        switch.vsctl(
            *("set", "port", "p100", "qos=@q"),
            *("--", "--id=@q", "create", "qos", "type=weir", *other_config),
        )

    def events(self, kind: str) -> list[dict[str, object]]:
        lines = self._events.read_text().splitlines() if self._events.exists() else []
        return [event for event in map(json.loads, lines) if event["event"] == kind]

    def wait_events(self, kind: str, count: int = 1) -> list[dict[str, object]]:
        wait_for(lambda: len(self.events(kind)) >= count, f"{count} x {kind}")
        return self.events(kind)

    def held(self) -> list[tuple[int, int]]:
        """Window and rate of the registers in force, the burst register of a port first."""
        shown = self.switch.appctl("tcp-rwnd/show", "s1")
        found = re.findall(r"window=(\d+) .* rate=(\d+)", shown)
        return [(int(window), int(rate)) for window, rate in found if int(window)]

    def send(self, frame: bytes, by: Host) -> None:
        self.switch.inject(f"p{by.number}", frame)

    def open_connections(self) -> None:
        """The receiver connects to every sender."""
        self.wait_events("switch_up")

        def learnt() -> bool:
            self.send(arp(1, RECEIVER, RECEIVER), RECEIVER)
            return bool(self.events("host_learnt"))

        wait_for(learnt, "the receiver to be learnt")
        for host in SENDERS:
            self.send(arp(1, host, host), host)
        self.wait_events("host_learnt", len(SENDERS) + 1)
        for host in SENDERS:
            ports, back = (5000 + host.number, 80), (80, 5000 + host.number)
            options = tcp_options(MSS, SCALE)
            self.send(segment(RECEIVER, host, ports, SYN, options=options), RECEIVER)
            self.send(segment(host, RECEIVER, back, SYN | ACK, options=options), host)
        self.wait_events("connection_opened", len(SENDERS))

    def window_after(self, sequence: int, window: int = OPEN, host: Host = SENDERS[0]) -> int:
        """The window with which a segment of the receiver arrives at a sender."""
        sent = segment(
            *(RECEIVER, host, (5000 + host.number, 80), ACK | PSH, sequence),
            payload=b"request",
            window=window,
        )
        port = f"p{host.number}"
        before = len(self.switch.sent(port))
        self.send(sent, RECEIVER)

        def but_for_window_and_checksum(frame: bytes) -> bytes:
            return frame[:48] + frame[52:]

        def arrivals() -> list[bytes]:
            new = self.switch.sent(port)[before:]
            wanted = but_for_window_and_checksum(sent)
            return [frame for frame in new if but_for_window_and_checksum(frame) == wanted]

        wait_for(arrivals, f"the segment at {port}")
        (arrived,) = arrivals()
        assert tcp_checksum(RECEIVER.address, host.address, arrived[34:]) == 0
        return window_of(arrived)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with controlled(World, patched_prefix(), tmp_path) as world:
        yield world


def test_a_port_with_a_queue_is_held_before_there_is_any_connection(world: World) -> None:
    wait_for(lambda: world.held() == [(FLOOR, RATE), (FLOOR, RATE)], "the standing windows")
    assert world.events("connection_opened") == []
    assert "refused" not in world.controller.log


def test_a_queue_that_goes_takes_its_windows_along(world: World) -> None:
    wait_for(lambda: len(world.held()) == 2, "the standing windows")
    world.switch.vsctl("clear", "port", "p100", "qos")
    wait_for(lambda: world.held() == [], "the windows to be released")


def test_windows_are_lowered_before_the_first_byte_and_never_raised(world: World) -> None:
    world.open_connections()
    wait_for(lambda: world.window_after(1) == RAW, "a share of the window")
    assert world.held()[0] == (SHARED, RATE)
    assert world.window_after(2, window=RAW - 1) == RAW - 1
    assert world.window_after(3, window=65_535, host=SENDERS[5]) == RAW
    assert "lacks" not in world.controller.log
    assert "refused" not in world.controller.log


def test_who_is_exempt_is_left_alone(world: World) -> None:
    world.open_connections()
    wait_for(lambda: world.window_after(1) == RAW, "a share of the window")
    assert world.window_after(2, host=EXEMPT) == OPEN


def test_a_new_policy_changes_who_is_exempt_at_once(world: World) -> None:
    world.open_connections()
    wait_for(lambda: world.window_after(1) == RAW, "a share of the window")
    world.controller.reconfigure(world.config.replace("10.0.0.12/32", "10.0.0.1/32"))
    world.wait_events("reload")
    wait_for(lambda: world.window_after(2) == OPEN, "the first one is left alone")
    wait_for(lambda: world.window_after(2, host=EXEMPT) == RAW, "the last one is not any more")
    assert world.events("connection_closed") == []
    world.controller.reconfigure(world.config + "zzz: {}")
    wait_for(lambda: len(world.events("reload")) == 2, "a bad one")
    assert "error" in world.events("reload")[1]
    assert world.window_after(3) == OPEN
    assert "refused" not in world.controller.log


def test_windows_of_syns_are_left_alone(world: World) -> None:
    world.open_connections()
    syn = segment(RECEIVER, SENDERS[0], (6000, 80), SYN, options=tcp_options(MSS, SCALE))
    world.send(syn, RECEIVER)
    wait_for(lambda: syn in world.switch.sent("p1"), "the SYN as it was sent")


def test_a_queue_that_fills_is_told_and_answered(world: World) -> None:
    world.open_connections()
    for index in range(20):
        host = SENDERS[index % len(SENDERS)]
        payload = bytes(MSS - 1)
        back = (80, 5000 + host.number)
        world.send(segment(host, RECEIVER, back, ACK, index * MSS, payload=payload), host)
    notice = world.wait_events("queue_event")[0]
    assert (notice["notice"], notice["port"], notice["burst"]) == ("CN-L", 40, len(REGULATED))
    assert notice["sequence"] == 1
    assert 19_660 <= notice["bytes"] <= 19_660 + 1514
    assert notice["limit_bytes"] == 65_536


def test_windows_outlive_the_controller_by_their_time_to_live_only(world: World) -> None:
    world.open_connections()
    wait_for(lambda: world.window_after(1) == RAW, "a share of the window")
    world.controller.stop(signal.SIGKILL)
    wait_for(lambda: world.window_after(2) == OPEN, "the window to be released")
    assert world.held() == []

    world.controller.start()
    sequence = iter(range(3, 10**6))
    wait_for(
        lambda: {world.window_after(next(sequence), host=host) for host in REGULATED} == {RAW},
        "the restarted controller to lower windows again",
    )
    adopted = [event for event in world.events("connection_opened") if event["adopted"]]
    assert len(adopted) == len(REGULATED)
    assert "refused" not in world.controller.log
