"""The alerts and the dashboard in `docker/monitoring` against the metrics of a server."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from tests.api.api_world import DDL, PLAN, world

FOLDER = Path(__file__).parents[2] / "docker/monitoring"
LIVE = """
CREATE MATERIALIZED VIEW totals WITH (refresh = 'live', interval = '1 h') AS
SELECT o_c_id, count(*) AS orders FROM orders GROUP BY o_c_id;
"""
OF_PROMETHEUS = {"instance", "job"}
"""Labels that Prometheus adds."""
VARIABLES = re.compile(r"\$(__rate_interval|node)\b")
FUNCTIONS = {"delta", "histogram_quantile", "label_values", "max", "min_over_time", "rate", "sum"}
NAME = re.compile(r"\bhornbeam_\w+")


def rules():
    groups = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard():
    return json.loads((FOLDER / "grafana-dashboard.json").read_text())


def targets():
    return [target for panel in dashboard()["panels"] for target in panel["targets"]]


def expressions():
    return [*(rule["expr"] for rule in rules()), *(target["expr"] for target in targets())]


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    """The labels of each metric of a server that has a view, and that has refused something."""
    found = defaultdict(set)
    with world(tmp_path_factory.mktemp("monitoring"), resident_refresh=True) as served:
        assert served.apply(**PLAN | {"ddl": DDL + LIVE}).status_code == 200
        assert served.transact("INSERT INTO customer (c_id, c_name) VALUES (1, 'a')").is_success
        for number in (1, 2):
            assert served.transact(f"INSERT INTO orders VALUES ({number}, 1, 5)").is_success
            assert served.post("/v1/groups/live/refresh").is_success
        served.rows("SELECT count(*) FROM orders")
        for line in served.client.get("/metrics").text.splitlines():
            if line[0] != "#":
                name, _, rest = line.rpartition(" ")[0].partition("{")
                found[name] |= set(re.findall(r'(\w+)="', rest))
    return dict(found)


def test_each_expression_names_metrics_and_labels_that_there_are(labels):
    assert len(expressions()) > 30
    for expression in expressions():
        names = NAME.findall(expression)
        assert names or expression.startswith("up{"), expression
        assert set(names) <= set(labels), expression
        known = OF_PROMETHEUS.union(*(labels[name] for name in names))
        grouped = re.findall(r"\bby \(([^)]*)\)", expression)
        used = {label.strip() for each in grouped for label in each.split(",")}
        used |= set(re.findall(r"[{,]\s*(\w+)=", expression))
        assert used <= known, expression


def test_a_rate_is_taken_of_counters_only():
    for expression in expressions():
        for name in re.findall(r"\brate\((hornbeam_\w+)", expression):
            assert name.endswith(("_total", "_count", "_bucket")), expression
        for name in NAME.findall(expression):
            if name.endswith(("_total", "_count", "_bucket")):
                assert f"rate({name}" in expression, expression


def test_each_expression_is_balanced_and_calls_known_functions():
    for expression in expressions():
        assert "$" not in VARIABLES.sub("", expression), expression
        for left, right in ("()", "[]", "{}"):
            assert expression.count(left) == expression.count(right), expression
        called = set(re.findall(r"\b([a-z_]+)(?=\()", expression)) - {"by"}
        assert called <= FUNCTIONS, expression


def test_each_alert_says_what_has_happened_and_what_to_do(labels):
    alerts = rules()
    names = [rule["alert"] for rule in alerts]
    assert len(set(names)) == len(names) > 10
    for rule in alerts:
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert set(rule["annotations"]) == {"summary", "action"}
        shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        grouped = re.findall(r"^(?:max|sum|min) by \(([^)]*)\)", rule["expr"].strip())
        kept = {each.strip() for each in grouped[0].split(",")} if grouped else None
        assert shown <= (kept or OF_PROMETHEUS | {"group"}), rule["alert"]


def test_each_metric_is_on_the_dashboard(labels):
    shown = {name for target in targets() for name in NAME.findall(target["expr"])}
    left_out = {"hornbeam_deferred_mine"}  # one node for each group has 1
    families = {re.sub(r"_(bucket|count|sum|created)$", "", name) for name in labels}
    families -= {name for name in families if name.endswith("_created")}
    assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in shown} == families - left_out


def test_the_panels_of_the_dashboard_do_not_overlap():
    places = set()
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & places
        assert max(x for x, _ in cells) < 24
        places |= cells
    numbers = [panel["id"] for panel in dashboard()["panels"]]
    assert len(set(numbers)) == len(numbers)
