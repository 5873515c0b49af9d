"""What the controller passes to its API's process: one line of JSON on standard input."""

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


class Settings(BaseModel):
    """`hatch` is the descriptor through which connections are passed to the controller, `metrics`
    that of a listener for Prometheus."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hatch: int
    metrics: int | None = None
    api: ApiSettings | None = None
    level: str = "info"
    json_log: bool = False
