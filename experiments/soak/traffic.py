"""A host of the soak: TCP and UDP to all others, in its own namespace.

    python -m experiments.soak.traffic --address A [--peer P]...

Connections are opened, used for a few answers of random length, and closed or broken off; nothing
that happens to them is an error. Ends when its stdin is closed, and then says what it received.
"""

import argparse
import asyncio
import contextlib
import json
import random
import socket
import struct
import sys

_PORT = 7000
_CLIENTS = 3
_PATIENCE_S = 3.0
_UDP_INTERVAL_S = 0.005
_REQUEST = struct.Struct("!I")
_ECT = (0, 1, 2)


class Host:
    """One host; ``received`` counts bytes by protocol."""

    def __init__(self, addresses: list[str], peers: list[str]) -> None:
        self._addresses = addresses
        self._peers = peers
        self.received = {"tcp": 0, "udp": 0}

    async def run(self) -> None:
        """Serve and ask until stdin is closed."""
        for address in self._addresses:
            await asyncio.start_server(self._serve, address, _PORT)
        tasks = [asyncio.create_task(self._ask()) for _ in range(_CLIENTS)]
        tasks.append(asyncio.create_task(self._shower()))
        await asyncio.to_thread(sys.stdin.read)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                (length,) = _REQUEST.unpack(await reader.readexactly(_REQUEST.size))
                writer.write(bytes(length))
                await writer.drain()
        writer.close()

    async def _ask(self) -> None:
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
                async with asyncio.timeout(_PATIENCE_S):
                    await self._connection()
            await asyncio.sleep(random.uniform(0, 0.2))

    async def _connection(self) -> None:
        reader, writer = await asyncio.open_connection(random.choice(self._peers), _PORT)
        try:
            for _ in range(random.randint(1, 8)):
                length = int(random.expovariate(1 / 30_000))
                writer.write(_REQUEST.pack(length))
                await reader.readexactly(length)
                self.received["tcp"] += length
                await asyncio.sleep(random.uniform(0, 0.05))
        finally:
            if random.random() < 0.3:
                writer.transport.abort()
            writer.close()

    async def _shower(self) -> None:
        """Datagrams of all lengths, fragments among them, with all ECN fields."""
        loop = asyncio.get_running_loop()
        ends = {}
        for address in self._addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            ends[family] = end = socket.socket(family, socket.SOCK_DGRAM)
            end.setblocking(False)
            end.bind((address, _PORT))
            loop.add_reader(end, self._datagram, end)
        while True:
            peer = random.choice(self._peers)
            family = socket.AF_INET6 if ":" in peer else socket.AF_INET
            level, option = (
                (socket.IPPROTO_IPV6, socket.IPV6_TCLASS)
                if family == socket.AF_INET6
                else (socket.IPPROTO_IP, socket.IP_TOS)
            )
            ends[family].setsockopt(level, option, random.choice(_ECT))
            with contextlib.suppress(OSError):
                ends[family].sendto(bytes(random.choice((1, 100, 1400, 3000))), (peer, _PORT))
            await asyncio.sleep(_UDP_INTERVAL_S)

    def _datagram(self, end: socket.socket) -> None:
        with contextlib.suppress(OSError):
            self.received["udp"] += len(end.recv(65_536))


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", action="append", required=True)
    parser.add_argument("--peer", action="append", required=True)
    args = parser.parse_args()
    host = Host(args.address, args.peer)
    asyncio.run(host.run())
    print(json.dumps({"event": "done", **host.received}), flush=True)


if __name__ == "__main__":
    main()
