"""The arithmetic of the BPF program, compiled for this machine, against RFC 8257's in fractions."""

import ctypes
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed import dctcp

SOURCE = Path(dctcp.__file__).parent / "bpf"
ONE = 65536
FUNCTIONS = {"dctcp_alpha": 4, "dctcp_reduced": 2, "dctcp_halved": 1, "dctcp_window_over": 2}

alphas = st.integers(0, ONE)
# RFC 8257's, LTTP's authors' best, and any other.
gains = st.sampled_from([ONE // 16, round(0.15 * ONE)]) | st.integers(64, ONE - 1)
windows = st.integers(1, 1 << 20)
sequence_numbers = st.integers(0, (1 << 32) - 1)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("dctcp")
    wrapped = "".join(
        f"u32 test_{name}({', '.join(f'u32 {x}' for x in 'abcd'[:count])})"
        f" {{ return {name}({', '.join('abcd'[:count])}); }}\n"
        for name, count in FUNCTIONS.items()
    )
    (folder / "dctcp.c").write_text(
        "#include <stdbool.h>\n#include <stdint.h>\n"
        "typedef uint32_t u32;\ntypedef int32_t s32;\ntypedef uint64_t u64;\n"
        f'#include "dctcp.h"\n{wrapped}'
    )
    library = folder / "dctcp.so"
    subprocess.run(
        [
            *("cc", "-O2", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined"),
            *("-fno-sanitize-recover", "-shared", "-fPIC", f"-I{SOURCE}"),
            *("-o", library, folder / "dctcp.c"),
        ],
        check=True,
    )
    loaded = ctypes.CDLL(str(library))
    for name, count in FUNCTIONS.items():
        function = getattr(loaded, f"test_{name}")
        function.restype, function.argtypes = ctypes.c_uint32, [ctypes.c_uint32] * count
    return loaded


@given(alpha=alphas, delivered=windows, gain=gains, data=st.data())
def test_one_estimate(
    compiled: Any, alpha: int, delivered: int, gain: int, data: st.DataObject
) -> None:
    """Eq. of section 3.3, step 6: Alpha * (1 - g) + g * M, but for what fixed point loses."""
    marked = data.draw(st.integers(0, delivered))
    g = Fraction(gain, ONE)
    exact = alpha * (1 - g) + g * ONE * Fraction(marked, delivered)
    # Two results are rounded down, and one of them once before; and what does not reach the gain.
    lost = 1 + g if alpha * g >= 1 else 1 / g + g
    assert abs(compiled.test_dctcp_alpha(alpha, delivered, marked, gain) - exact) <= lost


@given(
    alpha=alphas,
    rounds=st.lists(st.tuples(sequence_numbers, sequence_numbers), max_size=50),
    gain=gains,
)
def test_it_never_leaves_its_range(
    compiled: Any, alpha: int, rounds: list[tuple[int, int]], gain: int
) -> None:
    """Whatever the counters say: more marked than delivered, or nothing delivered at all."""
    for delivered, marked in rounds:
        alpha = compiled.test_dctcp_alpha(alpha, delivered, marked, gain)
        assert 0 <= alpha <= ONE


@given(alpha=alphas, gain=st.sampled_from([ONE // 16, round(0.15 * ONE), ONE // 2]))
def test_it_reaches_both_ends(compiled: Any, alpha: int, gain: int) -> None:
    """Section 4.2: zero once nothing is marked any more, and nearly all when everything is: what is
    missing is less than reaches the gain."""
    low = high = alpha
    for _ in range(500):
        low = compiled.test_dctcp_alpha(low, 10, 0, gain)
        high = compiled.test_dctcp_alpha(high, 10, 10, gain)
    assert low == 0
    assert high == ONE


def test_a_window_without_segments_tells_nothing(compiled: Any) -> None:
    assert compiled.test_dctcp_alpha(1234, 0, 0, ONE // 16) == 1234


@given(cwnd=windows, alpha=alphas)
def test_a_reduction_is_by_half_the_estimate(compiled: Any, cwnd: int, alpha: int) -> None:
    """Section 3.3, step 9: cwnd * (1 - Alpha / 2), in whole segments, two of them at least."""
    exact = max(Fraction(2), cwnd * (1 - Fraction(alpha, 2 * ONE)))
    assert 0 <= compiled.test_dctcp_reduced(cwnd, alpha) - exact < 1


@given(cwnd=windows)
def test_a_loss_halves(compiled: Any, cwnd: int) -> None:
    assert compiled.test_dctcp_halved(cwnd) == max(2, cwnd // 2)


@given(end=sequence_numbers, ahead=st.integers(-(1 << 31) + 1, (1 << 31) - 1))
def test_a_window_is_over_beyond_its_end(compiled: Any, end: int, ahead: int) -> None:
    """Section 3.3, step 4, where sequence numbers wrap, too."""
    acknowledged = (end + ahead) % (1 << 32)
    assert compiled.test_dctcp_window_over(acknowledged, end) == (ahead > 0)
