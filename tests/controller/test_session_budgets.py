"""What a port may copy up: its meters on the switch, and who exceeds them."""

import struct

import pytest

from controller.model.packet_ins import OverBudget, PacketClass
from controller.southbound.codec.openflow import Type
from controller.southbound.switch import budgets, events, pipeline
from scripted_switch import H1, LIMITS, ScriptedSwitch


def changes_of(message: bytes) -> tuple[int, int]:
    """Command and number of a meter-mod."""
    command, _, number = struct.unpack_from("!HHI", message, 8)
    return command, number


class TestBudgets:
    """Ports 1 and 2 with their meters."""

    @pytest.fixture
    def switch(self) -> ScriptedSwitch:
        return ScriptedSwitch((1, 2, 0xFFFFFFFE))

    def meter_mods(self, switch: ScriptedSwitch) -> list[tuple[int, int]]:
        return [changes_of(message) for message in switch.got if message[1] == Type.METER_MOD]

    def test_the_meters_go_in_before_the_entries_that_use_them(
        self, switch: ScriptedSwitch
    ) -> None:
        switch.become_ready()
        kinds = [kind for kind in switch.kinds() if kind in (Type.METER_MOD, Type.FLOW_MOD)]
        n_meters = 2 * len(budgets.METERED) + 1
        n_entries = len(pipeline.STATIC) + 2 * len(budgets.entries(1))
        assert kinds == [Type.METER_MOD] * n_meters + [Type.FLOW_MOD] * n_entries

    def test_without_meters_the_fixed_entries_do(
        self, switch: ScriptedSwitch, caplog: pytest.LogCaptureFixture
    ) -> None:
        switch.subscribe_answer()
        for kind in (11, 10):
            request = next(
                message
                for message in switch.got
                if message[1] == Type.MULTIPART_REQUEST and message[9] == kind
            )
            switch.say(Type.ERROR, struct.pack("!HH", 1, 2) + request)
        switch.say_flows()
        (ready,) = switch.barrier()
        assert isinstance(ready, events.Ready)
        assert self.meter_mods(switch) == []
        assert switch.kinds().count(Type.FLOW_MOD) == len(pipeline.STATIC)
        (record,) = caplog.records
        assert "has no meters" in record.getMessage()

    def test_a_port_that_comes_is_guarded_and_one_that_goes_leaves_nothing(
        self, switch: ScriptedSwitch
    ) -> None:
        switch.become_ready()
        for reason, command in ((0, 0), (1, 2)):
            switch.got.clear()
            port = (9).to_bytes(4, "big") + bytes(4) + H1.mac + bytes(2 + 16 + 32)
            switch.say(Type.PORT_STATUS, bytes([reason]) + bytes(7) + port)
            wanted = [(command, meter.number) for meter in budgets.meters(9, LIMITS)]
            assert self.meter_mods(switch) == wanted
            assert switch.kinds().count(Type.FLOW_MOD) == len(budgets.entries(9))

    def test_the_offenders_are_told(self, switch: ScriptedSwitch) -> None:
        switch.become_ready()
        number = next(
            meter.number
            for meter in budgets.meters(2, LIMITS)
            if budgets.owner(meter.number) == (2, PacketClass.SYN)
        )
        for age_s, dropped, expected in (
            (1, 0, []),
            (3, 80, [OverBudget(2, PacketClass.SYN, 80, 40.0)]),
        ):
            switch.session.read_meters()
            counters = struct.pack("!IH6xIQQIIQQ", number, 56, 0, 500, 0, age_s, 0, dropped, 0)
            body = struct.pack("!HH4x", 9, 0) + counters
            told = switch.say(Type.MULTIPART_REPLY, body, switch.asked(9))
            assert told == ([events.CopiesDropped(expected)] if expected else [])
