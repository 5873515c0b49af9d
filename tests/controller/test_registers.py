"""Register pairs of egress ports."""

from controller.core.congestion.registers import Registers
from controller.model.values import FlowClass, PortId, class_of

BURST, BACKGROUND = FlowClass.BURST, FlowClass.BACKGROUND
P1, P2, P3 = PortId(1, 1), PortId(1, 2), PortId(1, 3)


def test_a_port_keeps_its_pair() -> None:
    registers = Registers()
    registers.connect(1, 1024)
    assert (registers.register(P2, BURST), registers.register(P2, BACKGROUND)) == (0, 1)
    assert (registers.register(P1, BACKGROUND), registers.register(P1, BURST)) == (3, 2)
    assert registers.register(P2, BURST) == 0


def test_the_pair_of_a_port_that_is_gone_is_given_away() -> None:
    registers = Registers()
    registers.connect(1, 4)
    assert (registers.register(P1, BURST), registers.register(P2, BURST)) == (0, 2)
    assert registers.register(P3, BURST) is None
    registers.free(P1)
    registers.free(P1)
    assert registers.register(P3, BURST) == 0
    assert registers.register(P1, BURST) is None


def test_a_switch_that_is_gone_has_none() -> None:
    registers = Registers()
    registers.connect(1, 4)
    assert registers.any(1)
    assert registers.register(P1, BURST) == 0
    registers.forget(1)
    assert not registers.any(1)
    assert registers.register(P1, BURST) is None
    registers.connect(1, 4)
    assert registers.register(P2, BURST) == 0


def test_the_number_tells_the_class() -> None:
    assert [class_of(register) for register in range(3)] == [BURST, BACKGROUND, BURST]


def test_no_more_than_there_are() -> None:
    registers = Registers()
    registers.connect(1, 5)
    assert registers.register(P1, BURST) == 0
    assert registers.register(P2, BACKGROUND) == 3
    assert registers.register(P3, BURST) is None
    assert registers.register(PortId(2, 1), BURST) is None


def test_what_survived_is_kept_and_not_given_away() -> None:
    registers = Registers()
    registers.connect(1, 1024)
    registers.adopt(P1, 1)
    assert registers.register(P2, BURST) == 2
    assert registers.register(P1, BURST) == 0


def test_contradictions_are_settled_for_the_first() -> None:
    registers = Registers()
    registers.connect(1, 1024)
    registers.adopt(P1, 6)
    registers.adopt(P1, 8)
    registers.adopt(P2, 7)
    registers.adopt(P3, 5000)
    assert registers.register(P1, BURST) == 6
    assert registers.register(P2, BURST) == 0
    assert registers.register(P3, BURST) == 2


def test_a_switch_that_comes_back_with_less_loses_the_rest() -> None:
    registers = Registers()
    registers.connect(1, 4)
    assert registers.register(P1, BURST) == 0
    assert registers.register(P2, BURST) == 2
    registers.connect(1, 2)
    assert registers.register(P1, BURST) == 0
    assert registers.register(P2, BURST) is None
