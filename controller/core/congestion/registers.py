"""The window registers of egress ports: a pair each, even for burst, odd for background flows."""

from controller.model.values import FlowClass, PortId

_PARITY = {FlowClass.BURST: 0, FlowClass.BACKGROUND: 1}


class Registers:
    """Allocates register pairs. A pair belongs to its port until it is freed."""

    def __init__(self) -> None:
        self._pairs_available: dict[int, int] = {}
        self._pairs: dict[PortId, int] = {}
        self._used: dict[int, set[int]] = {}

    def connect(self, switch: int, n_registers: int) -> None:
        """A switch has so many registers (0: it cannot lower windows)."""
        self._pairs_available[switch] = n_registers // 2

    def any(self, switch: int) -> bool:
        """Whether a switch has registers."""
        return self._pairs_available.get(switch, 0) > 0

    def usage(self, switch: int) -> tuple[int, int]:
        """How many registers of a switch belong to ports, and how many it has."""
        used = len(self._used.get(switch, ()))
        return 2 * used, 2 * self._pairs_available.get(switch, 0)

    def free(self, port: PortId) -> None:
        """The port is gone, and every entry that names its registers."""
        pair = self._pairs.pop(port, None)
        if pair is not None:
            self._used[port.switch].discard(pair)

    def forget(self, switch: int) -> None:
        """A switch is gone for good, and every entry that names a register of it."""
        for port in [port for port in self._pairs if port.switch == switch]:
            self.free(port)
        self._pairs_available.pop(switch, None)
        self._used.pop(switch, None)

    def adopt(self, port: PortId, register: int) -> None:
        """Keep the register that an entry on the switch names, unless it is taken."""
        pair = register >> 1
        used = self._used.setdefault(port.switch, set())
        if (
            port not in self._pairs
            and pair not in used
            and pair < self._pairs_available[port.switch]
        ):
            self._pairs[port] = pair
            used.add(pair)

    def register(self, port: PortId, cls: FlowClass) -> int | None:
        """The register of a flow class at a port; None if the switch has none left."""
        pair = self._pairs.get(port)
        available = self._pairs_available.get(port.switch, 0)
        if pair is None:
            used = self._used.setdefault(port.switch, set())
            pair = next((pair for pair in range(available) if pair not in used), None)
            if pair is None:
                return None
            self._pairs[port] = pair
            used.add(pair)
        if pair >= available:
            return None
        return 2 * pair + _PARITY[cls]
