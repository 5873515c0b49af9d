"""Prometheus's own promtool: the rules of `dashboards/`, played through time."""

import subprocess
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

import yaml

RULES = Path(__file__).parents[2] / "dashboards" / "prometheus" / "weir.rules.yml"
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
}
STEP_S = 15

# Values by series, in promtool's notation.
Series = Mapping[str, str]


def play(directory: Path, series: Series, at: Mapping[str, Set[str]]) -> None:
    """Check which alerts fire, by the time since the start, such as 2m45s."""
    interval = f"{STEP_S}s"
    test = {
        "interval": interval,
        "input_series": [
            {"series": name, "values": values} for name, values in sorted(series.items())
        ],
        "promql_expr_test": [
            {
                "expr": 'group by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": time,
                "exp_samples": [
                    {"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(firing)
                ],
            }
            for time, firing in at.items()
        ],
    }
    file = directory / "test.yml"
    written = {"rule_files": [str(RULES)], "evaluation_interval": interval, "tests": [test]}
    file.write_text(yaml.safe_dump(written))
    done = subprocess.run(
        ["promtool", "test", "rules", str(file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
