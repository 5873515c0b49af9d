"""How soon the switch does what a controller asks, and how soon a controller hears of a queue.

ACKs flow at a steady 20,000 a second or less, as often as this machine's timers allow, so that the
time until the first ACK after a change is the switch's and not the traffic's (the spacing that
was had is one of the figures). Peers: the same change by FLOW_MOD with the immediate action
(SDTCP's way), and by FLOW_MOD with an action that an unpatched switch has, too.
"""

import random
import time
from collections.abc import Callable

from controller.southbound import extension, openflow
from controller.southbound.extension import MessageType, TcpRwnd, TcpRwndRegister, Window, WindowSet
from controller.southbound.match import ETH_TYPE, IP_PROTO, Match, output
from controller.southbound.openflow import Command, FlowEntry
from experiments.bench import wire
from experiments.bench.channel import Channel, message
from experiments.bench.network import Network, percentile
from experiments.program import Program
from testbed.isolation import RUN_DIR
from testbed.ovs import find_prefix

_SAMPLES = 400
_INTERVAL_US = 50
_RAW_WINDOW = 12
_TTL_MS = 60_000
_RATE_BPS = 100_000_000
_LIMIT_BYTES = 65_536
# Crosses the first two thresholds (30 % and 60 % of 64 KiB) and stays below the third.
_BURST_FRAMES = 30
# More than OVS waits between two revalidations, so that no sample queues behind the one before.
_PAUSE_S = (0.005, 0.015)

_LOG = RUN_DIR / "wire.log"
_TCP: Match = ((ETH_TYPE, b"\x08\x00", None), (IP_PROTO, b"\x06", None))


def run(progress: Callable[[str], None]) -> dict[str, float]:
    """Measure; see ``experiments.bench``. Seeds are fixed: what varies is the machine."""
    rng = random.Random(1)
    with Network(find_prefix(), 2) as network, Channel(network.ovs) as channel:
        network.deliver()
        progress(f"{_SAMPLES} windows by register, {_SAMPLES} by flow entry")
        figures = _windows(network, channel, rng)
        progress(f"{_SAMPLES} bursts into a queue")
        return figures | _queue_events(network, channel, rng)


def _program(network: Network, host: int, what: str, *options: str) -> Program:
    pid = network.hosts[host - 1].pid
    return Program("experiments.bench.wire", [what, *options], log=_LOG, pid=pid)


def _windows(network: Network, channel: Channel, rng: random.Random) -> dict[str, float]:
    to_host_1 = output(1)

    def flow(actions: bytes) -> bytes:
        entry = FlowEntry(table=0, priority=10, cookie=1, match=_TCP, actions=actions + to_host_1)
        return openflow.flow_mod(Command.ADD, entry, 0)

    def window_set(window_bytes: int) -> bytes:
        ttl_ms = _TTL_MS if window_bytes else 0
        window = Window(register=1, window_bytes=window_bytes, ttl_ms=ttl_ms)
        return message(MessageType.WINDOW_SET, WindowSet((window,)).pack())

    figures = {}
    with (
        _program(network, 1, "watch") as watch,
        _program(network, 2, "acks", "--interval-us", str(_INTERVAL_US)) as acks,
    ):
        watch.expect("ready")
        acks.expect("ready")
        channel.send(flow(TcpRwndRegister(register=1, window_scale=0).pack()))
        channel.barrier()
        watch.expect("window")
        by_register = _changes(channel, watch, window_set(_RAW_WINDOW), window_set(0), rng)
        channel.send(flow(b""))
        channel.barrier()
        by_flow = _changes(channel, watch, flow(TcpRwnd(_RAW_WINDOW).pack()), flow(b""), rng)
        acks.finish()
    for name, samples in (("window_set", by_register), ("flow_mod", by_flow)):
        figures[f"{name}_to_first_ack_p50_us"] = percentile(samples, 0.5)
        figures[f"{name}_to_first_ack_p99_us"] = percentile(samples, 0.99)
    return figures


def _changes(
    channel: Channel, watch: Program, lower: bytes, release: bytes, rng: random.Random
) -> list[float]:
    """Times from ``lower`` leaving the socket to the first lowered ACK, in us."""
    samples = []
    for _ in range(_SAMPLES):
        time.sleep(rng.uniform(*_PAUSE_S))
        sent_ns = time.time_ns()
        channel.send(lower)
        seen = watch.expect("window")
        if seen["window"] != _RAW_WINDOW:
            raise ValueError(f"the window became {seen['window']}, not {_RAW_WINDOW}")
        samples.append((seen["time_ns"] - sent_ns) / 1000)
        time.sleep(rng.uniform(*_PAUSE_S))
        channel.send(release)
        seen = watch.expect("window")
        if seen["window"] != wire.WINDOW:
            raise ValueError(f"the window became {seen['window']}, not {wire.WINDOW}")
    return samples


def _queue_events(network: Network, channel: Channel, rng: random.Random) -> dict[str, float]:
    """From the crossing, as the switch stamps it, to the notice in the subscriber's hands."""
    network.set_queue(1, max_rate=_RATE_BPS, limit_bytes=_LIMIT_BYTES, cr_hold_ms=1)
    channel.subscribe()
    samples: list[float] = []
    with _program(network, 2, "bursts") as bursts:
        bursts.expect("ready")
        while len(samples) < _SAMPLES:
            time.sleep(rng.uniform(*_PAUSE_S))
            bursts.tell(str(_BURST_FRAMES))
            samples += _until_release(channel)
    return {
        "queue_event_p50_us": percentile(samples, 0.5),
        "queue_event_p99_us": percentile(samples, 0.99),
    }


def _until_release(channel: Channel) -> list[float]:
    """Delays of the notices of one episode, in us; CR, which a timer sends, only ends it."""
    delays: list[float] = []
    while True:
        notice = channel.receive(openflow.Type.EXPERIMENTER)
        now_ns = time.monotonic_ns()
        _, kind, body = openflow.unpack_experimenter(notice)
        event = extension.unpack(kind, body)
        assert isinstance(event, extension.QueueEvent)
        if event.event == 3:
            return delays
        delays.append((now_ns - event.time_ns) / 1000)
