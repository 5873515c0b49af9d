"""The arithmetic of the BPF program that loses data, compiled for this machine."""

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed import dataloss
from testbed.dataloss import Connection, packed, unpacked

SOURCE = Path(dataloss.__file__).parent / "bpf"

Loses = Callable[..., bool]


@pytest.fixture(scope="module")
def loses(tmp_path_factory: pytest.TempPathFactory) -> Loses:
    folder = tmp_path_factory.mktemp("dataloss")
    (folder / "dataloss.c").write_text(
        "#include <stdbool.h>\n#include <stdint.h>\n"
        "typedef uint16_t u16;\ntypedef uint32_t u32;\ntypedef uint64_t u64;\n"
        '#include "dataloss.h"\n'
        f'_Static_assert(sizeof(struct dataloss) == {dataloss._LOSS.size}, "loss");\n'
        f"_Static_assert(sizeof(struct dataloss_connection) == {dataloss._CONNECTION.size},"
        ' "connection");\n'
        f'_Static_assert(DATALOSS_REMEMBERED == {dataloss.REMEMBERED}, "remembered");\n'
        "bool loses(struct dataloss *of, struct dataloss_connection *at, u16 port, u32 bytes)"
        " { return dataloss_loses(of, at, port, bytes); }\n"
    )
    library = folder / "dataloss.so"
    subprocess.run(
        [
            *("cc", "-O2", "-Wall", "-Werror", "-fsanitize=undefined"),
            *("-fno-sanitize-recover", "-shared", "-fPIC", f"-I{SOURCE}"),
            *("-o", library, folder / "dataloss.c"),
        ],
        check=True,
    )
    function = ctypes.CDLL(str(library)).loses
    function.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint16, ctypes.c_uint32]
    function.restype = ctypes.c_bool
    found: Loses = function
    return found


class Sender:
    """A connection from a port, that sends full frames."""

    def __init__(self, loses: Loses, share: float, seed: int, port: int, spared: int = 0) -> None:
        self._loses, self._port = loses, port
        self._of = ctypes.create_string_buffer(packed(share, seed, spared))
        self._at = ctypes.create_string_buffer(dataloss._CONNECTION.size)

    def send(self, count: int) -> list[bool]:
        return [self._loses(self._of, self._at, self._port, 1448) for _ in range(count)]

    def told(self) -> Connection:
        value = self._at.raw[: dataloss._CONNECTION.size]
        return unpacked(self._port.to_bytes(2, "little"), value)[1]


@pytest.mark.parametrize("share", [0.005, 0.1])
def test_the_share_is_lost_of_each_packet_of_a_window(loses: Loses, share: float) -> None:
    windows = [Sender(loses, share, 1, port).send(4) for port in range(10_000, 60_000)]
    for of_packet in zip(*windows, strict=True):
        assert sum(of_packet) / len(windows) == pytest.approx(share, rel=0.1)
    pairs = sum(first and second for first, second, *_ in windows)
    # One is not lost because another is.
    assert pairs / len(windows) == pytest.approx(share**2, abs=4 * (share**2 / len(windows)) ** 0.5)


def test_nothing_and_all_can_be_lost(loses: Loses) -> None:
    assert not any(Sender(loses, 0, 1, 10_000).send(1000))
    assert all(Sender(loses, 1, 1, 10_000).send(1000))


def test_what_is_lost_follows_from_seed_port_and_number(loses: Loses) -> None:
    ways = ((1, 10_000), (1, 10_000), (2, 10_000), (1, 10_001))
    first, again, *others = (Sender(loses, 0.1, *way).send(1000) for way in ways)
    assert first == again
    assert first not in others


def test_it_remembers_which_of_the_first_were_lost_and_counts_all(loses: Loses) -> None:
    sender = Sender(loses, 0.3, 7, 10_000)
    lost = sender.send(100)
    told = sender.told()
    assert [bool(told.lost >> n & 1) for n in range(dataloss.REMEMBERED)] == lost[:64]
    assert (told.frames, told.longest_bytes) == (100, 1448)


def test_the_first_can_be_spared(loses: Loses) -> None:
    without = Sender(loses, 0.3, 7, 10_000).send(100)
    sender = Sender(loses, 0.3, 7, 10_000, spared=2)
    assert sender.send(102) == [False, False, *without]
    assert [bool(sender.told().lost >> n & 1) for n in range(64)] == without[:64]


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_that_cannot_be_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="share"):
        packed(share, 1)
