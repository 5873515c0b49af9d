"""What the core wants of a register, as the switch is told it."""

from controller.model.effects import RegisterWindow
from controller.model.values import RELEASED, Credit, FlowClass, Hold
from controller.runtime import translate
from controller.southbound.codec.extension import ANY_PORT, Window

BURST, BACKGROUND = FlowClass.BURST, FlowClass.BACKGROUND


def test_a_register_of_an_account_names_its_port_and_class() -> None:
    credit = Credit(bound_bytes=40_000, max_hold_ms=160, weight=7)
    wanted = RegisterWindow(6, 3, BURST, Hold(0, credit))
    assert translate.window(wanted, 3000) == Window(6, 0, 3000, 3, 40_000, 160, 0, 7)
    wanted = RegisterWindow(7, 3, BACKGROUND, Hold(0, credit._replace(weight=1)))
    assert translate.window(wanted, 3000) == Window(7, 0, 3000, 3, 40_000, 160, 1, 1)


def test_a_window_alone_is_in_no_account() -> None:
    wanted = RegisterWindow(7, 3, BACKGROUND, Hold(1460))
    assert translate.window(wanted, 3000) == Window(7, 1460, 3000, ANY_PORT)


def test_of_a_released_register_nothing_is_told() -> None:
    wanted = RegisterWindow(7, 3, BACKGROUND, RELEASED)
    assert translate.window(wanted, 3000) == Window(7, 0, 0, ANY_PORT)
