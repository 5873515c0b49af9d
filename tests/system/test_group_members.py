"""Multicast on the real switch with the kernel's IGMP and MLD: only members get what is sent."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from testbed.bed import Bed
from testbed.command import wait_until
from testbed.config import BedConfig
from testbed.host import Host

GROUPS = "239.7.7.7", "ff1e::7"
N = 50
# Ports get everything for 135 s after the controller is there, and again ten seconds after it is
# gone; 22 s after they have come up.
SURE_S, GONE_S = 170, 30

pytestmark = [pytest.mark.netns, pytest.mark.switch, pytest.mark.slow, pytest.mark.timing]


def command(what: str, group: str, host: Host, *more: str) -> list[str]:
    script = str(Path(__file__).with_name("group_host.py"))
    return [sys.executable, script, what, group, str(host.defaultIntf()), host.IP(), *more]


@contextmanager
def member(host: Host, group: str) -> Iterator[None]:
    """The host is in the group until the end of the block."""
    process = host.popen(
        command("join", group, host), text=True, stderr=None, stdin=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "joined\n"
        yield
    finally:
        process.kill()
        process.wait()


class Cable:
    """What of a group comes to a host."""

    def __init__(self, host: Host, group: str) -> None:
        self._process = host.popen(
            command("count", group, host), text=True, stderr=None, stdin=subprocess.PIPE
        )

    def __enter__(self) -> "Cable":
        self.came("")
        return self

    def __exit__(self, *_exc: object) -> None:
        self._process.kill()
        self._process.wait()

    def came(self, mark: str) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return int(json.loads(self._process.stdout.readline()).get(mark, 0))


@pytest.mark.long
@pytest.mark.timeout(500)
@pytest.mark.parametrize("group", GROUPS)
def test_only_members_get_what_is_sent_to_a_group(group: str) -> None:
    config = BedConfig(
        topology="fig8",
        senders=3,
        ipv6=":" in group,
        controller={"fabric": {"multicast_snooping": True}},
    )
    with ExitStack() as stack:
        bed = stack.enter_context(Bed(config))
        bed.require_forwarding()
        assert bed.controller is not None
        source, joined, other = (bed.host(name) for name in bed.roles.senders)
        far = bed.host(bed.roles.receiver)
        hosts = joined, other, far
        cables = [stack.enter_context(Cable(host, group)) for host in hosts]
        marks = iter(range(1_000_000))

        def got(n: int = N) -> list[int]:
            """How many datagrams of those that are sent now come to each host."""
            mark = str(next(marks))
            source.popen(command("send", group, source, str(n), mark), stderr=None).wait()
            return [cable.came(mark) for cable in cables]

        def wait_for(wanted: list[int], timeout_s: float, what: str) -> None:
            wait_until(lambda: got(5) == [n and 5 for n in wanted], timeout_s=timeout_s, what=what)
            assert got() == wanted, what

        membership = stack.enter_context(ExitStack())
        membership.enter_context(member(joined, group))
        wait_for([N, 0, 0], SURE_S, "it goes to the member")
        with member(far, group):
            wait_for([N, 0, N], 5, "it goes to both members")
        wait_for([N, 0, 0], 10, "the other one has left")
        # Who is a member says so only when it is asked.
        bed.controller.stop()
        wait_for([N, N, N], GONE_S, "it goes everywhere without a controller")
        bed.controller.start()
        wait_for([N, N, N], 10, "it goes everywhere while it is not known who wants it")
        wait_for([N, 0, 0], SURE_S, "the kernel has answered the controller")
        membership.close()
        wait_for([0, 0, 0], 10, "nobody is a member any more")
