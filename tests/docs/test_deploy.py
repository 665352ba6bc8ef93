"""The dashboard and the alert rules ask for metrics that there are, by labels that they have."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.core import Metric

from tests.docs.reference_pages import collected

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
# Words of PromQL, labels that Prometheus itself adds, and its own metric.
LANGUAGE = {"rate", "increase", "sum", "by", "up", "job", "pdproto"}
LABEL = re.compile(r"{{\s*(?:\$labels\.)?(\w+)\s*}}")


def known() -> dict[str, set[str]]:
    """Every metric that can be scraped, with its labels."""
    found: dict[str, set[str]] = {}
    for metric in collected():
        for name in names(metric):
            found[name] = {"instance"}.union(*(sample.labels for sample in metric.samples))
    return found


def names(metric: Metric) -> Iterator[str]:
    yield f"{metric.name}_total" if metric.type == "counter" else metric.name


def asked(expression: str) -> set[str]:
    """The metrics that an expression of PromQL names."""
    bare = re.sub(r'"[^"]*"|\[\w+\]|by \([^)]*\)', " ", expression)
    return set(re.findall(r"\b[a-z_]{2,}\b", bare)) - LANGUAGE


def alerts() -> list[str]:
    """The rules, each as the text of its block."""
    return re.split(r"\n {6}- alert: ", (DEPLOY / "alerts.yml").read_text())[1:]


def expression_of(rule: str) -> str:
    """Of `expr:`, on one line or folded."""
    found = re.search(r"expr:(?: >-)?((?:.*\n)(?: {10}.*\n)*)", rule)
    assert found is not None, rule
    return " ".join(found[1].split())


def panels() -> list[tuple[str, str]]:
    """Expression and legend of each line that the dashboard draws."""
    told = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    return [(target["expr"], target["legendFormat"])
            for panel in told["panels"] for target in panel["targets"]]


@pytest.mark.parametrize("expression", [
    *(expression_of(rule) for rule in alerts()), *(each for each, _ in panels())])
def test_every_metric_that_is_asked_for_is_there(expression: str) -> None:
    there = known()
    assert asked(expression) or "up{" in expression
    for name in asked(expression):
        assert name in there, f"{name}: no node and no registry has it"


@pytest.mark.parametrize(("expression", "text"), [
    *((expression_of(rule), rule) for rule in alerts()), *panels()])
def test_every_label_that_is_shown_is_there(expression: str, text: str) -> None:
    there = known()
    for label in LABEL.findall(text):
        for name in asked(expression):
            assert label in there[name], f"{name} has no label {label}"


def test_every_rule_names_the_remedy() -> None:
    assert len(alerts()) >= 10
    for rule in alerts():
        for part in ("severity:", "summary:", "do:"):
            assert part in rule


def test_a_name_that_is_misspelt_would_be_found() -> None:
    assert asked('rate(lost_peer_total{job="x"}[2m]) > 0') == {"lost_peer_total"}
