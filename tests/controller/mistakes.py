"""What an operator does, and by what it is answered.

Each kind of doing is called with the `Lab` and answers whether it has failed, and with what words.
In what is written, `@` stands for the folder of the lab's files, and `{name}` for what the lab
knows by that name (`Lab.places`).
"""

import contextlib
import io
import json
import logging
import signal
import ssl
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import httpx

from certificates import Pair
from controller.ha.election import Heartbeat, Rank
from controller.ha.heartbeats import Line
from controller.runtime import launcher
from controller.southbound.codec import extension
from controller.southbound.codec.openflow import HEADER, Type
from dummy_ovs import REPOSITORY, free_endpoint, wait_for
from experiments.bench.controller.fake_switch import HOSTS, FakeSwitch
from mistakes_lab import SECRET, AtWork, Lab, is_grave
from packets import Host, arp
from scripted_switch import ScriptedSwitch

_TIMEOUT_S = 60


class Answer(NamedTuple):
    """`failed` as a program sees it: by exit status, status of HTTP, or level of a log line."""

    failed: bool
    text: str


Doing = Callable[[Lab], Answer]


def _captured(call: Callable[[list[str]], int], argv: list[str]) -> Answer:
    """What a command says, in this process."""
    said = io.StringIO()
    pipe = signal.getsignal(signal.SIGPIPE)
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                status: object = call(argv)
            except SystemExit as ended:
                status = ended.code
    finally:
        signal.signal(signal.SIGPIPE, pipe)
    return Answer(status != 0, said.getvalue())


@dataclass(frozen=True)
class Command:
    """`weir-controller` with these arguments."""

    written: str

    def __call__(self, lab: Lab) -> Answer:
        return _captured(launcher.main, lab.written(self.written).split())


@dataclass(frozen=True)
class Check:
    """`weir-controller check` of a file with this text."""

    written: str
    options: str = ""

    def __call__(self, lab: Lab) -> Answer:
        text = lab.written(self.written)
        if "openflow" not in text:
            text = f"openflow: {{listen: 'tcp:{free_endpoint()}'}}\n{text}"
        file = str(lab.new_file(text))
        return _captured(launcher.main, ["check", *lab.written(self.options).split(), file])


