"""Ports that exceed their packet-in budget: reported when it begins and when it ends."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from controller.core.topology.fabric import Fabric
from controller.model.effects import Effect, Record, Warn
from controller.model.packet_ins import OverBudget
from controller.model.values import PortId

QUIET_NS = 10 * 10**9

_LIMIT = 4096


@dataclass(slots=True)
class Offender:
    """A port that is, or was until a moment ago, over budget with a class of packet-ins."""

    port: PortId
    packets: str
    dropped_per_s: float
    dropped: int
    since_ns: int
    seen_ns: int


class Offenders:
    """Reports when a port begins to be limited, and when it has not been for QUIET_NS.

    `dropped` counts all packet-ins that were over budget, by port and class.
    """

    def __init__(self, fabric: Fabric, emit: Callable[[Effect], None]) -> None:
        self._fabric = fabric
        self._emit = emit
        self._active: dict[tuple[PortId, str], Offender] = {}
        self.dropped: dict[tuple[PortId, str], int] = {}

    @property
    def active(self) -> list[Offender]:
        """The ports and classes that are limited now."""
        return list(self._active.values())

    def report(self, switch: int, over_budget: Iterable[OverBudget], now_ns: int) -> None:
        """Packet-ins that a switch or the controller has dropped lately."""
        for port, packets, dropped, per_s in over_budget:
            key = PortId(switch, port), packets.word
            if key in self.dropped or len(self.dropped) < _LIMIT:
                self.dropped[key] = self.dropped.get(key, 0) + dropped
            offender = self._active.get(key)
            if offender is not None:
                offender.dropped_per_s = per_s
                offender.dropped += dropped
                offender.seen_ns = now_ns
            elif len(self._active) < _LIMIT:
                self._active[key] = Offender(*key, per_s, dropped, now_ns, now_ns)
                self._begin(self._active[key])

    def tend(self, now_ns: int) -> None:
        """Report the ports that have not been over budget for QUIET_NS."""
        for key, offender in list(self._active.items()):
            if now_ns - offender.seen_ns >= QUIET_NS:
                del self._active[key]
                fields = self._fields(offender) | {"dropped": offender.dropped}
                self._emit(Record("packet_ins_in_budget", fields))
                text = f"is within its budget of {offender.packets} packet-ins again"
                text = f"{self._where(offender)} {text}: {offender.dropped} were dropped"
                self._emit(Warn(offender.port.switch, text))

    def forget(self, switch: int) -> None:
        """A switch is gone for good."""
        for known in (self._active, self.dropped):
            for key in [key for key in known if key[0].switch == switch]:
                del known[key]

    def _begin(self, offender: Offender) -> None:
        fields = self._fields(offender)
        per_s = round(offender.dropped_per_s)
        self._emit(Record("packet_ins_limited", fields | {"dropped_per_s": per_s}))
        text = f"is over its budget of {offender.packets} packet-ins by {per_s} a second"
        self._emit(Warn(offender.port.switch, f"{self._where(offender)} {text}"))

    def _where(self, offender: Offender) -> str:
        if not offender.port.port:
            return "some port"
        hosts = ", ".join(self._hosts(offender.port)) or "no known host"
        return f"port {offender.port.port} ({hosts})"

    def _fields(self, offender: Offender) -> dict[str, object]:
        return {
            "port": str(offender.port),
            "class": offender.packets,
            "hosts": self._hosts(offender.port),
        }

    def _hosts(self, port_id: PortId) -> list[str]:
        return [host.mac.hex(":") for host in self._fabric.hosts_at(self._fabric.place(port_id))]
