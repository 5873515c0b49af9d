"""The OpenFlow port over TLS: who is let in, who is turned away and why, new files at work."""

import contextlib
import shutil
import signal
import socket
import ssl
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from certificates import Authority, Pair
from controller.config.errors import ConfigError
from controller.config.sections.tls import TlsSection
from controller.southbound.transport.tls import Credentials
from dummy_ovs import Controller, DummyOvs, dummy_ovs, free_endpoint, patched_prefix, wait_for

HEADER = struct.Struct("!BBHI")
HELLO, ECHO_REQUEST, ECHO_REPLY = 0, 2, 3


class AuthorityAndController:
    """An authority, a controller that goes by it, and the files that the controller uses."""

    def __init__(self, directory: Path, switches: str = "any", more: str = "") -> None:
        self.directory = directory
        self.authority = Authority(directory / "ca")
        self.endpoint = free_endpoint()
        self.use(self.authority.issue("controller"), self.authority)
        self.config = (
            f'openflow: {{listen: "ssl:{self.endpoint}"}}\n'
            f"tls: {{key: {directory}/key.pem, certificate: {directory}/certificate.pem, "
            f"ca: {directory}/ca.pem, switches: {switches}, handshake_timeout: 1 s{more}}}\n"
        )
        self.controller = Controller(directory, self.config)

    def use(self, pair: Pair, authority: Authority) -> None:
        """Put these files where the controller has its own."""
        shutil.copy(pair.key, self.directory / "key.pem")
        shutil.copy(pair.certificate, self.directory / "certificate.pem")
        shutil.copy(authority.certificate, self.directory / "ca.pem")

    def says(self, text: str) -> None:
        wait_for(lambda: text in self.controller.log, f"the controller says: {text}")

    def said(self, text: str) -> int:
        return self.controller.log.count(text)

    def socket(self) -> socket.socket:
        host, _, port = self.endpoint.rpartition(":")
        return socket.create_connection((host, int(port)), timeout=10)

    @contextlib.contextmanager
    def client(self, pair: Pair) -> Iterator["Client"]:
        """One who has done the TLS handshake with this certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(self.authority.certificate)
        context.load_cert_chain(pair.certificate, pair.key)
        with self.socket() as plain, context.wrap_socket(plain) as sock:
            yield Client(sock)


class Client:
    def __init__(self, sock: ssl.SSLSocket) -> None:
        self.sock = sock
        self._buffer = b""

    def say(self, *messages: tuple[int, bytes]) -> None:
        self.sock.sendall(
            b"".join(
                HEADER.pack(4, kind, HEADER.size + len(body), xid) + body
                for xid, (kind, body) in enumerate(messages)
            )
        )

    def hear(self, kind: int) -> bytes:
        """The body of the next message of this type."""
        while True:
            head = self._take(HEADER.size)
            _, found, length, _ = HEADER.unpack(head)
            body = self._take(length - HEADER.size)
            if found == kind:
                return body

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            data = self.sock.recv(65_536)
            assert data, "the controller has hung up"
            self._buffer += data
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken


@pytest.fixture
def world(tmp_path: Path) -> Iterator[AuthorityAndController]:
    world = AuthorityAndController(tmp_path)
    world.controller.start()
    yield world
    world.controller.stop()


@pytest.fixture
def switch(stock_prefix: Path, tmp_path: Path) -> Iterator[DummyOvs]:
    directory = tmp_path / "ovs"
    directory.mkdir()
    with dummy_ovs(stock_prefix, directory) as switch:
        yield switch


def set_ssl(switch: DummyOvs, pair: Pair, authority: Authority) -> None:
    switch.vsctl("set-ssl", pair.key, pair.certificate, authority.certificate)


@pytest.mark.slow
def test_a_switch_with_a_certificate_is_served_and_others_are_told_apart(
    world: AuthorityAndController, switch: DummyOvs
) -> None:
    right = world.authority.issue("s1")
    set_ssl(switch, world.authority.issue("s1-old", days=-1), world.authority)
    switch.add_bridge("s1", 1, f"ssl:{world.endpoint}")
    world.says("refused the switch at 127.0.0.1:")
    world.says("its certificate is refused: certificate has expired")

    stranger = Authority(world.directory / "other", "other")
    set_ssl(switch, stranger.issue("s1"), world.authority)
    world.says("its certificate is refused: ")
    wait_for(lambda: "unable to get local issuer" in world.controller.log, "the wrong authority")

    assert not world.said("is ready")
    set_ssl(switch, right, world.authority)
    world.says("switch=0000000000000001 is ready")

    # Whoever is connected stays so; the next one needs what is asked for now.
    shutil.copy(stranger.certificate, world.directory / "ca.pem")
    world.says("new TLS files are in use")
    assert not world.said("disconnected")
    before = world.said("refused the switch")
    set_ssl(switch, world.authority.issue("s1-new"), world.authority)
    switch.vsctl("del-controller", "s1")
    world.says("switch=0000000000000001 disconnected")
    switch.vsctl("set-controller", "s1", f"ssl:{world.endpoint}")
    wait_for(
        lambda: world.said("refused the switch") > before,
        "the former authority is not known any more",
    )
    both = world.authority.certificate.read_text() + stranger.certificate.read_text()
    (world.directory / "ca.pem").write_text(both)
    wait_for(lambda: world.said("switch=0000000000000001 is ready") == 2, "the switch is back")


def test_plain_tcp_and_no_certificate_are_refused(world: AuthorityAndController) -> None:
    with world.socket() as plain:
        plain.sendall(HEADER.pack(4, HELLO, 8, 1))
        assert plain.recv(1) in (b"", b"\x15"), "an alert of TLS, or nothing"
    world.says("it does not speak TLS")
    context = ssl.create_default_context(cafile=world.authority.certificate)
    context.check_hostname = False
    with world.socket() as plain, contextlib.suppress(ssl.SSLError, ConnectionError):
        context.wrap_socket(plain).recv(1)
    world.says("it has shown no certificate")


def test_refusals_are_told_once_and_then_counted(world: AuthorityAndController) -> None:
    for _ in range(20):
        with world.socket() as plain, contextlib.suppress(ConnectionError):
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
            plain.recv(100)
    world.says("it does not speak TLS")
    assert world.said("refused the switch") == 1


def test_one_who_says_nothing_is_turned_away_and_holds_up_nobody(
    world: AuthorityAndController,
) -> None:
    with contextlib.ExitStack() as silent:
        sockets = [silent.enter_context(world.socket()) for _ in range(50)]
        with world.client(world.authority.issue("s1")) as client:
            client.hear(HELLO)
        assert sockets[-1].recv(1) == b""
    world.says("no TLS handshake within 1 s")


def test_many_and_large_messages(world: AuthorityAndController) -> None:
    bodies = [b"%d" % number for number in range(1000)] + [bytes(65_000), b"end"]
    with world.client(world.authority.issue("s1")) as client:
        client.say((HELLO, b""), *((ECHO_REQUEST, body) for body in bodies))
        for body in bodies:
            assert client.hear(ECHO_REPLY) == body
        for cut in (1, 7, 16_384):
            stream = HEADER.pack(4, ECHO_REQUEST, 50_008, 1) + bytes(range(250)) * 200
            for start in range(0, len(stream), max(cut, 500)):
                client.sock.sendall(stream[start : start + max(cut, 500)])
            assert client.hear(ECHO_REPLY) == stream[8:]


def test_certificates_are_for_the_switches_that_they_name(
    tmp_path: Path, stock_prefix: Path
) -> None:
    world = AuthorityAndController(tmp_path, "{s1: 1, s23: [2, 3]}")
    world.controller.start()
    directory = tmp_path / "ovs"
    directory.mkdir()
    try:
        with dummy_ovs(stock_prefix, directory) as switch:
            set_ssl(switch, world.authority.issue("s1"), world.authority)
            switch.add_bridge("s1", 1, f"ssl:{world.endpoint}")
            switch.add_bridge("s2", 2, f"ssl:{world.endpoint}")
            world.says("switch=0000000000000001 is ready")
            world.says("its certificate names s1, which may not be switch 0000000000000002")
            set_ssl(switch, world.authority.issue("s23"), world.authority)
            world.says("switch=0000000000000002 is ready")
    finally:
        world.controller.stop()


@pytest.mark.switch
def test_a_certificate_is_renewed_without_a_new_key(tmp_path: Path) -> None:
    world = AuthorityAndController(tmp_path, "{s1: 1}")
    world.controller.start()
    directory = tmp_path / "ovs"
    directory.mkdir()
    try:
        with dummy_ovs(patched_prefix(), directory) as switch:
            former = world.authority.issue("old")
            set_ssl(switch, former, world.authority)
            switch.add_bridge("s1", 1, f"ssl:{world.endpoint}")
            world.says("its certificate names old, which may not be switch 0000000000000001")
            renewed = world.authority.issue("s1", key=former.key)
            shutil.copy(renewed.certificate, former.certificate)
            world.says("switch=0000000000000001 is ready")
    finally:
        world.controller.stop()


def test_revoked_certificates_and_old_versions_are_refused(tmp_path: Path) -> None:
    world = AuthorityAndController(
        tmp_path, more=f", crl: {tmp_path}/crl.pem, minimum_version: '1.3'"
    )
    good, bad = world.authority.issue("s1"), world.authority.issue("s2")
    shutil.copy(world.authority.revoke(bad), tmp_path / "crl.pem")
    world.controller.start()
    try:
        with world.client(good) as client:
            client.hear(HELLO)
            assert client.sock.version() == "TLSv1.3"
        with contextlib.suppress(ssl.SSLError, ConnectionError), world.client(bad) as client:
            client.sock.recv(1)
        world.says("its certificate is refused: certificate revoked")
        context = ssl.create_default_context(cafile=world.authority.certificate)
        context.check_hostname = False
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with world.socket() as plain, contextlib.suppress(ssl.SSLError, ConnectionError):
            context.wrap_socket(plain)
        world.says("does not speak TLS of a version that is allowed")
    finally:
        world.controller.stop()


def test_bad_files_put_in_place_are_refused_at_work(world: AuthorityAndController) -> None:
    good = world.authority.issue("s1")
    in_use = (world.directory / "key.pem").read_bytes()
    (world.directory / "key.pem").write_text("nonsense")
    world.says("ERROR   weir: new TLS files are refused, the former ones stay in use: tls.key")
    with world.client(good) as client:
        client.hear(HELLO)
    world.controller.tell(signal.SIGHUP)
    world.says("the configuration is not reloaded, nothing has changed: tls.key")
    (world.directory / "key.pem").write_bytes(in_use)
    world.controller.tell(signal.SIGHUP)
    world.says("configuration reloaded")
    with world.client(good) as client:
        client.hear(HELLO)


# The files


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def section(authority: Authority, pair: Pair, **keys: object) -> TlsSection:
    named = {"key": pair.key, "certificate": pair.certificate, "ca": authority.certificate}
    return TlsSection.model_validate(named | keys)


def test_every_file_that_cannot_be_used_is_named(authority: Authority, tmp_path: Path) -> None:
    pair, other = authority.issue("a"), authority.issue("b")
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    for keys, told in (
        ({"key": tmp_path / "none"}, r"tls\.key: .*none: No such file"),
        ({"key": other.key}, r"tls\.key: .* is not the key of"),
        ({"certificate": empty}, r"tls\.key, tls\.certificate: "),
        ({"ca": empty}, r"tls\.ca: .*empty\.pem"),
        ({"crl": pair.certificate}, r"tls\.crl: .* holds no revocation list"),
    ):
        with pytest.raises(ConfigError, match=told):
            Credentials(section(authority, pair, **keys))


def test_bad_new_files_leave_the_former_ones_in_use(authority: Authority) -> None:
    pair = authority.issue("a")
    credentials = Credentials(section(authority, pair))
    in_use = credentials._server
    assert not credentials.changed()
    pair.key.write_text("nonsense")
    assert not credentials.changed(), "it may be being written"
    assert credentials.changed()
    with pytest.raises(ConfigError):
        credentials.reload()
    assert credentials._server is in_use
    assert not credentials.changed(), "it is told once"
    authority.issue("a")
    credentials.changed()
    assert credentials.changed()
    credentials.reload()
    assert credentials._server is not in_use


def test_an_encrypted_key_is_not_asked_about_at_the_terminal(
    authority: Authority, tmp_path: Path
) -> None:
    pair = authority.issue("a")
    locked = tmp_path / "locked.key"
    subprocess.run(
        ["openssl", "ec", "-aes256", "-passout", "pass:x", "-in", pair.key, "-out", locked],
        check=True,
        capture_output=True,
    )
    with pytest.raises(ConfigError, match=r"tls\.key: .*locked\.key is encrypted"):
        Credentials(section(authority, pair, key=locked))


@pytest.mark.parametrize(
    ("switches", "names", "switch", "admitted"),
    [
        ("any", [], 5, True),
        ("named", ["000000000000001f"], 31, True),
        ("named", ["00:00:00:00:00:00:00:1F"], 31, True),
        ("named", ["000000000000001e", "31", "1f"], 31, False),
        ({"s": 31}, ["s"], 31, True),
        ({"s": [30, 31]}, ["x", "s"], 31, True),
        ({"s": 30, "t": 31}, ["s"], 31, False),
        ({}, ["s"], 31, False),
    ],
)
def test_who_may_be_which_switch(
    authority: Authority, switches: object, names: list[str], switch: int, admitted: bool
) -> None:
    credentials = Credentials(section(authority, authority.issue("a"), switches=switches))
    assert credentials.admits(names, switch) is admitted
