"""The configuration: what is read, and errors for the person who can mend them."""

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.config import quantity, reading
from controller.config.errors import ConfigError
from controller.config.schema import Config
from controller.config.sections.regulation import RegulationSection
from controller.core.congestion.egress_ports import PortOverride
from controller.core.congestion.regulator import Scheme
from controller.core.congestion.windows import CreditRules, PortLimits, WindowRules
from controller.core.flows.classifier import Classifier
from controller.core.flows.connections import ConnectionSettings
from controller.core.flows.policy import Rule, Treatment
from controller.core.hosts.resolution import ResolverSettings

EVERYTHING = """
openflow: {listen: "ssl:[::1]:6654"}
tls:
  key: key.pem
  certificate: certificate.pem
  ca: ca.pem
  crl: crl.pem
  minimum_version: "1.3"
  switches: {s1.example: 1, s2.example: [2, 3]}
  handshake_timeout: 5 s
standby:
  name: a
  peers: {b: "10.0.0.2:6654"}
  listen: tcp:0.0.0.0:6654
  secret: secret
  priority: 200
  heartbeat: 100 ms
  timeout: 500 ms
fabric:
  link_capacity: 1 Gbit/s
  egress_buffer: 128 KiB
  rtt: 200 us
  lldp_interval: 0.5
  link_timeout: 2 s
  control_grace: 300 ms
  switch_grace: 30 s
  host_age: 10 min
  flood_rate: 50
  queues:
    - {switch: 1, port: s1-eth3, capacity: 100 Mbit/s, egress_buffer: 64 KiB}
    - {switch: 2, port: 4, rtt: 1 ms}
classifier:
  background_bytes: 2 MB
  background_age: 1500 ms
  poll_interval: 250 ms
  quiet: 20 s
  expiry: 5 min
  counted_per_switch: 1000
regulation:
  {scheme: sdtcp, window_ttl: 2 s, max_hold: 20 ms, background_share: 0.3, buffer_share: 0.8,
   floor_segments: 1}
policies:
  - {subnet: 10.9.0.0/16, treatment: exempt}
  - {subnet: "fd00::1", port: 80, treatment: protect}
  - {port: 5001, treatment: background}
log: {level: debug, events: /tmp/events.jsonl, connections: true}
"""


def test_the_defaults_are_those_of_the_manual() -> None:
    defaults = reading.parse("")
    assert defaults.openflow.listen == ("ssl", "127.0.0.1", 6653)
    assert not defaults.tls.given
    assert not defaults.standby.peers
    assert defaults.fabric.link_capacity == 100_000_000
    assert defaults.fabric.egress_buffer == 65_536
    assert defaults.fabric.rtt == 500_000
    assert defaults.classifier.background_bytes == 1_000_000
    assert defaults.classifier.poll_interval == 500_000_000
    assert defaults.regulation.scheme is Scheme.WEIR
    assert defaults.regulation.window_ttl == 3_000_000_000
    assert defaults.regulation.max_hold == 160_000_000
    assert defaults.regulation.background_share == 0.125
    assert defaults.engine_settings().regulator.credit == CreditRules(160, 7, 1)
    assert defaults.regulation.floor_segments == 2
    assert defaults.log.events is None
    assert reading.parse("fabric: {rtt: 500 us}") == defaults


