"""The Python bindings of the transports: four ends, for threads and for asyncio."""

import asyncio
import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import weir_transport
from weir_transport import Client, LostError, Receiver, RefusedError, Sender, Server

EXAMPLES = Path(__file__).parents[2] / "transport/crates/python/examples"
CONTENT = bytes(n // 1000 % 251 for n in range(2_000_000))
SOON = 30.0


@pytest.fixture
def server() -> Iterator[Server]:
    with Server("127.0.0.1:0") as server:
        server.insert("content", CONTENT)
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    assert server.fingerprint
    with Client(server.address, trust=server.fingerprint) as client:
        yield client


class Ends:
    """A sender and a receiver that know each other."""

    def __init__(self, scratch: Path) -> None:
        identity = scratch / "identity.pem"
        self.receiver = Receiver("127.0.0.1:0", clients=weir_transport.fingerprint(identity))
        assert self.receiver.fingerprint
        trust = [self.receiver.fingerprint]
        self.sender = Sender(self.receiver.address, trust=trust, identity=identity, rate=500e6)


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    ends = Ends(tmp_path)
    with ends.receiver, ends.sender:
        yield ends


def test_objects_are_fetched_into_memory_files_and_file_objects(client, tmp_path):
    assert client.fetch("content").wait(SOON) == CONTENT
    into = io.BytesIO()
    assert client.fetch_to("content", into).wait(SOON) == len(CONTENT)
    assert into.getvalue() == CONTENT
    client.fetch_to("content", tmp_path / "file").wait(SOON)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_server_serves_bytes_paths_and_file_objects_until_they_are_removed(
    server, client, tmp_path
):
    (tmp_path / "file").write_bytes(b"of a file")
    server.insert("a/bytes", bytearray(b"some"))
    server.insert("a/path", tmp_path / "file")
    server.insert("a/object", io.BytesIO(b"read"))
    entries, omitted = client.list("a").wait(SOON)
    assert [(entry.path, entry.size) for entry in entries] == [
        ("a/bytes", 4), ("a/object", 4), ("a/path", 9),
    ]  # fmt: skip
    assert omitted == []
    assert client.fetch("a/path").wait(SOON) == b"of a file"
    assert server.remove("a/path")
    assert not server.remove("a/path")
    with pytest.raises(RefusedError, match="a/path"):
        client.fetch("a/path").wait(SOON)


def test_a_directory_is_served(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    with Server("127.0.0.1:0", directory=tmp_path) as server:
        assert Client(server.address, trust=server.fingerprint).fetch("file").wait(SOON)
        with pytest.raises(ValueError, match="put files into it"):
            server.insert("other", b"")


def test_objects_are_sent_and_received(ends, tmp_path):
    sent = ends.sender.send("some/name", io.BytesIO(CONTENT), size=len(CONTENT))
    offer = ends.receiver.offer().wait(SOON)
    assert (offer.name, offer.size, offer.is_directory) == ("some/name", len(CONTENT), False)
    assert offer.write_to(tmp_path / "file").wait(SOON) == len(CONTENT)
    sent.wait(SOON)
    assert (tmp_path / "file").read_bytes() == CONTENT
    refused = ends.sender.send("other", b"1234")
    ends.receiver.offer().wait(SOON).refuse("not now")
    with pytest.raises(RefusedError, match="not now"):
        refused.wait(SOON)
    with pytest.raises(RuntimeError, match="taken"):
        offer.into_bytes()


def test_tasks_of_asyncio_share_a_thread(ends, client):
    async def receive() -> list[bytes]:
        offers = [await ends.receiver.offer() for _ in range(3)]
        return sorted(await asyncio.gather(*(offer.into_bytes() for offer in offers)))

    async def send(name: str) -> None:
        await ends.sender.send(name, name.encode())

    async def main() -> None:
        async with asyncio.timeout(SOON), asyncio.TaskGroup() as tasks:
            received = tasks.create_task(receive())
            fetched = tasks.create_task(asyncio.wait_for(client.fetch("content"), SOON))
            for name in ("a", "b", "c"):
                tasks.create_task(send(name))
        assert await received == [b"a", b"b", b"c"]
        assert await fetched == CONTENT
        await ends.sender.finish()

    asyncio.run(main())


def test_a_task_that_is_cancelled_cancels_its_transfer_and_takes_no_offer(ends):
    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ends.receiver.offer(), 0.05)
        sent = ends.sender.send("first", b"1")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sent, 0.5)
        again = ends.sender.send("second", b"2")
        while (offer := await ends.receiver.offer()).name != "second":
            pass
        assert await offer.into_bytes() == b"2"
        await again

    asyncio.run(asyncio.wait_for(main(), SOON))


