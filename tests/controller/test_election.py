"""Who is master: elections in virtual time, with peers that stop, come back, or cannot be heard."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.ha.election import Election, Heartbeat, Rank
from controller.ha.heartbeats import Line, StrangerError
from controller.southbound.codec import openflow, roles
from controller.southbound.codec.match import MalformedMessageError
from controller.southbound.codec.roles import (
    UNDEFINED,
    NotMaster,
    Role,
    RoleRefused,
    RoleReply,
    newer,
)

MS = 10**6
TIMEOUT_NS = 600 * MS
HEARTBEAT_NS = 150 * MS
GENERATIONS = st.integers(0, 2**64 - 2)


class Cluster:
    """Controllers that hear each other's heartbeats, unless one is down or they are cut off."""

    def __init__(self, **priorities: int) -> None:
        self.now_ns = 10**12
        self.members = {
            name: Election(name, priority, set(priorities) - {name}, TIMEOUT_NS, self.now_ns)
            for name, priority in priorities.items()
        }
        self.down: set[str] = set()
        self.cut: set[frozenset[str]] = set()
        self.changes: list[tuple[str, str]] = []

    def run(self, ns: int) -> None:
        end_ns = self.now_ns + ns
        while self.now_ns < end_ns:
            self.now_ns += HEARTBEAT_NS // 3
            live = [m for name, m in self.members.items() if name not in self.down]
            for member in live:
                for peer in live:
                    if peer is member or frozenset((member.name, peer.name)) in self.cut:
                        continue
                    if peer.heard(member.heartbeat, self.now_ns):
                        peer.step_down(self.now_ns)
                        self.changes.append((peer.name, "down"))
                if member.due(self.now_ns):
                    member.take_over()
                    self.changes.append((member.name, "up"))

    @property
    def masters(self) -> list[str]:
        return [n for n, m in self.members.items() if m.master and n not in self.down]


def test_one_that_is_alone_becomes_master_after_it_has_listened() -> None:
    cluster = Cluster(a=100)
    cluster.run(2 * TIMEOUT_NS)
    assert cluster.masters == []
    cluster.run(2 * TIMEOUT_NS)
    assert cluster.masters == ["a"]


@pytest.mark.parametrize(
    ("priorities", "first"),
    [({"a": 100, "b": 100, "c": 100}, "a"), ({"a": 100, "b": 100, "c": 101}, "c")],
)
def test_the_first_of_those_that_start_together_is_master(
    priorities: dict[str, int], first: str
) -> None:
    cluster = Cluster(**priorities)
    cluster.run(10 * TIMEOUT_NS)
    assert cluster.masters == [first]
    assert cluster.changes == [(first, "up")]


def test_a_master_that_stops_is_replaced_within_the_timeout_and_its_return_changes_nothing() -> (
    None
):
    cluster = Cluster(a=100, b=100, c=100)
    cluster.run(10 * TIMEOUT_NS)
    cluster.down.add("a")
    cluster.run(TIMEOUT_NS + HEARTBEAT_NS)
    assert cluster.masters == ["b"]
    # One that was frozen believes that it is the master still.
    cluster.down.clear()
    cluster.run(10 * TIMEOUT_NS)
    assert cluster.masters == ["b"]
    assert cluster.changes == [("a", "up"), ("b", "up"), ("a", "down")]


def test_the_second_takes_over_if_the_first_does_not() -> None:
    cluster = Cluster(a=100, b=100, c=100)
    cluster.run(10 * TIMEOUT_NS)
    cluster.members["b"].due = lambda now_ns: False  # type: ignore[method-assign]  # noqa: ARG005
    cluster.down.add("a")
    cluster.run(2 * TIMEOUT_NS + 2 * HEARTBEAT_NS)
    assert cluster.masters == ["c"]


def test_one_that_leaves_is_replaced_at_once() -> None:
    cluster = Cluster(a=100, b=100)
    cluster.run(10 * TIMEOUT_NS)
    cluster.members["a"].leave()
    cluster.run(HEARTBEAT_NS)
    assert cluster.masters == ["b"]
    cluster.run(10 * TIMEOUT_NS)
    assert cluster.masters == ["b"]


def test_generations_grow_and_are_never_those_of_another() -> None:
    cluster = Cluster(a=100, b=100)
    cluster.members["a"].seen(1000)
    cluster.run(10 * TIMEOUT_NS)
    first = cluster.members["a"].generation
    assert newer(first, 1000)
    cluster.cut.add(frozenset("ab"))
    cluster.run(10 * TIMEOUT_NS)
    assert cluster.masters == ["a", "b"]
    assert newer(cluster.members["b"].generation, first)
    cluster.cut.clear()
    cluster.run(10 * TIMEOUT_NS)
    assert cluster.masters == ["b"]


