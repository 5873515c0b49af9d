"""What a test bed is to be: plain values, which pass between processes as JSON."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from controller.core.congestion.regulator import Scheme
from testbed import dctcp

REGULATION_SCHEMES = tuple(scheme.value for scheme in Scheme)
LEAST_BUFFER_BYTES = 1514
"""A full-size frame."""

_SWITCHES = ("ecn", "sack", "timestamps", "window_scaling")


@dataclass(frozen=True)
class HostSettings:
    """What a host's TCP is to be set to; None leaves Linux's own value untouched.

    ``rto_min_ms`` is the least retransmission timeout, ``initcwnd`` the initial window in
    segments, ``quickack`` acknowledges every segment at once, ``rmem_max_bytes`` bounds the
    receive buffer (the window scale of a connection follows from it), ``window_clamp_bytes`` bounds
    the window itself (and the scale with it: up to 65,535 it is 0), ``ecn`` asks for Explicit
    Congestion Notification (RFC 3168) on connections made from here. ``mss_bytes`` is what is
    announced as the largest segment to be sent here, headers excluded. ``sack``, ``timestamps`` and
    ``window_scaling`` are the TCP options of RFC 2018 and RFC 7323. ``mtu_bytes`` is that of both
    ends of the host's link. The ``congestion_control`` ``dctcp.NAME`` is DCTCP as the test bed
    brings it along, ``dctcp_gain`` its estimation gain g (RFC 8257, section 3.3), 1/16 by default.
    """

    congestion_control: str | None = None
    rto_min_ms: int | None = None
    initcwnd: int | None = None
    quickack: bool | None = None
    rmem_max_bytes: int | None = None
    window_clamp_bytes: int | None = None
    ecn: bool | None = None
    sack: bool | None = None
    timestamps: bool | None = None
    window_scaling: bool | None = None
    mtu_bytes: int | None = None
    mss_bytes: int | None = None
    dctcp_gain: float | None = None

    def over(self, base: "HostSettings") -> "HostSettings":
        """Return these settings, with those of ``base`` where these leave a value untouched."""
        mine = {name: value for name, value in asdict(self).items() if value is not None}
        return HostSettings(**asdict(base) | mine)

    def sysctls(self, rmem: str) -> dict[str, str]:
        """Return what to set under net.ipv4; ``rmem`` is the present value of tcp_rmem."""
        wanted = {}
        if self.congestion_control is not None:
            wanted["tcp_congestion_control"] = self.congestion_control
        if self.rmem_max_bytes is not None:
            low, start, _high = map(int, rmem.split())
            high = self.rmem_max_bytes
            wanted["tcp_rmem"] = f"{min(low, high)} {min(start, high)} {high}"
        for name in _SWITCHES:
            value = getattr(self, name)
            if value is not None:
                wanted[f"tcp_{name}"] = str(int(value))
        return wanted

    def route_attributes(self) -> dict[str, str]:
        """Return the attributes of the host's route, as ``ip route`` names them."""
        wanted = {}
        if self.rto_min_ms is not None:
            wanted["rto_min"] = f"{self.rto_min_ms}ms"
        if self.initcwnd is not None:
            wanted["initcwnd"] = str(self.initcwnd)
        if self.quickack is not None:
            wanted["quickack"] = str(int(self.quickack))
        if self.mss_bytes is not None:
            wanted["advmss"] = str(self.mss_bytes)
        if self.window_clamp_bytes is not None:
            wanted["window"] = str(self.window_clamp_bytes)
        return wanted


@dataclass(frozen=True)
class BedConfig:
    """Everything that makes a test bed.

    ``shape`` is what the topology lets choose, as in ``{"k": 4}``. ``senders`` None means 32, or as
    many as the topology has room for. With ``ipv6`` hosts have an address of fd00::/64 as well.
    ``scheme`` is the controller's regulation scheme (weir, sdtcp, none); None means no controller
    at all, the switches learn by themselves. ``bottleneck_limit_bytes`` is the buffer of the
    bottleneck port, ``limit_bytes`` that of every other device; ``edge_limit_bytes`` is that of
    every other port of a switch to a host, if these are to be bottlenecks too. ``queue`` adds to
    the QoS record of every switch port, as in ``{"delay-us": 5000, "release": "thread"}``
    (ovs-vswitchd.conf.db(5), type weir). ``ovs_prefix`` None looks where ``ovs.find_prefix`` does.
    ``controller`` overrides keys of the controller's configuration by section.
    """

    topology: str = "fig8"
    shape: Mapping[str, int] = field(default_factory=dict)
    ipv6: bool = False
    senders: int | None = None
    scheme: str | None = "weir"
    rate_bps: int = 100_000_000
    bottleneck_limit_bytes: int = 64 * 1024
    limit_bytes: int = 1024 * 1024
    edge_limit_bytes: int | None = None
    queue: Mapping[str, str | int] = field(default_factory=dict)
    host: HostSettings = field(default_factory=HostSettings)
    ovs_prefix: str | Path | None = None
    controller: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, least, unit in (
            ("rate_bps", 1, "bits a second"),
            ("bottleneck_limit_bytes", LEAST_BUFFER_BYTES, "bytes"),
            ("limit_bytes", LEAST_BUFFER_BYTES, "bytes"),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise ValueError(
                    f"{name} must be a whole number of {unit}, at least {least}, not {value!r}"
                )
        if self.scheme is not None and self.scheme not in REGULATION_SCHEMES:
            raise ValueError(
                f"scheme is the controller's regulation scheme, {', '.join(REGULATION_SCHEMES)} or "
                f"None, not {self.scheme!r}; for a TCP without regulation: scheme='none', "
                f"host=HostSettings(congestion_control='reno')"
            )
        self._require_whole_dctcp()

    def _require_whole_dctcp(self) -> None:
        """DCTCP that nothing marks for is Reno, and nothing else would say so."""
        control = self.host.congestion_control
        if control in dctcp.NAMES and not (self.host.ecn and "ecn-threshold" in self.queue):
            raise ValueError(
                f"{control} is DCTCP only where hosts ask for ECN and queues mark: add ecn=True "
                f"to the host and {dctcp.MARKING} to queue, or take both from one value: "
                'experiments.schemes.scheme("dctcp").on(config), RunSpec(scheme="dctcp", ...)'
            )
        if self.host.dctcp_gain is not None:
            if control != dctcp.NAME:
                raise ValueError(
                    f"dctcp_gain is that of congestion_control={dctcp.NAME!r}, not of {control!r}"
                )
            dctcp.require_gain(self.host.dctcp_gain)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "BedConfig":
        """Make one of what ``dataclasses.asdict`` gives."""
        return cls(**{**fields, "host": HostSettings(**fields["host"])})


def route_attributes(shown: str) -> dict[str, str]:
    """Return each word of a line of ``ip route show`` with the word that follows it.

    ``lock``, which only says that a value is kept, is left out.
    """
    words = [word for word in shown.split() if word != "lock"]
    return dict(pairwise(words))
