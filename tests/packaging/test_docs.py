"""What the operator's documentation names is there: keys, commands, metrics, alerts, links."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from controller.config import reading, schema
from pages import Block, blocks

TOP = Path(__file__).resolve().parents[2]
PAGES = sorted((TOP / "docs").glob("*.md"))
METRICS = [
    TOP / "controller" / file
    for file in ("northbound/metrics.py", "api/metrics.py", "api/state.py")
]
RULES = TOP / "dashboards/prometheus/weir.rules.yml"


def known_keys(section: type[BaseModel] = schema.Config, within: str = "") -> set[str]:
    """All dotted keys, of sections and of what is in them."""
    keys = set()
    for name, field in section.model_fields.items():
        keys.add(within + name)
        default = field.get_default(call_default_factory=True)
        if isinstance(default, BaseModel):
            keys |= known_keys(type(default), f"{within}{name}.")
    return keys


KNOWN = known_keys()
SECTIONS = {key for key in KNOWN if "." not in key}
TEXT = {page.name: page.read_text() for page in PAGES}
SPANS = [(name, span) for name, text in TEXT.items() for span in re.findall(r"`([^`\n]+)`", text)]


def named_keys() -> list[tuple[str, str]]:
    keys = [
        (page, key)
        for page, span in SPANS
        for key in [span.split(":")[0]]
        if re.fullmatch(r"[a-z]+\.[a-z_]+", key) and key.split(".")[0] in SECTIONS
    ]
    return sorted({*keys})


# What a key cannot be without.
COMPANIONS = {
    "standby": {"name": "a", "peers": {"b": "127.0.0.1:6655"}, "listen": "ssl:127.0.0.1:6654"}
}


@pytest.mark.parametrize(("page", "key"), named_keys())
def test_keys_that_are_named_exist(page: str, key: str) -> None:
    assert key in KNOWN, f"{page} names {key}"


def test_every_key_is_described() -> None:
    described = {key for page, key in named_keys() if page == "configuration.md"} | {"policies"}
    keys = {key for key in KNOWN if "." in key or key == "policies"}
    assert not keys - described


def table() -> list[tuple[list[str], list[str]]]:
    rows = re.findall(r"(?m)^\| (`[^|]+) \| ([^|]+) \|", TEXT["configuration.md"])
    return [(re.findall("`([^`]+)`", keys), re.findall("`([^`]+)`", told)) for keys, told in rows]


def test_the_table_holds_keys() -> None:
    assert not {key for keys, _ in table() for key in keys} - KNOWN


@pytest.mark.parametrize(("keys", "told"), [row for row in table() if row[1]])
def test_defaults_are_as_described(keys: list[str], told: list[str]) -> None:
    for i, key in enumerate(keys):
        section, name = key.split(".")
        written = yaml.safe_load(told[min(i, len(told) - 1)])
        if key == "log.levels":
            continue
        config = reading.validate({section: {name: written} | COMPANIONS.get(section, {})})
        default = getattr(getattr(schema.Config(), section), name)
        assert getattr(getattr(config, section), name) == default, key


@pytest.mark.parametrize(
    "block",
    [block for page in PAGES for block in blocks(page) if block.language == "yaml"],
    ids=lambda block: block.place,
)
def test_examples_are_valid(block: Block) -> None:
    reading.validate(yaml.safe_load(block.text))


def test_the_packages_configuration_is_valid() -> None:
    reading.load(TOP / "packaging/debian/controller.yaml")


def test_make_targets_that_are_named_exist() -> None:
    targets = set(re.findall(r"(?m)^([a-z-]+):", (TOP / "Makefile").read_text()))
    named = {
        target
        for text in TEXT.values()
        for told in re.findall(r"(?m)(?:`|^|    )make ([a-z -]+)", text)
        for target in told.split()
    }
    assert named
    assert not named - targets


def test_commands_that_are_named_exist() -> None:
    helped = subprocess.run(
        [sys.executable, "-m", "controller", "--help"],
        capture_output=True,
        text=True,
        check=True,
        cwd=TOP,
    ).stdout
    named = {
        command
        for text in TEXT.values()
        for command in re.findall(r"(?m)(?:`|^|\()weir-controller ([a-z]+)", text)
    }
    assert named
    for command in named:
        assert re.search(rf"(?m)^\s+{command}\b", helped), command


@pytest.mark.parametrize("page", TEXT)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", TEXT[page]):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        to = TOP / "docs" / (path or page)
        assert to.exists(), target
        if anchor:
            headings = re.findall(r"(?m)^#+ (.*)$", to.read_text())
            anchors = [re.sub(r"[^\w -]", "", told.lower()).replace(" ", "-") for told in headings]
            assert anchor in anchors, target


def test_every_page_is_in_the_index() -> None:
    linked = set(re.findall(r"\]\(([a-z]+\.md)\)", TEXT["index.md"]))
    assert linked == {*TEXT} - {"index.md"}


def test_metrics_that_are_named_exist() -> None:
    source = "".join(file.read_text() for file in METRICS)
    words = set(re.findall(r'"(?:weir_)?([a-z_]+)"', source))
    for page, span in SPANS:
        if not re.fullmatch(r"weir_[a-z_]+", span):
            continue
        name = re.sub(r"_(total|info)$", "", span.removeprefix("weir_"))
        tails = {
            name,
            *(name.removeprefix(f"{kind}_") for kind in ("queue", "switch", "port", "tcp")),
        }
        assert tails & words, f"{page} names {span}"


def test_every_alert_has_its_advice() -> None:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    alerts = {rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule}
    advised = set(re.findall(r"\bWeir[A-Z]\w+", TEXT["monitoring.md"]))
    assert advised == alerts


OF_THE_TREE = (
    "controller/",
    "experiments/",
    "mininet/",
    "ovs-patches/",
    "tests/",
    "tools/",
    "transport/",
)
PATHS = sorted(
    (page, span.partition(" ")[0])
    for page, span in SPANS
    if span.startswith(OF_THE_TREE) and "*" not in span
)


@pytest.mark.parametrize(("page", "path"), PATHS)
def test_files_that_are_named_exist(page: str, path: str) -> None:
    assert (TOP / path).exists(), f"{page} names {path}"


def test_the_controller_readme_names_what_is_there() -> None:
    text = (TOP / "controller/README.md").read_text()
    named = re.findall(r"`((?:core|southbound|config|runtime)/[\w/.]+)`", text)
    assert len(named) > 5
    assert [path for path in named if not (TOP / "controller" / path).exists()] == []
