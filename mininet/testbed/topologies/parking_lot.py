"""The DFCP paper's Figure 8."""

from collections.abc import Mapping
from typing import ClassVar

from testbed.topologies import TOPOLOGIES, Choice, IncastTopo


class ParkingLot(IncastTopo):
    """Three switches in a row and three flows: the first from h1 at s1 over both links to r1 at s3,
    the second from h2 at s1 to r2 at s2, the third from h3 at s2 to r3 at s3.

    The second link has ``second_pct`` percent of the others' rate, and is the bottleneck. So the
    third flow is the background flow.
    """

    name = "parking-lot"
    summary = """\
the DFCP paper's Figure 8: s1, s2, s3 in a row, one sender; h1 to r1 over both
links, h2 to r2 over the first, h3 to r3 (background flow) over the second, which
is the bottleneck"""
    choices: ClassVar = {"second_pct": Choice(40, "percent of the rate that the second link has")}

    @classmethod
    def most_senders(cls, shape: Mapping[str, int]) -> int:  # noqa: ARG003
        return 1

    def _build(self, senders: tuple[str, ...], bottleneck_limit_bytes: int) -> None:
        if len(senders) != 1:
            raise ValueError(f"a parking-lot has one sender, not {len(senders)}")
        percent = self.shape["second_pct"]
        if not 1 <= percent <= 100:
            raise ValueError(f"second_pct must be 1 to 100, not {percent}")
        for name in ("s1", "s2", "s3"):
            self.addSwitch(name)
        second_bps = self._rate_bps * percent // 100
        limit_bytes = bottleneck_limit_bytes
        self._link("s1", "s2", limit_bytes=limit_bytes, port1=1, port2=1)
        self._link("s2", "s3", rate_bps=second_bps, limit_bytes=limit_bytes, port1=2, port2=1)
        self._hosts("s1", (*senders, "h2"))
        self._hosts("s2", ("h3", "r2"))
        self._hosts("s3", ("r1", "r3"))
        ends = ("h3", "r3")
        self._set_roles(
            senders, "r1", background=ends, bottleneck=("s2", "s3"), rate_bps=second_bps
        )


TOPOLOGIES.add(ParkingLot)
