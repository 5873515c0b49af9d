"""The boards and the alerts: they can be read, and every metric that they name is there."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from controller.api.metrics import own_registry
from controller.northbound.metrics import Exposition
from fake_source import Told

DASHBOARDS = Path(__file__).parents[2] / "dashboards"
BOARDS = sorted((DASHBOARDS / "grafana").glob("*.json"))
RULES = yaml.safe_load((DASHBOARDS / "prometheus" / "weir.rules.yml").read_text())

_NAME = re.compile(r"(?<![\w:$\"{.])(weir[\w:]*|process_\w+)")
_SELECTED = re.compile(r"(weir_\w+|process_\w+)\s*\{([^}]*)\}")
_BY = re.compile(r"\bby\s*\(([^)]*)\)")
_ADDED_BY_PROMETHEUS = {"instance", "job"}


def exposed() -> dict[str, set[str]]:
    """The labels of all samples, by name."""
    samples: dict[str, set[str]] = {}
    text = "".join(Exposition(Told(), lambda: None).pieces())
    text += generate_latest(own_registry(lambda: True)).decode()
    for family in text_string_to_metric_families(text):
        # A counter without samples is there, too, once something is counted.
        samples.setdefault(family.name + ("_total" if family.type == "counter" else ""), set())
        for sample in family.samples:
            samples.setdefault(sample.name, set()).update(sample.labels)
    return samples


def panels(board: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for panel in board["panels"]:
        yield panel
        yield from panel.get("panels", ())


def expressions() -> Iterator[tuple[str, str]]:
    for file in BOARDS:
        board = json.loads(file.read_text())
        for panel in panels(board):
            for target in panel.get("targets", ()):
                yield f"{file.name}: {panel['title']}", target["expr"]
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                query = variable["definition"].removeprefix("label_values(")
                yield f"{file.name}: {variable['name']}", query.rpartition(",")[0]
    for group in RULES["groups"]:
        for rule in group["rules"]:
            yield rule.get("alert") or rule["record"], rule["expr"]


def recorded() -> set[str]:
    return {
        rule["record"] for group in RULES["groups"] for rule in group["rules"] if "record" in rule
    }


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_what_is_named_is_there(where: str, expression: str) -> None:
    there = exposed()
    names = set(_NAME.findall(re.sub(r'"[^"]*"', '""', expression)))
    assert names or "up{" in expression, where
    assert names <= there.keys() | recorded(), where
    for name, matchers in _SELECTED.findall(expression):
        labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
        assert labels <= there[name] | _ADDED_BY_PROMETHEUS, where
    for labels in _BY.findall(expression):
        known = set().union(*(there.get(name, set()) for name in names)) | _ADDED_BY_PROMETHEUS
        assert {label.strip() for label in labels.split(",")} <= known, where


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_expressions_are_balanced(where: str, expression: str) -> None:
    open_brackets = []
    for char in re.sub(r'"[^"]*"', "", expression):
        if char in "([{":
            open_brackets.append(char)
        elif char in ")]}":
            assert open_brackets and open_brackets.pop() + char in ("()", "[]", "{}"), where
    assert not open_brackets, where


def test_alerts_say_what_is_wrong() -> None:
    alerts = [rule for group in RULES["groups"] for rule in group["rules"] if "alert" in rule]
    assert len({rule["alert"] for rule in alerts}) == len(alerts)
    for rule in alerts:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"].endswith((".", "left.", "examples."))
        for label in re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])):
            known = {"switch", "port", "name", "reason", "class", "file", "peer"}
            assert label in _ADDED_BY_PROMETHEUS | known


@pytest.mark.parametrize("file", BOARDS, ids=lambda file: file.name)
def test_boards_fit_their_grid(file: Path) -> None:
    taken: set[tuple[int, int]] = set()
    board = json.loads(file.read_text())
    assert len({panel["id"] for panel in panels(board)}) == len(list(panels(board)))
    for panel in panels(board):
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
