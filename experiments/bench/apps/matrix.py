"""What is measured: settings of the network, and the workloads of each.

This is no full cross product. The first setting has every program. Each other setting varies one
thing and has the workloads that show most (``KEY``), so every value of every dimension appears with
those.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from experiments.schemes import Scheme, scheme
from experiments.traffic.programs.app import App
from experiments.traffic.programs.dns import Dns
from experiments.traffic.programs.http import ConnectionEach, Http2, KeepAlive, Shuffle
from experiments.traffic.programs.iperf import Iperf
from experiments.traffic.programs.memcached import Memcached
from experiments.traffic.programs.postgres import Pgbench
from experiments.traffic.programs.redis import Redis
from experiments.traffic.programs.rsync import Rsync
from testbed import dctcp

INCAST, ELEPHANTS = "incast", "elephants"
"""What may go on beside a workload."""

SHUFFLED_HOSTS = 12


@dataclass(frozen=True)
class Workload:
    """An app between ``clients`` hosts and one server.

    With one client, the client is the receiver of the test bed, behind its smallest buffer, and the
    server is the first sender. With more, the clients are senders and the server is the receiver.
    With ``all_to_all``, so many hosts are both.
    """

    app: App
    clients: int = 1
    beside: str | None = None
    all_to_all: int = 0

    @property
    def name(self) -> str:
        """The name in figures."""
        clients = f"_from_{self.clients}_hosts" if self.clients > 1 else ""
        return f"{self.app.name}{clients}{f'_beside_{self.beside}' if self.beside else ''}"


CONTENDERS = {
    "none": "reno",
    "again": "reno",
    "weir": "weir",
    "sdtcp": "sdtcp",
    "kernel": "kernel",
    "drr": "fair",
    "weir_drr": "weir_fair",
}
"""Who is compared, by the name in figures: a scheme, but for its hosts, which are the setting's."""

BASELINE = "none"
SCHEMES = ("none", "weir", "sdtcp")
QUEUES = ("none", "kernel", "drr")
# With the baseline once more, which tells how far apart two measurements of the same thing are.
ALL = ("none", "again", "weir", "sdtcp", "drr", "weir_drr")


@dataclass(frozen=True)
class Setting:
    """A network, and what is measured on it; ``quick`` names what of it a short benchmark has.

    ``ratios_only`` settings are judged by throughput alone, and not by the overall figures.
    """

    workloads: Sequence[Workload]
    quick: Sequence[str] = ()
    topology: str = "star"
    senders: int = 40
    rate_mbps: int = 100
    buffer_kib: int = 64
    congestion_control: str = "cubic"
    ipv6: bool = False
    contenders: Sequence[str] = SCHEMES
    ratios_only: bool = False

    def queue(self, contender: Scheme) -> dict[str, str]:
        """Return the settings of every switch port's queue: DCTCP's mark."""
        marks = dctcp.MARKING if self.congestion_control == dctcp.NAME else {}
        return {**marks, **contender.queue}


def scheme_of(contender: str) -> Scheme:
    """Return the scheme of a contender, given its name in figures."""
    return scheme(CONTENDERS[contender])


_REDIS_50 = Redis("get", 50, 3, 120_000)
_CONNECTION_EACH = ConnectionEach(16, 64)
_BOTH = Iperf("both")
KEY = (Workload(_REDIS_50), Workload(_CONNECTION_EACH), Workload(_BOTH))
_KEY_NAMES = tuple(workload.name for workload in KEY)
_SHUFFLE = Workload(Shuffle(1_000_000), all_to_all=SHUFFLED_HOSTS)

