"""What ``bench short-flows`` compares: a protocol of ``bench-short-flows`` each, and the hosts."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Line:
    """``protocol`` as the program calls it; ``sysctls`` of net.ipv4 at both hosts beyond
    ``USUAL``."""

    label: str
    protocol: str
    colour: str
    sysctls: Mapping[str, str] = field(default_factory=dict)


# Linux's defaults, whatever this machine has.
USUAL = {"tcp_recovery": "1", "tcp_early_retrans": "3"}
# Neither RACK (RFC 8985) nor tail loss probes: Linux before 2013 had only timeouts at the tail.
_OLD = {"tcp_recovery": "0", "tcp_early_retrans": "0"}

# A protocol that is added here is measured and drawn.
LINES = {
    "tcp": Line("TCP", "tcp", "#0072B2"),
    "tcp_old": Line("TCP, no RACK and TLP", "tcp", "#56B4E9", _OLD),
    "quic": Line("QUIC (quinn), resumed", "quic", "#E69F00"),
    "quic_cold": Line("QUIC (quinn)", "quic-cold", "#D55E00"),
}
