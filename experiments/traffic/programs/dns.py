"""DNS over TCP: nsd and dnsperf."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from experiments.traffic.programs.app import (
    SECONDS,
    App,
    AppError,
    Result,
    Service,
    of_times,
    program,
)

_ZONE = "example.test"
_NAMES = 100
_RATE = re.compile(r"Queries per second: +([\d.]+)")
_COUNTS = re.compile(r"Queries completed: +(\d+).*\n +Queries lost: +(\d+)")
_ANSWER = re.compile(r"^> (\w+) \S+ \S+ ([\d.]+)$", re.MULTILINE)

_CONFIGURATION = """\
server:
  ip-address: 0.0.0.0
  ip-address: ::0
  port: {port}
  username: ""
  chroot: ""
  zonesdir: "{folder}"
  database: ""
  pidfile: "{folder}/pid"
  xfrdfile: "{folder}/xfrd.state"
  xfrdir: "{folder}"
  zonelistfile: "{folder}/zone.list"
  server-count: 1
  tcp-count: 1000
remote-control:
  control-enable: no
zone:
  name: {zone}
  zonefile: zone
"""


class Nsd(Service):
    """nsd with a zone of _NAMES addresses."""

    name = "nsd"
    port = 5353

    def prepare(self, folder: Path) -> None:
        """See Service."""
        zone = [
            f"$ORIGIN {_ZONE}.", "$TTL 300", "@ SOA ns hostmaster 1 3600 600 86400 300", "@ NS ns",
            "ns A 192.0.2.1", *(f"h{number} A 192.0.2.{number}" for number in range(_NAMES)),
        ]  # fmt: skip
        (folder / "zone").write_text("\n".join(zone) + "\n")
        text = _CONFIGURATION.format(folder=folder, port=self.port, zone=_ZONE)
        (folder / "nsd.conf").write_text(text)

    def argv(self, folder: Path) -> list[str]:
        """See Service."""
        return [program("nsd", "nsd"), "-d", "-c", str(folder / "nsd.conf")]


SERVER = Nsd()


@dataclass(frozen=True)
class Dns(App):
    """``outstanding`` queries at a time over ``connections``."""

    connections: int
    outstanding: int

    service: ClassVar[Service] = SERVER

    @property
    def name(self) -> str:
        """See App."""
        return f"dns_tcp_c{self.connections}_q{self.outstanding}"

    def client(self, servers: Sequence[str], folder: Path, server_folder: Path) -> list[str]:  # noqa: ARG002
        """See App."""
        (server,) = servers
        queries = folder / "queries"
        queries.write_text("".join(f"h{number}.{_ZONE} A\n" for number in range(_NAMES)))
        return [
            *(program("dnsperf", "dnsperf"), "-m", "tcp", "-s", server, "-p", str(SERVER.port)),
            *("-d", str(queries), "-l", str(SECONDS), "-c", str(self.connections)),
            *("-q", str(self.outstanding), "-T", "1", "-v"),
        ]

    def parse(self, said: str, folder: Path, elapsed_s: float) -> Result:  # noqa: ARG002
        """See App. It ends well whatever happens, so what it counts decides."""
        rate, counts = _RATE.search(said), _COUNTS.search(said)
        if rate is None or counts is None:
            raise AppError(f"dnsperf reports no queries: {said[-500:]}")
        completed, lost = map(int, counts.groups())
        if lost or not completed:
            raise AppError(f"dnsperf: {completed} queries were answered, {lost} were lost")
        answers = _ANSWER.findall(said)
        if wrong := {code for code, _ in answers} - {"NOERROR"}:
            raise AppError(f"dnsperf: answers are {', '.join(sorted(wrong))}")
        return of_times(float(rate[1]), [float(time_s) * 1e3 for _, time_s in answers])
