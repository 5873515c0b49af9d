"""What the controller hands over to its API: one line of JSON on standard input."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """`socket` is the controller's. Without `key` and `certificate` everything goes in clear.
    `origins` are those of web pages that may ask from within a browser; `rate` is how many requests
    a second each token may make."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str
    port: int
    socket: str
    tokens: Path
    key: Path | None = None
    certificate: Path | None = None
    origins: tuple[str, ...] = ()
    rate: float = 100.0
    level: str = "info"
    json_log: bool = False
