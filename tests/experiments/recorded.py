"""A small recorded run, made up by hand, for tests of what is made from records."""

from typing import Any

import numpy as np

from experiments.measure.record import FORMAT, Run
from experiments.measure.trace import KINDS, QueueTrace
from testbed.config import HostSettings

START_NS = 1_000_000_000_000
MS = 1_000_000
BLOCK_BYTES = 1_000_000


def data(scheme: str = "weir", **changes: Any) -> dict[str, Any]:
    """Return the content of a record: a block of 100 ms, 50 ms of nothing, a block of 150 ms."""
    record: dict[str, Any] = {
        "format": FORMAT,
        "spec": {
            "scheme": scheme,
            "workload": {
                "name": "reads",
                "senders": 2,
                "rounds": 2,
                "block_bytes": BLOCK_BYTES,
                "connections_per_sender": 1,
                "seed": 1,
            },
            "topology": "star",
            "shape": {},
            "rate_bps": 100_000_000,
            "buffer_bytes": 65536,
            "delay_us": 0,
            "background": True,
            "warm_up_s": 1.0,
            "tail_s": 1.0,
            "host": vars(HostSettings()),
            "ovs_prefix": None,
        },
        "environment": {"kernel": "6.1"},
        "roles": {"receiver": "r1", "bottleneck_bps": 100_000_000},
        "hosts": {"r1": host(), "h1": host(), "h2": host()},
        "settings_faults": [],
        "qdisc_faults": [],
        "offload_faults": [],
        "idle_rtt_ms": {
            "min": 0.4,
            "avg": 0.5,
            "max": 0.6,
            "delay": 0.0,
            "links": 0.03,
            "ports": 2,
        },
        "spacing": {
            "gaps": 900,
            "p99_error_us": 60.0,
            "frame_us": 121.12,
            "sent": 6,
            "timed": 6,
            "not_recorded": 0,
        },
        "operations": [
            {
                "start_ns": START_NS,
                "end_ns": START_NS + 100 * MS,
                "bytes": BLOCK_BYTES,
                "completion_ns": [MS, 100 * MS],
            },
            {
                "start_ns": START_NS + 150 * MS,
                "end_ns": START_NS + 300 * MS,
                "bytes": BLOCK_BYTES,
                "completion_ns": [150 * MS, 2 * MS],
            },
        ],
        "workload_bytes": {
            "start_ns": START_NS,
            "bin_ns": 50 * MS,
            "bytes": [500_000, 500_000] * 2,
        },
        "background_bytes": {"start_ns": START_NS - 50 * MS, "bin_ns": 50 * MS, "bytes": [100] * 9},
        "far_end": {
            "time_ns": [START_NS + k * 500 * MS for k in range(4)],
            "bytes": [0, 6_250_000, 12_500_000, 13_000_000],
        },
        "processors": {"idle_share": 0.4, "switch_run_share": 0.9, "switch_wait_share": 0.02},
        "start_ns": START_NS - 1000 * MS,
        "end_ns": START_NS + 1300 * MS,
        "tcp": {
            "r1": {"TcpExt.TCPTimeouts": 1},
            "h1": {"TcpExt.TCPTimeouts": 2, "Tcp.RetransSegs": 5},
            "h2": {},
        },
        "queue": {"limit_bytes": "65536", "low": "19660", "mid": "39321", "high": "52428"},
        "longest_bytes": 65_000,
        "dropped": 1,
        "arrived": 7,
        "arrived_in_trace": 7,
        "lost_elsewhere": {"devices": {}, "hosts": {}},
        "controller_errors": [],
        "events": [
            {
                "event": "queue_event",
                "notice": "CN-L",
                "missed": 0,
                "switch_time_ns": START_NS + 10 * MS,
            },
            {
                "event": "queue_event",
                "notice": "CR",
                "missed": 0,
                "switch_time_ns": START_NS + 2000 * MS,
            },
            {"event": "window_set"},
        ],
        "checks": [{"name": "shaped rate", "measured": "100", "bound": "98 to 102", "holds": True}],
    }
    return record | changes


def host() -> dict[str, str]:
    """Return the settings of a host, as they are read back."""
    return {
        "tcp_congestion_control": "reno",
        "tcp_rto_min_us": "200000",
        "tcp_rmem": "4096 131072 6291456",
        "route": "10.0.0.0/8 proto kernel scope link src 10.0.0.2",
    }


def queue() -> QueueTrace:
    """Return a trace with one record of every kind but CN-H."""
    kinds = ("enqueue", "CN-L", "CN-M", "drop", "CR")
    return QueueTrace(
        time_ns=START_NS + np.array([0, 10, 20, 30, 2000]) * MS,
        bytes=np.array([1514, 20_000, 40_000, 65_000, 0]),
        packets=np.array([1, 14, 27, 43, 0]),
        kind=np.array([KINDS.index(kind) for kind in kinds], dtype=np.int8),
    )


def run(scheme: str = "weir", **changes: Any) -> Run:
    """Return the run of ``data`` and ``queue``."""
    return Run(data(scheme, **changes), queue())
