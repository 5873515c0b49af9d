"""What a host may lose whose own link is the bottleneck."""

from types import SimpleNamespace
from typing import Any

from experiments.bench.watched import _not_sent_left_out


def test_only_what_it_could_not_send_itself_is_left_out() -> None:
    host: Any = SimpleNamespace(name="b1", defaultIntf=lambda: "b1-eth0")
    lost = {
        "kernel qdiscs": {"b1/b1-eth0": 164, "h1/h1-eth0": 1},
        "hosts": {"b1 Udp.SndbufErrors": 158, "b1 Ip.OutDiscards": 158, "b1 Udp.InErrors": 2},
        "devices": {},
    }
    assert _not_sent_left_out(lost, host) == {
        "kernel qdiscs": {"h1/h1-eth0": 1},
        "hosts": {"b1 Udp.InErrors": 2},
        "devices": {},
    }
