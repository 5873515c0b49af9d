"""The SDTCP paper's Figure 8."""

from testbed.topologies import TOPOLOGIES, IncastTopo


class Fig8(IncastTopo):
    """N senders at s1, two receivers at s2, one link between the switches.

    The bottleneck is s1's port to s2. r1 reads from all senders; the background flow goes from a
    sender of its own, b1, to r2, and shares nothing with the reads but the bottleneck.
    """

    name = "fig8"
    summary = """\
the SDTCP paper's Figure 8: h1..hN and b1 at switch s1, r1 and r2 at switch s2;
s1's port 1, to s2, is the bottleneck"""

    def _build(self, senders: tuple[str, ...], bottleneck_limit_bytes: int) -> None:
        self.addSwitch("s1")
        self.addSwitch("s2")
        self._link("s1", "s2", limit_bytes=bottleneck_limit_bytes, port1=1, port2=1)
        self._hosts("s1", (*senders, "b1"))
        self._hosts("s2", ("r1", "r2"))
        self._set_roles(senders, "r1", background=("b1", "r2"), bottleneck=("s1", "s2"))


TOPOLOGIES.add(Fig8)
