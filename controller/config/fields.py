"""What the keys of several sections hold, and how it is written: rates, sizes, times, endpoints."""

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Annotated, Literal, NamedTuple

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
)
from pydantic.fields import FieldInfo

from controller.config import quantity
from controller.model.values import switch_id

_LONGEST_RTT_NS = 10**9
_PERCENT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*")


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Listen(NamedTuple):
    """Where connections are accepted, and whether over TLS (`ssl`) or plainly (`tcp`)."""

    transport: Literal["ssl", "tcp"]
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.transport}:{host}:{self.port}"


def _bounded(number: int, written: object, most: int, most_written: str) -> int:
    """So that it fits 64 bits everywhere, and is no longer when it is written."""
    if number > most:
        raise ValueError(f"{written!r} is too much; write at most {most_written}")
    return number


def _rate_bps(written: object) -> int:
    rate = quantity.parse(written, quantity.RATES_BPS, "bit/s", "100 Mbit/s")
    return _bounded(round(rate), written, 10**18, "1000000 Tbit/s")


def _size_bytes(written: object) -> int:
    size = quantity.parse(written, quantity.SIZES_BYTES, "bytes", "64 KiB")
    return _bounded(round(size), written, 10**18, "1000000 TB")


def _time_ns(written: object) -> int:
    time_s = quantity.parse(written, quantity.TIMES_S, "seconds", "500 us")
    return _bounded(round(time_s * 10**9), written, 3600 * 10**15, "1000000 h")


def _rtt_ns(written: object) -> int:
    rtt_ns = _time_ns(written)
    if rtt_ns > _LONGEST_RTT_NS:
        raise ValueError(f"{rtt_ns / 10**9:g} s is no RTT of a fabric; write e.g. 500 us")
    return rtt_ns


def _share(written: object) -> object:
    if isinstance(written, str) and (number := _PERCENT.fullmatch(written)):
        raise ValueError(f"{written!r} is not a number; write {float(number[1]) / 100:g}")
    return written


def parse_endpoint(
    written: object, example: str = "127.0.0.1:6653 or [::1]:6653"
) -> tuple[str, int]:
    host, colon, port = str(written).rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ValueError(f"{written!r} is not HOST:PORT; write e.g. {example}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _listen(written: object) -> Listen:
    transport, _, endpoint = str(written).partition(":")
    if transport == "ssl":
        return Listen("ssl", *parse_endpoint(endpoint))
    if transport == "tcp":
        return Listen("tcp", *parse_endpoint(endpoint))
    raise ValueError(
        f"{written!r} does not say how; write ssl:HOST:PORT, or tcp:HOST:PORT for connections "
        "that nothing protects"
    )


def _mac(written: object) -> bytes:
    digits = str(written).replace("-", ":").split(":")
    if len(digits) != 6 or not all(re.fullmatch("[0-9a-fA-F]{2}", two) for two in digits):
        raise ValueError(f"{written!r} is no Ethernet address; write e.g. 02:00:00:00:00:01")
    mac = bytes.fromhex("".join(digits))
    if mac[0] & 1 or not any(mac):
        raise ValueError(f"{written!r} is no address of one host")
    return mac


def _switch_id(written: object) -> object:
    return switch_id(written) if isinstance(written, str) else written


def _written(write: Callable[[int], str]) -> PlainSerializer:
    """How a field is written into JSON, from which it can be read again."""
    return PlainSerializer(write, return_type=str, when_used="json")


_WRITTEN_RATE = _written(lambda bps: quantity.write(bps, quantity.RATES_BPS))
_WRITTEN_SIZE = _written(lambda n_bytes: quantity.write(n_bytes, quantity.SIZES_BYTES))
_WRITTEN_TIME = _written(lambda ns: quantity.write(Fraction(ns, 10**9), quantity.TIMES_S))

Rate = Annotated[int, BeforeValidator(_rate_bps), Field(gt=0), _WRITTEN_RATE]
Size = Annotated[int, BeforeValidator(_size_bytes), Field(gt=0), _WRITTEN_SIZE]
Time = Annotated[int, BeforeValidator(_time_ns), Field(gt=0), _WRITTEN_TIME]
Rtt = Annotated[int, BeforeValidator(_rtt_ns), Field(gt=0), _WRITTEN_TIME]
Share = Annotated[float, BeforeValidator(_share)]
Endpoint = Annotated[tuple[str, int], BeforeValidator(parse_endpoint)]
Listener = Annotated[Listen, PlainValidator(_listen)]
SwitchId = Annotated[int, BeforeValidator(_switch_id), Field(ge=0, lt=2**64)]
Mac = Annotated[
    bytes,
    PlainValidator(_mac),
    PlainSerializer(lambda mac: mac.hex(":"), return_type=str, when_used="json"),
]
Name = Annotated[str, Field(min_length=1, max_length=64)]


_QUANTITIES = {_rate_bps: "rate", _size_bytes: "size", _time_ns: "duration", _rtt_ns: "duration"}


def quantity_of(field: FieldInfo) -> str | None:
    """`rate`, `size` or `duration`, which are written with a unit; None if it is none of them."""
    readers = (getattr(one, "func", None) for one in field.metadata)
    return next((_QUANTITIES[reader] for reader in readers if reader in _QUANTITIES), None)


def is_time(field: FieldInfo) -> bool:
    """Whether it is a time, which is held in nanoseconds."""
    return quantity_of(field) == "duration"
