"""Pools of connections that are opened once and used again, and the timeouts of their hosts."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from testbed.command import run, wait_until
from testbed.host import Host
from traffic import responder


def timeouts(hosts: Sequence[Host]) -> int:
    """How many retransmission timeouts their kernels have counted."""
    told = (run(["nstat", "-asz", "TcpExtTCPTimeouts"], pid=host.pid) for host in hosts)
    return sum(int(re.findall(r"TcpExtTCPTimeouts\s+(\d+)", one)[0]) for one in told)


def wait_until_reached(client: Host, servers: Sequence[Host]) -> None:
    """All servers reach the client, so the fabric knows where everybody is."""

    def reachable() -> bool:
        pings = [server.popen(["ping", "-qc1", "-w1", client.IP()]) for server in servers]
        return {ping.wait() for ping in pings} == {0}

    wait_until(reachable, timeout_s=30, what="all servers reach the client")


class Pool:
    """A client's pool of connections, to read blocks over."""

    def __init__(self, client: subprocess.Popen[str], block_bytes: int) -> None:
        self._client = client
        self._block_bytes = block_bytes
        assert self.hear() == {"event": "connected"}

    def hear(self) -> dict[str, Any]:
        assert self._client.stdout is not None
        found: dict[str, Any] = json.loads(self._client.stdout.readline() or "{}")
        return found

    def goodput_mbps(self) -> float:
        """Use the whole pool, a connection of each server at a time."""
        assert self._client.stdin is not None
        self._client.stdin.write("\n")
        self._client.stdin.flush()
        blocks_ns = self.hear()["blocks_ns"]
        return 8e3 * self._block_bytes * len(blocks_ns) / sum(blocks_ns)


@contextmanager
def pool(client: Host, servers: Sequence[Host], each: int, block_bytes: int) -> Iterator[Pool]:
    """A client's connections to these servers, so many to each, until the end of the block."""
    addresses = [word for server in servers for word in ("--server", server.IP())]
    script = str(Path(__file__).with_name("pool_client.py"))
    with responder(servers):
        reader = client.popen(
            [sys.executable, script, "--block", str(block_bytes), "--each", str(each), *addresses],
            stdin=subprocess.PIPE,
            text=True,
            stderr=None,
        )
        try:
            yield Pool(reader, block_bytes)
        finally:
            reader.kill()
            reader.wait()
