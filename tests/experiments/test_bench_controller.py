"""The load of the controller's benchmark: what it says of connections is what a switch would."""

import pytest

from controller.core.flows.flow_table import GlobalFlowTable
from controller.southbound.codec import extension, openflow
from controller.southbound.switch import segments
from experiments.bench.controller import handshakes
from experiments.bench.controller.fake_switch import HOSTS, notice


def observed(table: GlobalFlowTable, stream: bytes) -> list[bytes]:
    """The keys of all SYNs, after the table has seen everything."""
    copied, end = segments.take(stream, 0)
    assert end == len(stream), "something is not the usual packet-in"
    table.observe(copied, 0)
    return [segment[2] for segment in copied if segment[3] == 2]


@pytest.mark.parametrize("n", [1, 255, 256, 257, 1000])
def test_every_connection_is_new_and_has_its_whole_life(n: int) -> None:
    table = GlobalFlowTable()
    most, rest = handshakes.lives(7 * n, n)
    opened = observed(table, most)
    assert len(opened) == len(set(opened)) == n
    assert len(table) == handshakes.left_open(n)
    assert observed(table, rest) == []
    assert (len(table), table.half_open) == (0, 0)


@pytest.mark.parametrize("kind", [handshakes.Call, handshakes.CallTo])
def test_openings_stay_open(kind: type[handshakes.Call]) -> None:
    table = GlobalFlowTable()
    for piece in handshakes.openings(0, 2000, kind):
        observed(table, piece)
    assert len(table) == 2000


def test_all_of_some_calls_go_to_the_last_host() -> None:
    calls = [handshakes.CallTo(number) for number in range(1000)]
    assert {call.server.number for call in calls} == {HOSTS}
    assert len({(call.client.address, call.ports) for call in calls}) == 1000


def test_a_notice_is_one_of_the_extension() -> None:
    experimenter, kind, body = openflow.unpack_experimenter(notice(2, 7, 5))
    event = extension.unpack(kind, body)
    assert experimenter == extension.EXPERIMENTER
    assert isinstance(event, extension.QueueEvent)
    assert (event.event, event.port, event.sequence) == (2, 7, 5)


def test_a_request_is_data_of_its_connection() -> None:
    table = GlobalFlowTable()
    for piece in handshakes.openings(0, 3, handshakes.CallTo):
        observed(table, piece)
    copied, _ = segments.take(b"".join(handshakes.CallTo(n).request() for n in range(4)), 0)
    assert [segment[6] for segment in copied] == [64] * 4
    table.observe(copied, 0)
    assert [segment[2] for segment in table.take_strays()] == [copied[3][2]]
