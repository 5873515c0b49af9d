"""What the controller hands over to its API's process: one line of JSON on standard input."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict


class ApiSettings(BaseModel):
    """Without `key` and `certificate` everything goes in clear. `origins` are those of web pages
    that may ask from within a browser; `rate` is how many requests a second each token may make."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str
    port: int
    tokens: Path
    key: Path | None = None
    certificate: Path | None = None
    origins: tuple[str, ...] = ()
    rate: float = 100.0


class Settings(BaseModel):
    """`hatch` is the descriptor that connections to the controller are handed over through,
    `metrics` that of a listener for Prometheus."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hatch: int
    metrics: int | None = None
    api: ApiSettings | None = None
    level: str = "info"
    json_log: bool = False