def test_a_thread_that_waits_lets_others_run_and_ctrl_c_ends_it(ends):
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        ends.receiver.offer().wait(SOON)
    with pytest.raises(TimeoutError):
        ends.receiver.offer().wait(0.01)


def test_a_peer_that_is_not_there_or_not_the_right_one_is_told_of(server, tmp_path):
    other = weir_transport.fingerprint(tmp_path / "other.pem")
    with pytest.raises(LostError):
        Client(server.address, trust=other).fetch("content").wait(SOON)
    with pytest.raises(LostError, match="refused"):
        Client("127.0.0.1:1", trust=other).fetch("content").wait(SOON)


def test_what_goes_wrong_in_a_file_object_is_told_of(ends, client):
    class Full(io.RawIOBase):
        def write(self, data: object) -> int:
            del data
            raise OSError("the disk is full")

    with pytest.raises(weir_transport.TransportError, match="disk is full"):
        client.fetch_to("content", Full()).wait(SOON)
    sent = ends.sender.send("short", io.BytesIO(b"12"), size=3)
    taken = ends.receiver.offer().wait(SOON).into_bytes()
    with pytest.raises(RefusedError, match="ended before its 3 bytes"):
        sent.wait(SOON)
    with pytest.raises(weir_transport.TransportError):
        taken.wait(SOON)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: Receiver("127.0.0.1:0"), ValueError, "who may send"),
        (lambda: Client("127.0.0.1:1"), ValueError, "which server is meant"),
        (lambda: Client("127.0.0.1:1", trust="no fingerprint"), ValueError, "fingerprint"),
        (lambda: Sender("127.0.0.1", insecure=True), weir_transport.TransportError, "HOST:PORT"),
        (lambda: Sender("127.0.0.1:1", insecure=True, rate=0.0), ValueError, "above 0"),
        (lambda: Server("127.0.0.1:0").insert("a", "text"), TypeError, "encode"),  # type: ignore[arg-type]
        (lambda: Server("127.0.0.1:0").insert("a", 7), TypeError, "bytes"),  # type: ignore[arg-type]
        (lambda: Server("127.0.0.1:0", directory="/nowhere"), FileNotFoundError, "directory"),
    ],
)
def test_what_cannot_be_meant_is_refused(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_client_and_server_in_twenty_lines_pass_an_object_on():
    with _program("server", "127.0.0.1:0") as server:
        assert server.stdin
        assert server.stdout
        server.stdin.write(CONTENT)
        server.stdin.close()
        address, fingerprint = server.stdout.readline().decode().split()
        with _program("client", "input", fingerprint, address) as client:
            assert client.communicate(timeout=SOON)[0] == CONTENT
        server.send_signal(signal.SIGINT)


def test_sender_and_receiver_in_twenty_lines_pass_a_file_on(tmp_path):
    (tmp_path / "inbox").mkdir()
    (tmp_path / "original").write_bytes(CONTENT)
    identity = tmp_path / "identity.pem"
    known = weir_transport.fingerprint(identity)
    with _program("receiver", "127.0.0.1:0", known, tmp_path / "inbox") as receiver:
        assert receiver.stdout
        address, fingerprint = receiver.stdout.readline().decode().split()
        with _program("sender", identity, address, fingerprint, tmp_path / "original") as sender:
            assert sender.wait(SOON) == 0
        receiver.send_signal(signal.SIGINT)
    assert (tmp_path / "inbox/file").read_bytes() == CONTENT


def test_no_program_has_more_than_twenty_lines():
    programs = sorted(EXAMPLES.glob("*.py"))
    assert len(programs) == 4
    for program in programs:
        lines = [line for line in program.read_text().splitlines() if line.strip()]
        assert len(lines) <= 20, program


def _program(name: str, *args: str | Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, EXAMPLES / f"{name}.py", *args]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