def test_everything_can_be_said() -> None:
    read = reading.parse(EVERYTHING)
    assert read.openflow.listen == ("ssl", "::1", 6654)
    assert str(read.openflow.listen) == "ssl:[::1]:6654"
    assert read.tls.switches == {"s1.example": (1,), "s2.example": (2, 3)}
    assert read.standby.peers == {"b": ("10.0.0.2", 6654)}
    assert read.standby.timeout == 500_000_000
    read.require_transport()
    assert read.fabric.lldp_interval == 500_000_000
    settings = read.engine_settings()
    assert settings.limits == PortLimits(10**9, 200_000, 131_072)
    assert settings.overrides == (
        PortOverride(1, "s1-eth3", 10**8, None, 65_536),
        PortOverride(2, 4, None, 1_000_000, None),
    )
    # In scheme sdtcp a background flow stays one, whatever `quiet` says.
    assert settings.connections == ConnectionSettings(
        Classifier(2_000_000, 1_500_000_000, None), 250_000_000, 300 * 10**9, 1000, True
    )
    assert settings.regulator.scheme is Scheme.SDTCP
    assert settings.regulator.rules == WindowRules(0.8, 1)
    assert settings.regulator.credit == CreditRules(20, 7, 3)
    assert settings.link_timeout_ns == 2_000_000_000
    assert settings.control_grace_ns == 300_000_000
    assert settings.switch_grace_ns == 30_000_000_000
    assert settings.resolver == ResolverSettings(600 * 10**9, 50)
    assert settings.policies == (
        Rule(Treatment.EXEMPT, bytes([10, 9, 0, 0]), 16),
        Rule(Treatment.PROTECT, b"\xfd" + bytes(14) + b"\1", 128, 80),
        Rule(Treatment.BACKGROUND, port=5001),
    )


