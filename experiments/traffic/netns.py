"""Sockets in the network namespaces of other processes.

A socket belongs for ever to the namespace of the thread that made it, and so does what a listening
socket accepts. One process can thus stand for many hosts, which on few processors is kinder to the
experiment than a process per host.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

_CLONE_NEWNET = 0x40000000
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


def _setns(fd: int) -> None:
    if _libc.setns(fd, _CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"setns: {os.strerror(code)}")
