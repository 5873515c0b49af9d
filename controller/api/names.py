"""The addresses of hosts that are asked for by name: from the resolver of this machine, which reads
/etc/hosts and asks DNS.

Weir itself knows hosts by their addresses alone. A resolver may take long, or not answer at all, so
an answer is kept for a while, and only so many questions wait at once.
"""

import asyncio
import re
import socket
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from ipaddress import ip_address

_MOST, _MOST_WAITING = 256, 16
_KEPT_S, _PATIENCE_S = 30.0, 2.0
_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
# RFC 1123 section 2.1: what ends in a number is no name.
_NAME = re.compile(rf"(?=.{{1,253}}$)({_LABEL}\.)*(?!\d+\.?$){_LABEL}\.?")

Resolve = Callable[[str], Awaitable[list[str]]]


class UnknownNameError(LookupError):
    """There is no address of this name, or none was told; the text is for people."""


class BusyError(Exception):
    """Too many names are being looked up."""


def is_name(text: str) -> bool:
    """Whether this may be the name of a host, and is no address."""
    return _NAME.fullmatch(text) is not None and not _is_address(text)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


async def _resolve(name: str) -> list[str]:
    """Raises OSError."""
    loop = asyncio.get_running_loop()
    told = await loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return [str(place[0]).partition("%")[0] for *_, place in told]


class Names:
    """`clock` does not jump; `resolve` raises OSError for a name that has no address."""

    def __init__(self, clock: Callable[[], float], resolve: Resolve = _resolve) -> None:
        self._clock = clock
        self._resolve = resolve
        # Addresses, none if there are none, and until when that is believed.
        self._known: OrderedDict[str, tuple[list[str], float]] = OrderedDict()
        self._waiting = 0

    async def pairs(self, src: str, dst: str) -> list[tuple[str, str]]:
        """The addresses of two hosts, which are named or addresses already, as pairs of the same
        family; two addresses as they are. At least one pair. Raises UnknownNameError and
        BusyError."""
        if _is_address(src) and _is_address(dst):
            return [(src, dst)]
        sources, destinations = [await self.addresses(host) for host in (src, dst)]
        pairs = [
            (one, other)
            for one in sources
            for other in destinations
            if ip_address(one).version == ip_address(other).version
        ]
        if not pairs:
            raise UnknownNameError(
                f"{src} and {dst} have no addresses of the same family; name two hosts that both "
                "have IPv4, or both IPv6"
            )
        return pairs

    async def addresses(self, host: str) -> list[str]:
        """All of a name, in the resolver's order; of an address, that. Raises UnknownNameError and
        BusyError."""
        if _is_address(host):
            return [host]
        name = host.lower()
        found, until_s = self._known.get(name, ([], 0.0))
        if name not in self._known or self._clock() >= until_s:
            found = await self._ask(name)
            self._known[name] = found, self._clock() + _KEPT_S
            self._known.move_to_end(name)
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
        if not found:
            raise UnknownNameError(
                f"no address of {host} is known to the controller's machine; write the host's "
                "address, or enter the name in DNS or in /etc/hosts there"
            )
        return found

    async def _ask(self, name: str) -> list[str]:
        if self._waiting >= _MOST_WAITING:
            raise BusyError
        self._waiting += 1
        try:
            told = await asyncio.wait_for(self._resolve(name), _PATIENCE_S)
        except TimeoutError:
            raise UnknownNameError(
                f"the resolver of the controller's machine has not told the address of {name} "
                f"within {_PATIENCE_S:g} s; write the host's address"
            ) from None
        except (OSError, UnicodeError):
            return []
        finally:
            self._waiting -= 1
        return list(dict.fromkeys(told))
