"""Passes announcements of flows from the northbound to the core, and shares back to followers.

Followers receive each new share at once. A follower that does not read is disconnected; when it
connects again it receives all shares.
"""

from collections.abc import Callable, Iterator
from ipaddress import ip_address
from math import inf

from eventlet.queue import Empty, Full, LightQueue

from controller.core.bandwidth.announced import Announced, UnknownPathError, Uplink
from controller.core.engine import Engine
from controller.model.effects import Effect
from controller.northbound.interfaces import NotOwnerError, UnknownError
from controller.northbound.views import LinkView, PathView, ShareView

_NEWS, _QUIET_S = 10_000, 10.0


class Broker:
    """`engine` returns the present core, `apply` carries out its effects."""

    def __init__(
        self,
        engine: Callable[[], Engine],
        apply: Callable[[list[Effect]], None],
        clock_ns: Callable[[], int],
    ) -> None:
        self._engine = engine
        self._apply = apply
        self._clock_ns = clock_ns
        self._followers: set[LightQueue] = set()

    # From senders

    def announce(
        self, flow: str, src: str, dst: str, most_bps: float | None, owner: str | None = None
    ) -> ShareView:
        """Announce a flow, or change its maximum rate. Raises UnknownError and NotOwnerError."""
        if known := self._announced(flow):
            self._require(flow, owner)
            owner = known.owner
        ends = ip_address(src).packed, ip_address(dst).packed
        announced = Announced(*ends, inf if most_bps is None else most_bps, owner)
        try:
            self._apply(self._engine().announce(flow, announced, self._clock_ns()))
        except UnknownPathError as error:
            raise UnknownError(str(error)) from None
        return self._share(flow)

    def renew(self, flow: str, sends_bps: float | None, owner: str | None = None) -> ShareView:
        """A flow goes on, and sends `sends_bps` at most. Raises UnknownError and NotOwnerError."""
        self._require(flow, owner)
        sends_bps = inf if sends_bps is None else sends_bps
        self._engine().estimation.bandwidth.renew(flow, self._clock_ns(), sends_bps)
        return self._share(flow)

    def withdraw(self, flow: str, owner: str | None = None) -> None:
        """A flow has ended. Raises UnknownError and NotOwnerError."""
        self._require(flow, owner)
        self._apply(self._engine().withdraw(flow, self._clock_ns()))

    def _announced(self, flow: str) -> Announced | None:
        known = self._engine().estimation.bandwidth.announced(flow)
        return known[0] if known else None

    def _require(self, flow: str, owner: str | None) -> None:
        """Raises UnknownError, or NotOwnerError unless the flow is this owner's."""
        announced = self._announced(flow)
        if announced is None:
            raise _unknown(flow)
        if owner not in (None, announced.owner):
            whose = announced.owner or "the operator"
            raise NotOwnerError(f"flow {flow} is announced by {whose}; take another name")

    # To those who ask

    def path(self, src: str, dst: str) -> PathView:
        """Raises UnknownError."""
        ends = ip_address(src).packed, ip_address(dst).packed
        try:
            path = self._engine().path_bandwidth(*ends, self._clock_ns())
        except UnknownPathError as error:
            raise UnknownError(str(error)) from None
        links: list[LinkView] = [
            {
                "link": _named(link),
                "capacity_bps": capacity_bps,
                "used_bps": use.used_bps if use else None,
                "error_bps": use.error_bps if use else None,
                "loss": loss.loss if loss else None,
                "loss_error": loss.error if loss else None,
            }
            for link, capacity_bps, use, loss in path.links
        ]
        return {
            "src": src,
            "dst": dst,
            "available_bps": path.available_bps,
            "error_bps": path.error_bps,
            "share_bps": path.share_bps,
            "loss": path.loss,
            "loss_error": path.loss_error,
            "links": links,
        }

    def shares(self) -> Iterator[ShareView]:
        """The shares of all announced flows."""
        for flow in list(self._engine().estimation.bandwidth.flows):
            yield self._share(flow)

    def told(self, flow: str) -> None:
        """A flow has a new share, or is gone: send it to the followers."""
        if not self._followers:
            return
        share = self._share(flow)
        for news in list(self._followers):
            try:
                news.put_nowait(share)
            except Full:
                self._followers.discard(news)

    @property
    def followers(self) -> int:
        """How many follow."""
        return len(self._followers)

    def follow(self) -> Iterator[list[ShareView]]:
        """The shares of all announced flows, then each change as it comes; an empty list if there
        are none for a while."""
        news = LightQueue(_NEWS)
        self._followers.add(news)
        try:
            yield list(self.shares())
            while news in self._followers or not news.empty():
                try:
                    batch = [news.get(timeout=_QUIET_S)]
                except Empty:
                    yield []
                    continue
                while not news.empty():
                    batch.append(news.get_nowait())
                yield batch
        finally:
            self._followers.discard(news)

    def _share(self, flow: str) -> ShareView:
        """The share of a flow; without ends if the flow is not announced."""
        view: ShareView = {
            "flow": flow,
            "src": None,
            "dst": None,
            "most_bps": None,
            "rate_bps": None,
            "narrowest": None,
            "dscp": None,
        }
        bandwidth = self._engine().estimation.bandwidth
        known = bandwidth.announced(flow)
        if known is not None:
            announced, share = known
            view["src"] = str(ip_address(announced.src))
            view["dst"] = str(ip_address(announced.dst))
            view["dscp"] = bandwidth.settings.dscp
            view["most_bps"] = None if announced.most_bps == inf else announced.most_bps
            if share is not None:
                view["rate_bps"] = share.rate_bps
                view["narrowest"] = None if share.narrowest is None else _named(share.narrowest)
        return view


def _named(link: object) -> str:
    return f"uplink {link.port}" if isinstance(link, Uplink) else str(link)


def _unknown(flow: str) -> UnknownError:
    return UnknownError(f"no flow {flow} is announced, or not any more; announce it again")
