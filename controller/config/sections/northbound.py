"""`northbound`: metrics, the socket of the commands, the HTTP API."""

import ipaddress
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Self, TypeVar

from pydantic import BeforeValidator, Field, field_validator, model_validator

from controller.api.page import INSTALLED
from controller.api.settings import ApiSettings
from controller.config.fields import Endpoint, Section, parse_endpoint

SOCKET = "/run/weir/controller.sock"

T = TypeVar("T")


def _metrics(written: object) -> tuple[str, int]:
    return parse_endpoint(written, "127.0.0.1:9464 or [::1]:9464")


def _or_off(read: Callable[[object], T]) -> Callable[[object], T | None]:
    """`off`, which YAML takes for false, or what is read otherwise."""

    def read_or_off(written: object) -> T | None:
        return None if written is False or written is None else read(written)

    return read_or_off


def _socket_path(written: object) -> str:
    if not isinstance(written, str) or not written.startswith("/"):
        raise ValueError(f"{written!r} is not an absolute path; write e.g. {SOCKET}, or off")
    return written


MetricsOrOff = Annotated[tuple[str, int] | None, BeforeValidator(_or_off(_metrics))]
SocketOrOff = Annotated[str | None, BeforeValidator(_or_off(_socket_path))]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class ApiSection(Section):
    """The HTTP API. In clear it is served to this machine alone, and to nobody without a token.

    `origins` are those of web pages that may use it from within a browser, `rate` is how many
    requests a second each token may make. `page` is the directory of the dashboard's page, by
    default that of the package, if it is there. `prometheus` is the URL of one that scrapes the
    controller, for history of more than a day.
    """

    listen: Endpoint = ("127.0.0.1", 8181)
    tokens: Path
    key: Path | None = None
    certificate: Path | None = None
    origins: tuple[str, ...] = ()
    rate: float = Field(default=100.0, gt=0, le=10**6)
    page: Path | None = None
    prometheus: str | None = None

    @field_validator("prometheus")
    @classmethod
    def _is_url(cls, url: str | None) -> str | None:
        # The file is no place for a password: everybody may read it.
        if url is not None and not re.fullmatch(r"https?://[^/@?#\s]+(/[^@?#\s]*)?", url):
            right = "write e.g. http://127.0.0.1:9090, without user, password or query"
            raise ValueError(f"{url[:80]!r} is no address of a Prometheus; {right}")
        return url

    @field_validator("origins")
    @classmethod
    def _are_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            if not re.fullmatch(r"https?://[^/*\s]+", origin):
                raise ValueError(f"{origin!r} is no origin; write e.g. https://dash.example.org")
        return origins

    @model_validator(mode="after")
    def _is_protected(self) -> Self:
        if (self.key is None) != (self.certificate is None):
            missing = "key" if self.key is None else "certificate"
            raise ValueError(f"{missing} is missing; key and certificate go together")
        if self.key is None and not _is_loopback(self.listen[0]):
            raise ValueError(
                f"key and certificate are missing: tokens would cross the network to "
                f"{self.listen[0]} in clear; add them, or listen on 127.0.0.1"
            )
        return self

    def settings(self) -> ApiSettings:
        """What the API's own process needs of it."""
        host, port = self.listen
        page = self.page or (INSTALLED if INSTALLED.is_dir() else None)
        more = self.model_dump(exclude={"listen", "page"})
        return ApiSettings(host=host, port=port, page=page, **more)


class Northbound(Section):
    """Metrics are off unless told where: two controllers on a machine must not be in each other's
    way. That is no harm for the socket, which is done without if it cannot be had and was not
    asked for. Metrics leave the machine in clear only with `metrics_in_clear`."""

    metrics: MetricsOrOff = None
    metrics_in_clear: bool = False
    socket: SocketOrOff = SOCKET
    api: ApiSection | None = None

    @model_validator(mode="after")
    def _are_metrics_kept(self) -> Self:
        if self.metrics and not self.metrics_in_clear and not _is_loopback(self.metrics[0]):
            raise ValueError(
                f"metrics would cross the network to {self.metrics[0]} in clear, for whoever asks; "
                "listen on 127.0.0.1, for a Prometheus or a TLS proxy on this machine, or add "
                "metrics_in_clear: true"
            )
        return self

    @property
    def socket_must(self) -> bool:
        """Whether the operator has asked for the socket."""
        return "socket" in self.model_fields_set
