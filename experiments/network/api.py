"""A link of its own to the controller's HTTP API for each host of a test bed, beside the network
under test."""

import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.traffic.program import ProgramError
from testbed.command import run
from testbed.host import Host

_ADDRESS, _PORT = "192.168.254.1", 8181
_REQUESTS_PER_S = 10_000


@dataclass(frozen=True)
class Api:
    """The API's address, certificate and token, in files of ``directory``."""

    directory: Path

    @property
    def url(self) -> str:
        """The API's URL."""
        return f"https://{_ADDRESS}:{_PORT}"

    @property
    def certificate(self) -> Path:
        """The API's self-signed certificate."""
        return self.directory / "api.pem"

    @property
    def token(self) -> Path:
        """A file with a token for all scopes."""
        return self.directory / "token"

    def send_options(self, flow: str) -> list[str]:
        """The options with which ``fountain send`` takes its rate from there, as ``flow``."""
        return [
            *(f"--rate-from={self.url}", f"--token-file={self.token}"),
            *(f"--rate-ca={self.certificate}", f"--flow={flow}"),
        ]

    def section(self) -> Mapping[str, Any]:
        """``northbound`` of the controller's configuration."""
        return {
            "socket": str(self.directory / "controller.sock"),
            "api": {
                "listen": f"{_ADDRESS}:{_PORT}",
                "key": str(self.directory / "api-key.pem"),
                "certificate": str(self.certificate),
                "tokens": str(self.directory / "tokens.yaml"),
                "rate": _REQUESTS_PER_S,
            },
        }


def prepare(directory: Path) -> Api:
    """Make key, certificate and token, and the address, in this network namespace."""
    directory.mkdir(parents=True, exist_ok=True)
    api = Api(directory)
    run(["ip", "addr", "add", f"{_ADDRESS}/32", "dev", "lo"])
    run(
        [
            *("openssl", "req", "-x509", "-nodes", "-days", "30", "-subj", "/CN=weir"),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-addext", f"subjectAltName=IP:{_ADDRESS}"),
            *("-addext", "basicConstraints=critical,CA:FALSE"),
            *("-keyout", str(directory / "api-key.pem"), "-out", str(api.certificate)),
        ]
    )
    command = [sys.executable, "-m", "controller", "token"]
    command += [str(directory / "tokens.yaml"), "experiment"]
    scopes = ["--scope", "read", "--scope", "announce"]
    made = subprocess.run([*command, *scopes], check=True, capture_output=True, text=True)
    api.token.write_text(made.stdout)
    return api


def reach(hosts: Iterable[Host]) -> None:
    """Give hosts a link to the API."""
    for number, host in enumerate(hosts):
        here, there = f"api{number}", "api"
        peer = ["peer", "name", there, "netns", str(host.pid)]
        run(["ip", "link", "add", here, "type", "veth", *peer])
        run(["ip", "addr", "add", f"192.168.{number}.1/30", "dev", here])
        run(["ip", "link", "set", "dev", here, "up"])
        for command in (
            ["ip", "addr", "add", f"192.168.{number}.2/30", "dev", there],
            ["ip", "link", "set", "dev", there, "up"],
            ["ip", "route", "add", f"{_ADDRESS}/32", "via", f"192.168.{number}.1"],
        ):
            run(command, pid=host.pid)


def meet(pairs: Iterable[tuple[Host, Host]]) -> None:
    """Make the controller learn where hosts are. Raises ProgramError if one does not reach its
    partner."""
    for host, other in pairs:
        ping = host.popen(["ping", "-q", "-c", "1", "-w", "20", other.IP()])
        ping.communicate()
        if ping.returncode != 0:
            raise ProgramError(f"{host.name} does not reach {other.name}")
