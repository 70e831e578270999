"""The containers' files say what the code says, apart from names of hosts and folders.

Nothing is built or run here: there is no Docker where the tests run.
"""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml

from cluster import configuration
from cluster.layout import EMPTY, PORTS, Role, grown

DOCKER = Path(__file__).parents[2] / "docker"
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]
OF_THE_PLACE = (
    "address",
    "Address",
    "hostname",
    "dir",
    "Dir",
    "quorum",
    "clientPort",
    "port",
    "rootdir",
)
"""How settings end that name a host, a port or a folder."""
ONLY_HERE = {
    "core-site.xml": {"fs.defaultFS"},
    "hdfs-site.xml": {"dfs.namenode.rpc-bind-host"},
    "hbase-site.xml": {
        f"hbase.zookeeper.property.{name}"
        for name in ("admin.enableServer", "maxClientCnxns", "tickTime")
    },
}
"""Settings of one machine, and of HBase's own ZooKeeper, which containers do without."""
ONLY_THERE = {
    "core-site.xml": {"fs.defaultFS"},
    "hdfs-site.xml": {"dfs.namenode.datanode.registration.ip-hostname-check"},
    "hbase-site.xml": set(),
}


def settings(text: str) -> dict[str, str]:
    return {
        entry.findtext("name", ""): entry.findtext("value", "") for entry in ET.fromstring(text)
    }


def services(role: Role) -> list[str]:
    return [name for name in COMPOSE if name == role or name.startswith(f"{role}-")]


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    counts = {role: len(services(role)) for role in (Role.DATA_NODE, Role.REGION_SERVER)}
    layout = grown(EMPTY, counts, {}, lambda count: list(range(20_000, 20_000 + count)))
    return configuration.files(Path("/data"), layout)


@pytest.mark.parametrize("name", ["core-site.xml", "hdfs-site.xml", "hbase-site.xml"])
def test_settings(generated, name):
    def common(text: str, without: set[str]) -> dict[str, str]:
        found = settings(text)
        assert without <= found.keys()
        return {
            key: value
            for key, value in found.items()
            if key not in without and not key.endswith(OF_THE_PLACE)
        }

    here = common(generated[name], ONLY_HERE[name])
    there = common((DOCKER / "conf" / name).read_text(), ONLY_THERE[name])
    assert there == here
    assert here


def test_logging(generated):
    assert (DOCKER / "conf" / "log4j.properties").read_text() == generated["log4j.properties"]


def test_options_of_java():
    lines = (DOCKER / "java.options").read_text().split()
    layout = grown(EMPTY, {}, {}, lambda count: list(range(20_000, 20_000 + count)))
    command = configuration.command(
        Path("java"), Path("/jars"), Path("/x"), layout.named("master"), ()
    )
    opened = {word for word in command if word.startswith("--add-")}
    assert {word for word in lines if word.startswith("--add-")} == opened
    assert lines[-2:] == ["-cp", "/opt/cluster/conf:/opt/cluster/jars/*"]


@pytest.mark.parametrize("role", list(PORTS))
def test_every_role_runs_the_same_class_with_the_same_heap(role):
    layout = grown(EMPTY, {}, {}, lambda count: list(range(20_000, 20_000 + count)))
    (process, *_) = layout.of(role)
    expected = configuration.command(Path("java"), Path("/jars"), Path("/x"), process, ())
    (heap,) = (word for word in expected if word.startswith("-Xmx"))
    names = services(role)
    assert names
    for name in names:
        command = COMPOSE[name]["command"]
        assert command[0] == heap
        if role is not Role.ZOOKEEPER:  # HBase's own looks for its host's name, containers have two
            assert expected[expected.index("-cp") + 2] in command


def test_nothing_is_published_beyond_this_machine():
    published = [port for service in COMPOSE.values() for port in service.get("ports", ())]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_every_service_tells_its_health_and_waits_for_services_that_are_there():
    for name, service in COMPOSE.items():
        assert "healthcheck" in service or name == "format"
        assert set(service.get("depends_on", ())) <= COMPOSE.keys()


def test_zookeeper_ticks_alike():
    *_, tick, _ = COMPOSE["zookeeper"]["command"]
    assert tick == str(configuration.ZOOKEEPER_TICK_MS)
