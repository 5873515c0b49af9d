"""What the controller passes to its API's process on standard input: lines of JSON. The first one
has the settings, each other one how to log from then on."""

import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict


class ApiSettings(BaseModel):
    """Without `key` and `certificate` there is no TLS. `origins` are those of web pages that may
    ask from a browser. `rate` is the number of requests a second of each token, `page` the
    directory of the dashboard's page, `prometheus` the URL of one that scrapes the controller."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str
    port: int
    tokens: Path
    key: Path | None = None
    certificate: Path | None = None
    origins: tuple[str, ...] = ()
    rate: float = 100.0
    page: Path | None = None
    prometheus: str | None = None


class LogSettings(BaseModel):
    """How the process logs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    level: str = "info"
    as_json: bool = False


class Settings(BaseModel):
    """`hatch` is the descriptor through which connections are passed to the controller, `metrics`
    that of a listener for Prometheus."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hatch: int
    metrics: int | None = None
    api: ApiSettings | None = None
    log: LogSettings = LogSettings()


class Lines:
    """The lines that come from a descriptor. Nothing is read before it is there."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._read = b""

    def wait(self) -> bool:
        """Read what there is, or wait for it. False at the end."""
        more = os.read(self.descriptor, 65536)
        self._read += more
        return bool(more)

    def __iter__(self) -> Iterator[bytes]:
        """Those that are complete."""
        while b"\n" in self._read:
            line, _, self._read = self._read.partition(b"\n")
            yield line
