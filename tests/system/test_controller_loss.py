"""A controller that is killed in the middle of a congested run, against the real switch."""

import time

import pytest

from controller.ops.event_log import read_events
from experiments.traffic.reader import IncastSpec
from testbed.bed import Bed
from testbed.command import wait_until
from testbed.config import BedConfig
from traffic import account, accounts_in_force, incast, is_regulated

TTL_S = 1.5
SENDERS = 16

pytestmark = [pytest.mark.netns, pytest.mark.switch, pytest.mark.timing]


def notices(bed: Bed) -> int:
    return len(read_events(bed.events, "queue_event"))


def test_accounts_expire_and_a_new_controller_takes_up_again() -> None:
    config = BedConfig(
        topology="star",
        senders=SENDERS,
        scheme="weir",
        controller={"regulation": {"window_ttl": f"{TTL_S} s"}},
    )
    with Bed(config) as bed:
        bed.require_forwarding()
        with incast(bed, IncastSpec(senders=SENDERS, rounds=10_000)) as reads:
            wait_until(lambda: is_regulated(bed), timeout_s=10, what="there is an account")
            reads.require_progress(10, 10, "under regulation")
            assert notices(bed), "the run is not congested, so it shows nothing"
            before = account(bed)
            assert before["now.connections"] == SENDERS

            assert bed.controller is not None
            bed.controller.kill()
            killed_s = time.monotonic()
            wait_until(
                lambda: not accounts_in_force(bed),
                timeout_s=TTL_S + 1,
                what="the accounts have ended",
            )
            assert time.monotonic() - killed_s <= TTL_S + 0.25
            ended = account(bed)
            assert ended["requests.all"] > before["requests.all"]
            assert (ended["active"], ended["now.connections"], ended["now.held"]) == (0, 0, 0)
            reads.require_progress(3, 20, "without a controller")
            assert account(bed) == ended, "what has ended neither counts nor holds anything"

            bed.controller.start()
            wait_until(lambda: is_regulated(bed), timeout_s=15, what="there is an account again")
            # The connections are older than this account, and it comes to know each of them, once
            # the datapath's cached flows have been replaced.
            wait_until(
                lambda: account(bed)["now.connections"] == SENDERS,
                timeout_s=5,
                what="the new account knows all connections",
            )
            known = account(bed)
            reads.require_progress(10, 20, "under the new controller")
            again = account(bed)
            assert again["now.connections"] == SENDERS
            assert again["requests.all"] >= known["requests.all"] + 9 * SENDERS
