"""DCTCP for the hosts of a test bed: a congestion control in BPF, since few kernels have their own.

Congestion controls are the whole machine's, not a namespace's. What is registered here hangs on a
file descriptor of this process and nothing else (a BPF link), so that the kernel removes it when
the process ends, however it ends; and it is named after this process's network namespace, so that
test beds that stand at the same time each have their own.
"""

import ctypes
import errno
import os
import platform
from pathlib import Path

from testbed.shaping import FULL_FRAME_BYTES

NAME = "weir-dctcp"
"""What HostSettings.congestion_control is to say for a host to have it."""

NAMES = (NAME, "dctcp")
"""What is DCTCP: the test bed's, and that of kernels that have one."""

K_BYTES = 20 * FULL_FRAME_BYTES
"""How long a queue is when it begins to mark: as many full-size frames as the DCTCP paper has at
1 Gb/s (Alizadeh et al., SIGCOMM 2010). Its K > C x RTT / 7 would allow less at 100 Mb/s, but DCTCP
cannot go below two segments a sender."""

GAIN = 1 / 16
"""The estimation gain g that RFC 8257 recommends (section 4.2)."""

MARKING = {"release": "thread", "ecn-threshold": str(K_BYTES)}
"""How the queues of switch ports are to be set. The kernel's shaper would be a little faster than
the queue that marks."""

OBJECT = Path(__file__).parents[2] / "build" / "bpf" / "dctcp.bpf.o"
BTF = Path("/sys/kernel/btf/vmlinux")

_LIBRARY = "libbpf.so.1"
_MAP = b"dctcp"
# The program's constants, of which there is one: dctcp_gain, in parts of _ONE.
_CONSTANTS = b".rodata"
_ONE = 1 << 16
_BUILT_NAME = b"dctcp_00000000\0"
_LINKS = b"\0bpf_struct_ops_link\0"  # The type, in the kernel's type information.
_F_LINK = 1 << 13  # BPF_F_LINK
_STRUCT_OPS = 44  # BPF_STRUCT_OPS, of enum bpf_attach_type


class DctcpError(RuntimeError):
    """DCTCP cannot be had here; the text, one line, says what is missing."""


class KernelLacksError(DctcpError):
    """This kernel cannot have it."""


def require() -> None:
    """Raise KernelLacksError if this kernel cannot have it, DctcpError if it has not been built."""
    if not BTF.exists() or _LINKS not in BTF.read_bytes():
        raise KernelLacksError(
            "DCTCP needs Linux 6.4 with CONFIG_DEBUG_INFO_BTF and CONFIG_BPF_JIT; "
            f"this is {platform.release()}"
        )
    if not OBJECT.exists():
        raise DctcpError(f"DCTCP has not been built ({OBJECT}): run 'tools/prepare bpf'")


class Dctcp:
    """Context manager: while it lasts, ``name`` is a congestion control of this machine, whose
    estimate has the gain ``gain`` (RFC 8257, section 3.3), as read back from the kernel.

    Raises ValueError unless it is more than 0 and less than 1.
    """

    def __init__(self, gain: float = GAIN) -> None:
        require_gain(gain)
        self.name = unique_name(Path("/proc/self/ns/net").stat().st_ino)
        self.gain = gain
        self._link: int | None = None

    def __enter__(self) -> "Dctcp":
        require()
        image = OBJECT.read_bytes()
        if image.count(_BUILT_NAME) != 1:
            raise DctcpError(f"{OBJECT} is not ours: run 'tools/prepare bpf'")
        name = self.name.encode().ljust(len(_BUILT_NAME), b"\0")
        self._link, gain = _register(
            image.replace(_BUILT_NAME, name), self.name, round(self.gain * _ONE)
        )
        self.gain = gain / _ONE
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._link is not None:
            os.close(self._link)
            self._link = None


def require_gain(gain: float) -> None:
    """Raise ValueError unless the estimate can have this gain."""
    if not 1 / _ONE <= gain < 1:
        raise ValueError(f"dctcp_gain must be more than 0 and less than 1, not {gain:g}")


