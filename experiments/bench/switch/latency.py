"""How soon the switch does what a controller asks, and how soon a controller hears of a queue.

ACKs flow densely, up to 20,000 a second, so that the time until the first ACK after a change is the
switch's and not the traffic's. Peers: the same change by FLOW_MOD with the immediate action (the
paper's way), and a FLOW_MOD with an action that an unpatched switch has, too, on that.
"""

import random
import struct
import time
from collections.abc import Callable, Mapping

from controller.southbound.codec import extension, openflow
from controller.southbound.codec.extension import (
    MessageType,
    TcpRwnd,
    TcpRwndRegister,
    Window,
    WindowSet,
)
from controller.southbound.codec.match import ETH_TYPE, IP_PROTO, Match, output
from controller.southbound.codec.openflow import FlowEntry, FlowModCommand
from experiments.bench.switch.channel import Channel, message
from experiments.bench.switch.unpatched import unpatched_prefix
from experiments.network import frames
from experiments.network.bridge import Network
from experiments.statistics import percentile
from experiments.traffic.program import Program
from testbed.ovs import find_prefix
from testbed.sandbox import RUN_DIR

_SAMPLES = 400
_INTERVAL_US = 50
_RAW_WINDOW = 12
_TTL_MS = 60_000
_RATE_BPS = 100_000_000
_LIMIT_BYTES = 65_536
# Half more than the queue holds: it crosses thresholds even while the sender is being held up.
_BURST_FRAMES = 65
# More than OVS waits between two revalidations, so that no sample queues behind the one before.
_PAUSE_S = (0.005, 0.015)

_PLAIN = {"window": frames.WINDOW, "dscp": 0}
_LOWERED = _PLAIN | {"window": _RAW_WINDOW}
_MARKED = _PLAIN | {"dscp": 46}
# OFPAT_SET_FIELD of ip_dscp, padded to a multiple of 8.
_SET_DSCP = struct.pack("!HHHBBB7x", 25, 16, 0x8000, 8 << 1, 1, _MARKED["dscp"])

_LOG = RUN_DIR / "frames.log"
_TCP: Match = ((ETH_TYPE, b"\x08\x00", None), (IP_PROTO, b"\x06", None))


def run(progress: Callable[[str], None]) -> dict[str, float]:
    """Measure; see ``experiments.bench``. Seeds are fixed: what varies is the machine."""
    rng = random.Random(1)
    figures: dict[str, float] = {}
    with Network(find_prefix(), 2) as network, Channel(network.ovs) as channel:
        network.deliver()
        progress(f"{_SAMPLES} windows by register")
        by_register = _flow(TcpRwndRegister(register=1, window_scale=0).pack())
        samples = _changes(
            network, channel, rng, _window_set(_RAW_WINDOW), _window_set(0), _LOWERED, by_register
        )
        figures |= _percentiles("window_set_to_first_ack", samples)
        progress(f"{_SAMPLES} windows by flow entry")
        lower = _flow(TcpRwnd(_RAW_WINDOW).pack())
        samples = _changes(network, channel, rng, lower, _flow(b""), _LOWERED)
        figures |= _percentiles("flow_mod_to_first_ack", samples)
        progress(f"{_SAMPLES} bursts into a queue")
        figures |= _percentiles("queue_event", _queue_events(network, channel, rng))
    with Network(unpatched_prefix(), 2) as network, Channel(network.ovs) as channel:
        network.deliver()
        progress(f"{_SAMPLES} changes by flow entry, unpatched")
        samples = _changes(network, channel, rng, _flow(_SET_DSCP), _flow(b""), _MARKED)
        figures |= _percentiles("stock_flow_mod_to_first_ack", samples)
    return figures


def _percentiles(name: str, samples_us: list[float]) -> dict[str, float]:
    return {
        f"{name}_p50_us": percentile(samples_us, 50),
        f"{name}_p99_us": percentile(samples_us, 99),
    }


def _program(network: Network, host: int, what: str, *options: str) -> Program:
    pid = network.hosts[host - 1].pid
    return Program("experiments.network.frames", [what, *options], log=_LOG, pid=pid)


def _flow(actions: bytes) -> bytes:
    """The FLOW_MOD that gives the ACKs these actions, and sends them to host 1."""
    entry = FlowEntry(table=0, priority=10, cookie=1, match=_TCP, actions=actions + output(1))
    return openflow.flow_mod(FlowModCommand.ADD, entry, 0)


def _window_set(window_bytes: int) -> bytes:
    ttl_ms = _TTL_MS if window_bytes else 0
    window = Window(register=1, window_bytes=window_bytes, ttl_ms=ttl_ms)
    return message(MessageType.WINDOW_SET, WindowSet((window,)).pack())


def _changes(
    network: Network,
    channel: Channel,
    rng: random.Random,
    change: bytes,
    restore: bytes,
    changed: Mapping[str, int],
    before: bytes | None = None,
) -> list[float]:
    """Times from ``change`` leaving the socket to the first ACK that is ``changed``, in us.

    ``before`` is a message to be sent ahead of all, ``restore`` if there is none.
    """
    samples = []
    with (
        _program(network, 1, "changes") as changes,
        _program(network, 2, "acks", "--interval-us", str(_INTERVAL_US)) as acks,
    ):
        changes.expect("ready")
        channel.send(before or restore)
        channel.barrier()
        acks.expect("ready")
        _expect(changes, _PLAIN)
        for _ in range(_SAMPLES):
            time.sleep(rng.uniform(*_PAUSE_S))
            sent_ns = time.time_ns()
            channel.send(change)
            samples.append((_expect(changes, changed) - sent_ns) / 1000)
            time.sleep(rng.uniform(*_PAUSE_S))
            channel.send(restore)
            _expect(changes, _PLAIN)
        acks.finish()
    return samples


def _expect(changes: Program, fields: Mapping[str, int]) -> int:
    """When the ACKs changed so (CLOCK_REALTIME, ns). Raises ValueError if they changed
    otherwise."""
    seen = changes.expect("change")
    if seen["fields"] != fields:
        raise ValueError(f"the ACKs became {seen['fields']}, not {fields}")
    return int(seen["time_ns"])


def _queue_events(network: Network, channel: Channel, rng: random.Random) -> list[float]:
    """Times in us from a crossing, as the switch stamps it, to the notice at the subscriber."""
    network.set_queue(1, max_rate=_RATE_BPS, limit_bytes=_LIMIT_BYTES, cr_hold_ms=1)
    channel.subscribe()
    samples: list[float] = []
    with _program(network, 2, "bursts") as bursts:
        bursts.expect("ready")
        while len(samples) < _SAMPLES:
            time.sleep(rng.uniform(*_PAUSE_S))
            bursts.tell(str(_BURST_FRAMES))
            samples += _until_release(channel)
    return samples


def _until_release(channel: Channel) -> list[float]:
    """Delays of the notices of one episode, in us; CR, which a timer sends, only ends it."""
    delays: list[float] = []
    realtime_ns = time.time_ns() - time.monotonic_ns()
    while True:
        notice = channel.receive(openflow.Type.EXPERIMENTER)
        _, kind, body = openflow.unpack_experimenter(notice)
        event = extension.unpack(kind, body)
        assert isinstance(event, extension.QueueEvent)
        if event.event == 3:
            return delays
        delays.append((channel.arrived_ns - realtime_ns - event.time_ns) / 1000)
