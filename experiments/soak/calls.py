"""Connections of mixed lifetimes between hosts that come, move and go, as a network reports them.

They are the truth that the controller's view is compared with: ``open`` are the connections that
are established, ``vanished`` those whose end nobody reported.
"""

import functools
import heapq
import itertools
from collections import Counter
from collections.abc import Callable
from random import Random

from controller.core.flows.relearning import RELEARN_AFTER_NS
from controller.model.flow import ACK, FIN, RST, SYN, FlowKey
from controller.southbound.switch import encoding, pipeline
from experiments.soak.fake_switch import Held
from experiments.soak.hosts import Call, Host, Place
from experiments.soak.network import EDGES, HOST_PORTS, Network

_SERVICES = (80, 443, 5001, 9000)
_FIRST_PORT, _PORTS = 20_000, 4_000
_IPV6, _HALF_OPEN, _RESET, _REPLACED, _VANISHING = 0.25, 0.02, 0.1, 0.005, 0.3
# Share, mean lifetime (s), rate of the client's and of the server's data.
_KINDS = (
    (0.90, 0.2, (0, 0)),
    (0.08, 3.0, (8_000, 8_000)),
    (0.018, 60.0, (20_000, 20_000)),
    (0.002, 60.0, (20_000, 5_000_000)),
)
_PACKET_BYTES = 1000
# Most connections are to few hosts: every so many-th is a server.
_TO_SERVERS, _SERVER_EVERY = 0.95, 6
_AGAIN_S = 0.5
# A port that just came up may lead to a switch yet, as far as a controller can tell.
_BOOT_S = 0.6
_DOWN_S = 0.5
_AWAY_S = 1.0
_READ_S, _READY_S = 0.5, 0.5
# A controller that did not hear a switch forgets the connections that may have ended meanwhile, and
# looks after RELEARN_AFTER_NS which of them go on.
_RELEARNT_S = RELEARN_AFTER_NS / 1e9 + 2.0
_KEPT_PER_EDGE = 2
_KEPT_CALLS = 50


