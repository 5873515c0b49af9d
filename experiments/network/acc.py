"""TCP-ACC's layer beneath the TCP of a test bed's hosts (``fountain acc up`` at each of them)."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from experiments.bench.acc.layer import End, Layer, Line, layers, set_attributes, summed
from experiments.schemes import Scheme
from testbed.bed import Bed


class Beneath:
    """The ``layers`` of the hosts of a test bed; none if its scheme has none."""

    def __init__(self) -> None:
        self.layers: list[Layer] = []

    def counted(self) -> dict[str, float]:
        """Return what they have counted by now, in sum; nothing without a layer."""
        return summed(one.statistics() for one in self.layers) if self.layers else {}


def ends(bed: Bed) -> list[End]:
    """Return the hosts that send or receive, each with those that it sends to or hears."""
    roles = bed.roles
    pairs = [(name, roles.receiver) for name in roles.senders]
    pairs.append((roles.background_sender, roles.background_receiver))
    peers: dict[str, list[str]] = {}
    for sender, receiver in pairs:
        for one, other in ((sender, receiver), (receiver, sender)):
            known = peers.setdefault(one, [])
            if bed.host(other).IP() not in known:
                known.append(bed.host(other).IP())
    return [End(bed.host(name).pid, told) for name, told in peers.items()]


@contextmanager
def beneath(scheme: Scheme, bed: Bed, log: Path) -> Iterator[Beneath]:
    """Context manager: the hosts of ``bed`` run the layer, if ``scheme`` has it. Routes through it
    say of TCP what the hosts' own say.

    Raises FountainError if it has not been built, ProgramError if a host does not find its peers.
    """
    running = Beneath()
    if scheme.acc is None:
        yield running
        return
    line = Line(scheme.label, "#000000", scheme.acc)
    by_pid = {host.pid: host for host in bed.hosts}
    with layers(line, ends(bed), None, bed.run_dir, log) as running.layers:
        for end in ends(bed):
            assert end.pid is not None
            if attributes := by_pid[end.pid].route_attributes():
                set_attributes(end.pid, attributes)
        yield running
