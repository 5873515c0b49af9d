"""The controller, as it is started, and the patched switch: credit in real segments."""

import signal
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.ops.event_log import read_events
from dummy_ovs import Controller, DummyOvs, controlled, free_endpoint, patched_prefix, wait_for
from packets import ACK, PSH, SYN, Host, arp, segment, tcp_checksum, tcp_options, window_of
from testbed.switch import parse_accounts, parse_registers

pytestmark = pytest.mark.switch

RECEIVER = Host(100)
SENDERS = [Host(number) for number in range(1, 13)]
*REGULATED, EXEMPT = SENDERS
MSS = 1460
SCALE = 7

# The raw window of one segment, rounded up, since it is the only one.
ONE = -(-MSS // 2**SCALE)
OPEN = 502
# Where the receiver's data begin, and the senders'.
FIRST = 1001
# What a sender may send of which nothing is known, in whole segments (RFC 6928).
INITIAL = 10 * MSS
MAX_HOLD_US = 160_000
# The least retransmission timeout of Linux.
LEAST_RTO_US = 200_000

CONFIG = """
openflow: {{listen: "tcp:{listen}"}}
fabric: {{lldp_interval: 300 ms, link_timeout: 2 s}}
regulation: {{window_ttl: 1500 ms}}
policies: [{{subnet: 10.0.0.12/32, treatment: exempt}}]
log: {{events: "{events}", connections: true}}
"""
QOS = "max-rate=160000 limit-bytes=65536 low=30% mid=60% high=80% cr-hold-ms=1000"


class IncastSwitch:
    """A switch with 12 senders, and a receiver at port 40 behind a queue of 64 KiB."""

    settings = CONFIG
    qos = QOS

    def __init__(self, switch: DummyOvs, directory: Path) -> None:
        listen = free_endpoint()
        self._events = directory / "events.jsonl"
        self.switch = switch
        self.config = self.settings.format(listen=listen, events=self._events)
        self.controller = Controller(directory, self.config)
        self.controller.start()
        switch.add_bridge("s1", 1, listen)
        for host in SENDERS:
            switch.add_port("s1", f"p{host.number}", host.number)
        switch.add_port("s1", "p100", 40)
        other_config = (f"other-config:{setting}" for setting in self.qos.split())
        switch.vsctl(
            *("set", "port", "p100", "qos=@q"),
            *("--", "--id=@q", "create", "qos", "type=weir", *other_config),
        )

    def events(self, kind: str) -> list[dict[str, object]]:
        return read_events(self._events, kind)

    def wait_events(self, kind: str, count: int = 1) -> list[dict[str, Any]]:
        wait_for(lambda: len(self.events(kind)) >= count, f"{count} x {kind}")
        return self.events(kind)

    def in_account(self) -> list[tuple[str, str, str]]:
        """Window, interface and class of the registers in force."""
        shown = parse_registers(self.switch.appctl("tcp-rwnd/show", "s1"))
        return [
            (register["window"], register["interface"], register["class"])
            for _, register in sorted(shown.items())
            if int(register["ttl_ms"])
        ]

    def account(self) -> dict[str, int]:
        """What the switch says of the receiver's account."""
        return parse_accounts(self.switch.appctl("netdev-credit/show"))["p100"]

    def send(self, frame: bytes, by: Host) -> None:
        self.switch.inject(f"p{by.number}", frame)

    def wait_account(self) -> None:
        """The port has its account, and the receiver's segments pass it."""
        both = [("0", "p100", "0"), ("0", "p100", "1")]
        wait_for(lambda: self.in_account() == both, "the registers to be in the account")
        entry = "tcp_rwnd_register(register=0,wscale=syn)"
        wait_for(
            lambda: entry in self.switch.ofctl("dump-flows", "s1", "tcp,in_port=40"),
            "the entry that has the receiver's segments pass the account",
        )

    def open_connections(self) -> None:
        """The receiver connects to every sender. The account knows all connections: it sees their
        SYNs, which it would not before the controller has read the queue."""
        self.introduce()
        self.wait_account()
        for host in SENDERS:
            self.connect(host)
        self.wait_events("connection_opened", len(SENDERS))

    def introduce(self) -> None:
        """Let the controller know where the hosts are."""
        self.wait_events("switch_up")

        def learnt() -> bool:
            self.send(arp(1, RECEIVER, RECEIVER), RECEIVER)
            return bool(self.events("host_learnt"))

        wait_for(learnt, "the receiver to be learnt")
        for host in SENDERS:
            self.send(arp(1, host, host), host)
        self.wait_events("host_learnt", len(SENDERS) + 1)

    def connect(self, host: Host) -> None:
        """The receiver connects to a sender."""
        ports, back = (5000 + host.number, 80), (80, 5000 + host.number)
        options = tcp_options(MSS, SCALE)
        self.send(segment(RECEIVER, host, ports, SYN, options=options), RECEIVER)
        self.send(segment(host, RECEIVER, back, SYN | ACK, options=options), host)

    def answer(self, begin: int, size: int, host: Host = SENDERS[0]) -> None:
        """A sender sends so many bytes, from this one on, in whole segments and the rest."""
        ports = (80, 5000 + host.number)
        frames = []
        for offset in range(0, size, MSS):
            payload = bytes(min(MSS, size - offset))
            flags = ACK | PSH if offset + MSS >= size else ACK
            sequence = FIRST + begin + offset
            frames.append(segment(host, RECEIVER, ports, flags, sequence, payload=payload))
        self.switch.inject(f"p{host.number}", *frames)

    def acknowledgement(
        self,
        sequence: int,
        acked: int = 0,
        payload: bytes = b"",
        window: int = OPEN,
        host: Host = SENDERS[0],
    ) -> bytes:
        """A segment of the receiver, from this byte of its data on; it asks if it has a payload."""
        flags = ACK | PSH if payload else ACK
        return segment(
            *(RECEIVER, host, (5000 + host.number, 80), flags, FIRST + sequence),
            payload=payload,
            window=window,
            acknowledgment=FIRST + acked,
        )

    def segments(self, host: Host = SENDERS[0]) -> list[bytes]:
        """All that has arrived at a sender but discovery frames and questions for addresses."""
        sent = self.switch.sent(f"p{host.number}")
        return [frame for frame in sent if frame[12:14] == b"\x08\x00"]

    def arrivals(self, sent: bytes, host: Host = SENDERS[0]) -> list[int]:
        """The windows with which a segment has arrived at a sender, every time that it has."""

        def but_for_window_and_checksum(frame: bytes) -> bytes:
            return frame[:48] + frame[52:]

        wanted = but_for_window_and_checksum(sent)
        arrived = [
            frame
            for frame in self.switch.sent(f"p{host.number}")
            if but_for_window_and_checksum(frame) == wanted
        ]
        for frame in arrived:
            assert tcp_checksum(RECEIVER.address, host.address, frame[34:]) == 0
        return [window_of(frame) for frame in arrived]

    def pass_on(self, frame: bytes, host: Host = SENDERS[0]) -> int:
        """The window with which a segment of the receiver, the only one like it, arrives."""
        self.send(frame, RECEIVER)
        wait_for(lambda: self.arrivals(frame, host), f"the segment at p{host.number}")
        (window,) = self.arrivals(frame, host)
        return window

    def window_after(self, sequence: int, window: int = OPEN, host: Host = SENDERS[0]) -> int:
        """The window with which an acknowledgment arrives at a sender that is idle."""
        return self.pass_on(self.acknowledgement(sequence, window=window, host=host), host)

    def request(self, sequence: int, acked: int = 0) -> int:
        """The window with which a request arrives."""
        return self.pass_on(self.acknowledgement(sequence, acked, b"request"))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[IncastSwitch]:
    with controlled(IncastSwitch, patched_prefix(), tmp_path) as world:
        yield world


def numbers(frame: bytes) -> tuple[int, int, int, int]:
    """Sequence and acknowledgment number, flags and length of the payload."""
    sequence, acknowledgment, offset, flags = struct.unpack_from("!IIBB", frame, 38)
    return sequence, acknowledgment, flags, len(frame) - 34 - (offset >> 2)


def test_a_port_with_a_queue_has_an_account_before_there_is_any_connection(
    world: IncastSwitch,
) -> None:
    world.wait_account()
    assert (world.account()["active"], world.account()["now.connections"]) == (1, 0)
    assert world.events("connection_opened") == []
    assert "refused" not in world.controller.log


def test_a_queue_that_goes_takes_its_account_along(world: IncastSwitch) -> None:
    world.open_connections()
    assert world.window_after(1) == ONE
    world.switch.vsctl("clear", "port", "p100", "qos")
    wait_for(lambda: world.window_after(2) == OPEN, "the window to be the receiver's own")
    wait_for(lambda: world.in_account() == [], "the registers to be released")
    assert (world.account()["active"], world.account()["now.connections"]) == (0, 0)
    assert world.window_after(3) == OPEN


def test_an_idle_sender_has_one_segment_and_no_window_is_raised(world: IncastSwitch) -> None:
    world.open_connections()
    assert world.account()["now.connections"] == len(REGULATED)
    assert world.window_after(1) == ONE
    assert world.window_after(2, window=ONE - 1) == ONE - 1
    assert world.window_after(3, window=65_535, host=SENDERS[5]) == ONE
    assert world.window_after(4, window=0) == 0
    assert world.window_after(5) == ONE
    assert "lacks" not in world.controller.log
    assert "refused" not in world.controller.log


def test_a_request_passes_with_credit_for_an_answer_like_the_last_ones(world: IncastSwitch) -> None:
    world.open_connections()
    assert world.request(0) == INITIAL >> SCALE
    size, answers = 2 * MSS + 80, 0

    def answer_and_ask_again() -> None:
        nonlocal answers
        world.answer(answers * size, size)
        answers += 1
        sequence, end = 7 * answers, answers * size
        wait_for(lambda: world.account()["now.expected_bytes"] == 0, "the end of the answer")
        # What the answer has left is taken back by what acknowledges it.
        assert world.pass_on(world.acknowledgement(sequence, end)) == ONE
        credit = INITIAL if answers == 1 else 3 * MSS
        assert world.request(sequence, end) == credit >> SCALE

    answer_and_ask_again()
    answer_and_ask_again()
    account = world.account()
    assert (account["requests.all"], account["requests.held"]) == (3, 0)

    def given_back() -> bool:
        if world.account()["bytes.given_back"]:
            return True
        answer_and_ask_again()
        return False

    # An answer that comes too late finds its credit expired, with nothing to give back.
    wait_for(given_back, "an answer that gives back credit")


def test_a_sender_that_has_more_gets_a_window_update_of_the_switch(world: IncastSwitch) -> None:
    world.open_connections()
    assert world.window_after(0) == ONE  # Window updates are like an acknowledgment.
    assert world.request(0) == INITIAL >> SCALE
    before = len(world.segments())
    world.answer(0, INITIAL)  # And then more.
    wait_for(lambda: len(world.segments()) > before, "a window update")
    own_edge = OPEN << SCALE
    updates = world.segments()[before:]
    for update in updates:
        assert tcp_checksum(RECEIVER.address, SENDERS[0].address, update[34:]) == 0
        assert numbers(update) == (FIRST + len(b"request"), FIRST, ACK, 0)
        edge = window_of(update) << SCALE
        assert INITIAL + MSS <= edge <= own_edge
        # Whole segments, down to a unit.
        assert -edge % MSS < 1 << SCALE
    assert world.account()["window_updates"] >= len(updates)


def test_a_request_is_held_where_not_even_a_segment_fits_and_passes_once(
    world: IncastSwitch,
) -> None:
    world.open_connections()
    # Far more than anybody has credit for: the queue of 64 KiB is full, and takes 3 s.
    for host in SENDERS[1:]:
        world.answer(0, 5 * MSS, host)
    request = world.acknowledgement(0, payload=b"request")
    answered = world.acknowledgement(len(b"request"))
    world.send(request, RECEIVER)
    world.send(answered, RECEIVER)
    wait_for(lambda: world.arrivals(answered), "what came behind the request")
    assert world.arrivals(request) == [ONE]
    account = world.account()
    assert [account[f"requests.{which}"] for which in ("held", "overdue", "full")] == [1, 1, 0]
    assert account["now.held"] == 0
    assert MAX_HOLD_US <= account["held.longest_us"] < LEAST_RTO_US
    assert len(world.arrivals(answered)) == 1


def test_who_is_exempt_is_left_alone(world: IncastSwitch) -> None:
    world.open_connections()
    assert world.window_after(1) == ONE
    for sequence in (1, 2):
        assert world.window_after(sequence, host=EXEMPT) == OPEN
    asked = world.acknowledgement(3, payload=b"request", host=EXEMPT)
    assert world.pass_on(asked, EXEMPT) == OPEN
    assert world.account()["now.connections"] == len(REGULATED)


def test_a_new_policy_changes_who_is_exempt_at_once(world: IncastSwitch) -> None:
    world.open_connections()
    assert world.window_after(1) == ONE
    world.controller.reconfigure(world.config.replace("10.0.0.12/32", "10.0.0.1/32"))
    world.wait_events("reload")
    sequence = iter(range(2, 10**6))
    wait_for(lambda: world.window_after(next(sequence)) == OPEN, "the first one is left alone")
    wait_for(
        lambda: world.window_after(next(sequence), host=EXEMPT) == ONE,
        "the last one is not any more",
    )
    assert world.events("connection_closed") == []
    world.controller.reconfigure(world.config + "zzz: {}")
    wait_for(lambda: len(world.events("reload")) == 2, "a bad one")
    assert "error" in world.events("reload")[1]
    assert world.window_after(next(sequence)) == OPEN
    assert "refused" not in world.controller.log


def test_windows_of_syns_are_left_alone(world: IncastSwitch) -> None:
    world.open_connections()
    syn = segment(RECEIVER, SENDERS[0], (6000, 80), SYN, options=tcp_options(MSS, SCALE))
    world.send(syn, RECEIVER)
    wait_for(lambda: syn in world.switch.sent("p1"), "the SYN as it was sent")


def test_a_queue_that_fills_is_told_and_answered(world: IncastSwitch) -> None:
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


def test_an_account_outlives_the_controller_by_its_time_to_live_only(world: IncastSwitch) -> None:
    world.open_connections()
    assert world.window_after(1) == ONE
    world.controller.stop(signal.SIGKILL)
    sequence = iter(range(2, 10**6))
    assert world.window_after(next(sequence)) == ONE
    wait_for(lambda: world.window_after(next(sequence)) == OPEN, "the account to end")
    assert world.in_account() == []
    assert (world.account()["active"], world.account()["now.connections"]) == (0, 0)

    world.controller.start()
    wait_for(
        lambda: {world.window_after(next(sequence), host=host) for host in REGULATED} == {ONE},
        "the restarted controller to have an account again",
    )
    assert world.window_after(next(sequence), host=EXEMPT) == OPEN
    assert world.account()["now.connections"] == len(REGULATED)

    def adopted() -> int:
        for host in REGULATED:
            asked = world.acknowledgement(next(sequence), payload=b"request", host=host)
            world.send(asked, RECEIVER)
        return sum(event["adopted"] is True for event in world.events("connection_opened"))

    wait_for(lambda: adopted() == len(REGULATED), "the controller to know the connections")
    assert "refused" not in world.controller.log
