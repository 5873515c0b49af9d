"""fountain in services whose filter of system calls forbids openat2, by which it stays inside its
directory, as systemd's RestrictSUIDSGID= does."""

import ctypes
import struct
import subprocess
from errno import ENOSYS
from pathlib import Path

import pytest

from experiments.traffic import fountain

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _MODE_FILTER = 22, 38, 2
_LOAD_WORD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ERRNO, _ALLOW = 0x00050000, 0x7FFF0000
_OPENAT2 = 437
# seccomp(2): the number of the call is the first word of what the program looks at.
_FILTER = b"".join(
    struct.pack("=HBBI", *instruction)
    for instruction in (
        (_LOAD_WORD, 0, 0, 0),
        (_JUMP_IF_EQUAL, 0, 1, _OPENAT2),
        (_RETURN, 0, 0, _ERRNO | ENOSYS),
        (_RETURN, 0, 0, _ALLOW),
    )
)
_LIBC = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def forbid_openat2() -> None:
    program = _Program(len(_FILTER) // 8, _FILTER)
    if _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")
    if _LIBC.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program)):
        raise OSError(ctypes.get_errno(), "PR_SET_SECCOMP")


@pytest.mark.parametrize("command", [["serve"], ["recv", "--anyone"]])
def test_a_service_without_openat2_says_so_at_once(command: list[str], tmp_path: Path) -> None:
    argv = [str(fountain.find_fountain()), *command, "--listen", "127.0.0.1:0", str(tmp_path)]
    environment = {"HOME": str(tmp_path)}
    done = subprocess.run(
        argv, env=environment, preexec_fn=forbid_openat2, capture_output=True, text=True,
        timeout=20, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "the system call openat2 is needed" in done.stderr
    assert "RestrictSUIDSGID=" in done.stderr
