"""Sends TCP over protected links where the path loses packets.

A protected link joins two switches by a layer that repairs losses with a code (TCP-ACC): its ends
are ports like others, and what it carries crosses the links of the path in datagrams. While the
path between the two switches loses more than `on_loss`, TCP goes over the protected link in both
directions; everything else, those datagrams among it, stays on the path, so its losses go on being
measured. TCP that merely passes through one of the two on its way to the other goes with it.

Connections stay where they were for everything else: they are counted, and regulated at the ports
of hosts, as before. Segments with windows that came in by a port of the path come in by the
protected port instead, so the windows of the path's own ports do not hold for them.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from controller.core.bandwidth.losses import LinkLoss, of_path
from controller.core.desired.tables import Tables
from controller.core.topology.fabric import Fabric
from controller.model.effects import Effect, Record
from controller.model.entries import ProtectedHop
from controller.model.values import N_PATH_IDS, PortId, datapath_id

_CHECK_NS = 400_000_000


@dataclass(frozen=True, slots=True)
class ProtectionSettings:
    """`ports` are patterns of the names of ports that are ends of protected links; without any,
    nothing is protected. TCP is protected from a loss above `on_loss` until no loss above
    `off_loss` was seen for `hold_ns`. In the same way a link is reported to be lossy."""

    ports: tuple[str, ...] = ()
    on_loss: float = 1e-3
    off_loss: float = 2e-4
    hold_ns: int = 30 * 10**9


class _Ends(NamedTuple):
    """Two switches, the lower one first."""

    a: int
    b: int


class _Hop(NamedTuple):
    """TCP of a switch to another one."""

    switch: int
    destination: int


class _Losses(NamedTuple):
    """What a path loses at least, and probably. `known` if any of its links is measured."""

    least: float
    probable: float
    known: bool


_UNKNOWN = _Losses(0.0, 0.0, known=False)

K = TypeVar("K", bound=Hashable)


class Protection:
    """Decides between which switches TCP is protected, and reports lossy links.

    `loss` returns that of the link of an egress port at a time, None if it is not known.
    """

    def __init__(
        self,
        settings: ProtectionSettings,
        fabric: Fabric,
        loss: Callable[[PortId, int], LinkLoss | None],
        tables: Tables,
        emit: Callable[[Effect], None],
    ) -> None:
        self._settings = settings
        self._fabric = fabric
        self._loss = loss
        self._tables = tables
        self._emit = emit
        # Between whom TCP is to be protected, and when the loss was last above `off_loss`.
        self._lossy_ns: dict[_Ends, int] = {}
        self._hops: dict[_Hop, int] = {}
        # What switches did before the controller started, by links that are not seen yet.
        self._adopted: dict[_Hop, int] = {}
        # By their egress ports, and when the loss was last above `off_loss`.
        self._lossy_links: dict[PortId, int] = {}
        self._checked_ns = 0
        self._installed_version = -1
        self._stale = False
        fabric.protect(settings.ports)

    def reconfigure(self, settings: ProtectionSettings) -> None:
        """Use these settings from now on."""
        self._settings = settings
        self._fabric.protect(settings.ports)
        if not settings.ports:
            self._lossy_ns.clear()
        self._stale = True

    def adopt(self, switch: int, entry: ProtectedHop, now_ns: int) -> None:
        """A switch that this controller has not met before sends TCP over a protected port. Let it
        go on for as long as the settings hold."""
        port_id = PortId(switch, entry.port)
        port = self._fabric.port(port_id)
        if port is not None and port.up and self._fabric.may_protect(port_id):
            hop = _Hop(switch, entry.destination)
            self._adopted[hop] = entry.port
            self._lossy_ns.setdefault(_ends(*hop), now_ns)
            self._stale = True
            self.install(now_ns)

    def protected_from(self, switch: int) -> int:
        """To how many switches TCP of this one is protected now."""
        return sum(hop.switch == switch for hop in self._hops)

    # Decisions

    def tend(self, now_ns: int) -> None:
        """Look at the losses of all links and paths."""
        if now_ns - self._checked_ns < _CHECK_NS:
            return
        self._checked_ns = now_ns
        self._report_lossy(now_ns)
        ends_of = {_ends(a.switch, b.switch) for a, b in self._fabric.protected_links()}
        for ends in ends_of | self._lossy_ns.keys():
            ways = self._losses(ends.a, ends.b, now_ns), self._losses(ends.b, ends.a, now_ns)
            self._stale |= self._judge(self._lossy_ns, ends, ways, now_ns) is not None

    def _judge(
        self, lossy_ns: dict[K, int], key: K, losses: Iterable[_Losses], now_ns: int
    ) -> bool | None:
        """Whether a link or a path becomes lossy (True), ceases to be (False), or neither (None).
        `lossy_ns` has those that are lossy, and when they were last seen to be."""
        settings = self._settings
        if key not in lossy_ns:
            if any(one.least > settings.on_loss for one in losses):
                lossy_ns[key] = now_ns
                return True
        # A loss that cannot be told from none is none.
        elif any(one.least > 0 and one.probable > settings.off_loss for one in losses):
            lossy_ns[key] = now_ns
        elif now_ns - lossy_ns[key] >= settings.hold_ns:
            del lossy_ns[key]
            return False
        return None

    def _losses(self, src: int, dst: int, now_ns: int) -> _Losses:
        """Those of the worst path from switch to switch."""
        paths = {self._fabric.between(src, dst, path_id) for path_id in range(N_PATH_IDS)}
        ways = []
        for path in paths:
            measured = [self._loss(port_id, now_ns) for port_id in path or ()]
            known = [loss for loss in measured if loss is not None]
            least = of_path(loss.least for loss in known)
            ways.append(_Losses(least, of_path(loss.loss for loss in known), bool(known)))
        return max(ways)

    def _report_lossy(self, now_ns: int) -> None:
        present = [port_id for link in self._fabric.links() for port_id in link]
        for port_id in present:
            loss = self._loss(port_id, now_ns)
            if loss is None and port_id not in self._lossy_links:
                continue
            told = _Losses(loss.least, loss.loss, known=True) if loss else _UNKNOWN
            lossy = self._judge(self._lossy_links, port_id, [told], now_ns)
            if lossy is not None:
                fields: dict[str, object] = {
                    "port": str(port_id),
                    "peer": str(self._fabric.peer(port_id)),
                    "loss": round(loss.loss, 6) if loss else None,
                    "error": round(loss.error, 6) if loss else None,
                }
                self._emit(Record("link_lossy" if lossy else "link_clean", fields))
        for port_id in self._lossy_links.keys() - present:
            del self._lossy_links[port_id]

    # Entries

    def install(self, now_ns: int) -> None:
        """Bring the entries of the switches in step with the decisions and with the links."""
        if not self._stale and self._installed_version == self._fabric.version:
            return
        self._stale, self._installed_version = False, self._fabric.version
        wanted = dict(self._wanted())
        for hop in sorted(self._hops.keys() - wanted.keys()):
            self._tables.remove(hop.switch, ProtectedHop(hop.destination, 0).key)
            self._tell("protection_off", hop, self._hops[hop], now_ns)
        for hop, port in wanted.items():
            self._tables.put(hop.switch, ProtectedHop(hop.destination, port))
            if hop not in self._hops:
                self._tell("protection_on", hop, port, now_ns)
        self._hops = wanted

    def _wanted(self) -> Iterator[tuple[_Hop, int]]:
        """The protected ports that are to be used; what is not seen yet first, which gives way."""
        for hop, port in list(self._adopted.items()):
            if not self._fabric.is_presumed(PortId(hop.switch, port)):
                del self._adopted[hop]
            elif _ends(*hop) in self._lossy_ns:
                yield hop, port
        taken = set()
        for a, b in sorted(self._fabric.protected_links()):
            ends = _ends(a.switch, b.switch)
            # Of parallel links one will do.
            if ends in self._lossy_ns and ends not in taken:
                taken.add(ends)
                yield _Hop(a.switch, b.switch), a.port
                yield _Hop(b.switch, a.switch), b.port

    def _tell(self, event: str, hop: _Hop, port: int, now_ns: int) -> None:
        losses = self._losses(hop.switch, hop.destination, now_ns)
        fields: dict[str, object] = {
            "switch": hop.switch,
            "destination": datapath_id(hop.destination),
            "port": str(PortId(hop.switch, port)),
            "loss": round(losses.probable, 6) if losses.known else None,
        }
        if event == "protection_off":
            fields["reason"] = self._why_not(hop)
        self._emit(Record(event, fields))

    def _why_not(self, hop: _Hop) -> str:
        if not self._settings.ports:
            return "settings"
        return "link" if _ends(*hop) in self._lossy_ns else "loss"


def _ends(switch: int, other: int) -> _Ends:
    return _Ends(min(switch, other), max(switch, other))
