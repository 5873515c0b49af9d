"""Which connections an operator has other plans with."""

from ipaddress import ip_address

from hypothesis import given
from hypothesis import strategies as st

from controller.core.flows.policy import Policy, Rule, Treatment
from controller.model.flow import FlowKey


def rule(treatment: Treatment, subnet: str = "", bits: int = 0, port: int = 0) -> Rule:
    return Rule(treatment, ip_address(subnet).packed if subnet else b"", bits, port)


def key(src: str, src_port: int, dst: str, dst_port: int) -> FlowKey:
    return FlowKey(ip_address(src).packed, src_port, ip_address(dst).packed, dst_port)


POLICY = Policy(
    [
        rule(Treatment.EXEMPT, "10.1.0.0", 16, 22),
        rule(Treatment.PROTECT, "10.1.2.0", 23),
        rule(Treatment.BACKGROUND, "fd00::", 8),
        rule(Treatment.BACKGROUND, port=873),
    ]
)


def test_a_subnet_holds_its_addresses_at_either_end() -> None:
    assert POLICY.treatment(key("10.1.3.9", 1, "10.2.0.1", 80)) is Treatment.PROTECT
    assert POLICY.treatment(key("10.2.0.1", 80, "10.1.3.9", 1)) is Treatment.PROTECT
    assert POLICY.treatment(key("10.1.4.9", 1, "10.2.0.1", 80)) is Treatment.ORDINARY
    assert POLICY.treatment(key("fd12::1", 1, "fe80::1", 80)) is Treatment.BACKGROUND
    assert POLICY.treatment(key("fe80::2", 1, "fe80::1", 80)) is Treatment.ORDINARY


def test_a_port_is_one_end_whatever_its_address() -> None:
    assert POLICY.treatment(key("10.7.0.1", 1, "10.8.0.1", 873)) is Treatment.BACKGROUND
    assert POLICY.treatment(key("fe80::2", 873, "fe80::1", 1)) is Treatment.BACKGROUND


def test_subnet_and_port_are_of_the_same_end() -> None:
    assert POLICY.treatment(key("10.7.0.1", 1, "10.1.9.1", 22)) is Treatment.EXEMPT
    assert POLICY.treatment(key("10.7.0.1", 22, "10.1.9.1", 1)) is Treatment.ORDINARY


def test_the_first_that_fits_decides() -> None:
    assert POLICY.treatment(key("10.1.2.1", 22, "10.1.2.2", 873)) is Treatment.EXEMPT
    assert POLICY.treatment(key("10.1.2.1", 1, "10.1.2.2", 873)) is Treatment.PROTECT


def test_without_rules_all_are_ordinary() -> None:
    assert Policy([]).treatment(key("10.1.2.1", 22, "10.1.2.2", 873)) is Treatment.ORDINARY


addresses = st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16)


@given(addresses, st.data())
def test_a_network_covers_what_has_its_prefix(address: bytes, data: st.DataObject) -> None:
    bits = data.draw(st.integers(1, 8 * len(address)))
    other = data.draw(st.binary(min_size=len(address), max_size=len(address)))
    whole, shift = int.from_bytes(address, "big"), 8 * len(address) - bits
    network = (whole >> shift << shift).to_bytes(len(address), "big")
    subject = Rule(Treatment.PROTECT, network, bits)
    assert subject.covers(address)
    same = int.from_bytes(other, "big") >> shift == whole >> shift
    assert subject.covers(other) is same
    assert not subject.covers(bytes(20 - len(address)))
