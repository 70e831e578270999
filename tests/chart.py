"""Check the Helm chart in `docker/chart` as its users would: `make chart`.

Helm's own code (`helm-python-sdk`) lints and renders it with several values. `kubernetes-validate`
holds the objects against Kubernetes' schemas; those of Prometheus' operator have none there.
Neither package is one of the project: `make chart` brings them for this run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import helm_python
import kubernetes_validate
import yaml

CHART = Path(__file__).parents[1] / "docker/chart"
VERSIONS = "1.27", "1.34"
"""The oldest version of Kubernetes that the chart is for, and a recent one."""
NEEDED = {
    "gateways": "thrift-1:9091,thrift-2:9091",
    "zookeeper": "zookeeper:2181",
    "hdfs": "hdfs://name-node:8020",
}
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "as it is": {},
    "PostgreSQL's protocol": {"postgresql": {"enabled": True, "port": 6432}, "replicas": 1},
    "monitoring": {"monitoring": {"enabled": True, "labels": {"release": "prometheus"}}},
    "telemetry": {
        "telemetry": {
            "endpoint": "http://collector:4318",
            "variables": {"OTEL_TRACES_SAMPLER": "parentbased_always_off"},
        }
    },
    "placed": {
        "nodeSelector": {"disk": "fast"},
        "priorityClassName": "high",
        "podLabels": {"team": "shop"},
        "podAnnotations": {"note": "1"},
        "image": {"pullSecrets": [{"name": "registry"}]},
        "tolerations": [{"key": "shop", "operator": "Exists"}],
        "service": {"annotations": {"internal": "true"}},
    },
}
WARNING = 2
"""The severity of a warning of Helm's; that of an advice is 1, and that of an error 3."""
OF_OPERATOR = "monitoring.coreos.com/v1"


def main() -> int:
    """Returns the number of variants that fail."""
    if not list(helm_python.lint(str(CHART))["errors"]):
        print("The chart is valid without the addresses that must be given.")
        return 1
    failed = 0
    for name, values in VARIANTS.items():
        problems = list(problems_of({"settings": NEEDED} | values))
        print(f"{name}: {'; '.join(problems) or 'valid'}")
        failed += bool(problems)
    return failed


def problems_of(values: Mapping[str, Any]) -> Iterator[str]:
    found = helm_python.lint(str(CHART), values=values, namespace="data")
    yield from (each["error"] for each in found["messages"] if each["severity"] >= WARNING)
    with helm_python.Chart.load(str(CHART)) as chart:
        chart.validate_schema(values)
        rendered = chart.render(values, name="shop", namespace="data")
    texts = [text for path, text in rendered.items() if path.endswith(".yaml")]
    objects = [each for text in texts for each in yaml.safe_load_all(text) if each]
    names = [(each["kind"], each["metadata"]["name"]) for each in objects]
    if len(set(names)) < len(names):
        yield f"objects of the same name: {names}"
    for each in objects:
        if each["apiVersion"] == OF_OPERATOR:
            continue
        for version in VERSIONS:
            try:
                kubernetes_validate.validate(each, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                yield f"{each['kind']} in Kubernetes {version}: {error.message}"


if __name__ == "__main__":
    sys.exit(main())
