"""The Helm chart in `docker/chart` against the settings, the image and the compose file. `make
chart` renders it with Helm, and holds it against Kubernetes' schemas."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from hornbeam_server import __version__
from hornbeam_server.node.settings import Settings

DOCKER = Path(__file__).parents[2] / "docker"
CHART = DOCKER / "chart"
NODES = (CHART / "templates/nodes.yaml").read_text()
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
NEEDED = {"gateways": "thrift:9091", "zookeeper": "zookeeper:2181", "hdfs": "hdfs://name:8020"}
SET_BY_CHART = set(re.findall(r"HORNBEAM_([A-Z_]+)\b", NODES)) - {""}


def validate(**settings):
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.validate(VALUES | {"settings": VALUES["settings"] | settings}, schema)


def test_every_variable_is_a_setting():
    fields = set(Settings.model_fields)
    assert {name.lower() for name in SET_BY_CHART} - fields == set()
    assert set(VALUES["settings"]) - fields == set()
    assert {name.upper() for name in VALUES["settings"]} & SET_BY_CHART == set()


def test_nodes_have_the_settings_of_the_compose_file():
    compose = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    composed = {
        name.removeprefix("HORNBEAM_")
        for name in compose["services"]["node-1"]["environment"]
        if name.startswith("HORNBEAM_")
    }
    charted = SET_BY_CHART | {name.upper() for name in VALUES["settings"]}
    assert composed - charted == set()


def test_values_are_checked_before_anything_is_installed():
    validate(**NEEDED)
    with pytest.raises(jsonschema.ValidationError):
        validate()
    with pytest.raises(jsonschema.ValidationError):
        validate(**NEEDED, node_secret="00")  # it belongs into the secret
    with pytest.raises(jsonschema.ValidationError):
        validate(**NEEDED | {"hdfs": "name:8020"})


def test_the_chart_has_the_version_of_the_server_and_the_user_of_the_image():
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == __version__
    dockerfile = (DOCKER / "Dockerfile").read_text()
    (user,) = set(re.findall(r"--uid (\d+)", dockerfile))
    assert re.findall(r"runAs(?:User|Group): (\d+)", NODES) == [user, user]


def test_alerts_and_dashboard_are_those_that_are_tested():
    template = (CHART / "templates/monitoring.yaml").read_text()
    for name in re.findall(r'\.Files\.Get "([^"]+)"', template):
        assert (CHART / name).resolve() == (DOCKER / name).resolve()
        assert (CHART / name).is_file()
