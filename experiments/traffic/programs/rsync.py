"""rsync over ssh: one large file, and a tree of small ones."""

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from experiments.traffic.programs.app import MBPS, App, AppError, Result, Service, as_host, program
from experiments.traffic.programs.postgres import USER, as_user
from testbed.command import run

_FILE_BYTES = 10_000_000
_SMALL_FILES, _SMALL_BYTES = 500, 4_000
_TRANSFERRED = re.compile(
    r"regular files transferred: ([\d,]+)\n.*\n?.*transferred file size: ([\d,]+)"
)


class SshServer(Service):
    """sshd, not as root, so it needs no directory of the machine's; as the only user that the
    packages of this benchmark bring along with a shell."""

    name = "sshd"
    port = 2222

    def prepare(self, folder: Path) -> None:
        """See Service."""
        for key in ("host", "client"):
            keygen = program("ssh-keygen", "openssh-client")
            run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)])
        (folder / "large").mkdir()
        (folder / "large/file").write_bytes(bytes(_FILE_BYTES))
        (folder / "small").mkdir()
        for number in range(_SMALL_FILES):
            (folder / f"small/{number}").write_bytes(bytes(_SMALL_BYTES))
        settings = {
            "Port": self.port,
            "HostKey": folder / "host",
            "AuthorizedKeysFile": folder / "client.pub",
            "PidFile": "none",
            "UsePAM": "no",
            "StrictModes": "no",
        }
        text = "".join(f"{name} {value}\n" for name, value in settings.items())
        (folder / "sshd_config").write_text(text)
        shutil.chown(folder / "host", USER)

    def argv(self, folder: Path) -> list[str]:
        """See Service."""
        server = program("sshd", "openssh-server")
        return [*as_user(), server, "-D", "-e", "-f", str(folder / "sshd_config")]


SERVER = SshServer()


def login(server_folder: Path) -> list[str]:
    """Return the words of ssh with which a client comes to SERVER, whose folder is
    ``server_folder``. USER@HOST and the command follow."""
    options = (
        "IdentitiesOnly=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null",
        "BatchMode=yes", "LogLevel=ERROR",
    )  # fmt: skip
    return [
        *(program("ssh", "openssh-client"), "-F", "none", "-p", str(SERVER.port)),
        *("-i", str(server_folder / "client")),
        *(word for option in options for word in ("-o", option)),
    ]


@dataclass(frozen=True)
class Rsync(App):
    """Fetches ``what``: the ``large`` file, or the ``small`` ones. Throughput is that of their
    content, the login included."""

    what: str

    service: ClassVar[Service] = SERVER
    unit: ClassVar[str] = MBPS

    @property
    def name(self) -> str:
        """See App."""
        return f"rsync_{self.what}"

    def client(self, servers: Sequence[str], folder: Path, server_folder: Path) -> list[str]:
        """See App."""
        (server,) = servers
        return [
            *(program("rsync", "rsync"), "--stats", "-r", "-e", " ".join(login(server_folder))),
            f"{USER}@{as_host(server)}:{server_folder}/{self.what}/",
            str(folder / "copy"),
        ]

    def parse(self, said: str, folder: Path, elapsed_s: float) -> Result:  # noqa: ARG002
        """See App. The rate that it reports rests on whole seconds."""
        found = _TRANSFERRED.search(said)
        count, size = (
            (int(number.replace(",", "")) for number in found.groups()) if found else (0, 0)
        )
        wanted = (
            (1, _FILE_BYTES)
            if self.what == "large"
            else (
                _SMALL_FILES,
                _SMALL_FILES * _SMALL_BYTES,
            )
        )
        if (count, size) != wanted:
            raise AppError(f"rsync has fetched {count} files, {size} bytes, not {wanted}")
        return Result(size * 8e-6 / elapsed_s)
