"""Who reads in which turn of the main loop, in turns by hand."""

from collections import deque
from collections.abc import Callable

import pytest

from controller.southbound.transport.rota import Rota

MS = 10**6


class World:
    """Turns of a main loop. Whoever has input reads a piece at a time, which takes `piece_ms`."""

    def __init__(self) -> None:
        self.age_ns = 0
        self.soon: deque[Callable[[], None]] = deque()
        self.rota = Rota(lambda: self.age_ns, self.soon.append)
        self.read: list[str] = []

    def turn(self, *readers: "Reader") -> list[str]:
        """Let these have input; returns who read what in this turn."""
        self.age_ns, self.read = 0, []
        for reader in readers:
            self.rota.has_input(reader)
        for _ in range(len(self.soon)):
            self.soon.popleft()()
        return self.read


class Reader:
    """Has some pieces in its buffer at every read, of which it reads one at least."""

    def __init__(self, world: World, name: str, pieces: int = 1, piece_ms: int = 1) -> None:
        self.world, self.name, self.pieces, self.piece_ms = world, name, pieces, piece_ms

    def read_some(self) -> bool:
        while self.pieces:
            self.world.read.append(self.name)
            self.world.age_ns += self.piece_ms * MS
            self.pieces -= 1
            if self.world.rota.is_long():
                break
        return self.pieces > 0


@pytest.fixture
def world() -> World:
    return World()


def test_in_a_short_turn_all_read_at_once(world: World) -> None:
    a, b = Reader(world, "a", 2), Reader(world, "b", 2)
    assert world.turn(a, b) == ["a", "a", "b", "b"]
    assert not world.soon


def test_a_turn_ends_soon_after_it_is_long(world: World) -> None:
    readers = [Reader(world, name, piece_ms=3) for name in "abcd"]
    assert world.turn(*readers) == ["a", "b", "c"]
    assert world.turn() == ["d"]
    assert world.turn() == []
    assert not world.soon


def test_whoever_has_much_to_read_does_not_keep_the_others_waiting(world: World) -> None:
    greedy = Reader(world, "greedy", 1000)
    others = [Reader(world, name, piece_ms=6) for name in "ab"]
    # Each time it has input before the others, as the kernel may tell.
    turns = [set(world.turn(greedy, *others))]
    turns += [set(world.turn(greedy)) for _ in range(3)]
    assert turns == [{"greedy"}, {"a"}, {"b"}, {"greedy"}]


def test_what_is_left_in_a_buffer_is_read_without_new_input(world: World) -> None:
    reader = Reader(world, "a", 12)
    read = len(world.turn(reader))
    while world.soon:
        read += len(world.turn())
    assert read == 12


def test_a_turn_that_began_long_leaves_reading_to_the_next(world: World) -> None:
    reader = Reader(world, "a")
    world.age_ns = 9 * MS
    world.rota.has_input(reader)
    assert not world.read
    assert world.turn(reader) == ["a"]


def test_one_reads_in_every_turn_however_long_turns_are(world: World) -> None:
    readers = [Reader(world, name, pieces=2) for name in "ab"]
    read = []
    for has_input in (readers, [], [], [], []):
        world.age_ns, world.read = 9 * MS, []
        for reader in has_input:
            world.rota.has_input(reader)
        for _ in range(len(world.soon)):
            world.soon.popleft()()
        read += world.read
    assert read == ["a", "b", "a", "b"]
