"""The arithmetic of the bottleneck's BPF program, compiled for this machine."""

import ctypes
import subprocess
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path

import pytest

from testbed import bottleneck
from testbed.bottleneck import Loss, Red, unpacked

SOURCE = Path(bottleneck.__file__).parent / "bpf"
RATE_BPS = 100_000_000
FRAME_NS = 121_120
PASSES, LOST, RED_DROPS = 0, 1, 2
THRESHOLDS = Red(min_bytes=16_000, max_bytes=48_000, max_p=0.1, weight_shift=4)

Decide = Callable[..., int]


@pytest.fixture(scope="module")
def decide(tmp_path_factory: pytest.TempPathFactory) -> Decide:
    folder = tmp_path_factory.mktemp("bottleneck")
    (folder / "bottleneck.c").write_text(
        "#include <stdbool.h>\n#include <stdint.h>\n"
        "typedef uint32_t u32;\ntypedef uint64_t u64;\n"
        '#include "bottleneck.h"\n'
        f'_Static_assert(sizeof(struct bottleneck) == {bottleneck._LAYOUT.size}, "layout");\n'
        "int decide(struct bottleneck *at, u64 now_ns, u32 queue, u32 bytes, u32 who)"
        " { return bottleneck_decide(at, now_ns, queue, bytes, who); }\n"
    )
    library = folder / "bottleneck.so"
    subprocess.run(
        [
            *("cc", "-O2", "-Wall", "-Werror", "-fsanitize=undefined"),
            *("-fno-sanitize-recover", "-shared", "-fPIC", f"-I{SOURCE}"),
            *("-o", library, folder / "bottleneck.c"),
        ],
        check=True,
    )
    function = ctypes.CDLL(str(library)).decide
    function.argtypes = [ctypes.c_char_p, ctypes.c_uint64, *(ctypes.c_uint32,) * 3]
    decided: Decide = function
    return decided


class Frames:
    """Full frames, one after another, that find queues of given lengths."""

    def __init__(self, decide: Decide, loss: Loss, red: Red | None, seed: int = 1) -> None:
        self._decide = decide
        self._state = ctypes.create_string_buffer(bottleneck.packed(loss, red, seed, RATE_BPS))
        self.now_ns = 10**9

    def find(self, queue_bytes: int, count: int, who: int = 0) -> list[int]:
        decided = []
        for _ in range(count):
            self.now_ns += FRAME_NS
            decided.append(self._decide(self._state, self.now_ns, queue_bytes, 1514, who))
        return decided

    def seen(self) -> bottleneck.Seen:
        return unpacked(self._state.raw)


def bursts(decided: Sequence[int]) -> list[int]:
    return [len(list(run)) for lost, run in groupby(decided, lambda one: one == LOST) if lost]


@pytest.mark.parametrize("burst", [None, 2.5])
def test_its_share_is_lost_in_bursts_of_their_length(decide: Decide, burst: float | None) -> None:
    frames = Frames(decide, Loss(0.02, burst), None)
    decided = frames.find(0, 200_000)
    assert decided.count(LOST) / len(decided) == pytest.approx(0.02, rel=0.05)
    found = bursts(decided)
    assert sum(found) / len(found) == pytest.approx(burst or 1 / 0.98, rel=0.05)


def test_what_is_lost_follows_from_the_seed(decide: Decide) -> None:
    first, again, other = (
        Frames(decide, Loss(0.1), None, seed).find(0, 1000) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_nothing_is_dropped_without_losses_and_red(decide: Decide) -> None:
    assert not any(Frames(decide, Loss(), None).find(60_000, 1000))


def test_red_leaves_a_short_queue_alone_and_lets_nothing_into_a_long_one(decide: Decide) -> None:
    frames = Frames(decide, Loss(), THRESHOLDS)
    assert not any(frames.find(15_000, 1000))
    frames.find(60_000, 200)
    assert set(frames.find(60_000, 100)) == {RED_DROPS}


def test_red_bears_a_short_burst(decide: Decide) -> None:
    frames = Frames(decide, Loss(), THRESHOLDS)
    assert not any(frames.find(40_000, 6))


def test_red_drops_more_of_a_longer_queue_at_even_distances(decide: Decide) -> None:
    frames = Frames(decide, Loss(), THRESHOLDS)
    frames.find(32_000, 200)
    decided = frames.find(32_000, 20_000)
    # p is half of max_p, 1/20. Distances are even from 1 to 1/p - 1, so their mean is 10.
    assert decided.count(RED_DROPS) / len(decided) == pytest.approx(1 / 10, rel=0.05)
    found = [len(list(run)) for what, run in groupby(decided) if what == PASSES]
    assert max(found) < 20


def test_red_forgets_while_the_link_is_idle(decide: Decide) -> None:
    frames = Frames(decide, Loss(), THRESHOLDS)
    frames.find(60_000, 200)
    frames.now_ns += 200 * FRAME_NS
    assert frames.find(0, 1) == [PASSES]
    assert not any(frames.find(15_000, 100))


def test_frames_are_counted_for_each_receiver(decide: Decide) -> None:
    frames = Frames(decide, Loss(0.5), THRESHOLDS)
    frames.find(0, 100)
    frames.find(60_000, 1000, who=1)
    seen = frames.seen()
    assert (seen.first.seen, seen.others.seen, seen.longest_bytes) == (100, 1000, 1514)
    assert (seen.first.red, seen.first.lost > 0, seen.others.red > 0) == (0, True, True)
