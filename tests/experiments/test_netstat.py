"""TCP's counters, as the kernel prints them."""

import os

import pytest

from experiments.measure.netstat import TIMEOUTS, counters, grown, parse

NETSTAT = """\
TcpExt: SyncookiesSent TCPTimeouts TCPLossProbes
TcpExt: 0 17 3
IpExt: InNoRoutes InTruncatedPkts
IpExt: 0 1
"""


def test_names_and_values_belong_together() -> None:
    assert parse(NETSTAT) == {
        "TcpExt.SyncookiesSent": 0,
        "TcpExt.TCPTimeouts": 17,
        "TcpExt.TCPLossProbes": 3,
        "IpExt.InNoRoutes": 0,
        "IpExt.InTruncatedPkts": 1,
    }


@pytest.mark.parametrize(
    "text", ["TcpExt: A B\nTcpExt: 1\n", "TcpExt: A\nIpExt: 1\n", "TcpExt: A\n"]
)
def test_what_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)


def test_this_kernel_has_what_reports_are_made_of() -> None:
    read = counters(os.getpid())
    assert {TIMEOUTS, "TcpExt.TCPLossProbes", "Tcp.RetransSegs", "Ip.InDiscards"} <= set(read)


def test_growth_leaves_out_what_has_not_grown() -> None:
    assert grown({"a": 1, "b": 2}, {"a": 1, "b": 5, "c": 3}) == {"b": 3, "c": 3}