def unique_name(namespace: int) -> str:
    """Return a name for the network namespace with this inode number, at most 15 characters."""
    return f"dctcp_{namespace:08x}"


def _register(image: bytes, name: str, gain: int) -> tuple[int, int]:
    """Load the program and register it; return the file descriptor that it hangs on, and the
    gain that it has."""
    libbpf = _libbpf()
    program = libbpf.bpf_object__open_mem(image, len(image), None)
    if not program:
        raise _refused(name, "opening it")
    try:
        ops = libbpf.bpf_object__find_map_by_name(program, _MAP)
        if libbpf.bpf_map__set_map_flags(ops, _F_LINK) < 0:
            raise _refused(name, "asking for a link")
        constants = libbpf.bpf_object__find_map_by_name(program, _CONSTANTS)
        wanted = ctypes.c_uint32(gain)
        if libbpf.bpf_map__set_initial_value(constants, ctypes.byref(wanted), 4) < 0:
            raise _refused(name, "setting its gain")
        if libbpf.bpf_object__load(program) < 0:
            raise _refused(name, "loading it")
        link = libbpf.bpf_map__attach_struct_ops(ops)
        if not link:
            raise _refused(name, "attaching it")
        try:
            zero, found = ctypes.c_uint32(0), ctypes.c_uint32()
            held = libbpf.bpf_map__fd(constants)
            if libbpf.bpf_map_lookup_elem(held, ctypes.byref(zero), ctypes.byref(found)) < 0:
                raise _refused(name, "reading its gain")
            return _link_of(libbpf, ops, link, name), found.value
        finally:
            libbpf.bpf_link__disconnect(link)
            libbpf.bpf_link__destroy(link)
    finally:
        libbpf.bpf_object__close(program)


def _link_of(libbpf: ctypes.CDLL, ops: int, link: int, name: str) -> int:
    fd, map_fd = libbpf.bpf_link__fd(link), libbpf.bpf_map__fd(ops)
    if fd != map_fd:
        return os.dup(fd)
    # Before 1.2 libbpf knows no such links: it has prepared the map, and no more.
    made: int = libbpf.bpf_link_create(map_fd, 0, _STRUCT_OPS, None)
    if made < 0:
        raise _refused(name, "registering it")
    return made


def _refused(name: str, what: str) -> DctcpError:
    code = ctypes.get_errno()
    return DctcpError(
        f"the kernel refuses the congestion control {name}: "
        f"{what}: {os.strerror(code)} ({errno.errorcode.get(code, code)})"
    )


def _libbpf() -> ctypes.CDLL:
    try:
        libbpf = ctypes.CDLL(_LIBRARY, use_errno=True)
    except OSError as missing:
        raise DctcpError(f"DCTCP needs {_LIBRARY}: apt-get install libbpf1") from missing
    pointer, integer = ctypes.c_void_p, ctypes.c_int
    for function, result, arguments in (
        ("bpf_object__open_mem", pointer, [ctypes.c_char_p, ctypes.c_size_t, pointer]),
        ("bpf_object__find_map_by_name", pointer, [pointer, ctypes.c_char_p]),
        ("bpf_map__set_initial_value", integer, [pointer, pointer, ctypes.c_size_t]),
        ("bpf_map_lookup_elem", integer, [integer, pointer, pointer]),
        ("bpf_map__set_map_flags", integer, [pointer, ctypes.c_uint32]),
        ("bpf_object__load", integer, [pointer]),
        ("bpf_map__attach_struct_ops", pointer, [pointer]),
        ("bpf_map__fd", integer, [pointer]),
        ("bpf_link__fd", integer, [pointer]),
        ("bpf_link_create", integer, [integer, integer, integer, pointer]),
        ("bpf_link__disconnect", None, [pointer]),
        ("bpf_link__destroy", integer, [pointer]),
        ("bpf_object__close", None, [pointer]),
    ):
        entry = getattr(libbpf, function)
        entry.restype, entry.argtypes = result, arguments
    return libbpf