_EVERY = (
    *KEY,
    *map(
        Workload,
        (
            Redis("get", 1, 3, 8_000),
            Redis("get", 8, 3, 120_000),
            Redis("set", 50, 3, 120_000),
            Redis("get", 1, 3_000, 2_000),
            Redis("get", 50, 3_000, 8_000),
            Redis("set", 50, 3_000, 8_000),
            Redis("get", 8, 64_000, 400),
            Redis("set", 8, 64_000, 400),
            Redis("get", 50, 64_000, 400),
            Redis("get", 50, 3, 400_000, pipelined=16),
            Redis("set", 8, 3, 400_000, pipelined=16),
            Memcached(1, 1000),
            Memcached(8, 1000),
            Memcached(50, 1000),
            KeepAlive(1, 64),
            KeepAlive(16, 64),
            KeepAlive(16, 25_000),
            KeepAlive(4, 1_000_000),
            ConnectionEach(1, 64),
            ConnectionEach(16, 25_000),
            ConnectionEach(4, 1_000_000),
            Http2(8, 16, 64),
            Http2(8, 16, 25_000),
            Http2(1, 100, 25_000),
            Pgbench(8),
            Pgbench(50),
            Pgbench(8, writes=True),
            Pgbench(8, reconnect=True),
            Iperf("down"),
            Iperf("up"),
            Iperf("down", 8),
            Iperf("up", 8),
            Iperf("both", 8),
            Rsync("large"),
            Rsync("small"),
            Dns(8, 64),
            Dns(50, 200),
        ),
    ),
    _SHUFFLE,
    Workload(Redis("get", 2, 3, 2_000), clients=16),
    Workload(Redis("get", 1, 3, 800), clients=40),
    Workload(Redis("set", 1, 3_000, 200), clients=40),
    Workload(KeepAlive(1, 25_000), clients=16),
    Workload(ConnectionEach(1, 64), clients=16),
    Workload(ConnectionEach(1, 64), clients=40),
    Workload(ConnectionEach(1, 25_000), clients=40),
    *(
        Workload(app, beside=beside)
        for beside in (INCAST, ELEPHANTS)
        for app in (Redis("get", 50, 3, 20_000), _CONNECTION_EACH, Redis("get", 8, 3_000, 800))
    ),
)

SETTINGS: Mapping[str, Setting] = {
    "star": Setting(
        _EVERY,
        quick=(
            *_KEY_NAMES,
            "redis_get_c50_3kb",
            "redis_set_c50_3kb",
            "memcached_c8_1kb",
            "http_keepalive_c16_64b",
            "http_connection_each_c16_25kb",
            "http2_c8_m16_64b",
            "pgbench_select_c8",
            "iperf3_down_c1",
            "rsync_large",
            "dns_tcp_c8_q64",
            "shuffle_1mb",
            "http_connection_each_c1_64b_from_40_hosts",
            "redis_get_c50_3b_beside_elephants",
        ),
        contenders=ALL,
    ),
    "ipv6": Setting((*KEY, Workload(KeepAlive(16, 25_000)), Workload(Pgbench(8))), ipv6=True),
    "bbr": Setting(
        (*KEY, Workload(Iperf("down", 8)), Workload(KeepAlive(16, 25_000))),
        congestion_control="bbr",
    ),
    "dctcp": Setting(
        (*KEY, Workload(Iperf("down", 8)), Workload(KeepAlive(16, 25_000))),
        congestion_control=dctcp.NAME,
    ),
    "500_mbps": Setting(
        (
            *KEY,
            Workload(Redis("set", 50, 3_000, 20_000)),
            Workload(ConnectionEach(16, 25_000)),
            Workload(Iperf("down")),
            Workload(ConnectionEach(1, 25_000), clients=40),
        ),
        quick=("redis_get_c50_3b", "redis_set_c50_3kb", "iperf3_down_c1"),
        rate_mbps=500,
        buffer_kib=128,
    ),
    "leaf_spine": Setting(
        (
            *KEY,
            Workload(Iperf("down")),
            Workload(Iperf("down", 8)),
            _SHUFFLE,
            Workload(_REDIS_50, beside=ELEPHANTS),
        ),
        quick=(*_KEY_NAMES, _SHUFFLE.name),
        topology="leaf-spine",
        senders=13,
    ),
    "fat_tree": Setting(
        (*KEY, Workload(Iperf("down", 8)), _SHUFFLE), topology="fat-tree", senders=13
    ),
    "queue": Setting(
        (
            *KEY,
            Workload(Iperf("down")),
            Workload(Iperf("down", 8)),
            Workload(KeepAlive(16, 25_000)),
            Workload(Redis("get", 50, 3_000, 8_000)),
        ),
        quick=(*_KEY_NAMES, "iperf3_down_c1"),
        contenders=QUEUES,
        ratios_only=True,
    ),
}


def in_words() -> str:
    """Return a line for each setting: what it is, and how many workloads it has."""
    return "\n".join(
        f"  {name:<10}  {setting.topology}, {setting.rate_mbps} Mb/s, {setting.buffer_kib} KiB, "
        f"{setting.congestion_control}{', IPv6' * setting.ipv6}: "
        f"{len(setting.workloads)} workloads under {', '.join(setting.contenders)}"
        for name, setting in SETTINGS.items()
    )
