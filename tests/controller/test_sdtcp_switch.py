"""Scheme `sdtcp` on the patched switch: by the letter of Algorithm 1 it sticks, otherwise not."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dummy_ovs import DummyOvs, controlled, patched_prefix
from packets import Host
from test_patched_switch import MSS, QOS, REGULATED, IncastSwitch

pytestmark = [pytest.mark.switch, pytest.mark.timing]

LONE, *READERS = REGULATED[:6]
# 64 KiB take 1.3 s, so notices are repeated every 2.6 s.
RATE_BPS = 400_000
REPEATED_S = 2.7
# C x RTT for as long as a handshake may take here.
MOST_BDP_BYTES = RATE_BPS // 8 // 100

CONFIG = """
openflow: {{listen: "tcp:{listen}"}}
fabric: {{lldp_interval: 300 ms, link_timeout: 2 s}}
classifier: {{background_bytes: 10 kB, background_age: 500 ms, poll_interval: 100 ms}}
log: {{events: "{events}", connections: true}}
"""


class Letter(IncastSwitch):
    """A lone sender, whose queue is kept full by hand."""

    settings = CONFIG + "regulation: {{scheme: sdtcp, repeat_notices: no}}"
    qos = QOS.replace("max-rate=160000", f"max-rate={RATE_BPS}")

    def __init__(self, switch: DummyOvs, directory: Path) -> None:
        super().__init__(switch, directory)
        self._sent = dict.fromkeys(REGULATED, 0)

    def windows(self) -> dict[str, int]:
        """The last window of each class that the switch was told."""
        told: dict[str, int] = {}
        for event in self.events("window_set"):
            windows = event["windows"]
            assert isinstance(windows, list)
            told |= {window["class"]: window["window_bytes"] for window in windows}
        return told

    def notices(self) -> list[str]:
        return [str(event["notice"]) for event in self.events("queue_event")]

    def length(self) -> int:
        """How long the queue was when it passed H, in bytes: at the shortest CN-H."""
        return min(
            length
            for event in self.events("queue_event")
            if event["notice"] == "CN-H" and isinstance(length := event["bytes"], int)
        )

    def fill(self, host: Host = LONE, size: int = 4 * MSS) -> None:
        """A sender sends so much more."""
        self.answer(self._sent[host], size, host)
        self._sent[host] += size

    def fill_until_background(self) -> None:
        """The lone flow passes L, M and H while it is new, and is known for what it is then."""
        self.introduce()
        self.connect(LONE)
        self.wait_events("connection_opened")
        deadline_s = time.monotonic() + 20
        while not self.events("flow_classified"):
            assert time.monotonic() < deadline_s
            self.fill()
        assert self.notices()[:3] == ["CN-L", "CN-M", "CN-H"]

    def fill_while_readers_connect(self) -> None:
        """Who sends nothing does not count, so they send a little."""
        for host in READERS:
            self.connect(host)
        self.wait_events("connection_opened", 1 + len(READERS))
        for _ in range(int(2 * REPEATED_S / 0.3)):
            for host in READERS:
                self.fill(host, size=100)
            until_s = time.monotonic() + 0.3
            while time.monotonic() < until_s:
                self.fill()


class Repeated(Letter):
    """The same with notices that are repeated."""

    settings = CONFIG + "regulation: {{scheme: sdtcp}}"


@pytest.fixture
def letter(tmp_path: Path) -> Iterator[Letter]:
    with controlled(Letter, patched_prefix(), tmp_path) as world:
        yield world


@pytest.fixture
def repeated(tmp_path: Path) -> Iterator[Repeated]:
    with controlled(Repeated, patched_prefix(), tmp_path) as world:
        yield world


def test_by_the_letter_nothing_is_told_after_cn_h(letter: Letter) -> None:
    letter.fill_until_background()
    told = letter.windows()
    assert 0 <= told["burst"] - letter.length() <= MOST_BDP_BYTES
    letter.fill_while_readers_connect()
    assert letter.notices() == ["CN-L", "CN-M", "CN-H"]
    assert letter.windows() == told, "what one new flow was told, five readers may have each"


def test_repeated_notices_follow_the_flows_and_the_queue(repeated: Repeated) -> None:
    repeated.fill_until_background()
    repeated.fill_while_readers_connect()
    notices = repeated.notices()
    assert notices.count("CN-H") >= 2
    # Eq. (7) and (8).
    told, total = repeated.windows(), repeated.length()
    assert told["background"] == MSS
    assert 0 <= told["burst"] - (total - MSS) // len(READERS) <= MOST_BDP_BYTES
    assert "refused" not in repeated.controller.log
