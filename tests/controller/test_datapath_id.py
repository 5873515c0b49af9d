"""A datapath id has one form for people, and one function each that writes and reads it."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.values import PortId, datapath_id, switch_id

TOP = Path(__file__).parents[2]
PLACE = TOP / "controller" / "model" / "values.py"
# An id that is written or read by other means than these two functions.
_BY_HAND = re.compile(
    r"0?16x\}|(switch|dpid|datapath)\w*:x\}|int\([^()]*(dpid|datapath)[^()]*, 16\)"
)


def test_it_is_written_as_open_vswitch_prints_it() -> None:
    assert datapath_id(17) == "0000000000000011"
    assert str(PortId(17, 2)) == "0000000000000011:2"


@given(st.integers(0, 2**64 - 1))
def test_what_is_written_can_be_read(switch: int) -> None:
    assert switch_id(datapath_id(switch)) == switch
    assert switch_id(str(switch)) == switch or len(str(switch)) == 16
    assert switch_id(hex(switch)) == switch


@pytest.mark.parametrize("written", ["", "11:2", "011", "s1", "-1", "0x", "1e3", "00:00:00:11"])
def test_what_is_none_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="is no datapath id; write its 16 hexadecimal digits"):
        switch_id(written)


def test_nobody_writes_or_reads_it_by_hand() -> None:
    folders = ("controller", "experiments", "mininet", "packaging", "tools")
    sources = [path for folder in folders for path in (TOP / folder).rglob("*.py")]
    assert PLACE in sources
    by_hand = {path for path in sources if _BY_HAND.search(path.read_text())}
    assert by_hand - {PLACE} == set()
