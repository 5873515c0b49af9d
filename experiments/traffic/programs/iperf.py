"""iperf3: bulk to the client, from it, and both ways at once."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from experiments.traffic.programs.app import MBPS, SECONDS, App, AppError, Result, Service, program

_WAYS = {"down": ["-R"], "up": [], "both": ["--bidir"]}


class IperfServer(Service):
    """iperf3 -s."""

    name = "iperf3"
    port = 5201

    def argv(self, folder: Path) -> list[str]:  # noqa: ARG002
        """See Service."""
        return [program("iperf3", "iperf3"), "-s", "-p", str(self.port)]


SERVER = IperfServer()


@dataclass(frozen=True)
class Iperf(App):
    """``connections`` at once, ``way`` being down, up or both. Throughput is that of all, at the
    receivers; ``parts`` has either way."""

    way: str
    connections: int = 1

    service: ClassVar[Service] = SERVER
    unit: ClassVar[str] = MBPS

    @property
    def name(self) -> str:
        """See App."""
        return f"iperf3_{self.way}_c{self.connections}"

    def client(self, servers: Sequence[str], folder: Path, server_folder: Path) -> list[str]:  # noqa: ARG002
        """See App. It takes a little longer than others do: slow start is no steady state."""
        (server,) = servers
        return [
            *(program("iperf3", "iperf3"), "-c", server, "-p", str(SERVER.port), "-J"),
            *("-t", str(2 * SECONDS), "-P", str(self.connections), *_WAYS[self.way]),
        ]

    def parse(self, said: str, folder: Path, elapsed_s: float) -> Result:  # noqa: ARG002
        """See App."""
        try:
            result = json.loads(said)
        except json.JSONDecodeError as wrong:
            raise AppError(f"iperf3 reports no JSON: {said[-500:]}") from wrong
        if "error" in result:
            raise AppError(f"iperf3: {result['error']}")
        sums = result["end"]
        if self.way != "both":
            mbps = sums["sum_received"]["bits_per_second"] / 1e6
            return Result(mbps, parts={self.way: mbps})
        up = sums["sum_received"]["bits_per_second"] / 1e6
        down = sums["sum_received_bidir_reverse"]["bits_per_second"] / 1e6
        return Result(up + down, parts={"up": up, "down": down})