def test_one_that_was_replaced_by_somebody_it_cannot_hear_does_not_strike_back_at_once() -> None:
    election = Election("a", 100, ["b"], TIMEOUT_NS, 0)
    now_ns = 3 * TIMEOUT_NS
    pauses = []
    for _ in range(3):
        assert election.due(now_ns)
        election.take_over()
        election.step_down(now_ns)
        since_ns = now_ns
        while not election.due(now_ns):
            now_ns += TIMEOUT_NS
        pauses.append(now_ns - since_ns)
    assert pauses[0] >= 4 * TIMEOUT_NS
    assert pauses == sorted(set(pauses))


@given(GENERATIONS, st.integers(0, 15))
def test_the_next_generation_is_newer_whatever_the_latest(latest: int, place: int) -> None:
    following = roles.next_generation(latest, place)
    assert newer(following, latest)
    assert not newer(latest, following)
    assert following % 16 == place


@given(GENERATIONS, st.integers(1, 2**63 - 1))
def test_generations_wrap_around(generation: int, step: int) -> None:
    assert newer((generation + step) % 2**64, generation)
    assert not newer(generation, (generation + step) % 2**64)
    assert not newer(generation, generation)


# What switches say of roles


def test_role_messages() -> None:
    # OpenFlow 1.3.5 section 7.3.9: header, role, 4 bytes of padding, generation_id.
    request = roles.role_request(Role.MASTER, 0x1122334455667788, 9)
    assert request == bytes.fromhex("0418001800000009 00000002 00000000 1122334455667788")
    reply = bytes.fromhex("0419001800000009 00000003 00000000 ffffffffffffffff")
    assert roles.unpack(reply) == RoleReply(Role.SLAVE, UNDEFINED)
    for kind, code, said in (
        (11, 0, RoleRefused(True)),
        (11, 1, RoleRefused(False)),
        (1, 10, NotMaster()),
        (1, 6, None),
    ):
        head = openflow.HEADER.pack(4, 1, 12 + len(request), 9)
        error = head + kind.to_bytes(2, "big") + code.to_bytes(2, "big") + request
        assert roles.unpack(error) == said
    # ONF extension 191: experimenter, type, role, reason, padding, generation_id.
    status = bytes.fromhex("0404002000000000 4f4e4600 00000777 00000003 00 000000 0000000000000011")
    assert roles.unpack(status) == NotMaster()
    assert roles.unpack(status[:19] + b"\x01" + status[20:]) is None
    assert roles.unpack(status[:8] + b"Weir" + status[12:]) is None
    with pytest.raises(MalformedMessageError):
        roles.unpack(status[:-1])


@given(st.binary(max_size=40))
def test_any_bytes_are_a_role_message_or_an_error(body: bytes) -> None:
    for kind in (1, 4, 25):
        message = openflow.HEADER.pack(4, kind, 8 + len(body), 1) + body
        with contextlib.suppress(MalformedMessageError):
            roles.unpack(message)


# What peers say

BEAT = Heartbeat("a", Rank.MASTER, 17, 100)


def test_heartbeats_are_read_as_they_were_written() -> None:
    writer, reader = Line("challenge", b"secret"), Line("challenge", b"secret")
    for generation in (0, UNDEFINED, 3):
        beat = BEAT._replace(generation=generation)
        assert reader.read(writer.write(beat)) == beat


def test_strangers_and_repetitions_are_refused() -> None:
    line = Line("challenge", b"secret").write(BEAT)
    for reader, told in (
        (Line("challenge", b"another"), "does not know the secret"),
        (Line("another", b"secret"), "does not know the secret"),
    ):
        with pytest.raises(StrangerError, match=told):
            reader.read(line)
    reader = Line("challenge", b"secret")
    reader.read(line)
    with pytest.raises(StrangerError, match="repeats"):
        reader.read(line)
    with pytest.raises(StrangerError):
        Line("challenge", b"secret").read(line.replace(b"17", b"18"))


@given(
    st.binary(max_size=100)
    | st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=6).map(
        lambda said: json.dumps({"said": json.dumps(said), "tag": "x"}).encode()
    )
)
def test_whatever_a_stranger_says_is_refused(said: bytes) -> None:
    with pytest.raises(StrangerError):
        Line("challenge", b"secret").read(said)
