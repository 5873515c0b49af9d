"""Servers and clients of the benchmark's programs, as processes on hosts."""

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from experiments.traffic.programs.app import App, AppError, Result, Service
from testbed.command import in_network, wait_until
from testbed.controller import listening
from testbed.host import Host

_START_S, _STOP_S = 20.0, 10.0


class Client:
    """Context manager around a running client; a client that has not ended is killed."""

    def __init__(self, app: App, argv: Sequence[str], host: Host, folder: Path) -> None:
        self._app, self._argv, self._folder = app, argv, folder
        self._said, self._complained = folder / "stdout", folder / "stderr"
        self._begun_s = time.monotonic()
        with self._said.open("wb") as said, self._complained.open("wb") as complained:
            self._process = subprocess.Popen(
                in_network(host.pid, argv),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=complained,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def result(self) -> Result:
        """Wait for its end; return its result. Raises AppError if it failed."""
        name = Path(self._argv[0]).name
        left_s = self._app.patience_s - (time.monotonic() - self._begun_s)
        try:
            status = self._process.wait(max(left_s, 0.1))
        except subprocess.TimeoutExpired as late:
            raise AppError(
                f"{name} has not ended after {self._app.patience_s:g} s{self._last_words()}"
            ) from late
        elapsed_s = time.monotonic() - self._begun_s
        if status != 0:
            raise AppError(f"{name} ended with status {status}{self._last_words()}")
        try:
            return self._app.parse(self._said.read_text(errors="replace"), self._folder, elapsed_s)
        except AppError as wrong:
            raise AppError(f"{wrong}{self._last_words()}") from wrong

    def _last_words(self) -> str:
        text = self._complained.read_text(errors="replace").strip()
        text = text or self._said.read_text(errors="replace").strip()
        return f": {text[-600:]}" if text else ", and said nothing"


@contextmanager
def server(service: Service, host: Host, folder: Path) -> Iterator[None]:
    """Run a server on ``host``. Raises AppError with its last words if it does not listen."""
    log = folder / "server.log"
    with log.open("wb") as said:
        process = subprocess.Popen(
            in_network(host.pid, service.argv(folder)),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    try:
        try:
            wait_until(
                lambda: process.poll() is not None or _listens(host, service.port),
                timeout_s=_START_S,
                what=f"{service.name} listens on port {service.port} of {host.name}",
            )
        except TimeoutError as late:
            raise AppError(f"{late}: {_tail(log)}") from late
        if process.poll() is not None:
            raise AppError(f"{service.name} ended with status {process.returncode}: {_tail(log)}")
        yield
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _listens(host: Host, port: int) -> bool:
    tables = (Path(f"/proc/{host.pid}/net/{name}") for name in ("tcp", "tcp6"))
    return any(listening(port, table.read_text()) for table in tables if table.exists())


def _tail(log: Path) -> str:
    return log.read_text(errors="replace").strip()[-600:] or "it said nothing"
