"""nginx, and four clients: wrk (connections that stay), ab (a connection for each request), h2load
(HTTP/2), curl (transfers from many servers at once)."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import ClassVar

from experiments.traffic.programs.app import (
    MBPS,
    SECONDS,
    App,
    AppError,
    Result,
    Service,
    as_host,
    of_times,
    program,
    size_name,
)  # fmt: skip

SIZES_BYTES = (64, 25_000, 1_000_000)
_HTTP2_PORT = 8081
_PATIENCE_S = 60
_OK = 200
_LEAST_FOR_PERCENTILES = 100
# Of files that are large few are fetched.
_LARGE_BYTES = 500_000
# More than ab does in its time: it ends by the clock, but has room for so many from the beginning.
_MANY = 200_000

_CONFIGURATION = """\
worker_processes 1;
user root;
pid {folder}/pid;
error_log {folder}/errors;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    default_type application/octet-stream;
    sendfile on;
    tcp_nopush on;
    {http}
    server {{
        listen {port} backlog=4096;
        root {folder}/files;
        {server}
    }}
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
}}
"""

_WRK_REPORT = """\
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '{"requests": %d, "duration_us": %d, "p50_us": %d, "p99_us": %d, "p999_us": %d, ' ..
    '"failed": %d}\\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    latency:percentile(99.9), e.connect + e.read + e.write + e.status + e.timeout))
