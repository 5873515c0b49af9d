"""Where mistakes are made: files, and controllers at work, started when they are first needed."""

import contextlib
import functools
import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from certificates import Authority, Pair
from controller.api.access.tokens import Scope, line, make
from dummy_ovs import Controller, DummyOvs, dummy_ovs, free_endpoint, patched_prefix, wait_for
from experiments.bench.controller.fake_switch import FakeSwitch

SECRET = b"0123456789abcdef"
DAY = timedelta(days=1)


class AtWork:
    """A controller as a process, with a socket for commands. `config` is without its addresses."""

    def __init__(self, directory: Path, listen: str, config: Mapping[str, Any]) -> None:
        directory.mkdir()
        self.socket = directory / "controller.sock"
        self.openflow = free_endpoint()
        self.config: dict[str, Any] = {
            "openflow": {"listen": f"{listen}:{self.openflow}"},
            "northbound": {"socket": str(self.socket)},
            **config,
        }
        self.process = Controller(directory, json.dumps(self.config))
        self.process.start()

    def logged(
        self,
        do: Callable[[], object],
        begins: str,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> str:
        """The line that begins so, after its time and level, and that something has caused.

        `meanwhile` is done again and again until the line is there.
        """
        before = len(self.process.log)
        do()

        def lines() -> list[str]:
            meanwhile()
            new = self.process.log[before:].splitlines()
            return [line for line in new if begins in line and is_grave(line)]

        # A switch that is refused waits up to eight seconds before it tries again.
        wait_for(lines, f"a line with {begins!r}", deadline_s=45)
        return lines()[0]

    def connect(self, endpoint: str | None = None) -> socket.socket:
        host, _, port = (endpoint or self.openflow).rpartition(":")
        return socket.create_connection((host, int(port)), timeout=20)

    def stop(self) -> None:
        if self.process.running:
            self.process.stop()
        assert "Traceback" not in self.process.log


def is_grave(line: str) -> bool:
    return any(level in line for level in ("WARNING", "ERROR", "CRITICAL"))


class Lab:
    """What the mistakes are made with. Controllers are started when they are first needed."""

    def __init__(self, directory: Path, stock_prefix: Path) -> None:
        self.directory = directory
        self.stock_prefix = stock_prefix
        self._closing = contextlib.ExitStack()
        self._numbers = iter(range(10_000))
        self.tokens: dict[str, str] = {}
        self.taken = self._closing.enter_context(socket.create_server(("127.0.0.1", 0)))
        self._make_files()

    def close(self) -> None:
        self._closing.close()

    def file(self, name: str) -> Path:
        return self.directory / name

    def written(self, text: str) -> str:
        for name, place in self.places().items():
            if f"{{{name}}}" in text:
                text = text.replace(f"{{{name}}}", place())
        return text.replace("@", str(self.directory))

    def places(self) -> dict[str, Callable[[], str]]:
        return {
            "free": free_endpoint,
            "taken": lambda: f"127.0.0.1:{self.taken.getsockname()[1]}",
            "socket": lambda: str(self.plain.socket),
            "api": self._api,
        }

    def _api(self) -> str:
        assert self.plain.process.running
        return self.api

    def new_file(self, text: str, suffix: str = ".yaml") -> Path:
        file = self.file(f"mistake-{next(self._numbers)}{suffix}")
        file.write_text(text)
        return file

    def _make_files(self) -> None:
        self.authority = Authority(self.directory, "ca")
        self.stranger = Authority(self.directory / "stranger", "stranger")
        self._pair("own", self.authority.issue("a"))
        self._pair("other", self.authority.issue("other"))
        self._pair("expired", self.authority.issue("expired", days=-1))
        shutil.copy(self.stranger.certificate, self.file("stranger.pem"))
        self.authority.revoke(self.authority.issue("revoked"))
        _openssl(
            *("ec", "-in", self.file("own-key.pem"), "-aes256", "-passout", "pass:secret"),
            *("-out", self.file("locked-key.pem")),
        )
        self.file("nothing.pem").write_text("nothing\n")
        self.file("secret").write_bytes(SECRET)
        self.file("short").write_text("short\n")
        self._make_tokens()

    def _pair(self, name: str, pair: Pair) -> None:
        shutil.copy(pair.key, self.file(f"{name}-key.pem"))
        shutil.copy(pair.certificate, self.file(f"{name}.pem"))

    def _make_tokens(self) -> None:
        lines = ["tokens:"]
        for name, scope, good_for in (
            ("reader", Scope.READ, 90 * DAY),
            ("sender", Scope.ANNOUNCE, 90 * DAY),
            ("operator", Scope.REGULATE, 90 * DAY),
            ("expired", Scope.READ, -DAY),
        ):
            expires = datetime.now(UTC).replace(microsecond=0) + good_for
            self.tokens[name], token = make(name, frozenset({scope}), expires)
            lines.append(line(token))
        self.file("expired-tokens.yaml").write_text("\n".join(lines) + "\n")
        self.file("tokens.yaml").write_text("\n".join(lines[:-1]) + "\n")
        # The API is asked with the expired one, too.
        self.file("api-tokens.yaml").write_text("\n".join(lines) + "\n")

    @functools.cached_property
    def plain(self) -> AtWork:
        """A controller without TLS, with a switch of 200 hosts and the HTTP API."""
        self.api = free_endpoint()
        api = {"listen": self.api, "tokens": str(self.file("api-tokens.yaml")), "rate": 1000}
        directory = self.directory / "plain"
        world = AtWork(
            directory, "tcp", {"northbound": {"socket": f"{directory}/controller.sock", "api": api}}
        )
        self._closing.callback(world.stop)
        host, _, port = world.openflow.rpartition(":")
        switch = self._closing.enter_context(FakeSwitch((host, int(port))))
        switch.introduce()
        ended = threading.Event()

        def keep() -> None:
            """A switch that does not answer is taken for gone."""
            while not ended.wait(1.0):
                switch.settle()

        keeping = threading.Thread(target=keep, daemon=True)
        keeping.start()
        self._closing.callback(keeping.join)
        self._closing.callback(ended.set)
        wait_for(self.api_answers, "the API to answer")
        return world

    def api_answers(self) -> bool:
        try:
            return httpx.get(f"http://{self.api}/v1/health").status_code == 200
        except httpx.HTTPError:
            return False

    @functools.cached_property
    def standby(self) -> AtWork:
        """A controller that has a peer b by plain TCP, which is not there."""
        self.peers = free_endpoint()
        section = {
            "name": "a",
            "listen": f"tcp:{self.peers}",
            "peers": {"b": free_endpoint()},
            "secret": str(self.file("secret")),
        }
        world = AtWork(self.directory / "standby", "tcp", {"standby": section})
        self._closing.callback(world.stop)
        return world

    @functools.cached_property
    def secure(self) -> AtWork:
        """A controller with TLS, for switches that their certificates name, with a peer b."""
        self.secure_peers = free_endpoint()
        directory = self.directory / "secure"
        files = {key: f"{directory}/{key}.pem" for key in ("key", "certificate", "ca", "crl")}
        tls = {**files, "switches": "named", "handshake_timeout": "1 s"}
        section = {"name": "a", "listen": f"ssl:{self.secure_peers}", "peers": {"b": "127.0.0.1:1"}}
        directory.mkdir()
        sources = ("own-key.pem", "own.pem", "ca.pem", "crl.pem")
        for source, file in zip(sources, files.values(), strict=True):
            shutil.copy(self.file(source), file)
        world = AtWork(directory / "run", "ssl", {"tls": tls, "standby": section})
        self._closing.callback(world.stop)
        return world

    @functools.cached_property
    def ovs(self) -> DummyOvs:
        """Debian's switch."""
        return self._switch(self.stock_prefix, "ovs")

    @functools.cached_property
    def patched(self) -> DummyOvs:
        """Weir's switch; skips the test where there is none."""
        return self._switch(patched_prefix(), "patched")

    def _switch(self, prefix: Path, name: str) -> DummyOvs:
        directory = self.directory / name
        directory.mkdir()
        return self._closing.enter_context(dummy_ovs(prefix, directory))


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


@contextlib.contextmanager
def opened(directory: Path, stock_prefix: Path) -> Iterator[Lab]:
    made = Lab(directory, stock_prefix)
    try:
        yield made
    finally:
        made.close()
