"""Settings pass between processes, and become exactly what sysctl and ip route are told."""

import json
from dataclasses import asdict

import pytest

from testbed.config import BedConfig, HostSettings


def test_nothing_is_touched_by_default() -> None:
    settings = HostSettings()
    assert settings.sysctls("4096 131072 6291456") == {}
    assert settings.route_attributes() == {}


def test_what_is_set() -> None:
    settings = HostSettings(
        "reno",
        rto_min_ms=10,
        initcwnd=2,
        quickack=True,
        rmem_max_bytes=65536,
        window_clamp_bytes=65535,
        mss_bytes=536,
    )
    assert settings.sysctls("4096 131072 33554432") == {
        "tcp_congestion_control": "reno",
        "tcp_rmem": "4096 65536 65536",
    }
    assert settings.route_attributes() == {
        "rto_min": "10ms",
        "initcwnd": "2",
        "quickack": "1",
        "advmss": "536",
        "window": "65535",
    }


def test_options_can_be_asked_for_and_forbidden() -> None:
    settings = HostSettings(sack=False, timestamps=True, window_scaling=False)
    assert settings.sysctls("4096 131072 6291456") == {
        "tcp_sack": "0",
        "tcp_timestamps": "1",
        "tcp_window_scaling": "0",
    }


def test_delayed_acknowledgements_can_be_asked_for() -> None:
    assert HostSettings(quickack=False).route_attributes() == {"quickack": "0"}


@pytest.mark.parametrize(("asked", "sysctl"), [(True, "1"), (False, "0")])
def test_ecn_can_be_asked_for_and_forbidden(asked: bool, sysctl: str) -> None:
    assert HostSettings(ecn=asked).sysctls("4096 131072 6291456") == {"tcp_ecn": sysctl}


def test_a_configuration_survives_the_way_to_another_process() -> None:
    config = BedConfig(
        topology="star",
        senders=3,
        host=HostSettings("reno", initcwnd=2),
        queue={"ecn-threshold": "30000"},
        controller={"regulation": {"window_ttl": "1 s"}},
    )
    assert BedConfig.from_dict(json.loads(json.dumps(asdict(config)))) == config
