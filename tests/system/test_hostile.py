"""What each flood of a hostile host costs the others, on the real switch: their goodput and their
windows beside it and without it, in turns."""

from statistics import median

import pytest

from controller.ops.event_log import read_events
from experiments.traffic.reader import IncastSpec
from test_floods import port_of
from testbed import sandbox
from testbed.bed import Bed
from testbed.config import BedConfig
from traffic import flood, incast, tables

SERVERS, CONNECTIONS = 7, 8
# So low that the machine keeps up with the link and the flood.
RATE_BPS = 20_000_000
TURNS, ROUNDS = 3, 12
HOSTS_PER_PORT = 100
MOST_LOST = 0.02
# Frames a second, and the event that names the port of whoever sends them. SYNs within budgets
# from its own address are no lie. RSTs come to all of the reader's ports in every turn.
FLOODS = {
    "macs": (1_000, "port_disbelieved"),
    "pairs": (1_000, "port_disbelieved"),
    "resets": (6_000, "port_disbelieved"),
    "syn": (5_000, None),
    "arp": (5_000, "packet_ins_limited"),
    "nd": (5_000, "packet_ins_limited"),
}
# How many segments of a flood at least come from elsewhere than their connection's ends. (RSTs of
# no connection are not.)
COUNTED = {"pairs": 1_000, "resets": 10}

pytestmark = [
    *(pytest.mark.netns, pytest.mark.switch, pytest.mark.slow, pytest.mark.timing),
    pytest.mark.long,  # A share of 2 % takes a machine whose speed holds.
]


def windows(bed: Bed) -> dict[tuple[str, str], str]:
    """The windows of the bottleneck's port, by class."""
    registers = bed.bottleneck_switch.registers().values()
    return {
        (fields["interface"], fields["class"]): fields["window"]
        for fields in registers
        if fields.get("interface") == bed.roles.bottleneck
    }


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_costs_others_nothing(kind: str) -> None:
    per_s, naming = FLOODS[kind]
    socket = str(sandbox.RUN_DIR / "controller.sock")
    config = BedConfig(
        topology="fig8",
        senders=SERVERS + 1,
        rate_bps=RATE_BPS,
        controller={
            "fabric": {"hosts_per_port": HOSTS_PER_PORT},
            "northbound": {"socket": socket},
        },
    )
    with Bed(config) as bed:
        bed.require_forwarding()
        *servers, name = bed.roles.senders
        liar, victim, reader = (bed.host(n) for n in (name, servers[0], bed.roles.receiver))
        claimed = reader.IP() if kind == "resets" else ""
        spec = IncastSpec(senders=SERVERS, rounds=100_000, connections_per_sender=CONNECTIONS)
        with incast(bed, spec, servers) as reads:
            reads.require_progress(20, 60, "before anybody floods")
            connections = tables(socket)["connections"]
            ratios = []
            for _ in range(TURNS):
                alone, calm = reads.rounds_per_s(ROUNDS), windows(bed)
                with flood(kind, liar, victim, per_s, claimed=claimed) as sent:
                    ratios.append(reads.rounds_per_s(ROUNDS) / alone)
                    assert windows(bed) == calm
                    found = tables(socket)
                assert sum(sent.rates) > 0
                assert found["connections"] == connections
                for what, bound in found["bounds"].items():
                    assert bound["entries"] <= bound["limit"], what
        named = {
            (event["event"], event["port"])
            for event in read_events(bed.events)
            if event["event"] in ("port_disbelieved", "packet_ins_limited")
        }
        print(f"{kind}: {', '.join(f'{ratio:.3f}' for ratio in ratios)} of the rate without")
        assert named == ({(naming, port_of(liar))} if naming else set())
        if kind in COUNTED:
            assert found["given_up"]["elsewhere"] > COUNTED[kind]
        assert median(ratios) >= 1 - MOST_LOST
