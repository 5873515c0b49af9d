"""DCTCP is the machine's for as long as somebody holds it, and no longer."""

import subprocess
import sys
from pathlib import Path

import pytest

from testbed import dctcp
from testbed.command import wait_until

pytestmark = [pytest.mark.netns, pytest.mark.usefixtures("dctcp_kernel")]

_HOLD = """
import sys
from testbed.dctcp import Dctcp
with Dctcp() as held:
    print(held.name, flush=True)
    sys.stdin.read()
"""


def available() -> list[str]:
    return Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()


def holder(*enter: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*enter, sys.executable, "-c", _HOLD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def name_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_it_is_there_as_long_as_it_is_held() -> None:
    with dctcp.Dctcp() as held:
        assert held.name in available()
    assert held.name not in available()


def test_it_goes_with_a_process_that_is_killed() -> None:
    process = holder()
    name = name_of(process)
    assert name in available()
    process.kill()
    process.wait()
    wait_until(lambda: name not in available(), timeout_s=10, what=f"{name} is gone")


def test_two_test_beds_at_the_same_time() -> None:
    first, second = (holder("unshare", "--net") for _ in range(2))
    names = {name_of(first), name_of(second)}
    assert len(names) == 2
    assert names <= set(available())
    for process in (first, second):
        process.communicate()
        assert process.returncode == 0
    assert not names & set(available())


def test_a_second_one_in_the_same_namespace_is_refused() -> None:
    with dctcp.Dctcp() as held:
        with pytest.raises(dctcp.DctcpError, match=f"{held.name}.*EEXIST"), dctcp.Dctcp():
            pass
        assert held.name in available()


def test_a_name_fits() -> None:
    """Into TCP_CA_NAME_MAX, with the zero behind it."""
    assert len(dctcp.unique_name((1 << 32) - 1)) < 16


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dctcp, "OBJECT", tmp_path / "none")
    with pytest.raises(dctcp.DctcpError, match="tools/prepare bpf"):
        dctcp.require()
    (tmp_path / "vmlinux").write_bytes(b"\0tcp_congestion_ops\0")
    for kernel in ("none", "vmlinux"):
        monkeypatch.setattr(dctcp, "BTF", tmp_path / kernel)
        with pytest.raises(dctcp.KernelLacksError, match="needs Linux"):
            dctcp.require()
