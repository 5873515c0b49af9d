"""The methods and their parameters, declared once, for the controller, the HTTP API and its
description.

Values may be text, as in a URL or on a command line. Methods that begin with follow_ answer with a
stream.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from controller.model.values import switch_id
from controller.model.vlans import MAX_VLAN
from controller.rpc.messages import CallError, Kind

_SHOWN = 64
# A page of flows takes sorting everything up to its end.
FARTHEST_ROW = 100_000
MOST_ROWS = 1000
_DEFAULT_ROWS = 100


@dataclass(frozen=True)
class Whole:
    """A whole number from `least` to `most`; as text decimal or with 0x."""

    least: int
    most: int

    def __get_pydantic_core_schema__(self, _: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        number = core_schema.int_schema(ge=self.least, le=self.most)
        if float(self.most) != self.most:
            # Many read JSON's numbers as doubles. 2^64 is one, 2^64 - 1 is not.
            number = core_schema.int_schema(ge=self.least, lt=self.most + 1)
        return core_schema.no_info_before_validator_function(self._read, number)

    def _read(self, written: object) -> int:
        right = f"write a whole number from {self.least} to {self.most}"
        try:
            number = _number(written)
        except (ValueError, OverflowError):
            raise ValueError(f"{_shown(written)} is not a number; {right}") from None
        if not self.least <= number <= self.most:
            raise ValueError(f"{_shown(written)} is out of range; {right}")
        return number


def _number(written: object) -> int:
    """Raises ValueError, and OverflowError for infinity."""
    match written:
        # No valid number is longer, and int() is slow with long ones.
        case str() if len(written) <= 24 and written.isascii():
            return int(written, 0)
        case bool():
            raise ValueError
        case int() | float() if int(written) == written:
            return int(written)
    raise ValueError


def _address(written: object) -> str:
    try:
        return str(ip_address(_text(written)))
    except ValueError:
        right = "write e.g. 10.0.0.1 or fd00::1"
        raise ValueError(f"{_shown(written)} is no address; {right}") from None


def _subnet(written: object) -> IPv4Network | IPv6Network:
    if isinstance(written, IPv4Network | IPv6Network):
        return written
    try:
        return ip_network(_text(written), strict=False)
    except ValueError:
        right = "write e.g. 10.0.0.1, 10.1.0.0/16 or fd00::1"
        raise ValueError(f"{_shown(written)} is no address; {right}") from None


_NAME = r"^[A-Za-z0-9._:-]{1,64}$"


def _name(written: object) -> str:
    if not re.fullmatch(_NAME[1:-1], text := _text(written)):
        right = "write 1 to 64 of A-Z a-z 0-9 . _ : -"
        raise ValueError(f"{_shown(written)} is no name; {right}")
    return text


def _switch(written: object) -> object:
    return switch_id(written) if isinstance(written, str) else written


def _port(written: object) -> str:
    text = str(written) if type(written) is int else written
    if not isinstance(text, str) or not re.fullmatch(r"[!-~]{1,15}", text):
        raise ValueError(f"{_shown(written)} is no port; write its number or its name, e.g. eth2")
    return text


def _text(written: object) -> str:
    """Raises ValueError, also for numbers: Python would make addresses of them."""
    if not isinstance(written, str):
        raise ValueError
    return written


def _shown(written: object) -> str:
    text = written if isinstance(written, str) else repr(written)
    shown = text[:_SHOWN] + "..." * (len(text) > _SHOWN)
    return repr(shown) if isinstance(written, str) else shown


_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4_SUBNET = rf"^{_OCTET}(\.{_OCTET}){{3}}/(3[0-2]|[12]?[0-9])$"
_IPV6_SUBNET = r"^([0-9a-f]{1,4}:){1,7}:/(12[0-8]|1[01][0-9]|[1-9]?[0-9])$"
_ADDRESSES = [{"type": "string", "format": "ipv4"}, {"type": "string", "format": "ipv6"}]
_SUBNETS = [{"type": "string", "pattern": pattern} for pattern in (_IPV4_SUBNET, _IPV6_SUBNET)]

Switch = Annotated[int, Whole(0, 2**64 - 1), BeforeValidator(_switch)]
PortName = Annotated[
    str,
    BeforeValidator(_port),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 15}),
]
Who = Annotated[str, Field(min_length=1, max_length=80)]
Serial = Annotated[int, Whole(0, 2**63 - 1)]
_ENTRY = r"^[1-9][0-9]{0,17}$"


def _entry(written: object) -> str:
    if not isinstance(written, str) or not re.fullmatch(_ENTRY[1:-1], written, re.ASCII):
        right = "take it from the audit log or from the settings"
        raise ValueError(f"{_shown(written)} is no id of an entry; {right}")
    return written


EntryId = Annotated[
    str, BeforeValidator(_entry), WithJsonSchema({"type": "string", "pattern": _ENTRY})
]
Address = Annotated[
    str, BeforeValidator(_address), WithJsonSchema({"anyOf": _ADDRESSES}, mode="validation")
]
Subnet = Annotated[
    IPv4Network | IPv6Network,
    PlainValidator(_subnet),
    PlainSerializer(str),
    WithJsonSchema({"anyOf": [*_ADDRESSES, *_SUBNETS]}),
]
FlowName = Annotated[
    str, BeforeValidator(_name), WithJsonSchema({"type": "string", "pattern": _NAME})
]


class Parameters(BaseModel):
    """The parameters of a method. Others are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: object) -> object:
        known = cls.names()
        unknown = sorted(set(given) - set(known)) if isinstance(given, dict) else ()
        if unknown:
            right = f"known are {', '.join(known)}" if known else "there are none here"
            raise ValueError(f"{unknown[0][:_SHOWN]}: unknown parameter; {right}")
        return given

    @classmethod
    def names(cls) -> list[str]:
        """The names of the parameters, as they are written."""
        return [field.alias or name for name, field in cls.model_fields.items()]