@dataclass(frozen=True)
class Start:
    """The controller, started with this configuration, as a process that ends at once."""

    written: str

    def __call__(self, lab: Lab) -> Answer:
        file = lab.new_file(lab.written(self.written))
        done = subprocess.run(
            [sys.executable, "-m", "controller", "--config", str(file)],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
        # 1 is for failures after which a start may help.
        return Answer(done.returncode == 2, done.stdout + done.stderr)


@dataclass(frozen=True)
class Program:
    """Another program's `main`, in this process."""

    main: Callable[[list[str]], int]
    written: str

    def __call__(self, lab: Lab) -> Answer:
        with contextlib.chdir(lab.directory):
            return _captured(self.main, lab.written(self.written).split())


@dataclass(frozen=True)
class Fountain:
    """The command `fountain`."""

    written: str
    program: Callable[[], Path] = field(repr=False)

    def __call__(self, lab: Lab) -> Answer:
        argv = [str(self.program()), *lab.written(self.written).split()]
        done = subprocess.run(
            argv, cwd=lab.directory, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
        return Answer(done.returncode != 0, done.stdout + done.stderr)


@dataclass(frozen=True)
class Http:
    """A request to the API at work; the status is that which the table wants."""

    written: str
    status: int
    token: str | None = "reader"
    json: object = None
    content: bytes | None = None

    def __call__(self, lab: Lab) -> Answer:
        world, (method, path) = lab.plain, self.written.split(" ")
        assert world.process.running
        secret = lab.tokens.get(self.token, self.token) if self.token else None
        answer = httpx.request(
            method,
            f"http://{lab.api}{path}",
            headers={"Authorization": f"Bearer {secret}"} if secret else {},
            **({"json": self.json} if self.content is None else {"content": self.content}),
        )
        assert answer.status_code == self.status, (answer.status_code, answer.text)
        failed = answer.status_code >= 400
        return Answer(failed, answer.json()["detail"] if failed else answer.text)


@dataclass(frozen=True)
class Said:
    """Bytes that somebody says to the OpenFlow port of a controller at work; it logs a line."""

    written: str
    data: bytes
    where: str = "plain"
    begins: str = "refused"

    def __call__(self, lab: Lab) -> Answer:
        world: AtWork = getattr(lab, self.where)

        def say() -> None:
            with world.connect() as peer, contextlib.suppress(ConnectionError):
                peer.sendall(self.data)
                while peer.recv(4096):
                    pass

        return Answer(True, world.logged(say, self.begins))


@dataclass(frozen=True)
class Twin:
    """A second switch with the datapath id of the first."""

    written: str = "another bridge with the same id"

    def __call__(self, lab: Lab) -> Answer:
        world = lab.plain
        host, _, port = world.openflow.rpartition(":")

        def connect() -> None:
            with contextlib.suppress(OSError), FakeSwitch((host, int(port))):
                pass

        return Answer(True, world.logged(connect, "refused the switch"))


@dataclass(frozen=True)
class Peer:
    """Another controller that sends this heartbeat."""

    written: str
    beat: Heartbeat
    secret: bytes = SECRET

    def __call__(self, lab: Lab) -> Answer:
        world = lab.standby

        def send() -> None:
            with world.connect(lab.peers) as peer, contextlib.suppress(ConnectionError):
                lines = Line(peer.makefile().readline().strip(), self.secret)
                peer.sendall(lines.write(self.beat))
                while peer.recv(4096):
                    pass

        return Answer(True, world.logged(send, "refused the controller"))


@dataclass(frozen=True)
class OverTls:
    """Somebody who has this certificate and trusts this authority connects with TLS to a port of a
    controller at work, and says this."""

    written: str
    pair: Callable[[Lab], Pair | None]
    trusts: str = "ca.pem"
    says: Callable[[ssl.SSLSocket], object] = lambda _: None
    peers: bool = False

    def __call__(self, lab: Lab) -> Answer:
        world = lab.secure
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(lab.file(self.trusts))
        pair = self.pair(lab)
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)

        def connect() -> None:
            endpoint = lab.secure_peers if self.peers else None
            with (
                contextlib.suppress(ssl.SSLError, ConnectionError),
                world.connect(endpoint) as plain,
                context.wrap_socket(plain) as peer,
            ):
                self.says(peer)
                while peer.recv(4096):
                    pass

        return Answer(True, world.logged(connect, "refused the"))


def as_switch(peer: ssl.SSLSocket) -> None:
    """The handshake of a switch with datapath id 17, as far as its id."""
    peer.sendall(HEADER.pack(4, 0, 8, 1))
    features = (17).to_bytes(8, "big") + bytes.fromhex("00000000 fe 00 0000 0000004f 00000000")
    peer.sendall(HEADER.pack(4, 6, 8 + len(features), 2) + features)
    # It asks for the ports next.
    ports = bytes.fromhex("000d 0000 00000000")
    peer.sendall(HEADER.pack(4, 19, 8 + len(ports), 3) + ports)


def as_peer(peer: ssl.SSLSocket) -> None:
    """The heartbeat of controller b."""
    challenge = peer.recv(4096).decode().strip()
    peer.sendall(Line(challenge, b"").write(Heartbeat("b", Rank.STANDBY, 1, 100)))


@dataclass(frozen=True)
class Changed:
    """While a controller is at work, its configuration, or a file, becomes this. `into` names the
    file; without one it is the configuration, which is read again."""

    written: str
    begins: str
    where: str = "plain"
    into: str = ""

    def __call__(self, lab: Lab) -> Answer:
        world: AtWork = getattr(lab, self.where)
        if self.where == "plain":
            # A reload before this may have started its process anew.
            wait_for(lab.api_answers, "the API to answer")
        if self.into:
            file = lab.file(self.into)
            before = file.read_bytes()
            undo: Callable[[], object] = lambda: file.write_bytes(before)  # noqa: E731
            do: Callable[[], object] = lambda: file.write_text(lab.written(self.written))  # noqa: E731
        else:
            undo = lambda: world.process.reconfigure(json.dumps(world.config))  # noqa: E731
            do = lambda: world.process.reconfigure(self._config(lab, world))  # noqa: E731
        try:
            return Answer(True, world.logged(do, self.begins))
        finally:
            undo()

    def _config(self, lab: Lab, world: AtWork) -> str:
        section, _, text = lab.written(self.written).partition(": ")
        return json.dumps(world.config | {section: json.loads(text)})


@dataclass(frozen=True)
class Bridge:
    """A bridge of Debian's switch that is connected to a controller in this way."""

    written: str
    where: str = "plain"
    trusts: str = "ca.pem"

    def __call__(self, lab: Lab) -> Answer:
        world: AtWork = getattr(lab, self.where)
        transport = "ssl" if self.where == "secure" else "tcp"
        switch = lab.ovs
        pair = lab.authority.issue("0000000000000099")
        switch.vsctl("set-ssl", pair.key, pair.certificate, lab.file(self.trusts))
        settings = self.written.split()

        def add() -> None:
            switch.vsctl(
                *("add-br", "m1", "--", "set", "bridge", "m1", "datapath_type=dummy"),
                *("other-config:datapath-id=0000000000000099", *settings),
                *("--", "set-controller", "m1", f"{transport}:{world.openflow}"),
            )

        try:
            return Answer(True, world.logged(add, "refused the switch"))
        finally:
            switch.vsctl("del-br", "m1")


@dataclass(frozen=True)
class Logged:
    """What a controller at work logs of what it was configured with."""

    written: str
    where: str
    begins: str

    def __call__(self, lab: Lab) -> Answer:
        world: AtWork = getattr(lab, self.where)
        wait_for(
            lambda: self.begins in world.process.log, f"a line with {self.begins!r}", deadline_s=45
        )
        (line, *_) = (line for line in world.process.log.splitlines() if self.begins in line)
        return Answer(is_grave(line), line)


@dataclass(frozen=True)
class Scripted:
    """A switch by hand that says this in its handshake; the session logs a line."""

    written: str
    says: Callable[[ScriptedSwitch], object]

    def __call__(self, _: Lab) -> Answer:
        said = io.StringIO()
        handler = logging.StreamHandler(said)
        log = logging.getLogger("weir.session")
        log.addHandler(handler)
        try:
            self.says(ScriptedSwitch())
        finally:
            log.removeHandler(handler)
        return Answer(bool(said.getvalue()), said.getvalue())


def without_extension(switch: ScriptedSwitch) -> None:
    switch.refuse_subscription()
    switch.say_meter_features()
    switch.say_flows()
    switch.barrier()


def of_another_version(switch: ScriptedSwitch) -> None:
    request = next(message for message in switch.got if message[1] == Type.EXPERIMENTER)
    body = struct.pack("!HHI", 0xFFFF, extension.ErrorCode.BAD_VERSION, extension.EXPERIMENTER)
    switch.say(Type.ERROR, body + request, switch.xid(Type.EXPERIMENTER))


@dataclass(frozen=True)
class Queue:
    """A port of the patched switch gets a queue from these words; the controller logs a line."""

    written: str

    def __call__(self, lab: Lab) -> Answer:
        world, switch = lab.plain, lab.patched

        # Of each port it is told once, and maybe as soon as it is there.
        def queue() -> None:
            switch.add_bridge("q1", zlib.crc32(self.written.encode()), world.openflow)
            switch.add_port("q1", "p1", 1)
            qos = ("--", "--id=@q", "create", "qos", *self.written.split())
            switch.vsctl("set", "port", "p1", "qos=@q", *qos)

        # A port is regulated, and so needs a queue, once a host is behind it. What the host says
        # before the controller has the switch is lost. It is none of the other switch's.
        def speak() -> None:
            switch.inject("p1", arp(1, Host(HOSTS + 10), Host(HOSTS + 11)))

        try:
            return Answer(True, world.logged(queue, "without a queue", speak))
        finally:
            switch.vsctl("del-br", "q1")
