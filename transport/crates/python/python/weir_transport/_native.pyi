"""What is written in Rust."""

from collections.abc import Callable, Generator, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Literal, Protocol, Self, TypeVar, final

_Draw = Literal["dealt", "independent", "raptor"]
_Strategy = Literal["rank", "improved", "standard"]

kernel: str

class CodecError(ValueError):
    """A request outside the limits of the codec."""

@final
class Rows:
    """Which source symbols each coded symbol of a block is the XOR of."""

    def __new__(cls, k: int, *, draw: _Draw = "dealt", seed: int = 0) -> Self: ...
    def row(self, index: int) -> list[int]: ...
    @property
    def k(self) -> int: ...
    @property
    def draw(self) -> _Draw: ...
    @property
    def seed(self) -> int: ...
    @property
    def max_symbols(self) -> int: ...

@final
class Encoder:
    """Coded symbols of one block, whose source counts as followed by zeros."""

    def __new__(cls, source: bytes, symbol_bytes: int, rows: Rows) -> Self: ...
    def encode(self, index: int) -> bytes: ...
    def encode_many(self, first: int, count: int) -> list[bytes]: ...

@final
class Decoder:
    """A block from any coded symbols whose rows have rank k."""

    def __new__(cls, symbol_bytes: int, rows: Rows) -> Self: ...
    def push(self, index: int, payload: bytes) -> int:
        """How many more symbols are needed at least; 0 when the block is complete."""
    def reset(self, rows: Rows) -> None: ...
    @property
    def needs(self) -> int: ...
    @property
    def complete(self) -> bool: ...
    def source(self) -> bytes | None: ...

def choose_seed(k: int, *, draw: _Draw = "dealt", start: int = 0) -> int:
    """The first seed from start on whose first k rows are independent."""

def soliton(k: int, c: float = 0.2, delta: float = 0.7) -> list[float]:
    """The robust soliton distribution: the probabilities of the degrees 1 to k (LTTP, Eq. 1-3)."""

def overhead(
    k: int,
    trials: int,
    *,
    draw: _Draw = "dealt",
    strategy: _Strategy = "rank",
    loss: float = 0.0,
    seed: int = 0,
) -> list[int]:
    """For each trial, how many symbols beyond k arrive until the block is complete."""

class TransportError(Exception):
    """Something was not transferred."""

class LostError(TransportError):
    """The connection to a peer is gone, or never was."""

class RefusedError(TransportError):
    """The peer does not give, or take, an object."""

_T_co = TypeVar("_T_co", covariant=True)

@final
class Transfer(Generic[_T_co]):
    """Something under way; to forget it is to cancel it."""

    def wait(self, timeout: float | None = None) -> _T_co:
        """Wait until it has ended; after so many seconds TimeoutError, and it goes on."""
    def cancel(self) -> None:
        """Give it up."""
    @property
    def bytes_done(self) -> int:
        """Bytes that are through so far."""
    def __await__(self) -> Generator[Any, None, _T_co]: ...
    def _poll(self, wake: Callable[[], None]) -> bool: ...
    def _result(self) -> _T_co: ...

class _Reads(Protocol):
    def read(self, size: int, /) -> bytes: ...

class _Writes(Protocol):
    def write(self, data: bytes, /) -> object: ...

_Content = bytes | bytearray | memoryview | PathLike[str] | _Reads
_Into = str | PathLike[str] | _Writes
_Peers = str | Sequence[str] | Path
# What a block of `with` ends by.
_Kind = type[BaseException] | None
_Value = BaseException | None
_Traceback = TracebackType | None

@final
class Entry:
    """A file or directory of a listing; its time is in nanoseconds since 1970."""

    path: str
    size: int
    modified_ns: int
    mode: int

@final
class Offer:
    """An object that a sender would send. To forget it is to refuse it."""

    name: str
    size: int
    sender: str
    modified_ns: int
    mode: int
    is_directory: bool

    def into_bytes(self) -> Transfer[bytes]:
        """Take it into memory."""
    def write_to(self, into: _Into) -> Transfer[int]:
        """Take it into a path, whose file is made anew, or a file object: how many bytes it has."""
    def refuse(self, why: str) -> None:
        """Refuse it; the sender is told why."""

@final
class Client:
    """Fetches objects from servers (HOST:PORT) that all have them, over LTTP."""

    def __new__(
        cls,
        *servers: str,
        trust: _Peers | None = None,
        identity: str | PathLike[str] | None = None,
        insecure: bool = False,
        memory_limit: int | None = None,
    ) -> Self: ...
    def fetch(self, path: str) -> Transfer[bytes]:
        """Fetch an object into memory."""
    def fetch_to(self, path: str, into: _Into) -> Transfer[int]:
        """Fetch an object into a path, whose file is made anew, or a file object."""
    def list(self, path: str = ".") -> Transfer[tuple[list[Entry], list[tuple[str, str]]]]:
        """Everything below a path: entries, and pairs of what cannot be fetched and why."""
    def close(self) -> None:
        """End all that is under way."""
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: _Kind, value: _Value, traceback: _Traceback, /) -> None: ...

@final
class Server:
    """Serves a directory, or objects by name, over LTTP, to all clients or those that are named."""

    def __new__(
        cls,
        address: str = "[::]:4860",
        *,
        directory: str | PathLike[str] | None = None,
        identity: str | PathLike[str] | None = None,
        clients: _Peers | None = None,
        insecure: bool = False,
    ) -> Self: ...
    address: str
    fingerprint: str | None
    def insert(self, name: str, content: _Content, *, most_bytes: int = 1 << 30) -> None:
        """Serve it under a name. What has read() is read first, and may have most_bytes."""
    def remove(self, name: str) -> bool:
        """Serve it no more; whether it was served."""
    def close(self) -> None:
        """Say goodbye to its clients and stop."""
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: _Kind, value: _Value, traceback: _Traceback, /) -> None: ...

@final
class Sender:
    """Sends objects to one receiver (HOST:PORT), over DFCP, at `rate` bit/s or as TFRC finds."""

    def __new__(
        cls,
        receiver: str,
        *,
        trust: _Peers | None = None,
        identity: str | PathLike[str] | None = None,
        insecure: bool = False,
        rate: float | None = None,
    ) -> Self: ...
    def send(
        self, name: str, content: _Content, *, size: int | None = None, most_bytes: int = 1 << 30
    ) -> Transfer[None]:
        """Send it under a name.

        What has read() and so many bytes is sent while it is read; without a size it is read first,
        and may have most_bytes.
        """
    def set_rate(self, rate: float) -> None:
        """Send at this rate from now on: bit/s of whole Ethernet frames."""
    def finish(self) -> Transfer[None]:
        """Tell the receiver that nothing more comes, once all that was sent is there."""
    def close(self) -> None:
        """End all that is under way."""
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: _Kind, value: _Value, traceback: _Traceback, /) -> None: ...

@final
class Receiver:
    """Receives objects from senders over DFCP: from those that are named, or from anyone."""

    def __new__(
        cls,
        address: str = "[::]:4861",
        *,
        clients: _Peers | None = None,
        anyone: bool = False,
        identity: str | PathLike[str] | None = None,
        insecure: bool = False,
        memory_limit: int | None = None,
    ) -> Self: ...
    address: str
    fingerprint: str | None
    def offer(self) -> Transfer[Offer]:
        """The next object that somebody would send."""
    def close(self) -> None:
        """End all that is under way."""
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: _Kind, value: _Value, traceback: _Traceback, /) -> None: ...

def fingerprint(path: str | PathLike[str]) -> str:
    """The fingerprint of the identity in a PEM file, which is made if there is none."""