class Nothing(Parameters):
    """No parameters."""


class OfSwitch(Parameters):
    """One switch, or all."""

    switch: Switch | None = Field(default=None, description="datapath id")


class Bypass(Parameters):
    """A port, by number or name; without one a whole switch; without a switch everything."""

    switch: Switch | None = Field(default=None, description="datapath id")
    port: PortName | None = Field(default=None, description="number or name")

    @model_validator(mode="after")
    def _port_of_a_switch(self) -> Self:
        if self.port is not None and self.switch is None:
            raise ValueError(
                "switch: is missing; add it: ports of different switches have the same names"
            )
        return self


class TimedBypass(Bypass):
    """A place where regulation is to be off, `for_s` seconds or until it is turned on again."""

    for_s: Annotated[int, Whole(1, 31_536_000)] | None = Field(
        default=None, description="for how many seconds"
    )


class Off(TimedBypass):
    """Who turns what off."""

    by: Who = "somebody"


class On(Bypass):
    """Who turns what on again."""

    by: Who = "somebody"


Key = Annotated[str, Field(min_length=1, max_length=80)]


class Changes(Parameters):
    """Other values for settings, as text as in the configuration file; None: the file's again.
    Without `only_try`, they are in force at once, or, if one of them cannot be, none is. `version`
    is that of the settings which the change was made for: others may have changed them since."""

    version: Serial
    changes: dict[Key, str | None] = Field(min_length=1, max_length=100)
    only_try: bool = False


class Change(Changes):
    """Who changes what. Without `version`, whatever the settings are."""

    version: Serial | None = None  # type: ignore[assignment]
    by: Who = "somebody"


class OfChange(Parameters):
    """A change of settings, by its id in the audit log."""

    id: EntryId


class Undo(OfChange):
    """Who takes which change back."""

    by: Who = "somebody"


class AuditQuery(Parameters):
    """Which entries of the audit log: the latest, or the latest before the entry `before`."""

    limit: Annotated[int, Whole(1, 1000)] = _DEFAULT_ROWS
    before: EntryId | None = Field(default=None, description="id of an entry")


class FlowQuery(Parameters):
    """Which flows: at most `limit` of them, from `offset` on, the largest volume first, the oldest
    or newest, or by source or destination. By volume, those that are not counted come last.

    `host` is one of the ends, `tcp_port` the port of either end. Flows leave `switch` by `port`.
    """

    host: Subnet | None = Field(default=None, description="an end of the flow, or its subnet")
    tcp_port: Annotated[int, Whole(0, 2**16 - 1)] | None = Field(
        default=None, description="of either end"
    )
    flow_class: Literal["burst", "background"] | None = Field(default=None, alias="class")
    switch: Switch | None = Field(default=None, description="datapath id")
    port: Annotated[int, Whole(1, 2**32 - 1)] | None = Field(
        default=None, description="OpenFlow port number"
    )
    sort: Literal["volume", "oldest", "newest", "src", "dst"] = "volume"
    limit: Annotated[int, Whole(1, MOST_ROWS)] = _DEFAULT_ROWS
    offset: Annotated[int, Whole(0, FARTHEST_ROW)] = 0


