"""The configuration that is generated is one the controller takes, and means what was meant."""

from pathlib import Path
from typing import Any

import yaml

from controller.config import reading, schema
from testbed.controller import QueueConfig, configuration, errors_in, listening

TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:19FD 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0
   1: 0100007F:19FE 0100007F:19FF 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0
"""


def generate(**changes: object) -> schema.Config:
    settings: dict[str, Any] = {
        "scheme": "weir",
        "rate_bps": 100_000_000,
        "limit_bytes": 1 << 20,
        "queues": [QueueConfig(switch=1, port=1, egress_buffer_bytes=65536)],
        "events": Path("/run/weir/events.jsonl"),
    }
    return reading.parse(yaml.safe_dump(configuration(**(settings | changes))))


def test_the_controller_reads_what_was_meant() -> None:
    read = generate()
    assert read.fabric.link_capacity == 100_000_000
    assert read.fabric.egress_buffer == 1 << 20
    (queue,) = read.fabric.queues
    assert (queue.switch, queue.port, queue.egress_buffer) == (1, 1, 65536)
    assert read.regulation.scheme.value == "weir"
    assert read.log.events == "/run/weir/events.jsonl"


def test_single_keys_can_be_overridden() -> None:
    read = generate(sections={"regulation": {"window_ttl": "1 s"}})
    assert read.regulation.window_ttl == 1_000_000_000
    assert read.regulation.scheme.value == "weir"


def test_listening_is_seen_and_a_connection_is_not_taken_for_it() -> None:
    assert listening(6653, TCP)
    assert not listening(6654, TCP)
    assert not listening(6655, TCP)


def test_errors_are_found_in_the_log() -> None:
    log = """\
2026-11-21 14:39:48,448 INFO    weir.app: no ERROR here
2026-11-21 14:39:48,449 ERROR   weir.session: switch 2 refused a message

2026-11-21 14:39:48,450 CRITICAL weir: it is over
"""
    assert [line.split()[2] for line in errors_in(log)] == ["ERROR", "CRITICAL"]
