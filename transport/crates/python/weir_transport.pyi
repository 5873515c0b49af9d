"""The codec of Weir's coded transports, for experiments."""

from typing import Literal

Draw = Literal["dealt", "independent"]
Strategy = Literal["rank", "improved", "standard"]

kernel: str

class CodecError(ValueError):
    """A request outside the limits of the codec."""

class Rows:
    """Which source symbols each coded symbol of a block is the XOR of."""

    def __init__(self, k: int, *, draw: Draw = "dealt", seed: int = 0) -> None: ...
    def row(self, index: int) -> list[int]: ...
    @property
    def k(self) -> int: ...
    @property
    def draw(self) -> Draw: ...
    @property
    def seed(self) -> int: ...
    @property
    def max_symbols(self) -> int: ...

class Encoder:
    """Coded symbols of one block, whose source counts as followed by zeros."""

    def __init__(self, source: bytes, symbol_bytes: int, rows: Rows) -> None: ...
    def encode(self, index: int) -> bytes: ...
    def encode_many(self, first: int, count: int) -> list[bytes]: ...

class Decoder:
    """A block from any coded symbols whose rows have rank k."""

    def __init__(self, symbol_bytes: int, rows: Rows) -> None: ...
    def push(self, index: int, payload: bytes) -> int:
        """How many more symbols are needed at least; 0 when the block is complete."""
    def reset(self, rows: Rows) -> None: ...
    @property
    def needs(self) -> int: ...
    @property
    def complete(self) -> bool: ...
    def source(self) -> bytes | None: ...

def choose_seed(k: int, *, draw: Draw = "dealt", start: int = 0) -> int:
    """The first seed from start on whose first k rows are independent."""

def soliton(k: int, c: float = 0.2, delta: float = 0.7) -> list[float]:
    """The robust soliton distribution: the probabilities of the degrees 1 to k (LTTP, Eq. 1-3)."""

def overhead(
    k: int,
    trials: int,
    *,
    draw: Draw = "dealt",
    strategy: Strategy = "rank",
    loss: float = 0.0,
    seed: int = 0,
) -> list[int]:
    """For each trial, how many symbols beyond k arrive until the block is complete."""
