"""What is asked for, from the parameters of a request; what cannot be asked is told.

Whoever carries the parameters hands them over as a plain mapping of text.
"""

from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network

from controller.northbound.views import FlowQuery

MOST_ROWS = 1000
_DEFAULT_ROWS = 100
# All up to the end of the page has to be sorted.
FARTHEST_ROW = 100_000
_MOST_SWITCH = 2**64 - 1
_MOST_PORT = 2**32 - 1
_CLASSES = ("burst", "background")


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


def events(given: Mapping[str, str]) -> tuple[int | None, int, bool]:
    """From which serial on, how many at most, and whether to go on with those to come."""
    parameters = Parameters(given, ("after", "limit", "follow"))
    limit = parameters.number("limit", 0, 10_000)
    return (
        parameters.number("after", 0, 2**63),
        _DEFAULT_ROWS if limit is None else limit,
        parameters.word("follow", ("true", "false")) == "true",
    )
