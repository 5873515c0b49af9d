"""Prometheus's own promtool: the rules of `dashboards/`, played through time."""

import subprocess
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any, NamedTuple

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


class Check(NamedTuple):
    """These alerts fire at a time since the start, such as 2m45s; or have fired `over` a time until
    then. No others, but for those that may."""

    time: str
    alerts: Set[str]
    over: str = ""
    may: Set[str] = frozenset()

    @property
    def expression(self) -> str:
        firing = f'ALERTS{{alertstate="firing", alertname!~"{"|".join(sorted(self.may))}"}}'
        fired = f"max_over_time({firing}[{self.over}])" if self.over else firing
        return f"group by (alertname) ({fired})"


def play(directory: Path, series: Series, checks: Iterable[Check]) -> None:
    """Raises AssertionError, with what promtool says, if a check fails."""
    interval = f"{STEP_S}s"
    test = {
        "interval": interval,
        "input_series": [
            {"series": name, "values": values} for name, values in sorted(series.items())
        ],
        "promql_expr_test": [
            {
                "expr": check.expression,
                "eval_time": check.time,
                "exp_samples": [
                    {"labels": f'{{alertname="{name}"}}', "value": 1}
                    for name in sorted(check.alerts)
                ],
            }
            for check in checks
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
