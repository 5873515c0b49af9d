"""The alerts, played through time by Prometheus's own promtool."""

from collections.abc import Mapping, Set
from pathlib import Path

import pytest

from promtool import ALERTS, Check, Series
from promtool import play as play_checks

SWITCH = 'job="weir", instance="a", switch="1"'
UP = {'up{job="weir", instance="a"}': "1x2000"}
PORT = 'switch="1", port="2", name="eth2"'

# What it takes for each to fire, every 15 s. Those of switches that go have tests of their own.
FAULTS: dict[str, Series] = {
    "WeirDown": {
        'up{job="weir", instance="a"}': "1 1 0x20",
    },
    "WeirApiDown": {
        "weir_api_up": "1 1 0x20",
    },
    "WeirEventLogEnded": {
        "weir_event_log_written": "1 1 0x20",
    },
    "WeirSwitchNotReady": {
        'weir_switch_master{switch="1"}': "1x20",
        'weir_switch_ready{switch="1"}': "0x20",
    },
    "WeirSwitchFlaps": {
        'weir_switch_disconnections_total{switch="1"}': "0+1x20",
    },
    "WeirSwitchDoesNotRead": {
        'weir_switch_outgoing_bytes{switch="1"}': "2000000x20",
    },
    "WeirRegistersShort": {
        'weir_switch_registers{switch="1"}': "1024x60",
        'weir_switch_registers_used{switch="1"}': "1024x60",
    },
    "WeirPortWithoutQueue": {
        f"weir_port_has_queue{{{PORT}}}": "1 1 0x60",
    },
    "WeirNoticesMissed": {
        'weir_notices_missed_total{switch="1"}': "0 0 5x20",
    },
    "WeirMessagesUnusable": {
        'weir_unusable_messages_total{switch="1", reason="malformed"}': "0+5x20",
    },
    "WeirControlSlow": {
        'weir_control_delay_seconds_bucket{le="0.005"}': "0x60",
        'weir_control_delay_seconds_bucket{le="0.01"}': "0+10x60",
        'weir_control_delay_seconds_bucket{le="+Inf"}': "0+10x60",
    },
    "WeirMainLoopLate": {
        'weir_main_loop_lag_seconds_bucket{le="0.05"}': "0x60",
        'weir_main_loop_lag_seconds_bucket{le="0.1"}': "0+10x60",
        'weir_main_loop_lag_seconds_bucket{le="+Inf"}': "0+10x60",
    },
    "WeirPortCongested": {
        f"weir_queue_bytes{{{PORT}}}": "64000x60",
        f"weir_queue_limit_bytes{{{PORT}}}": "65536x60",
    },
    "WeirDrops": {
        f"weir_queue_dropped_packets_total{{{PORT}}}": "0+3000x60",
    },
    "WeirRequestsOverdue": {
        f"weir_port_overdue_requests_total{{{PORT}}}": "0+30x60",
    },
    "WeirRequestsNotHeld": {
        f"weir_port_full_requests_total{{{PORT}}}": "0+30x60",
    },
    "WeirEntriesRefused": {
        'weir_switch_entries_refused{switch="1"}': "3x60",
    },
    "WeirOverBudget": {
        'weir_packet_ins_dropped_total{switch="1", port="2", class="syn"}': "0+300x20",
    },
    "WeirNoMaster": {
        'weir_master{job="weir", instance="a"}': "0x20",
        'weir_master{job="weir", instance="b"}': "0x20",
    },
    "WeirNoStandby": {
        'weir_standby_heard{peer="b"}': "1 1 0x20",
    },
    "WeirTwoMasters": {
        'weir_master{job="weir", instance="a"}': "1x20",
        'weir_master{job="weir", instance="b"}': "1x20",
    },
    "WeirExpiresSoon": {
        'weir_certificate_expires_timestamp_seconds{file="a", name="b"}': "1209700x20",
    },
    "WeirHalfOpenFlood": {
        'weir_half_open_given_up_total{reason="flooded"}': "0+3000x20",
    },
}

