"""How many new connections a second a controller handles, on one processor.

Every connection has a 5-tuple of its own and its whole life: SYN, SYN-ACK, and a FIN from either
side, in packet-ins of one switch. Its peer is an ordinary Ryu application, with and without flow
entries, which take most of its time. They take turns, so that a machine that is slower for a while
is slower for all. ``longest_loop_stall_ms`` is the longest turn of the controller's main loop under
this load, in processor time.
"""

import statistics
import time
from collections.abc import Callable

from controller.cli.client import Client
from experiments.bench.controller.fake_switch import HOSTS, FakeSwitch, notice
from experiments.bench.controller.handshakes import left_open, lives
from experiments.bench.controller.process import ControllerProcess, StockRyu, Weir
from testbed.sandbox import RUN_DIR

_TURNS = 3
_CONNECTIONS = 100_000
_CONNECTIONS_OF_STOCK = 4_000


def run(progress: Callable[[str], None]) -> dict[str, float]:
    """Measure; see ``experiments.bench``."""
    rates: dict[str, list[float]] = {}
    stalls_ms = []
    for turn in range(_TURNS):
        directory = RUN_DIR / f"turn{turn}"
        directory.mkdir()
        socket = str(directory / "weir.sock")
        with Weir(directory, sections={"northbound": {"socket": socket}}) as weir:
            per_s, per_processor_s = _weir(weir, turn)
            turns = Client(socket).ask("controller")["delays"]["main_loop_turn"]
        stalls_ms.append(1e3 * turns["longest_s"])
        rates.setdefault("new_connections_per_s", []).append(per_s)
        rates.setdefault("new_connections_per_processor_s", []).append(per_processor_s)
        for name, flow_mods in (
            ("stock_ryu_per_s", True),
            ("stock_ryu_without_flow_mods_per_s", False),
        ):
            with StockRyu(directory, flow_mods=flow_mods) as ryu, ryu.connect() as switch:
                switch.settle()
                rates.setdefault(name, []).append(
                    _live(ryu, switch, turn, _CONNECTIONS_OF_STOCK)[0]
                )
        told = ", ".join(f"{values[-1]:,.0f}" for values in rates.values())
        progress(f"turn {turn + 1} of {_TURNS}: {told} a second")
    figures = {name: statistics.median(values) for name, values in rates.items()}
    ours = figures["new_connections_per_s"]
    return figures | {
        "longest_loop_stall_ms": max(stalls_ms),
        "ratio": ours / figures["stock_ryu_per_s"],
        "ratio_without_flow_mods": ours / figures["stock_ryu_without_flow_mods_per_s"],
    }


def _weir(weir: Weir, turn: int) -> tuple[float, float]:
    with weir.connect() as switch:
        switch.introduce()
        rates = _live(weir, switch, turn, _CONNECTIONS)
        # Each connection's data leave by two ports, one for either direction.
        between, after = (
            sum(weir.burst_flows(port, 2)[i] for port in range(1, HOSTS + 1)) for i in (0, 1)
        )
        if (between, after) != (2 * left_open(_CONNECTIONS), 0):
            raise RuntimeError(f"the controller counted {between} and then {after} flows")
    return rates


def _live(
    controller: ControllerProcess, switch: FakeSwitch, turn: int, n: int
) -> tuple[float, float]:
    """Connections a second, of wall-clock and of processor time."""
    most, rest = lives(turn * n, n)
    count = [b"".join(notice(3, port, i) for port in range(1, HOSTS + 1)) for i in (1, 2)]
    used_s, begun_s = controller.processor_s(), time.monotonic()
    switch.send(most)
    if isinstance(controller, Weir):
        switch.settle()  # Notices overtake.
        switch.send(count[0])
    switch.send(rest)
    if isinstance(controller, Weir):
        switch.settle()
        switch.send(count[1])
    switch.settle()
    return n / (time.monotonic() - begun_s), n / (controller.processor_s() - used_s)
