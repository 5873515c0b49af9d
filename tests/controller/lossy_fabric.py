"""Two edge switches with a lossy path and a protected link between them, in virtual time."""

from controller.core.bandwidth.protection import ProtectionSettings
from controller.core.congestion.regulation import Features
from controller.core.topology.fabric import PORT_GRACE_NS
from controller.model.effects import Effect, ReadPorts
from controller.model.entries import HeldEntry, ProtectedHop
from controller.model.values import Port, PortId
from engine_bench import RECEIVER, SECOND, SENDERS, EngineBench, make_engine

MS = 10**6
E1, E2, S = 1, 2, 3
# The path between E1 and E2 leads over S.
UP1, UP2 = PortId(E1, 39), PortId(E2, 39)
DOWN1, DOWN2 = PortId(S, 1), PortId(S, 2)
ACC1, ACC2 = PortId(E1, 40), PortId(E2, 40)
PATH = ((UP1, DOWN1), (DOWN2, UP2))
PEERS = {a: b for link in PATH for a, b in (link, link[::-1])}
SETTINGS = ProtectionSettings(("acc*",), 1e-3, 2e-4, 30 * SECOND)
PPS = 8000


class Protected(EngineBench):
    """Two edge switches, a switch between them, and a protected link. Every link carries PPS
    packets a second in each direction and loses the part `loss` of each egress port."""

    def __init__(self, settings: ProtectionSettings = SETTINGS, now_ns: int = 100 * SECOND) -> None:
        super().__init__(make_engine(protection=settings), now_ns=now_ns)
        self.loss: dict[PortId, float] = {}
        self.sent: dict[PortId, float] = dict.fromkeys(PEERS, 0.0)
        self.came: dict[PortId, float] = dict.fromkeys(PEERS, 0.0)
        self.pps = dict.fromkeys(PEERS, float(PPS))
        self.acc_up = True
        self.cut: set[int] = set()

    def switch_up(self, switch: int, *survivors: HeldEntry, ports: int = 40) -> list[Effect]:
        seen = super().switch_up(switch, *survivors, ports=ports - 1)
        if switch != S:
            seen += self.set_acc(switch, self.acc_up)
        return seen

    def adopt(self, switch: int, *survivors: HeldEntry) -> list[Effect]:
        """A switch connects, of which all ports are described at once."""
        name = f"acc{switch}"
        ports = [Port(n, name if n == 40 else f"s{n}", bytes(6), up=True) for n in range(1, 41)]
        self.held[switch] = {one.entry.key: one.entry for one in survivors}
        features = Features(self.n_registers, False, tells_queues=True, repeats_notices=True)
        return self.do(self.engine.switch_up(switch, ports, features, survivors, self.now_ns))

    def set_acc(self, switch: int, up: bool) -> list[Effect]:
        port = Port(40, f"acc{switch}", bytes(6), up)
        return self.do(self.engine.port_changed(switch, port, self.now_ns))

    def start(self) -> "Protected":
        for switch in (E1, E2, S):
            self.switch_up(switch)
        self.discover()
        self.now_ns += PORT_GRACE_NS
        self.place(SENDERS[0], PortId(E1, 1))
        self.place(RECEIVER, PortId(E2, 1))
        return self

    def discover(self) -> list[Effect]:
        seen: list[Effect] = []
        for link in (*PATH, (ACC1, ACC2)):
            if (self.acc_up or link[0] != ACC1) and not {end.switch for end in link} & self.cut:
                seen += self.link(*link)
        return seen

    def run(self, seconds: float) -> list[Effect]:
        """Time passes; counters are read when the engine asks for them."""
        seen: list[Effect] = []
        for n in range(round(seconds * 20)):
            self.now_ns += 50 * MS
            for port, peer in PEERS.items():
                packets = self.pps[port] / 20
                self.sent[port] += packets
                self.came[peer] += packets * (1 - self.loss.get(port, 0.0))
            effects = self.do(self.engine.read_port_counters(self.now_ns))
            seen += effects
            for effect in effects:
                if isinstance(effect, ReadPorts):
                    seen += self.answer(effect.switch)
            if n % 5 == 0:
                seen += self.do(self.engine.tend(self.now_ns))
            if n % 20 == 0:
                seen += self.discover()
                seen += self.do(self.engine.probe_links(self.now_ns))
        return seen

    def answer(self, switch: int) -> list[Effect]:
        counted = [
            (port.port, int(self.sent[port]) * 1500, self.now_ns, int(self.sent[port]), came, None)
            for port, came in ((port, int(self.came[port])) for port in PEERS)
            if port.switch == switch
        ]
        return self.do(self.engine.ports_counted(switch, counted, False, self.now_ns))

    @property
    def hops(self) -> dict[int, set[ProtectedHop]]:
        return {switch: self.entries(switch, ProtectedHop) for switch in (E1, E2, S)}

    @property
    def protects(self) -> bool:
        """Whether TCP is protected in both directions; it is never in one alone."""
        hops = self.hops
        if not hops[E1]:
            assert hops == {E1: set(), E2: set(), S: set()}
            return False
        assert hops == {E1: {ProtectedHop(E2, 40)}, E2: {ProtectedHop(E1, 40)}, S: set()}
        return True