@pytest.mark.parametrize(
    ("written", "switch"),
    [
        ("17", 17),
        ("0x11", 17),
        ("0000000000000011", 17),
        ("'0000000000000011'", 17),
        ("00000a1b2c3d4e5f", 0xA1B2C3D4E5F),
        ("1000000000000000", 1 << 60),
    ],
)
def test_a_datapath_id_is_16_hexadecimal_digits_or_a_number(written: str, switch: int) -> None:
    read = reading.parse(
        f"fabric: {{queues: [{{switch: {written}, port: 1}}]}}\n"
        f"tls: {{key: a, certificate: b, ca: c, switches: {{s: {written}, t: [{written}, 1]}}}}\n"
        f"regulation: {{schemes: [{{switch: {written}, scheme: none}}]}}"
    )
    assert read.fabric.queues[0].switch == switch
    assert read.tls.switches == {"s": (switch,), "t": (switch, 1)}
    assert read.regulation.schemes[0].switch == switch


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("fabric: {rtt: 5 parsecs}", "fabric.rtt: '5 parsecs' has the unit 'parsecs'"),
        ("fabric: {rtt: -1}", "fabric.rtt: '-1'|fabric.rtt: -1 is not a quantity"),
        ("fabric: {rtt: 0}", "fabric.rtt: 0 s is out of range; write more than 0 s"),
        ("fabric: {rtt: [1]}", "fabric.rtt: .* is not a quantity; write .* like 500 us"),
        ("fabric: {link_capacity: fast}", "link_capacity: 'fast' .* like 100 Mbit/s"),
        ("fabric: {link_capacity: 100 MB}", "'MB', known are .*Mbit/s"),
        ("fabric: {egress_buffer: 64 kB/s}", "egress_buffer: .* like 64 KiB"),
        ("fabric: {rrt: 1}", "fabric.rrt: unknown key; did you mean rtt"),
        ("fabric: {queues: [{switch: 1, prot: 3}]}", "queues.0.prot: unknown key; .* port"),
        ("fabric: {queues: [{switch: 1}]}", "fabric.queues.0.port: is missing"),
        ("fabric: {queues: [{switch: x, port: 1}]}", "fabric.queues.0.switch: 'x'"),
        ("fabric: {queues: [{switch: 1, port: 1.5}]}", "fabric.queues.0.port: 1.5"),
        ("fabric: 5", "fabric: should hold keys: link_capacity, "),
        ("regulaton: {}", "regulaton: unknown key; did you mean regulation"),
        ("zzz: {}", "zzz: unknown key; known are openflow, fabric"),
        ("regulation: {scheme: wier}", "regulation.scheme: 'wier' is not one of .*'weir'"),
        ("regulation: {buffer_share: 2}", "regulation.buffer_share: 2"),
        ("regulation: {floor_segments: 0}", "regulation.floor_segments: 0"),
        ("regulation: {max_hold: 0.5 ms}", "regulation.max_hold: 0.5 ms is not within 1 ms to 1 s"),
        ("regulation: {max_hold: 2 s}", "regulation.max_hold: 2000 ms .*Linux 200 ms, FreeBSD"),
        ("regulation: {max_hold: 160}", "regulation.max_hold: 160000 ms is not within"),
        ("regulation: {max_hold: 160 bit}", "regulation.max_hold: '160 bit' has the unit 'bit'"),
        ("regulation: {background_share: 0}", "background_share: 0 is not within 0.01 to 0.99"),
        ("regulation: {background_share: 12.5}", "background_share: 12.5 .*; write e.g. 0.125"),
        ("regulation: {background_share: .nan}", "background_share: nan is not within"),
        ("regulation: {schemes: [{switch: 1}]}", "regulation.schemes.0.scheme: is missing"),
        (
            "regulation: {schemes: [{switch: 1, prot: 3, scheme: none}]}",
            "regulation.schemes.0.prot: unknown key; did you mean port",
        ),
        (
            "regulation: {schemes: [{switch: 1, scheme: none}, {switch: 1, scheme: weir}]}",
            "regulation.schemes: number 1 is for the same place as one before",
        ),
        ("regulation: {buffer_share: 90%}", "buffer_share: '90%' is not a number; write 0.9"),
        ("bandwidth: {reserved: 12.5 %}", "reserved: '12.5 %' is not a number; write 0.125"),
        ("fabric: {rtt: 500}", "fabric.rtt: 500 s is no RTT of a fabric; write e.g. 500 us"),
        ("northbound: {metrics: 9464}", "metrics: 9464 is not HOST:PORT; .* 127.0.0.1:9464"),
        (
            "northbound: {metrics: '0.0.0.0:9464'}",
            "northbound: metrics would cross the network to 0.0.0.0 in clear",
        ),
        ("fabric: {queues: [{switch: 011, port: 1}]}", "011 has leading zeros; leave them out"),
        ("fabric: {queues: [{switch: 1234567890123456x, port: 1}]}", "is no datapath id; write"),
        ("regulation: {initial_window: 10}", "regulation.initial_window: unknown key"),
        ("log: {level: loud}", "log.level: 'loud' is not one of .*'debug'"),
        ("openflow: {listen: 6653}", "openflow.listen: 6653 does not say how; write ssl:HOST"),
        ("openflow: {listen: 'a:6653'}", "openflow.listen: 'a:6653' does not say how; .*tcp:HOST"),
        ("openflow: {listen: 'tcp:a:99999'}", "openflow.listen: 'a:99999' is not HOST:PORT"),
        ("tls: {key: a}", "tls: certificate and ca missing; key, certificate and ca go together"),
        ("tls: {crl: a}", "tls: key and certificate and ca missing"),
        ("tls: {minimum_version: 1.1}", "tls.minimum_version: 1.1 is not one of '1.2'"),
        ("tls: {switches: some}", "tls.switches"),
        ("tls: {switches: {s1: -1}}", "tls.switches"),
        ("standby: {name: a}", "standby: peers is missing"),
        ("standby: {peers: {b: 'h:1'}}", "standby: name and listen are needed"),
        ("standby: {name: b, peers: {b: 'h:1'}, listen: 'tcp:h:2'}", "standby: peers holds this"),
        ("standby: {name: a, peers: {b: 'h:1'}, listen: 'tcp:h:2'}", "standby: secret is missing"),
        ("northbound: {api: {}}", "northbound.api.tokens"),
        ("northbound: {api: {token: t}}", "northbound.api.token: unknown key; did you mean tokens"),
        ("northbound: {api: on}", "northbound.api: should hold keys: listen, tokens"),
        (
            "northbound: {api: {tokens: t, listen: '10.0.0.1:81'}}",
            "northbound.api: key and certificate are missing: tokens would cross the network",
        ),
        (
            "northbound: {api: {tokens: t, key: k}}",
            "northbound.api: certificate is missing; key",
        ),
        ("northbound: {api: {tokens: t, rate: 0}}", "northbound.api.rate"),
        *(
            (f"northbound: {{api: {{tokens: t, prometheus: '{url}'}}}}", "is no address of a Prom")
            for url in ("prometheus:9090", "http://me:secret@prometheus", "http://a/b?c=d")
        ),
        ("northbound: {api: {tokens: t, origins: ['*']}}", "northbound.api.origins: '\\*' is no"),
        ("bandwidth: {reserved: 1}", "bandwidth.reserved"),
        ("bandwidth: {reserved_dscp: 64}", "bandwidth.reserved_dscp"),
        ("bandwidth: {spare: -0.1}", "bandwidth.spare"),
        ("bandwidth: {expiry: 0.1 s}", "bandwidth.expiry"),
        (
            "protection: {ports: [acc0, '*']}",
            r"ports: '\*' may fit any port; begin it with letters",
        ),
        ("protection: {ports: 7}", r"ports: 7 is no list of names; write e.g. \[acc\*\]"),
        ("protection: {on_loss: 0.1 %}", "on_loss: '0.1 %' is not a number; write 0.001"),
        ("protection: {on_loss: 0}", "protection.on_loss"),
        ("protection: {off_loss: -1}", "protection.off_loss"),
        ("protection: {on_loss: 0.0001}", "off_loss .0.0002. is not below on_loss .0.0001.; write"),
        ("protection: {hold: 0.5 s}", "hold: 0.5 s is out of range; write at least 1 s"),
        (
            "standby: {name: a, peers: {b: 'h:1'}, listen: 'ssl:h:2', timeout: 200 ms}",
            "standby: timeout must be at least three times heartbeat",
        ),
        ("fabric: {lldp_interval: 5 s}", "fabric: link_timeout must be longer"),
        ("policies: [{treatment: exempt}]", "policies.0: neither subnet nor port"),
        ("policies: [{port: 80}]", "policies.0.treatment: is missing"),
        ("policies: [{port: 80, treatment: ban}]", "treatment: 'ban' is not one of 'exempt'"),
        ("policies: [{prot: 80, treatment: exempt}]", "policies.0.prot: unknown key; .* port"),
        (
            "policies: [{port: http, treatment: exempt}]",
            "port: 'http' is not .*; write the TCP port",
        ),
        ("policies: [{port: 0, treatment: exempt}]", "policies.0.port: 0"),
        (
            "policies: [{subnet: 10.1.2.3/8, treatment: exempt}]",
            "policies.0.subnet: '10.1.2.3/8' has bits set past its prefix; write 10.0.0.0/8",
        ),
        ("policies: [{subnet: here, treatment: exempt}]", "subnet: 'here' .* write e.g. 10.1"),
        ("policies: [{subnet: '::/0', treatment: exempt}]", "'::/0' holds every address; leave"),
        (
            "policies: [{port: 1, treatment: protect}, {port: 2, treatment: exempt}]",
            "policies: number 1 exempts; put it before those that do not",
        ),
        ("policies: 5", "policies: 5"),
        ("fabric: {rtt: 1, rtt: 2}", "the key 'rtt' stands twice"),
        ("[1, 2]", "the file: should hold keys: openflow"),
        ("a: b: c", "is not YAML"),
        ("log: {events: 2027-02-30}", "is not YAML: day is out of range for month"),
        ("log: {connections: !!bool maybe}", "is not YAML"),
        ("{[a, b]: c}", "is not YAML"),
        ("[" * 10_000, "is not YAML: maximum recursion depth"),
    ],
)
def test_errors_name_the_key_and_what_would_be_right(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        reading.parse(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "openflow.listen: ssl:127.0.0.1:6653 needs tls.key.* write tcp:127.0.0.1:6653"),
        (
            "openflow: {listen: 'tcp:h:1'}\n"
            "standby: {name: a, peers: {b: 'h:1'}, listen: 'ssl:h:2'}",
            "standby.listen: ssl:h:2 needs tls.key",
        ),
    ],
)
def test_tls_without_certificates_cannot_be_run(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "weir.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=told):
        reading.load(file)


def test_all_errors_are_told_at_once() -> None:
    with pytest.raises(ConfigError, match=r"fabric\.rtt.*; log\.level"):
        reading.parse("{fabric: {rtt: x}, log: {level: loud}}")


def test_an_error_in_reading_is_one_of_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller that reads it again goes on."""
    file = tmp_path / "controller.yaml"
    file.write_text("openflow: {listen: 'tcp:127.0.0.1:6653'}")
    monkeypatch.setattr(reading, "validate", lambda _: 1 // 0)
    with pytest.raises(ConfigError, match=r"controller\.yaml: .* error in Weir: ZeroDivision"):
        reading.load(file)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: No such file"):
        reading.load(tmp_path / "none.yaml")
    bad = tmp_path / "bad.yaml"
    bad.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"bad\.yaml: "):
        reading.load(bad)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_any_value_anywhere_is_an_error_or_a_configuration(value: object) -> None:
    places = [
        (section, {key: value})
        for section, field in Config.model_fields.items()
        if section != "policies"
        for key in type(field.default).model_fields
    ]
    policies = [{key: value} for key in ("treatment", "subnet", "port")]
    for section, written in [*places, ("policies", value), ("policies", policies)]:
        try:
            read = reading.validate({section: written})
        except ConfigError as error:
            assert str(error).startswith(section)
        else:
            assert isinstance(read, Config)


class TestQuantity:
    @pytest.mark.parametrize(
        ("written", "units", "expected"),
        [
            ("100 Mbit/s", quantity.RATES_BPS, 10**8),
            ("1.5Gbit/s", quantity.RATES_BPS, 1_500_000_000),
            ("64 KiB", quantity.SIZES_BYTES, 65_536),
            ("1 MB", quantity.SIZES_BYTES, 10**6),
            (1e6, quantity.SIZES_BYTES, 10**6),
            ("1e6", quantity.SIZES_BYTES, 10**6),
            (7, quantity.TIMES_S, 7),
            (0.00005, {"": Fraction(1)}, Fraction(5, 10**5)),
            ("2 min", quantity.TIMES_S, 120),
        ],
    )
    def test_what_is_written(self, written: object, units: dict, expected: int) -> None:
        assert quantity.parse(written, units, "units", "1") == expected

    def test_fractions_are_exact(self) -> None:
        assert quantity.parse("0.3 ms", quantity.TIMES_S, "seconds", "1 s") * 10**9 == 300_000

    @pytest.mark.parametrize("written", ["", "x", "1 2", "--1", True, None, [], "1e400 lightyears"])
    def test_what_is_not_one(self, written: object) -> None:
        with pytest.raises(ValueError, match="write a number with a unit like 500 us"):
            quantity.parse(written, quantity.TIMES_S, "seconds", "500 us")


@pytest.mark.parametrize(
    ("share", "weights"),
    [(0.125, (7, 1)), (0.01, (99, 1)), (0.99, (1, 99)), (0.5, (1, 1)), (0.3, (7, 3))],
)
def test_shares_are_told_as_weights(share: float, weights: tuple[int, int]) -> None:
    read = reading.parse(f"regulation: {{background_share: {share}}}")
    assert read.engine_settings().regulator.credit == CreditRules(160, *weights)


@given(st.floats(0.01, 0.99), st.integers(10**6, 10**9))
def test_weights_fit_a_byte_and_are_near_the_share(share: float, max_hold_ns: int) -> None:
    told = {"background_share": share, "max_hold": max_hold_ns / 10**9}
    rules = RegulationSection.model_validate(told).credit_rules()
    assert 1 <= rules.burst_weight <= 255
    assert 1 <= rules.background_weight <= 255
    assert 1 <= rules.max_hold_ms <= 1000
    near = rules.background_weight / (rules.burst_weight + rules.background_weight)
    assert abs(near - share) < 0.01
