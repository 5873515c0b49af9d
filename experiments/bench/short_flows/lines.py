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
# Neither RACK nor tail loss probes (RFC 8985): a lost end waits for the timeout. Kernels that know
# no other way than RACK ignore the first.
_OLD = {"tcp_recovery": "0", "tcp_early_retrans": "0"}

# A protocol that is added here is measured and drawn.
LINES = {
    "atp": Line("ATP", "atp", "#009E73"),
    "atp_bare": Line("ATP, no parity", "atp-bare", "#CC79A7"),
    "tcp": Line("TCP", "tcp", "#0072B2"),
    "tcp_old": Line("TCP, no TLP", "tcp", "#56B4E9", _OLD),
    "tls": Line("TLS over TCP, resumed", "tls", "#000000"),
    "quic": Line("QUIC, resumed", "quic", "#E69F00"),
    "quic_cold": Line("QUIC", "quic-cold", "#D55E00"),
}
