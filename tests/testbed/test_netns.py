"""Another process's network, for as long as it is asked for."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import netns
from testbed.command import wait_until

pytestmark = pytest.mark.netns


def here() -> Path:
    return Path("/proc/thread-self/ns/net").readlink()


def of(pid: int) -> Path:
    return Path(f"/proc/{pid}/ns/net").readlink()


@pytest.fixture
def other() -> Iterator[int]:
    """A process with a network of its own."""
    process = subprocess.Popen(["unshare", "--net", "sleep", "60"])
    try:
        wait_until(lambda: of(process.pid) != here(), timeout_s=10, what="it has a network")
        yield process.pid
    finally:
        process.kill()
        process.wait()


def test_one_is_back_at_home_also_after_an_error(other: int) -> None:
    home = here()
    with pytest.raises(RuntimeError, match="there"), netns.network_of(other):
        assert here() == of(other) != home
        raise RuntimeError("there")
    assert here() == home
    with pytest.raises(FileNotFoundError), netns.network_of(1 << 30):
        pass
    assert here() == home


def test_settings_are_that_networks_own(other: int) -> None:
    name = "net.ipv4.tcp_sack"
    before = netns.sysctls(os.getpid(), [name])
    netns.set_sysctls(other, {name: "0"})
    assert netns.sysctls(other, [name, "net.ipv4.no_such_setting"]) == {name: "0"}
    assert netns.sysctls(os.getpid(), [name]) == before == {name: "1"}
    netns.set_sysctls(other, {"net.ipv4.no_such_setting": "1"}, known_only=True)
    with pytest.raises(FileNotFoundError):
        netns.set_sysctls(other, {"net.ipv4.no_such_setting": "1"})
    with pytest.raises(OSError, match=r"writing no-such\): .*tcp_congestion_control"):
        netns.set_sysctls(other, {"net.ipv4.tcp_congestion_control": "no-such"})
    assert netns.mtu_bytes(other, "lo") == 65536
