"""When packets left the bottleneck's port, and how long they were: each is timed by the kernel
where it arrives, at the far end of the link.

A packet socket that keeps nothing but headers, in a ring that the kernel shares with this process
(packet(7), TPACKET_V2), so that a packet costs no system call. For a veth device, the time of its
arrival at one end is the time at which it left the other one.
"""

import mmap
import socket
import struct
import threading
import time
from typing import Self

import numpy as np
import numpy.typing as npt

from testbed.netns import network_of

_PERIOD_S = 0.1
_SOL_PACKET = 263
_PACKET_RX_RING, _PACKET_STATISTICS, _PACKET_VERSION, _PACKET_IGNORE_OUTGOING = 5, 6, 10, 23
_SO_TIMESTAMPNS = 35
_TPACKET_V2 = 1
_ETH_P_ALL = 3
_STATUS_KERNEL, _STATUS_USER = 0, 1
# Room for the headers of the ring and of the packet. Together 3 s of full-size frames at 200 Mb/s.
_SLOT_BYTES = 128
_SLOTS = 1 << 16
_BLOCK_BYTES = 1 << 16
# struct tpacket2_hdr, at the beginning of a slot.
_SLOT = np.dtype(
    {
        "names": ["status", "length", "s", "ns"],
        "formats": ["<u4", "<u4", "<u4", "<u4"],
        "offsets": [0, 4, 12 + 4, 16 + 4],
        "itemsize": _SLOT_BYTES,
    }
)


class Departures:
    """Context manager: a thread reads what comes in at ``device`` in the network namespace of
    process ``pid``. Afterwards ``time_ns`` (CLOCK_MONOTONIC) and ``bytes`` have every frame, and
    ``lost`` how many came too fast to be recorded."""

    def __init__(self, pid: int, device: str) -> None:
        self.time_ns: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self.bytes: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self.lost = 0
        self._pid, self._device = pid, device
        self._next = 0
        self._parts: list[npt.NDArray[np.void]] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        with network_of(self._pid):
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        option = self._socket.setsockopt
        # Before it is bound: nothing that comes sooner is in the ring.
        option(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V2)
        option(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        option(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        blocks = _SLOTS * _SLOT_BYTES // _BLOCK_BYTES
        ring = struct.pack("IIII", _BLOCK_BYTES, blocks, _SLOT_BYTES, _SLOTS)
        option(_SOL_PACKET, _PACKET_RX_RING, ring)
        self._ring = mmap.mmap(self._socket.fileno(), _SLOTS * _SLOT_BYTES)
        self._slots = np.frombuffer(self._ring, dtype=_SLOT)
        self._socket.bind((self._device, _ETH_P_ALL))
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._end.set()
        self._thread.join()
        self._take()
        _, self.lost = struct.unpack(
            "II", self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
        )
        self._socket.close()
        del self._slots
        self._ring.close()
        if self._parts:
            taken = np.concatenate(self._parts)
            unix_ns = taken["s"].astype(np.int64) * 10**9 + taken["ns"]
            self.time_ns = unix_ns - (time.time_ns() - time.monotonic_ns())
            self.bytes = taken["length"].astype(np.int64)

    def _run(self) -> None:
        while not self._end.wait(_PERIOD_S):
            self._take()

    def _take(self) -> None:
        """Copy what has come since, and give the slots back to the kernel."""
        while True:
            ready = self._slots["status"][self._next :] & _STATUS_USER
            count = len(ready) if ready.all() else int(np.argmin(ready))
            taken = self._slots[self._next : self._next + count]
            self._parts.append(taken.copy())
            taken["status"] = _STATUS_KERNEL
            self._next = (self._next + count) % _SLOTS
            if self._next != 0 or count == 0:
                return