class Ends(Parameters):
    """From one host to another."""

    src: Address = Field(description="the host that sends")
    dst: Address = Field(description="the host that receives")


class FlowEnds(Ends):
    """One direction of a TCP connection, by where its data goes."""

    src_port: Annotated[int, Whole(0, 2**16 - 1)] = Field(description="TCP port of the sender")
    dst_port: Annotated[int, Whole(0, 2**16 - 1)] = Field(description="TCP port of the receiver")
    vlan: Annotated[int, Whole(0, MAX_VLAN)] | None = Field(
        default=None,
        description="its VLAN, 0 for none; left out: the only one that has such a flow",
    )


class EventQuery(Parameters):
    """Which events: those after the serial number `after`, or the latest."""

    after: Serial | None = Field(default=None, description="serial number of an event")
    limit: Annotated[int, Whole(0, 10_000)] = _DEFAULT_ROWS


class FollowedEvents(EventQuery):
    """Which events to begin with. If the controller is in another run than `run`, in which it
    counts anew, all events that it remembers."""

    run: Annotated[str, Field(max_length=64)] | None = Field(
        default=None, description="the run that `after` is of"
    )


class Announcement(Ends):
    """A flow that is about to send, between two hosts of the fabric. `most_bps` is its maximum
    rate; without it, the flow takes all that it gets."""

    most_bps: Annotated[int, Whole(1, 10**15)] | None = None


class Renewal(Parameters):
    """A flow goes on. `sends_bps` is its rate, if that is less than its share."""

    sends_bps: Annotated[int, Whole(0, 10**15)] | None = None


class OfFlow(Parameters):
    """An announced flow. `owner` is who announces it, or asks for a change; None: the operator, who
    may change all of them."""

    flow: FlowName
    owner: Who | None = None


class Announce(Announcement, OfFlow):
    """An announcement with the name of the flow."""


class Renew(Renewal, OfFlow):
    """A renewal with the name of the flow."""


METHODS: Mapping[str, type[Parameters]] = {
    "help": Nothing,
    "health": Nothing,
    "ready": Nothing,
    "controller": Nothing,
    "switches": OfSwitch,
    "excesses": OfSwitch,
    "ports": OfSwitch,
    "regulation": OfSwitch,
    "off": Off,
    "on": On,
    "bypasses": Nothing,
    "settings": Nothing,
    "change": Change,
    "undo": Undo,
    "audit": AuditQuery,
    "flows": FlowQuery,
    "flow": FlowEnds,
    "events": EventQuery,
    "follow_events": FollowedEvents,
    "groups": Nothing,
    "bandwidth": Ends,
    "fountains": Nothing,
    "follow_fountains": Nothing,
    "announce": Announce,
    "renew": Renew,
    "withdraw": OfFlow,
    "metrics": Nothing,
}


def says_who(method: str) -> bool:
    """Whether a method takes who asks, for the logs."""
    return method in METHODS and "by" in METHODS[method].model_fields


def read(method: str, params: Mapping[str, object]) -> Parameters:
    """The parameters of a request. Raises CallError."""
    taken = METHODS.get(method)
    if taken is None:
        close = difflib.get_close_matches(method[:_SHOWN], METHODS, 1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(METHODS)}"
        raise CallError(Kind.METHOD, f"there is no method {method[:_SHOWN]!r}; {hint}")
    try:
        return taken.model_validate(params)
    except ValidationError as error:
        raise CallError(Kind.PARAMETERS, explain(error.errors()[0])) from None


def explain(error: ErrorDetails) -> str:
    """`parameter: what is wrong; what would be right`."""
    text = error["msg"].removeprefix("Value error, ")
    match error["type"]:
        case "missing":
            text = "is missing; add it"
        case "model_attributes_type" | "dict_type" | "json_invalid":
            text = "the body is no JSON object; send one, with Content-Type: application/json"
        case "literal_error":
            words = error.get("ctx", {}).get("expected", "").replace("'", "").replace(" or ", ", ")
            text = f"{_shown(error['input'])} is not one of {words}"
    place = ".".join(map(str, error["loc"]))
    return f"{place}: {text}" if place else text