# An hour of ordinary work: nothing may fire.
USUAL: Series = {
    'up{job="weir", instance="a"}': "1x240",
    'up{job="weir", instance="b"}': "1x240",
    'weir_master{job="weir", instance="a"}': "1x240",
    'weir_master{job="weir", instance="b"}': "0x240",
    'weir_standby_heard{job="weir", instance="a", peer="b"}': "1 1 0 0 1x236",
    'weir_api_up{job="weir", instance="a"}': "1 0 0 1x237",
    'weir_event_log_written{job="weir", instance="a"}': "1 0 1x238",
    f"weir_switch_connected{{{SWITCH}}}": "1x240",
    'weir_switch_master{switch="1"}': "1x240",
    'weir_switch_ready{switch="1"}': "1x240",
    'weir_switch_disconnections_total{switch="1"}': "1x240",
    'weir_switch_outgoing_bytes{switch="1"}': "0x240",
    'weir_switch_registers{switch="1"}': "1024x240",
    'weir_switch_registers_used{switch="1"}': "80x240",
    'weir_switch_entries_refused{switch="1"}': "0x240",
    'weir_notices_missed_total{switch="1"}': "4x240",
    f"weir_port_has_queue{{{PORT}}}": "1x240",
    'weir_certificate_expires_timestamp_seconds{file="a", name="b"}': "1300000x240",
    'weir_token_expires_timestamp_seconds{file="c", name="d"}': "1300000x240",
    f"weir_port_congested{{{PORT}}}": "1x240",
    f"weir_queue_bytes{{{PORT}}}": "64000 64000 10000 40000 20000 30000 50000 60000 40000x232",
    f"weir_queue_limit_bytes{{{PORT}}}": "65536x240",
    f"weir_queue_dropped_packets_total{{{PORT}}}": "0+30x240",
    f"weir_port_overdue_requests_total{{{PORT}}}": "0x240",
    'weir_control_delay_seconds_bucket{le="0.005"}': "0+1000x240",
    'weir_control_delay_seconds_bucket{le="+Inf"}': "0+1001x240",
}


def play(directory: Path, series: Series, at: Mapping[str, Set[str]]) -> None:
    """Check which alerts fire, by the time since the start."""
    play_checks(directory, series, [Check(time, alerts) for time, alerts in at.items()])


def test_every_alert_has_its_fault() -> None:
    assert FAULTS.keys() | {"WeirSwitchAway"} == ALERTS.keys()


@pytest.mark.parametrize("name", FAULTS)
def test_it_fires_by_its_fault(tmp_path: Path, name: str) -> None:
    end = "14m" if "x60" in "".join(FAULTS[name].values()) else "4m"
    play(tmp_path, FAULTS[name], {"0s": set(), end: {name}})


def test_nothing_fires_in_an_hour_of_ordinary_work(tmp_path: Path) -> None:
    play(tmp_path, USUAL, {f"{minutes}m": set() for minutes in range(0, 60, 5)})


def test_a_switch_that_goes_is_told_while_it_is_remembered_and_after_it_is_forgotten(
    tmp_path: Path,
) -> None:
    """`fabric.switch_grace` is 60 s: its series ends with it."""
    series = UP | {f"weir_switch_connected{{{SWITCH}}}": "1x8 0 0 0 0 _x2000"}
    away = {"WeirSwitchAway"}
    at = {"1m": set(), "2m45s": away, "3m15s": away, "10m": away, "5h": away, "7h": set()}
    play(tmp_path, series, at)


def test_a_switch_that_comes_back_is_not_told_any_more(tmp_path: Path) -> None:
    series = UP | {f"weir_switch_connected{{{SWITCH}}}": "1x8 0 0 0 0 _x8 1x40"}
    play(tmp_path, series, {"4m": {"WeirSwitchAway"}, "8m": set()})


def test_a_switch_that_blinks_is_not_told(tmp_path: Path) -> None:
    series = UP | {f"weir_switch_connected{{{SWITCH}}}": "1x8 0 1x40"}
    play(tmp_path, series, {f"{seconds}s": set() for seconds in range(0, 480, 15)})


def test_of_a_controller_that_is_down_no_switch_is_told_to_be_away(tmp_path: Path) -> None:
    series = {
        'up{job="weir", instance="a"}': "1x8 0x40",
        f"weir_switch_connected{{{SWITCH}}}": "1x8 stale",
    }
    play(tmp_path, series, {"2m": set(), "9m": {"WeirDown"}})
