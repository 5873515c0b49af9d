"""What listens in a sandbox, reached from outside of it: a port of the machine is passed on."""

import asyncio
import contextlib
import ctypes
import os
import socket
import threading
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_CHUNK_BYTES = 1 << 16


class Forward:
    """Connections to an address of this machine go on to an address inside a sandbox.

    The address is taken at once, so that a port that is in use is told before anything is started.
    Raises OSError.
    """

    def __init__(self, outside: tuple[str, int], inside: tuple[str, int]) -> None:
        self._inside = inside
        self._listening = socket.create_server(outside)

    def start(self, pid: int) -> None:
        """Pass connections on, from now until this process ends, into the network of a process."""
        self._network = Path(f"/proc/{pid}/ns/net")
        threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True).start()

    async def _serve(self) -> None:
        async with await asyncio.start_server(self._pass_on, sock=self._listening) as server:
            await server.serve_forever()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A sandbox that has no network yet, or a program in it that does not listen, closes the
        # connection, as a machine would on which nobody listens.
        with contextlib.closing(writer), contextlib.suppress(OSError):
            _enter(self._network)
            inner_reader, inner_writer = await asyncio.open_connection(*self._inside)
            with contextlib.closing(inner_writer):
                await asyncio.gather(
                    _copy(reader, inner_writer), _copy(inner_reader, writer), return_exceptions=True
                )


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
    writer.write_eof()


def _enter(network: Path) -> None:
    """Have the sockets that this thread makes from now on be of that network, setns(2). Others, and
    those that there are, stay where they are. Raises OSError."""
    if network.readlink() == Path("/proc/self/ns/net").readlink():
        raise OSError("the sandbox has no network of its own yet")
    descriptor = os.open(network, os.O_RDONLY | os.O_CLOEXEC)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(descriptor, _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(descriptor)
