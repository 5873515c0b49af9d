"""A host on the real switch that pretends to be others: they lose nothing, and it is named."""

from contextlib import ExitStack
from typing import Any

import pytest

from controller.ops.event_log import read_events
from experiments.traffic.reader import IncastSpec
from test_floods import port_of
from testbed import sandbox
from testbed.bed import Bed
from testbed.command import wait_until
from testbed.config import BedConfig
from traffic import flood, incast, is_regulated, tables

SERVERS, CONNECTIONS = 7, 8
HOSTS_PER_PORT = 100
FORGED_PER_S, CLAIMS_PER_S = 1_000, 20
ROUNDS = 80
# Claims of a host's address divert what is sent to it until it answers for itself.
LEAST_SHARE = 0.8

pytestmark = [pytest.mark.netns, pytest.mark.switch, pytest.mark.timing, pytest.mark.slow]


def test_who_pretends_harms_nobody_fills_nothing_and_is_named() -> None:
    socket = str(sandbox.RUN_DIR / "controller.sock")
    config = BedConfig(
        topology="fig8",
        senders=SERVERS + 1,
        scheme="weir",
        controller={
            "log": {"connections": True},
            "fabric": {"hosts_per_port": HOSTS_PER_PORT},
            "northbound": {"socket": socket},
        },
    )
    with Bed(config) as bed:
        bed.require_forwarding()
        *servers, name = bed.roles.senders
        liar, victim = bed.host(name), bed.host(servers[0])
        reader, bystander = bed.host(bed.roles.receiver), bed.host(bed.roles.background_receiver)

        def told(kind: str) -> list[dict[str, Any]]:
            return read_events(bed.events, kind)

        def disbelieved() -> list[dict[str, Any]]:
            return told("port_disbelieved")

        spec = IncastSpec(senders=SERVERS, rounds=100_000, connections_per_sender=CONNECTIONS)
        with incast(bed, spec, servers) as reads:
            reads.require_progress(20, 60, "before anybody pretends")
            connections = tables(socket)["connections"]
            assert connections >= SERVERS * CONNECTIONS
            alone = reads.rounds_per_s(ROUNDS)
            with ExitStack() as lies:
                for lie in (
                    flood("macs", liar, bystander, FORGED_PER_S),
                    flood("pairs", liar, victim, FORGED_PER_S),
                    flood("resets", liar, victim, FORGED_PER_S, claimed=reader.IP()),
                    flood("claims", liar, victim, CLAIMS_PER_S),
                ):
                    lies.enter_context(lie)
                reasons = {"hosts", "host elsewhere", "address borrowed"}
                wait_until(
                    lambda: reasons <= {e["reason"] for e in disbelieved()},
                    timeout_s=30,
                    what="the liar is named",
                )
                beside = reads.rounds_per_s(ROUNDS)
                assert is_regulated(bed)
                found = tables(socket)
            print(f"{alone:.1f} rounds/s alone, {beside:.1f} beside lies; {found['given_up']}")
            assert {event["port"] for event in disbelieved()} == {port_of(liar)}
            assert found["bounds"]["hosts at one port"]["entries"] == HOSTS_PER_PORT
            assert found["connections"] == connections, "none was forged, none was ended"
            assert [e for e in told("connection_closed") if e["reason"] == "reset"] == []
            assert found["given_up"]["elsewhere"] > FORGED_PER_S
            assert beside > LEAST_SHARE * alone
            reads.require_progress(20, 30, "in the end")
            moves = [e for e in told("host_moved") if e["mac"] == victim.MAC()]
            assert len(moves) <= 4, "there and back, and once more when a hold is over"
