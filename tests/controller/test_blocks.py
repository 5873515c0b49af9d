"""Blocks of a recording: what is whole is read, whatever is around it."""

import itertools
import zlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.api.recording.blocks import (
    MAGIC,
    MOST_BYTES,
    Block,
    Damage,
    DamageError,
    Kind,
    pack,
    row,
    scan,
)

ROWS = [{"event": "link_up", "a": "x" * 50, "n": n, "odd": "\ud800\n\u2028"} for n in range(20)]
BLOCK = pack(Kind.EVENTS, 1.5, 2.5, map(row, ROWS))


def test_what_is_packed_is_read() -> None:
    blocks = list(scan(BLOCK + pack(Kind.GAPS, 3, 4, [b"1"]) + pack(Kind.ALIVE, 5, 5, [])))
    assert [(block[0], block[1], block[2]) for block in blocks] == [
        (Kind.EVENTS, 1.5, 2.5),
        (Kind.GAPS, 3, 4),
        (Kind.ALIVE, 5, 5),
    ]
    first, second, third = blocks
    assert isinstance(first, Block)
    assert isinstance(second, Block)
    assert isinstance(third, Block)
    assert (first.rows(), second.rows(), third.rows()) == (ROWS, [1], [])
    assert first.first() == ROWS[0]
    assert len(BLOCK) < 400


def test_the_first_row_is_read_without_the_others() -> None:
    long = "y" * 20_000
    (block,) = scan(pack(Kind.EVENTS, 0, 0, map(row, [long, *range(10_000)])))
    assert isinstance(block, Block)
    assert block.first() == long


def test_a_block_has_a_most() -> None:
    with pytest.raises(ValueError, match="at most"):
        pack(Kind.EVENTS, 0, 0, [bytes(MOST_BYTES + 1)])


@pytest.mark.parametrize("raw", [b"{", b"[" * 100_000, b"\xff", b"nonsense"])
def test_rows_that_are_none_are_told(raw: bytes) -> None:
    (block,) = scan(pack(Kind.EVENTS, 0, 0, [raw]))
    assert isinstance(block, Block)
    with pytest.raises(DamageError):
        block.rows()
    with pytest.raises(DamageError):
        block.first()


def test_rows_that_are_not_packed_are_told() -> None:
    block = Block(Kind.EVENTS, 0, 0, 100, b"not packed")
    with pytest.raises(DamageError):
        block.rows()
    with pytest.raises(DamageError):
        block.first()
    # No more is unpacked than the head says.
    bomb = Block(Kind.EVENTS, 0, 0, 2, zlib.compress(b"1" * 10**7))
    assert bomb.rows() == [11]


@pytest.mark.parametrize("cut", [1, 8, 20, len(BLOCK) - 1])
def test_a_torn_block_is_told_from_a_damaged_one(cut: int) -> None:
    *whole, damage = scan(BLOCK + BLOCK[:cut])
    assert len(whole) == 1
    assert damage == Damage(len(BLOCK), cut, torn=True)
    zeros = list(scan(BLOCK + bytes(cut)))[-1]
    assert zeros == Damage(len(BLOCK), cut, torn=False)


edits = st.lists(
    st.one_of(
        st.tuples(st.just("flip"), st.integers(0, 4000), st.integers(1, 255)),
        st.tuples(st.just("cut"), st.integers(0, 4000), st.integers(1, 600)),
        st.tuples(st.just("put"), st.integers(0, 4000), st.binary(min_size=1, max_size=40)),
        st.tuples(st.just("put"), st.integers(0, 4000), st.just(MAGIC)),
    ),
    max_size=6,
)


@given(st.lists(st.integers(0, 30), max_size=8), edits)
def test_damage_costs_the_blocks_that_it_hits_alone(
    sizes: Sequence[int], edits: Sequence[tuple[str, int, int | bytes]]
) -> None:
    packed = [pack(Kind.EVENTS, n, n + 1, [row([n] * size)]) for n, size in enumerate(sizes)]
    data = b"".join(packed)
    for kind, place, value in edits:
        at = min(place, len(data))
        if isinstance(value, bytes):
            data = data[:at] + value + data[at:]
        elif kind == "cut":
            data = data[:at] + data[at + value :]
        elif at < len(data):
            data = data[:at] + bytes([data[at] ^ value]) + data[at + 1 :]
    found = list(scan(data))
    blocks = [one for one in found if isinstance(one, Block)]
    assert [one.begin_s for one in blocks] == [n for n, one in enumerate(packed) if one in data]
    for one in blocks:
        assert one.rows() == [[int(one.begin_s)] * sizes[int(one.begin_s)]]
    # Every byte is of a block or damaged, and no damage is told twice.
    sizes_bytes = [len(packed[int(one.begin_s)]) for one in blocks]
    damaged = [one for one in found if isinstance(one, Damage)]
    assert sum(sizes_bytes) + sum(one.n_bytes for one in damaged) == len(data)
    assert not any(
        isinstance(a, Damage) and isinstance(b, Damage) for a, b in itertools.pairwise(found)
    )


@given(st.binary(max_size=2000))
def test_any_bytes_can_be_read(data: bytes) -> None:
    assert sum(one.n_bytes for one in scan(data) if isinstance(one, Damage)) == len(data)
