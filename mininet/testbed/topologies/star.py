"""One switch."""

from testbed.topologies import TOPOLOGIES, IncastTopo


class Star(IncastTopo):
    """The bottleneck is the switch's port to r1, which reads and takes the background flow."""

    name = "star"
    summary = "h1..hN, b1 and r1 at switch s1; its port 1, to r1, is the bottleneck"

    def _build(self, senders: tuple[str, ...], bottleneck_limit_bytes: int) -> None:
        self.addSwitch("s1")
        self.addHost("r1")
        self._link("s1", "r1", limit_bytes=bottleneck_limit_bytes, port1=1)
        self._hosts("s1", (*senders, "b1"))
        self._set_roles(senders, "r1", background=("b1", "r1"), bottleneck=("s1", "r1"))


TOPOLOGIES.add(Star)
