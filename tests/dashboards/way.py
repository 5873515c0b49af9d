"""The way from a browser to the API, which can be gone for a while."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator

_CHUNK_BYTES = 1 << 16


class Way:
    """Passes connections on. While it is gone nothing comes through, and nobody is told: bytes wait
    as a sender's TCP would have them wait, and come when it is back."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self.origin = ""

    def cut(self) -> None:
        """From now on the way is gone."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def mend(self) -> None:
        """The way is back."""
        self._loop.call_soon_threadsafe(self._open.set)

    @contextlib.contextmanager
    def running(self) -> Iterator["Way"]:
        ready = threading.Event()
        thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        thread.start()
        ready.wait()
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()

    def _run(self, ready: threading.Event) -> None:
        server = self._loop.run_until_complete(asyncio.start_server(self._taken, "127.0.0.1", 0))
        host, port = server.sockets[0].getsockname()
        self.origin = f"http://{host}:{port}"
        self._open.set()
        ready.set()
        self._loop.run_forever()

    async def _taken(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError):
            await self._open.wait()
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._port)
            with contextlib.closing(inner_writer):
                await asyncio.gather(
                    self._copy(reader, inner_writer),
                    self._copy(inner_reader, writer),
                    return_exceptions=True,
                )

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(_CHUNK_BYTES):
                await self._open.wait()
                writer.write(chunk)
                await writer.drain()
        finally:
            # Either end closes both, as a browser that gives up a request expects.
            await self._open.wait()
            writer.close()