end
"""


def configure(folder: Path, port: int, *, http: str, server: str) -> None:
    """Write the configuration of an nginx that serves ``folder``/files: ``http`` and ``server`` are
    directives of these contexts besides."""
    text = _CONFIGURATION.format(folder=folder, port=port, http=http, server=server)
    (folder / "nginx.conf").write_text(text)


def nginx_argv(folder: Path) -> list[str]:
    """Return the command of an nginx that is configured in ``folder``."""
    server = program("nginx", "nginx")
    return [server, "-c", str(folder / "nginx.conf"), "-g", "daemon off;", "-e", "stderr"]


class Nginx(Service):
    """nginx with files of SIZES_BYTES, named after their sizes."""

    name = "nginx"
    port = 8080

    def prepare(self, folder: Path) -> None:
        """See Service."""
        files = folder / "files"
        files.mkdir()
        for size in SIZES_BYTES:
            (files / str(size)).write_bytes(bytes(size))
        listens = f"listen [::]:{self.port} backlog=4096; listen {_HTTP2_PORT} http2 backlog=4096;"
        configure(folder, self.port, http="keepalive_requests 1000000000;", server=listens)

    def argv(self, folder: Path) -> list[str]:
        """See Service."""
        return nginx_argv(folder)


SERVER = Nginx()


def _url(server: str, size_bytes: int, port: int = SERVER.port) -> str:
    return f"http://{as_host(server)}:{port}/{size_bytes}"


def _seconds(size_bytes: int) -> str:
    return str(SECONDS * (2 if size_bytes >= _LARGE_BYTES else 1))


@dataclass(frozen=True)
class KeepAlive(App):
    """wrk: one request after the other over each of ``connections``."""

    connections: int
    size_bytes: int

    service: ClassVar[Service] = SERVER

    @property
    def name(self) -> str:
        """See App."""
        return f"http_keepalive_c{self.connections}_{size_name(self.size_bytes)}"

    def client(self, servers: Sequence[str], folder: Path, server_folder: Path) -> list[str]:  # noqa: ARG002
        """See App."""
        (server,) = servers
        script = folder / "report.lua"
        script.write_text(_WRK_REPORT)
        return [
            *(program("wrk", "wrk"), "-t1", f"-c{self.connections}"),
            f"-d{_seconds(self.size_bytes)}",
            *("--timeout", str(_PATIENCE_S), "-s", str(script), _url(server, self.size_bytes)),
        ]

    def parse(self, said: str, folder: Path, elapsed_s: float) -> Result:  # noqa: ARG002
        """See App."""
        lines = [line for line in said.splitlines() if line.startswith("{")]
        if not lines:
            raise AppError(f"wrk reports no summary: {said[-500:]}")
        result = json.loads(lines[-1])
        if result["failed"] or not result["requests"]:
            raise AppError(f"wrk: {result['failed']} of {result['requests']} requests failed")
        p50, p99, p999 = (result[key] / 1e3 for key in ("p50_us", "p99_us", "p999_us"))
        return Result(result["requests"] / result["duration_us"] * 1e6, p50, p99, p999)


@dataclass(frozen=True)
class ConnectionEach(App):
    """ab: a connection for each request, ``connections`` at once. Times include the opening."""

    connections: int
    size_bytes: int

    service: ClassVar[Service] = SERVER
    _COMPLETE: ClassVar[re.Pattern[str]] = re.compile(r"Complete requests: +(\d+)")
    _FAILED: ClassVar[re.Pattern[str]] = re.compile(
        r"(?:Failed requests|Non-2xx responses): +(\d+)"
    )
    _RATE: ClassVar[re.Pattern[str]] = re.compile(r"Requests per second: +([\d.]+)")

    @property
    def name(self) -> str:
        """See App."""
        return f"http_connection_each_c{self.connections}_{size_name(self.size_bytes)}"

    def client(self, servers: Sequence[str], folder: Path, server_folder: Path) -> list[str]:  # noqa: ARG002
        """See App."""
        (server,) = servers
        return [
            *(program("ab", "apache2-utils"), "-q", "-c", str(self.connections)),
            *("-t", _seconds(self.size_bytes), "-n", str(_MANY), "-s", str(_PATIENCE_S)),
            *("-e", str(folder / "percentiles.csv"), "-g", str(folder / "requests.tsv")),
            _url(server, self.size_bytes),
        ]

    def parse(self, said: str, folder: Path, elapsed_s: float) -> Result:  # noqa: ARG002
        """See App. p99.9 comes from its list of all requests, in whole milliseconds; it reports no
        percentiles of less than 100 requests."""
        complete, rate = self._COMPLETE.search(said), self._RATE.search(said)
        if complete is None or rate is None or not int(complete[1]):
            raise AppError(f"ab reports no complete request: {said[-500:]}")
        if failed := sum(map(int, self._FAILED.findall(said))):
            raise AppError(f"ab: {failed} of {complete[1]} requests failed")
        rows = (folder / "percentiles.csv").read_text().splitlines()[1:]
        at = {int(percent): float(ms) for percent, ms in (row.split(",") for row in rows)}
        requests = (folder / "requests.tsv").read_text().splitlines()[1:]
        listed = of_times(float(rate[1]), [float(row.split("\t")[4]) for row in requests])
        if len(requests) < _LEAST_FOR_PERCENTILES:
            return listed
        return replace(listed, p50_ms=at[50], p99_ms=at[99])


@dataclass(frozen=True)
class Http2(App):
    """h2load: ``connections`` with ``streams`` requests at a time in each."""

    connections: int
    streams: int
    size_bytes: int

    service: ClassVar[Service] = SERVER
    _REQUESTS: ClassVar[re.Pattern[str]] = re.compile(
        r"finished in .*?, ([\d.]+) req/s.*\n"
        r"requests: .* (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout"
    )

    @property
    def name(self) -> str:
        """See App."""
        return f"http2_c{self.connections}_m{self.streams}_{size_name(self.size_bytes)}"

    def client(self, servers: Sequence[str], folder: Path, server_folder: Path) -> list[str]:  # noqa: ARG002
        """See App."""
        (server,) = servers
        return [
            *(program("h2load", "nghttp2-client"), "-c", str(self.connections)),
            *("-m", str(self.streams), "-D", str(SECONDS), "--log-file", str(folder / "requests")),
            _url(server, self.size_bytes, _HTTP2_PORT),
        ]

    def parse(self, said: str, folder: Path, elapsed_s: float) -> Result:  # noqa: ARG002
        """See App. It ends well whatever happens, so what it counts decides."""
        found = self._REQUESTS.search(said)
        if found is None:
            raise AppError(f"h2load reports no requests: {said[-500:]}")
        succeeded, *failures = (int(count) for count in found.groups()[1:])
        if any(failures) or not succeeded:
            raise AppError(f"h2load: {succeeded} requests succeeded, {sum(failures)} did not")
        rows = [row.split("\t") for row in (folder / "requests").read_text().splitlines()]
        if bad := sum(int(status) != _OK for _, status, _ in rows):
            raise AppError(f"h2load: {bad} of {len(rows)} answers were no files")
        return of_times(float(found[1]), [int(us) / 1e3 for _, _, us in rows])


@dataclass(frozen=True)
class Shuffle(App):
    """curl: every host fetches a file of ``size_bytes`` from each of the others, all at once.

    Throughput is that of all transfers together, until the last one is complete.
    """

    size_bytes: int

    service: ClassVar[Service] = SERVER
    unit: ClassVar[str] = MBPS
    same_work: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """See App."""
        return f"shuffle_{size_name(self.size_bytes)}"

    def client(self, servers: Sequence[str], folder: Path, server_folder: Path) -> list[str]:  # noqa: ARG002
        """See App."""
        transfers = ((_url(server, self.size_bytes), "-o", "/dev/null") for server in servers)
        return [
            *(program("curl", "curl"), "-sS", "--fail", "--no-progress-meter"),
            *("--parallel", "--parallel-immediate", "--parallel-max", str(len(servers))),
            *("-w", "%{http_code} %{size_download} %{time_total}\\n", "-m", str(_PATIENCE_S)),
            *chain.from_iterable(transfers),
        ]

    def parse(self, said: str, folder: Path, elapsed_s: float) -> Result:  # noqa: ARG002
        """See App."""
        rows = [line.split() for line in said.splitlines()]
        if not rows:
            raise AppError("curl reports no transfer")
        for status, size, _ in rows:
            if int(status) != _OK or int(size) != self.size_bytes:
                raise AppError(f"curl got {size} bytes with status {status}")
        times_s = [float(time_s) for _, _, time_s in rows]
        mbps = len(rows) * self.size_bytes * 8e-6 / max(times_s)
        return of_times(mbps, [time_s * 1e3 for time_s in times_s])
