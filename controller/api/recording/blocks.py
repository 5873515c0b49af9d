"""Blocks of a recording, as they lie one after another in a file. Pure.

A block has a head and rows: JSON, a value a line, packed by zlib. A checksum is over both. What is
read need not be what was written: damaged and torn blocks are told, and what is whole after them is
found.
"""

import json
import math
import struct
import zlib
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any, NamedTuple

MAGIC = b"WeirRec1"
# Magic, checksum of all that follows, bytes of the rows packed and unpacked, kind, begin, end.
_HEAD = struct.Struct("<8sIIIB3xdd")
_CHECKED_AT = len(MAGIC) + 4
# A damaged head could say any size.
MOST_BYTES = 8 * 1024 * 1024
_FIRST_BYTES = 4096


class Kind(IntEnum):
    """What the rows of a block are."""

    EVENTS = 1
    GAPS = 2
    ALIVE = 3
    SNAPSHOTS = 4


class DamageError(ValueError):
    """The rows of a block cannot be read."""


class Block(NamedTuple):
    """Rows of between two times, in seconds since 1970."""

    kind: int
    begin_s: float
    end_s: float
    raw_bytes: int
    packed: bytes

    def raw(self) -> bytes:
        """All rows as they were written, with a line feed between two. Raises DamageError."""
        try:
            return zlib.decompressobj().decompress(self.packed, self.raw_bytes)
        except zlib.error as error:
            raise DamageError(str(error)) from None

    def rows(self) -> list[Any]:
        """All rows. Raises DamageError."""
        try:
            return [json.loads(line) for line in self.raw().splitlines()]
        except (ValueError, RecursionError) as error:
            raise DamageError(str(error)) from None

    def first(self) -> Any:
        """The first row, without unpacking all others. Raises DamageError."""
        unpacking, raw, packed = zlib.decompressobj(), b"", self.packed
        try:
            while b"\n" not in raw and packed:
                raw += unpacking.decompress(packed, _FIRST_BYTES)
                packed = unpacking.unconsumed_tail
            return json.loads(raw.partition(b"\n")[0])
        except (ValueError, RecursionError, zlib.error) as error:
            raise DamageError(str(error)) from None


class Damage(NamedTuple):
    """Bytes that are no whole block. A block of which only the begin was written is `torn`."""

    at: int
    n_bytes: int
    torn: bool


def row(value: object) -> bytes:
    """A row, for `pack`."""
    return json.dumps(value, separators=(",", ":")).encode()


def pack(kind: Kind, begin_s: float, end_s: float, rows: Iterable[bytes]) -> bytes:
    """A block. Raises ValueError if it is larger than `MOST_BYTES`."""
    raw = b"\n".join(rows)
    if len(raw) > MOST_BYTES:
        raise ValueError(f"a block has at most {MOST_BYTES} bytes")
    packed = zlib.compress(raw, 6)
    head = _HEAD.pack(MAGIC, 0, len(packed), len(raw), kind, begin_s, end_s)
    checked = head[_CHECKED_AT:] + packed
    return MAGIC + struct.pack("<I", zlib.crc32(checked)) + checked


def scan(data: bytes) -> Iterator[Block | Damage]:
    """The blocks of a file, and what is damaged between them."""
    at = 0
    while at < len(data):
        block, after = _block(data, at)
        if block is None:
            after = _next(data, at + 1)
            yield Damage(at, after - at, after == len(data) and _is_torn(data, at))
            at = after
        else:
            yield block
            at = after


def _next(data: bytes, at: int) -> int:
    """Where the next whole block is, else the end."""
    while (at := data.find(MAGIC, at)) >= 0:
        if _block(data, at)[0] is not None:
            return at
        at += 1
    return len(data)


def _is_torn(data: bytes, at: int) -> bool:
    """Whether a block begins here that goes on after the end."""
    n_bytes = len(data) - at
    if n_bytes < _HEAD.size:
        return MAGIC.startswith(data[at : at + len(MAGIC)])
    return data.startswith(MAGIC, at) and _HEAD.size + _HEAD.unpack_from(data, at)[2] > n_bytes


def _block(data: bytes, at: int) -> tuple[Block | None, int]:
    """The block at a place, and where it ends; None if it is not whole."""
    if not data.startswith(MAGIC, at) or len(data) - at < _HEAD.size:
        return None, at
    _, checksum, n_packed, n_raw, kind, begin_s, end_s = _HEAD.unpack_from(data, at)
    end = at + _HEAD.size + n_packed
    is_right = end <= len(data) and n_raw <= MOST_BYTES and n_packed <= 2 * MOST_BYTES
    if not is_right or zlib.crc32(memoryview(data)[at + _CHECKED_AT : end]) != checksum:
        return None, at
    if not (math.isfinite(begin_s) and math.isfinite(end_s)):
        return None, at
    return Block(kind, begin_s, end_s, n_raw, data[at + _HEAD.size : end]), end
