"""Regulation is turned off and on under load, on a real switch, and traffic goes on."""

import time
from collections.abc import Sequence

import pytest

from controller.cli.client import Client
from controller.model.values import switch_id
from experiments.traffic.reader import IncastSpec
from testbed import sandbox
from testbed.bed import Bed
from testbed.command import wait_until
from testbed.config import BedConfig
from traffic import accounts_in_force, incast, is_regulated, pinging

SENDERS = 16

pytestmark = [pytest.mark.netns, pytest.mark.switch, pytest.mark.timing]


@pytest.mark.parametrize(
    ("topology", "senders", "scopes"),
    [
        ("star", SENDERS, ("everything", "switch", "port")),
        ("fat-tree", 13, ("everything",)),
    ],
)
def test_it_is_in_force_within_a_second_and_no_packet_is_lost(
    topology: str, senders: int, scopes: Sequence[str]
) -> None:
    path = str(sandbox.RUN_DIR / "controller.sock")
    config = BedConfig(
        topology=topology,
        senders=senders,
        scheme="weir",
        controller={"northbound": {"socket": path}},
    )
    with Bed(config) as bed:
        bed.require_forwarding()
        switch, bottleneck = switch_id(bed.bottleneck_switch.dpid), bed.roles.bottleneck
        places: dict[str, dict[str, object]] = {
            "everything": {},
            "switch": {"switch": switch},
            "port": {"switch": switch, "port": bottleneck},
        }
        client = Client(path)
        a, b = bed.host(bed.roles.senders[0]), bed.host(bed.roles.senders[-1])
        with (
            incast(bed, IncastSpec(senders=senders, rounds=10_000)) as reads,
            pinging(a, b) as pings,
        ):
            wait_until(lambda: is_regulated(bed), timeout_s=10, what="there is an account")
            reads.require_progress(10, 20, "under regulation")
            regulated = accounts_in_force(bed)
            for scope in (scope for scope in scopes for _ in range(2)):
                asked_s = time.monotonic()
                client.ask("off", {**places[scope], "by": "test"})
                wait_until(
                    lambda: bottleneck not in accounts_in_force(bed),
                    timeout_s=5,
                    what=f"the port is not regulated any more, {scope} being off",
                )
                assert time.monotonic() - asked_s <= 1
                left = {bottleneck} if scope == "port" else set(regulated)
                assert set(accounts_in_force(bed)) == set(regulated) - left
                reads.require_progress(3, 30, f"without regulation of {scope}")

                asked_s = time.monotonic()
                client.ask("on", {**places[scope], "by": "test"})
                wait_until(lambda: is_regulated(bed), timeout_s=5, what="the port is regulated")
                assert time.monotonic() - asked_s <= 1
                reads.require_progress(10, 30, "under regulation again")
                assert accounts_in_force(bed) == regulated
        sent, answered = pings
        # One may be on its way at the end.
        assert answered >= sent - 1
        assert sent > 50


def test_it_ends_by_itself_and_windows_of_sdtcp_go_with_it() -> None:
    path = str(sandbox.RUN_DIR / "controller.sock")
    config = BedConfig(
        topology="star",
        senders=SENDERS,
        scheme="sdtcp",
        controller={"northbound": {"socket": path}},
    )
    with Bed(config) as bed:
        bed.require_forwarding()
        client = Client(path)

        def windows() -> set[int]:
            ports = client.ask("regulation")["ports"]
            return {hold["window_bytes"] for port in ports for hold in port["holds"].values()}

        with incast(bed, IncastSpec(senders=SENDERS, rounds=10_000)) as reads:
            wait_until(lambda: windows() != {0}, timeout_s=20, what="there are windows")
            assert bed.bottleneck_switch.registers()
            client.ask("off", {"for_s": 3, "by": "test"})
            assert windows() == {0}
            wait_until(
                lambda: not bed.bottleneck_switch.registers(),
                timeout_s=1,
                what="the switch has released its registers",
            )
            reads.require_progress(2, 20, "without regulation")
            wait_until(lambda: windows() != {0}, timeout_s=20, what="there are windows again")
        assert client.ask("bypasses")["bypasses"] == []
