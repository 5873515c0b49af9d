"""What is asked for, from the parameters of a request; what cannot be asked is told.

Whoever carries the parameters hands them over as a plain mapping of text.
"""

import re
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from controller.northbound.views import FlowQuery

MOST_ROWS = 1000
_DEFAULT_ROWS = 100
# All up to the end of the page has to be sorted.
FARTHEST_ROW = 100_000
_MOST_SWITCH = 2**64 - 1
_MOST_PORT = 2**32 - 1
_CLASSES = ("burst", "background")
MOST_BPS = 10**15
FLOW_NAME = r"[A-Za-z0-9._:-]{1,64}"


class QueryError(ValueError):
    """What cannot be answered; the message names the parameter and what would be right."""


class Parameters:
    """The parameters of a request. Every accessor raises QueryError."""

    def __init__(self, given: Mapping[str, str], known: tuple[str, ...]) -> None:
        unknown = sorted(given.keys() - set(known))
        if unknown:
            right = f"known are {', '.join(known)}" if known else "there are none here"
            raise QueryError(f"{unknown[0]}: unknown parameter; {right}")
        self._given = given

    def number(self, name: str, least: int, most: int) -> int | None:
        """A whole number, decimal or with 0x; None if it was not given."""
        written = self._given.get(name)
        if written is None:
            return None
        right = f"write a whole number from {least} to {most}"
        # No number of the interface is longer; int() itself takes its time with long ones.
        if len(written) > 24 or not written.isascii():
            raise QueryError(f"{name}: {written[:24]!r}... is not a number; {right}")
        try:
            number = int(written, 0)
        except ValueError:
            raise QueryError(f"{name}: {written!r} is not a number; {right}") from None
        if not least <= number <= most:
            raise QueryError(f"{name}: {written!r} is out of range; {right}")
        return number

    def word(self, name: str, words: tuple[str, ...]) -> str | None:
        written = self._given.get(name)
        if written is not None and written not in words:
            raise QueryError(f"{name}: {written[:64]!r} is not one of {', '.join(words)}")
        return written

    def network(self, name: str) -> IPv4Network | IPv6Network | None:
        """An address or a subnet."""
        written = self._given.get(name)
        if written is None:
            return None
        try:
            return ip_network(written, strict=False)
        except ValueError:
            raise QueryError(
                f"{name}: {written[:64]!r} is no address; "
                "write e.g. 10.0.0.1, 10.1.0.0/16 or fd00::1"
            ) from None

    def address(self, name: str) -> str:
        """An IP address, which must be there."""
        written = self._must(name)
        try:
            return str(ip_address(written))
        except ValueError:
            raise QueryError(
                f"{name}: {written[:64]!r} is no address; write e.g. 10.0.0.1 or fd00::1"
            ) from None

    def name(self, name: str) -> str:
        """A name, which must be there."""
        written = self._must(name)
        if not re.fullmatch(FLOW_NAME, written):
            raise QueryError(
                f"{name}: {written[:64]!r} is no name; write 1 to 64 of A-Z a-z 0-9 . _ : -"
            )
        return written

    def _must(self, name: str) -> str:
        written = self._given.get(name)
        if written is None:
            raise QueryError(f"{name}: is missing")
        return written


def switch_of(given: Mapping[str, str]) -> int | None:
    """A parameter `switch` alone."""
    return Parameters(given, ("switch",)).number("switch", 0, _MOST_SWITCH)


def flows(given: Mapping[str, str]) -> FlowQuery:
    known = ("limit", "offset", "host", "tcp_port", "class", "switch", "port")
    parameters = Parameters(given, known)
    limit = parameters.number("limit", 1, MOST_ROWS)
    return FlowQuery(
        _DEFAULT_ROWS if limit is None else limit,
        parameters.number("offset", 0, FARTHEST_ROW) or 0,
        parameters.network("host"),
        parameters.number("tcp_port", 0, 65_535),
        parameters.word("class", _CLASSES),
        parameters.number("switch", 0, _MOST_SWITCH),
        parameters.number("port", 1, _MOST_PORT),
    )


class Announcement(NamedTuple):
    """A flow that is announced; None wants all it can get."""

    flow: str
    src: str
    dst: str
    most_bps: float | None


def path(given: Mapping[str, str]) -> tuple[str, str]:
    parameters = Parameters(given, ("src", "dst"))
    return parameters.address("src"), parameters.address("dst")


def announcement(given: Mapping[str, str]) -> Announcement:
    parameters = Parameters(given, ("flow", "src", "dst", "most_bps"))
    flow, src, dst = (parameters.name("flow"), *map(parameters.address, ("src", "dst")))
    return Announcement(flow, src, dst, parameters.number("most_bps", 1, MOST_BPS))


def renewal(given: Mapping[str, str]) -> tuple[str, float | None]:
    """A flow, and what it sends at most."""
    parameters = Parameters(given, ("flow", "sends_bps"))
    return parameters.name("flow"), parameters.number("sends_bps", 0, MOST_BPS)


def flow_of(given: Mapping[str, str]) -> str:
    """A parameter `flow` alone."""
    return Parameters(given, ("flow",)).name("flow")


def events(given: Mapping[str, str]) -> tuple[int | None, int, bool]:
    """From which serial on, how many at most, and whether to go on with those to come."""
    parameters = Parameters(given, ("after", "limit", "follow"))
    limit = parameters.number("limit", 0, 10_000)
    return (
        parameters.number("after", 0, 2**63),
        _DEFAULT_ROWS if limit is None else limit,
        parameters.word("follow", ("true", "false")) == "true",
    )