class Calls:
    """``place_of_probe`` is the place of the host whose connections stay, by edge. ``done``
    counts what has happened, by kind."""

    def __init__(self, network: Network, rng: Random) -> None:
        self.open: dict[FlowKey, Call] = {}
        self.vanished: dict[Call, float] = {}
        self.done: Counter[str] = Counter()
        self.now_s = 0.0
        self._network = network
        self._rng = rng
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._number = itertools.count()
        self._hosts: list[Host] = []
        self._servers: list[Host] = []
        self._free: list[Place] = []
        self._n_hosts = 0
        self._asked: set[int] = set()
        self._resumes_s = dict.fromkeys(network.switches, 0.0)
        self._relearnt_s = 0.0
        self._at: dict[Place, Host] = {}
        network.on_delivery = self._delivered
        for edge, switch in network.switches.items():
            switch.counters = self._counters
            switch.on_entry = self._on_entry(edge)

    def populate(self) -> None:
        """Put a host at most ports, and open the connections of the probes."""
        probes, peers = [], []
        for edge in range(1, EDGES + 1):
            for port in range(1, HOST_PORTS - _KEPT_PER_EDGE + 1):
                if port % 8:
                    self._come(Place(edge, port))
                else:
                    self._free.append(Place(edge, port))
            probes.append(self._settle(Place(edge, HOST_PORTS)))
            peers.append(self._settle(Place(edge, HOST_PORTS - 1)))
        for edge in range(EDGES):
            for number in range(_KEPT_CALLS):
                peer = peers[(edge + 1) % EDGES]
                call = Call(peer, probes[edge], (1024 + number, 80), False, number, (8_000, 8_000))
                self._later(1.0, functools.partial(self._open, call))

    @staticmethod
    def place_of_probe(edge: int) -> Place:
        """The place of the host that keeps its connections."""
        return Place(edge, HOST_PORTS)

    def advance(self, now_s: float) -> None:
        """Do what is due."""
        self.now_s = now_s
        while self._due and self._due[0][0] <= now_s:
            heapq.heappop(self._due)[2]()

    def begin(self) -> None:
        """Begin another connection, of any kind."""
        rng = self._rng
        client = rng.choice(self._hosts)
        server = rng.choice(
            self._servers if self._servers and rng.random() < _TO_SERVERS else self._hosts
        )
        if client is server or not (self._heard(client) and self._heard(server)):
            return
        ports = _FIRST_PORT + next(self._number) % _PORTS, rng.choice(_SERVICES)
        shares = [kind[0] for kind in _KINDS]
        _, lifetime_s, rates_bps = rng.choices(_KINDS, shares)[0]
        ipv6 = rng.random() < _IPV6
        call = Call(client, server, ports, ipv6, rng.getrandbits(32), rates_bps)
        if rng.random() < _HALF_OPEN:
            self._say(call, True, SYN)
            self.done["half-open"] += 1
            return
        self._open(call)
        self._later(rng.expovariate(1 / lifetime_s), lambda: self._end(call))
        if rng.random() < _REPLACED:
            again = Call(client, server, ports, ipv6, rng.getrandbits(32), rates_bps)
            self._later(rng.uniform(0, lifetime_s), lambda: self._replace(call, again))

    # What changes in the network: each returns False if it cannot be done at present.

    def flap(self) -> bool:
        """Take a port down and up; its host and its connections outlive it."""
        host = self._rng.choice(self._hosts)
        if not (host.up and host.place is not None and self._ready(host.place.switch)):
            return False
        place = host.place
        self._take_down(host)
        self._later(_DOWN_S, lambda: self._come(place, host))
        self.done["flaps"] += 1
        return True

    def move(self) -> bool:
        """Move a host to another port; it keeps its connections."""
        host = self._rng.choice(self._hosts)
        if not host.up or host.place is None or not self._free:
            return False
        to = self._free.pop(self._rng.randrange(len(self._free)))
        if not (self._ready(to.switch) and self._ready(host.place.switch)):
            self._free.append(to)
            return False
        self._free.append(host.place)
        self._take_down(host)
        self._later(_DOWN_S, lambda: self._come(to, host))
        self.done["moves"] += 1
        return True

    def replace_host(self) -> bool:
        """Remove a host for good, with some of its connections unreported, and add another one."""
        host = self._rng.choice(self._hosts)
        if not (host.up and host.place is not None and self._ready(host.place.switch)):
            return False
        for call in list(host.calls):
            if self._rng.random() < _VANISHING or not self._end_now(call, reset=True):
                self._forget(call)
                self.vanished[call] = self.now_s
        place = host.place
        self._take_down(host)
        self._hosts.remove(host)
        if host in self._servers:
            self._servers.remove(host)
        self._later(_DOWN_S, lambda: self._come(place))
        self.done["hosts replaced"] += 1
        return True

    def reconnect(self, edge: int) -> bool:
        """Disconnect a switch for a moment, in which nothing happens there.

        The controller has read all earlier messages first; otherwise the truth would not be known.
        """
        if not self._ready(edge):
            return False
        self._resumes_s[edge] = self.now_s + 3600
        self._later(_READ_S, lambda: self._network.disconnect(edge))
        self._later(_READ_S + _AWAY_S, lambda: self._return(edge))
        self.done["reconnects"] += 1
        return True

    def wind_up(self) -> None:
        """End everything that is open but for the connections of the probes."""
        for call in self._passing():
            self._end(call)

    @property
    def wound_up(self) -> bool:
        """Whether no connections but those of the probes are open."""
        return not self._passing()

    def _passing(self) -> list[Call]:
        calls = set(self.open.values())
        return [call for call in calls if call.client in self._hosts or call.server in self._hosts]

    @property
    def all_known(self) -> bool:
        """Whether every switch is connected at present, and none had to be relearnt just now."""
        return self.now_s >= self._relearnt_s and all(map(self._ready, self._resumes_s))

    @property
    def flows(self) -> int:
        """The number of flows between hosts that are both there, two to a connection."""
        return sum(call.client.up and call.server.up for call in self.open.values())

    def addresses(self) -> set[bytes]:
        """The Ethernet addresses of all hosts that are there."""
        hosts = {*self._hosts, *(end for c in self.open.values() for end in (c.client, c.server))}
        return {host.mac for host in hosts if host.up}

    # Connections

    def _open(self, call: Call) -> None:
        if not (self._heard(call.client) and self._heard(call.server)):
            return
        known = self.open.get(call.key)
        if known is not None:
            self._forget(known)
        self._say(call, True, SYN)
        self._say(call, False, SYN | ACK)
        call.begun_s = self.now_s
        self.open[call.key] = self.open[call.key.reverse] = call
        call.client.calls.add(call)
        call.server.calls.add(call)
        self.done["opened"] += 1

    def _replace(self, call: Call, again: Call) -> None:
        if not call.over and self.open.get(call.key) is call:
            self._open(again)
            self._later(self._rng.expovariate(1), lambda: self._end(again))
            self.done["replaced"] += 1

    def _end(self, call: Call) -> None:
        if not call.over and not self._end_now(call, self._rng.random() < _RESET):
            self._later(_AGAIN_S, lambda: self._end(call))

    def _end_now(self, call: Call, reset: bool) -> bool:
        """End a connection; returns False if the controller cannot be told at present."""
        if self.open.get(call.key) is not call:
            call.over = True
            return True
        if not (self._heard(call.client) and self._heard(call.server)):
            return False
        if reset:
            self._say(call, self._rng.random() < 0.5, RST)
        else:
            self._say(call, True, FIN | ACK)
            self._say(call, False, FIN | ACK)
        self._forget(call)
        self.done["reset" if reset else "finished"] += 1
        return True

    def _forget(self, call: Call) -> None:
        call.over = True
        del self.open[call.key], self.open[call.key.reverse]
        call.client.calls.discard(call)
        call.server.calls.discard(call)

    def _say(self, call: Call, by_client: bool, flags: int, payload: bytes = b"") -> None:
        host = call.client if by_client else call.server
        assert host.place is not None
        self._network.enter(host.place, call.segment(by_client, flags, payload))

    def _counters(self, match: bytes) -> tuple[int, int]:
        """Packets and bytes of an entry."""
        try:
            flow = encoding.counted_flow(match)
        except ValueError:
            return 0, 0
        call = self.open.get(flow)
        if call is None:
            return 0, 0
        rate_bps = call.rates_bps[flow != call.key]
        n_bytes = int(rate_bps / 8 * (self.now_s - call.begun_s))
        return n_bytes // _PACKET_BYTES, n_bytes

    # Hosts and switches

    def _come(self, place: Place, host: Host | None = None) -> None:
        if not self._ready(place.switch) and self.now_s:
            self._later(_AGAIN_S, lambda: self._come(place, host))
            return
        if host is None:
            self._n_hosts += 1
            host = Host(self._n_hosts)
            self._hosts.append(host)
            if host.number % _SERVER_EVERY == 0:
                self._servers.append(host)
        host.place = place
        self._at[place] = host
        if not self._network.switches[place.switch].ports[place.port]:
            self._network.switches[place.switch].set_port(place.port, up=True)
        arrived = host
        self._later(_BOOT_S, lambda: self._introduce(arrived))

    def _settle(self, place: Place) -> Host:
        """Add a host that is not one of those that come and go."""
        self._come(place)
        host = self._hosts.pop()
        if host in self._servers:
            self._servers.remove(host)
        return host

    def _introduce(self, host: Host) -> None:
        assert host.place is not None
        if not self._ready(host.place.switch):
            self._later(_AGAIN_S, lambda: self._introduce(host))
            return
        self._network.enter(host.place, host.introduction())
        host.up = True

    def _delivered(self, place: Place, frame: bytes) -> None:
        """A frame was sent to a host. The host answers if the frame asks for its address."""
        host = self._at.get(place)
        if host is not None and host.place == place and self._heard(host):
            answer = host.answer(frame)
            if answer is not None:
                self._network.enter(place, answer)
                self.done["answers"] += 1

    def _take_down(self, host: Host) -> None:
        assert host.place is not None
        host.up = False
        self._network.switches[host.place.switch].set_port(host.place.port, up=False)

    def _return(self, edge: int) -> None:
        self._network.connect(edge)
        self._resumes_s[edge] = self.now_s + _READY_S
        self._relearnt_s = self.now_s + _RELEARNT_S

    def _ready(self, edge: int) -> bool:
        return self.now_s >= self._resumes_s[edge]

    def _heard(self, host: Host) -> bool:
        """Whether the controller receives what a host sends at present."""
        return host.up and host.place is not None and self._ready(host.place.switch)

    def _on_entry(self, edge: int) -> Callable[[object, Held], None]:
        def on_entry(_place: object, held: object) -> None:
            if (
                getattr(held, "cookie", 0) & 0xFF == pipeline.Kind.RELEARN
                and edge not in self._asked
            ):
                self._asked.add(edge)
                self._later(0.1, lambda: self._talk(edge))

        return on_entry

    def _talk(self, edge: int) -> None:
        """Send data of the connections of an edge that the controller does not count."""
        self._asked.discard(edge)
        entries = self._network.switches[edge].entries
        counted = set()
        for place, held in entries.items():
            if held.cookie & pipeline.FLOW_COUNTER_COOKIE_MASK == pipeline.FLOW_COUNTER_COOKIE:
                counted.add(encoding.counted_flow(place.match))
        for call in set(self.open.values()):
            if call.key in counted:
                continue
            for by_client, host in ((True, call.client), (False, call.server)):
                if host.place is not None and host.place.switch == edge and self._heard(host):
                    self._say(call, by_client, ACK, b"data")
                    break

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now_s + seconds, next(self._number), what))
