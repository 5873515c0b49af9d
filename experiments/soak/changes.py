"""Random changes of a switch's configuration, one by one, as an operator's tools make them."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from experiments.soak import peers, records
from experiments.soak.messages import REGISTERS
from testbed.command import CommandError, run
from testbed.ovs import Ovs

BRIDGES = ("br0", "br1")
# Those that flows name, and that are set most often.
_USED_REGISTERS = 2
# ovs-vsctl ends itself with SIGALRM when the switch does not do what the database says in time.
_STUCK = (None, -14)
_FRAME = (
    "in_port(1),eth(src=50:54:00:00:00:0{},dst=50:54:00:00:00:0{}),eth_type(0x0800),"
    "ipv4(src=10.9.0.1,dst=10.9.0.2,proto={},tos={},ttl=64,frag=no)"
)
_EXTRA = ("dummy", "dummy", "tap", "internal", "veth")


class StuckError(RuntimeError):
    """The switch does not answer any more; the text names the request."""


class Changes:
    """A switch with two bridges; ``hosts`` are devices that are always there, ports that are not.

    ``done`` and ``refused`` count by kind of change. A refusal is no fault: absurd values must be
    refused.
    """

    def __init__(self, ovs: Ovs, hosts: list[str], seed: int, log: TextIO) -> None:
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._ovs = ovs
        self._hosts = hosts
        self._rng = random.Random(f"{seed} changes")
        self._log = log
        self._bridges: dict[str, set[str]] = {}
        self._queues: dict[str, str] = {}
        self._kinds: dict[str, str] = {}
        self._number = 0
        self._changes: dict[Callable[[], None], int] = {
            self._set_queue: 10,
            self._change_queue: 10,
            self._drop_queue: 3,
            self._foreign_queue: 1,
            self._toggle_port: 4,
            self._extra_port: 4,
            self._remove_extra: 4,
            self._toggle_bridge: 1,
            self._flap: 3,
            self._configure: 3,
            self._controllers: 2,
            self._ask: 12,
            self._set_register: 4,
            self._flows: 3,
            self._inject: 6,
        }

    def build(self) -> None:
        """Both bridges, the hosts on the first."""
        for bridge in BRIDGES:
            self._add_bridge(bridge)
        for host in self._hosts:
            self._vsctl("add-port", BRIDGES[0], host)
            self._bridges[BRIDGES[0]].add(host)

    def clear(self) -> None:
        """Remove all bridges, and everything that a change has added."""
        for bridge in list(self._bridges):
            self._remove_bridge(bridge)
        self._vsctl("--all", "destroy", "qos")

    def step(self) -> None:
        """Make one change. Raises StuckError if the switch does not carry it out."""
        change = self._rng.choices(list(self._changes), list(self._changes.values()))[0]
        name = change.__name__.lstrip("_")
        try:
            change()
            self.done[name] += 1
        except CommandError as refusal:
            if refusal.returncode in _STUCK:
                raise StuckError(str(refusal)) from refusal
            self.refused[name] += 1
            self._log.write(f"  refused: {refusal}\n")

    def management_sockets(self) -> list[Path]:
        """Where the bridges listen for whoever calls."""
        return [self._ovs.run_dir / f"{bridge}.mgmt" for bridge in list(self._bridges)]

    # Ports and bridges

    def _ports(self) -> list[str]:
        return sorted(port for ports in self._bridges.values() for port in ports)

    def _add_bridge(self, bridge: str) -> None:
        self._vsctl(
            *("add-br", bridge, "--", "set", "bridge", bridge, "datapath_type=netdev"),
            *("protocols=OpenFlow13", "fail_mode=secure", "other_config:disable-in-band=true"),
        )
        self._bridges[bridge] = set()
        self._ofctl("add-flow", bridge, "actions=NORMAL")

    def _remove_bridge(self, bridge: str) -> None:
        self._vsctl("del-br", bridge)
        for port in (*self._bridges.pop(bridge), bridge):
            self._forget(port)

    def _toggle_bridge(self) -> None:
        bridge = self._rng.choice(BRIDGES)
        if bridge in self._bridges:
            self._remove_bridge(bridge)
        if bridge not in self._bridges and self._rng.random() < 0.9:
            self._add_bridge(bridge)

    def _toggle_port(self) -> None:
        host = self._rng.choice(self._hosts)
        for bridge, ports in self._bridges.items():
            if host in ports:
                self._remove_port(bridge, host)
                return
        if self._bridges:
            # Most often where the other hosts are, so that there is traffic.
            bridge = self._rng.choices(list(self._bridges), (9, 1)[: len(self._bridges)])[0]
            self._vsctl("add-port", bridge, host)
            self._bridges[bridge].add(host)

    def _remove_port(self, bridge: str, port: str) -> None:
        self._vsctl("del-port", bridge, port)
        self._bridges[bridge].discard(port)
        self._forget(port)

    def _extra_port(self) -> None:
        if not self._bridges or len(self._kinds) >= 12:
            return
        bridge, kind = self._rng.choice(list(self._bridges)), self._rng.choice(_EXTRA)
        self._number += 1
        port = f"{kind[0]}{self._number}"
        if kind == "veth":
            run(["ip", "link", "add", port, "type", "veth", "peer", "name", f"{port}p"])
            run(["ip", "link", "set", port, "up"])
            run(["ip", "link", "set", f"{port}p", "up"])
        typed = () if kind == "veth" else ("--", "set", "interface", port, f"type={kind}")
        self._vsctl("add-port", bridge, port, *typed)
        self._kinds[port] = kind
        self._bridges[bridge].add(port)

    def _remove_extra(self) -> None:
        for bridge, ports in self._bridges.items():
            extra = sorted(port for port in ports if port in self._kinds)
            if extra:
                port = self._rng.choice(extra)
                if self._kinds[port] == "veth" and self._rng.random() < 0.5:
                    # The device goes while it is a port, with packets in its queue.
                    run(["ip", "link", "del", port])
                self._remove_port(bridge, port)
                return

    def _forget(self, port: str) -> None:
        # A record can only be destroyed once nothing refers to it in the database.
        if uuid := self._queues.pop(port, None):
            self._vsctl(*_destroy([uuid]))
        if self._kinds.pop(port, None) == "veth" and Path(f"/sys/class/net/{port}").exists():
            run(["ip", "link", "del", port])

    def _flap(self) -> None:
        host = self._rng.choice(self._hosts)
        self._note("ip link set", host, "down and up")
        run(["ip", "link", "set", host, "down"])
        run(["ip", "link", "set", host, "up"])

    # Queues

    def _set_queue(self) -> None:
        port = self._any_port()
        old = self._queues.get(port)
        config = records.columns(records.record(self._rng))
        made = self._vsctl(
            *("set", "port", port, "qos=@q", "--", "--id=@q", "create", "qos", "type=weir"),
            *config, *_destroy([old] if old else []),
        )  # fmt: skip
        self._queues[port] = made.split()[0]

    def _change_queue(self) -> None:
        if not self._queues:
            return
        uuid = self._rng.choice(sorted(self._queues.values()))
        key = self._rng.choice(list(records.SENSIBLE))
        if self._rng.random() < 0.3:
            self._vsctl("remove", "qos", uuid, "other_config", key)
        else:
            text = records.value(key, self._rng)
            self._vsctl("set", "qos", uuid, *records.columns({key: text}))

    def _drop_queue(self) -> None:
        if not self._queues:
            return
        port = self._rng.choice(sorted(self._queues))
        self._vsctl("clear", "port", port, "qos", *_destroy([self._queues[port]]))
        del self._queues[port]

    def _foreign_queue(self) -> None:
        port, kind = self._any_port(), self._rng.choice(("linux-htb", "linux-noop", "no-such"))
        old = self._queues.get(port)
        made = self._vsctl(
            *("set", "port", port, "qos=@q", "--", "--id=@q", "create", "qos", f"type={kind}"),
            *("other_config:max-rate=100000000", *_destroy([old] if old else [])),
        )
        self._queues[port] = made.split()[0]

    # Everything else

    def _configure(self) -> None:
        ready = self._rng.choice(("true", "false"))
        self._vsctl("set", "open_vswitch", ".", f"other_config:rxq-poll-ready={ready}")

    def _controllers(self) -> None:
        if not self._bridges:
            return
        bridge = self._rng.choice(list(self._bridges))
        targets = [f"tcp:127.0.0.1:{peers.PORT}"] * self._rng.choice((0, 1, 1))
        # Different spellings of one address are different controllers.
        targets += [f"tcp:127.0.0.{2 + n}:{peers.PORT}" for n in range(self._rng.choice((0, 1, 5)))]
        self._vsctl("set-controller" if targets else "del-controller", bridge, *targets)

    def _ask(self) -> None:
        rng = self._rng
        port = rng.choice([*self._ports(), "no-such-port"])
        records_asked = rng.choice(("", "1", "100", "1000000", "0", "-1", "99999999999999999999"))
        bridge = rng.choice(BRIDGES)
        command = rng.choice(
            (
                ("netdev-egress/show",),
                ("netdev-egress/show", port),
                ("netdev-egress/trace-start", port, *([records_asked] if records_asked else [])),
                ("netdev-egress/trace-start", port),
                ("netdev-egress/trace", port),
                ("netdev-egress/trace-stop", port),
                ("tcp-rwnd/show",),
                ("tcp-rwnd/show", bridge),
                ("netdev-credit/show",),
                ("netdev-credit/show", port),
                ("qos/show", port),
                ("dpctl/dump-flows", "-m", "netdev@ovs-netdev"),
                ("revalidator/purge",),
                ("fdb/flush",),
                ("bridge/reconnect",),
                ("memory/show",),
                ("ofproto/trace", bridge, "in_port=1,tcp,tcp_flags=ack"),
                ("dpif/set-dp-features", bridge, "tcp_rwnd", rng.choice(("true", "false"))),
            )
        )
        self._appctl(*command)

    def _set_register(self) -> None:
        rng = self._rng
        used = str(rng.randrange(_USED_REGISTERS))
        register = rng.choice((used, used, used, str(rng.randrange(REGISTERS)), "-1"))
        window = rng.choice(("1460", "1460", "2920", "0", "99999999999"))
        ttl_ms = rng.choice(("0", "10", "5000", "5000"))
        # In whose account it is: most often that of a host with a queue, or of a port of whichever
        # bridge, or of nobody.
        host = rng.choice([host for host in self._hosts if host in self._queues] or self._hosts)
        accounts = (host,), (host,), (host,), (self._any_port(),), ("no-such-port",), ()
        bridge = rng.choices(BRIDGES, (3, 1))[0]
        arguments = (bridge, register, window, ttl_ms, *rng.choice(accounts))
        self._appctl("tcp-rwnd/set", *arguments)

    def _flows(self) -> None:
        bridge, scale = self._rng.choice(BRIDGES), self._rng.choice((0, 7, 14, "syn"))
        register = self._rng.randrange(_USED_REGISTERS)
        action = f"tcp_rwnd_register(register={register},wscale={scale})"
        flow = f"priority=5,{self._rng.choice(('tcp', 'tcp6'))},actions={action},NORMAL"
        self._ofctl("add-flow", bridge, flow)

    def _inject(self) -> None:
        rng = self._rng
        dummies = [port for port in self._ports() if self._kinds.get(port) == "dummy"]
        if not dummies:
            return
        if rng.random() < 0.5:
            frame = rng.randbytes(rng.choice((0, 13, 14, 60, 1514, 9000))).hex()
        else:
            frame = _FRAME.format(
                *(rng.randrange(4) for _ in range(2)), rng.choice((6, 17, 1)), rng.choice((0, 1, 2))
            )
        self._appctl("netdev-dummy/receive", rng.choice(dummies), frame)

    def _any_port(self) -> str:
        return self._rng.choice([*self._ports(), *self._bridges] or ["no-such-port"])

    def _vsctl(self, *arguments: str) -> str:
        self._note("ovs-vsctl", *arguments)
        return self._ovs.vsctl(*arguments)

    def _appctl(self, *arguments: str) -> None:
        self._note("ovs-appctl", *arguments)
        self._ovs.appctl(*arguments)

    def _ofctl(self, *arguments: str) -> None:
        self._note("ovs-ofctl", *arguments)
        self._ovs.ofctl(*arguments)

    def _note(self, *words: str) -> None:
        self._log.write(f"{' '.join(words)}\n")
        self._log.flush()


def _destroy(uuids: list[str]) -> list[str]:
    return [word for uuid in uuids for word in ("--", "destroy", "qos", uuid)]
