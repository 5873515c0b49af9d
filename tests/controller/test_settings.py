"""What is a setting, how it is written, and what takes its place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.config import reading, settings
from controller.config.errors import ConfigError
from controller.config.schema import Config
from controller.config.settings import SETTINGS

LIVE = sorted(key for key, setting in SETTINGS.items() if setting.live)

# A value of each, other than the default, in words that people choose.
OTHERS = {
    "regulation.max_hold": ("20ms", "20 ms"),
    "regulation.scheme": ("sdtcp", "sdtcp"),
    "regulation.background_share": ("0.5", "0.5"),
    "regulation.accounts": ("no", "false"),
    "regulation.repeat_notices": ("no", "false"),
    "regulation.schemes": (
        "[{switch: 0x1, port: eth2, scheme: none}]",
        "[{switch: 1, port: eth2, scheme: none}]",
    ),
    "classifier.background_bytes": ("2097152 B", "2 MiB"),
    "classifier.counted_per_switch": ("0", "0"),
    "policies": (
        "[{subnet: fd00::/8, treatment: exempt}, {port: 80, treatment: protect}]",
        "[{treatment: exempt, subnet: 'fd00::/8'}, {treatment: protect, port: 80}]",
    ),
    "bandwidth.reserved": ("0.25", "0.25"),
    "protection.ports": ("acc*", "[acc*]"),
    "protection.on_loss": ("0.01", "0.01"),
    "protection.hold": ("60 s", "1 min"),
    "log.levels": ("{session: debug}", "{session: debug}"),
    "log.level": ("debug", "debug"),
}


def refusal(changes: dict[str, str], config: Config | None = None) -> str:
    with pytest.raises(ConfigError) as refused:
        settings.overlay(config or Config(), changes)
    return str(refused.value)


def test_nothing_secret_and_no_path_is_a_setting() -> None:
    assert {setting.section for setting in SETTINGS.values()} == {
        *("fabric", "classifier", "regulation", "policies", "budgets", "bandwidth", "log"),
        *("protection", "standby"),
    }
    for word in ("secret", "key", "token", "listen", "socket", "events", "peers", "certificate"):
        assert not [key for key in SETTINGS if word in key.split(".")]


def test_all_are_described() -> None:
    assert [key for key, setting in SETTINGS.items() if not setting.description] == []
    assert all(setting.choices for setting in SETTINGS.values() if setting.kind == "choice")


@pytest.mark.parametrize("key", LIVE)
def test_a_value_is_written_as_it_can_be_read(key: str) -> None:
    default = SETTINGS[key].default
    assert settings.same(settings.overlay(Config(), {key: default}), Config(), key)


@pytest.mark.parametrize("key", OTHERS)
def test_another_value_takes_the_place_of_the_files(key: str) -> None:
    written, told = OTHERS[key]
    config = settings.overlay(Config(), {key: written})
    assert settings.text(config, key) == told
    assert not settings.same(config, Config(), key)
    again = settings.overlay(Config(), {key: told})
    assert again == config
    assert [other for other in SETTINGS if not settings.same(config, Config(), other)] == [key]


def test_the_rest_of_the_file_stays_as_it_is() -> None:
    text = """
    openflow: {listen: "tcp:127.0.0.1:6653"}
    regulation: {window_ttl: 10 s, schemes: [{switch: "00000000000000ff", scheme: none}]}
    policies: [{subnet: 10.1.0.0/16, treatment: exempt}]
    northbound: {socket: off}
    log: {events: /tmp/events, levels: {app: error}}
    fabric: {rtt: 77 us}
    """
    base = reading.parse(text)
    config = settings.overlay(base, {"regulation.max_hold": "20 ms", "log.level": "debug"})
    assert config.regulation == base.regulation.model_copy(update={"max_hold": 20_000_000})
    assert config.log == base.log.model_copy(update={"level": "debug"})
    for section in Config.model_fields.keys() - {"regulation", "log"}:
        assert getattr(config, section) == getattr(base, section)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("regulation.max_hold", "20", "20000 ms is not within 1 ms to 1 s"),
        ("regulation.max_hold", "2 s", "2000 ms is not within 1 ms to 1 s; choose it below"),
        ("regulation.max_hold", "[20]", "20"),
        ("regulation.scheme", "wier", "'wier' is not one of 'none', 'sdtcp' or 'weir'; did you"),
        ("regulation.background_share", "nan", "nan is not within 0.01 to 0.99"),
        ("regulation.floor_segments", "2.5", "write"),
        ("regulation.repeat_notices", "perhaps", "write true or false"),
        ("budgets.syn", "-1", "out of range"),
        ("classifier.quiet", "1e99h", "'1e99h' is too much; write at most 1000000 h"),
        ("classifier.background_bytes", "1e90TB", "'1e90TB' is too much; write at most"),
        ("classifier.expiry", "2 h", "7200 s is out of range; write at most 3600 s"),
        ("protection.ports", "['*']", "'*' may fit any port; begin it with letters that only"),
        ("policies", "[{port: 80}]", "policies.0.treatment: is missing"),
        ("policies", "{", "is not YAML"),
        ("policies", "&a [*a]", "an alias; write out what it stands for"),
        ("policies", "", "policies:"),
        ("regulation.schemes", "x" * 7000, "has 7000 characters; write at most 6000"),
        ("regulation.max_hold", "1" * 65, "has 65 characters; write at most 64"),
        ("regulation.max_hod", "1 s", "there is no such setting; did you mean regulation.max_hold"),
        ("nonsense" * 50, "1", "there is no such setting; weir-controller settings lists all"),
        ("regulation", "{}", "is a section; name one of its keys: regulation.scheme, "),
        ("fabric.rtt", "1 ms", "cannot be changed while the controller runs"),
        ("northbound.socket", "off", "cannot be changed here; change it in the configuration file"),
        ("northbound.api.tokens", "/etc/passwd", "cannot be changed here"),
        ("tls.key", "/etc/passwd", "cannot be changed here"),
        ("standby.secret", "/etc/passwd", "cannot be changed here"),
        ("log.events", "/etc/passwd", "cannot be changed here"),
    ],
)
def test_a_value_that_cannot_be_is_refused(key: str, value: str, told: str) -> None:
    refused = refusal({key: value})
    assert refused.startswith(key[:64])
    assert told in refused


@pytest.mark.parametrize("value", ["0", "0 s", "0.0 ms"])
@pytest.mark.parametrize("key", [key for key, one in SETTINGS.items() if one.kind == "duration"])
def test_no_time_at_all_is_refused(key: str, value: str) -> None:
    if SETTINGS[key].live:
        assert "out of range" in refusal({key: value})
    section, _, name = key.partition(".")
    for written in (value, 0, 0.0, 1e-12):
        with pytest.raises(ConfigError, match=f"{key}: .*write (more than 0|at least .*) s"):
            reading.validate({section: {name: written}})


def test_what_is_kept_may_be_longer_than_what_may_be_written() -> None:
    rule = "{subnet: 10.0.0.0/16, treatment: exempt}"
    kept = {"policies": f"[{', '.join([rule] * 200)}]"}
    config = settings.overlay(Config(), {"regulation.max_hold": "20 ms"}, kept=kept)
    assert len(config.policies) == 200
    assert "write at most 6000" in refusal(kept)


def test_all_that_is_wrong_is_told_at_once() -> None:
    refused = refusal({"fabric.rtt": "1 ms", "policies": "{", "log.level": "debug"})
    assert "fabric.rtt: " in refused
    assert "policies: " in refused
    refused = refusal({"log.level": "loud", "regulation.max_hold": "2 s"})
    assert "log.level: " in refused
    assert "regulation.max_hold: " in refused


@given(st.sampled_from(sorted(SETTINGS)), st.text(max_size=80))
def test_any_text_is_taken_or_refused_with_the_key(key: str, value: str) -> None:
    try:
        config = settings.overlay(Config(), {key: value})
    except ConfigError as error:
        assert str(error).startswith(key)
    else:
        assert settings.overlay(Config(), {key: settings.text(config, key)}) == config
        config.engine_settings()


@given(st.integers(10**6, 10**9))
def test_times_are_written_exactly(ns: int) -> None:
    config = settings.overlay(Config(), {"regulation.max_hold": f"{ns} ns"})
    assert config.regulation.max_hold == ns
    told = settings.text(config, "regulation.max_hold")
    assert settings.overlay(Config(), {"regulation.max_hold": told}).regulation.max_hold == ns
