"""Sockets and settings in the network namespaces of other processes.

A socket belongs for ever to the namespace of the thread that made it, and so does what a listening
socket accepts. One process can thus stand for many hosts, which on few processors is kinder to the
experiment than a process per host.
"""

import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_SIOCGIFMTU = 0x8921
_IFREQ = struct.Struct("16si20x")
_SYSCTLS = Path("/proc/sys")
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def network_of(pid: int) -> Iterator[None]:
    """Be in the network namespace of process ``pid`` for as long as the block lasts (this thread
    alone).

    Raises OSError if there is no such process or this process may not.
    """
    with network_at(f"/proc/{pid}/ns/net"):
        yield


@contextmanager
def network_at(path: str) -> Iterator[None]:
    """The same, of the namespace that a file stands for, as in /run/netns."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        there = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _setns(there)
        finally:
            os.close(there)
        try:
            yield
        finally:
            _setns(home)
    finally:
        os.close(home)


def sysctls(pid: int, names: Iterable[str]) -> dict[str, str]:
    """Read sysctls of the namespace of process ``pid``, as in ``net.ipv4.tcp_sack``: those of
    ``names`` that this kernel has, with single spaces."""
    found = {}
    with network_of(pid):
        for name in names:
            with suppress(FileNotFoundError):
                found[name] = " ".join(_sysctl(name).read_text().split())
    return found


def set_sysctls(pid: int, values: Mapping[str, str], *, known_only: bool = False) -> None:
    """Write sysctls of the namespace of process ``pid``; with ``known_only``, those that this
    kernel has. Raises OSError where the kernel refuses one, naming its file and the value."""
    with network_of(pid):
        for name, value in values.items():
            path = _sysctl(name)
            if known_only and not path.exists():
                continue
            try:
                path.write_text(value)
            except OSError as refused:
                # Of a congestion control that there is not, the kernel says that no file is there.
                said = f"{refused.strerror} (writing {value})"
                raise OSError(refused.errno, said, str(path)) from refused


def mtu_bytes(pid: int, device: str) -> int:
    """Return the MTU of a device in the namespace of process ``pid``. Raises OSError without it."""
    with network_of(pid), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        shown = fcntl.ioctl(asking, _SIOCGIFMTU, _IFREQ.pack(device.encode(), 0))
    mtu: int = _IFREQ.unpack(shown)[1]
    return mtu


def _sysctl(name: str) -> Path:
    return _SYSCTLS / name.replace(".", "/")


def _setns(fd: int) -> None:
    if _libc.setns(fd, _CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"setns: {os.strerror(code)}")
