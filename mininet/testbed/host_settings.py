"""How a host's TCP differs from Linux as it comes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class HostSettings:
    """What a host's TCP is to be set to; None leaves Linux's own value untouched.

    ``rto_min_ms`` is the least retransmission timeout, ``initcwnd`` the initial window in
    segments, ``quickack`` acknowledges every segment at once, ``rmem_max_bytes`` bounds the
    receive buffer (the window scale of a connection follows from it).
    """

    congestion_control: str | None = None
    rto_min_ms: int | None = None
    initcwnd: int | None = None
    quickack: bool | None = None
    rmem_max_bytes: int | None = None

    def sysctls(self, rmem: str) -> dict[str, str]:
        """Return what to set under net.ipv4; ``rmem`` is the present value of tcp_rmem."""
        wanted = {}
        if self.congestion_control is not None:
            wanted["tcp_congestion_control"] = self.congestion_control
        if self.rmem_max_bytes is not None:
            low, start, _high = map(int, rmem.split())
            high = self.rmem_max_bytes
            wanted["tcp_rmem"] = f"{min(low, high)} {min(start, high)} {high}"
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
        return wanted
