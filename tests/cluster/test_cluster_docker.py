"""The containers' files agree with the code, apart from names of hosts and folders.

No image is built or run here, because the tests run without Docker. The scripts of the nodes'
image run unchanged, and the tests use their results.
"""

import os
import re
import shlex
import ssl
import subprocess
import sys
import threading
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from hornbeam_server.api.security.api_keys import bootstrap_key, matches
from hornbeam_server.api.security.tls import node_contexts, require_safe, server_context
from hornbeam_server.cluster import configuration
from hornbeam_server.cluster.layout import EMPTY, PORTS, Role, grown
from hornbeam_server.node.settings import Settings, load_settings

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
NODES = sorted(name for name in COMPOSE if name.startswith("node-"))
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
"""Suffixes of settings that name a host, a port or a folder."""
ONLY_HERE = {
    "core-site.xml": {"fs.defaultFS"},
    "hdfs-site.xml": {"dfs.namenode.rpc-bind-host"},
    "hbase-site.xml": set(),
}
"""Settings of a cluster on one machine that containers do not need."""
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
def test_settings_equal_the_generated_ones(generated, name):
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


def test_logging_settings_equal_the_generated_ones(generated):
    assert (DOCKER / "conf" / "log4j.properties").read_text() == generated["log4j.properties"]


def test_java_options_equal_the_generated_ones():
    lines = (DOCKER / "java.options").read_text().split()
    layout = grown(EMPTY, {}, {}, lambda count: list(range(20_000, 20_000 + count)))
    command = configuration.command(
        Path("java"), Path("/jars"), Path("/x"), layout.named("master"), ()
    )
    opened = {word for word in command if word.startswith("--add-")}
    assert {word for word in lines if word.startswith("--add-")} == opened
    assert lines[-2:] == ["-cp", "/opt/cluster/conf:/opt/cluster/jars/*"]


@pytest.mark.parametrize("role", list(PORTS))
def test_every_role_runs_the_same_class_with_the_same_heap_and_options_of_java(role):
    def of_java(words: list[str]) -> set[str]:
        return {w for w in words if w.startswith("-X") and not w.startswith("-XX:ErrorFile")}

    layout = grown(EMPTY, {}, {}, lambda count: list(range(20_000, 20_000 + count)))
    (process, *_) = layout.of(role)
    expected = configuration.command(Path("java"), Path("/jars"), Path("/x"), process, ())
    always = (DOCKER / "java.options").read_text().split()
    names = services(role)
    assert names
    for name in names:
        command = COMPOSE[name]["command"]
        assert command[0].startswith("-Xmx")
        assert of_java(command + always) == of_java(expected)
        assert expected[expected.index("-cp") + 2] in command


def test_nothing_is_published_beyond_this_machine():
    published = [port for service in COMPOSE.values() for port in service.get("ports", ())]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_every_service_has_a_health_check_and_existing_dependencies():
    assert DOCKERFILE.rindex("HEALTHCHECK") > DOCKERFILE.rindex(" AS node")
    for name, service in COMPOSE.items():
        assert (
            "healthcheck" in service or name == "format" or name in NODES
        )  # nodes: in their image
        assert set(service.get("depends_on", ())) <= COMPOSE.keys()


def test_zookeeper_has_the_same_tick_time():
    *_, tick, _ = COMPOSE["zookeeper"]["command"]
    assert tick == str(configuration.ZOOKEEPER_TICK_MS)


def test_a_connection_that_zookeeper_forgets_ends_no_session():
    """`configuration` explains why the quorum contains the address twice."""
    found = settings((DOCKER / "conf" / "hbase-site.xml").read_text())
    assert found["hbase.zookeeper.quorum"] == "zookeeper,zookeeper"


# ---------------------------------------------------------------- Hornbeam's nodes


class Made(NamedTuple):
    """The two volumes of the service `credentials`."""

    config: Path
    secrets: Path

    def make(self, *nodes: str) -> str:
        """Run the script as the service does; return its output."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        folders = {"CONFIG": str(self.config), "SECRETS": str(self.secrets)}
        return subprocess.run(
            ["sh", DOCKER / "credentials.sh", *nodes],
            env=os.environ | folders | {"PATH": path},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    def contents(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for folder in self for path in folder.iterdir()}

    def environment(self, node: str) -> dict[str, str]:
        """The environment of a service, with the volume's folder in place of its mount point."""
        given = COMPOSE[node]["environment"]
        return {name: re.sub("^/config", str(self.config), value) for name, value in given.items()}


@pytest.fixture
def empty(tmp_path) -> Made:
    made = Made(tmp_path / "config", tmp_path / "secrets")
    for folder in made:
        folder.mkdir()
    return made


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Made:
    made = Made(tmp_path_factory.mktemp("config"), tmp_path_factory.mktemp("secrets"))
    made.make(*COMPOSE["credentials"]["command"])
    return made


@pytest.fixture
def loaded(made, monkeypatch):
    """A function that loads settings as the node of a service does."""

    def load(node: str) -> Settings:
        monkeypatch.chdir(made.config)
        for name, value in made.environment(node).items():
            monkeypatch.setenv(name, value)
        return load_settings()

    return load


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    """Run a TLS handshake; raises ssl.SSLError when one side does not trust the other."""
    inward, outward = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(outward, inward, server_hostname=name),
        server.wrap_bio(inward, outward, server_side=True),
    )
    for end in ends * 2:
        with suppress(ssl.SSLWantReadError):
            end.do_handshake()
    for end in ends:
        end.do_handshake()


def test_three_nodes_differ_only_in_name_and_port():
    assert len(NODES) == 3
    alike = {
        yaml.dump(COMPOSE[node]).replace(node, "NODE").replace(f"878{node[-1]}", "PORT")
        for node in NODES
    }
    assert len(alike) == 1


def test_settings_of_nodes_exist_and_contain_no_secret():
    for node in NODES:
        names = COMPOSE[node]["environment"].keys()
        assert {name.removeprefix("HORNBEAM_").lower() for name in names} <= (
            Settings.model_fields.keys()
        )
        assert not names & {"HORNBEAM_NODE_SECRET", "HORNBEAM_BOOTSTRAP_KEY"}


@pytest.mark.parametrize("node", NODES)
def test_a_node_accepts_the_credentials_of_the_script(made, loaded, node):
    settings = loaded(node)
    require_safe(settings)
    key = (made.secrets / "administrator.key").read_text().strip()
    assert matches(key, bootstrap_key(settings.bootstrap_key))
    clients = ssl.create_default_context(cafile=made.config / "authority.pem")
    for name in (node, "localhost", "127.0.0.1"):
        handshake(server_context(settings), clients, name)
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        handshake(server_context(settings), clients, "elsewhere")


def test_nodes_trust_one_another_and_no_stranger(made, loaded, empty):
    empty.make("stranger")
    first = node_contexts(loaded(NODES[0]))
    second = node_contexts(loaded(NODES[1]))
    handshake(first.listener, second.caller, NODES[0])
    handshake(second.listener, first.caller, NODES[1])
    stranger = ssl.create_default_context(cafile=made.config / "authority.pem")
    stranger.load_cert_chain(empty.config / "stranger.pem", empty.config / "stranger.key")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(first.listener, stranger, NODES[0])


def test_existing_credentials_are_kept_and_private(empty):
    assert str(empty.secrets / "administrator.key") in empty.make("node-1")
    before = empty.contents()
    assert {path.stat().st_mode & 0o777 for path in before} == {0o600}
    empty.make("node-1", "node-2")
    after = empty.contents()
    assert before.items() <= after.items()
    assert {path.name for path in after.keys() - before.keys()} == {"node-2.pem", "node-2.key"}


def test_unfinished_credentials_are_created_again(empty):
    for name in ("node-1.key", "hornbeam.toml.new", "authority.pem.new"):
        (empty.config / name).write_text("half of")
    empty.make("node-1")
    assert len(tomllib.loads((empty.config / "hornbeam.toml").read_text())) == 2
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(empty.config / "node-1.pem", empty.config / "node-1.key")
    assert not list(empty.config.glob("*.new"))


def test_credentials_cover_every_node_and_are_mounted_only_where_needed():
    assert COMPOSE["credentials"]["command"] == NODES
    for name, service in COMPOSE.items():
        mounts = {mount.split(":")[0]: mount for mount in service.get("volumes", ())}
        assert ("secrets" in mounts) == (name == "credentials")
        assert mounts.get("config") == {
            "credentials": "config:/config",
            **dict.fromkeys(NODES, "config:/config:ro"),
        }.get(name)


@pytest.mark.parametrize("node", NODES)
def test_addresses_of_nodes_match_their_ports(node):
    service = COMPOSE[node]
    given = service["environment"]
    (published,) = service["ports"]
    _, outside, inside = published.split(":")
    assert inside == given["HORNBEAM_PORT"]
    assert given["HORNBEAM_ADDRESS"] == f"https://localhost:{outside}"
    assert service["hostname"] == node
    assert given["HORNBEAM_PEER_ADDRESS"] == f"{node}:{given['HORNBEAM_PEER_PORT']}"


@pytest.mark.parametrize("node", NODES)
def test_nodes_have_the_addresses_of_the_services_they_need(node):
    service = COMPOSE[node]
    given = service["environment"]
    gateways = services(Role.THRIFT)
    assert len(gateways) >= 2
    ports = {name: COMPOSE[name]["command"] for name in gateways}
    assert given["HORNBEAM_GATEWAYS"].split(",") == [
        f"{name}:{command[command.index('-p') + 1]}" for name, command in ports.items()
    ]
    assert set(gateways) <= {
        name
        for name, need in service["depends_on"].items()
        if need["condition"] == "service_healthy"
    }
    *_, port, _, _, _ = COMPOSE["zookeeper"]["command"]
    assert given["HORNBEAM_ZOOKEEPER"] == f"zookeeper:{port}"
    core = settings((DOCKER / "conf" / "core-site.xml").read_text())
    assert given["HORNBEAM_HDFS"] == core["fs.defaultFS"]


def test_copied_files_exist_and_are_in_the_build_context():
    lines = re.findall("^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
    sources = [
        word for line in lines for word in shlex.split(line)[:-1] if not word.startswith("--")
    ]
    sent = re.findall("^!(.*)$", (DOCKER / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    assert all((ROOT / name).exists() for name in (*sources, *sent))
    assert {Path(source).parts[0] for source in sources if source != "."} <= set(sent)
    packages = {link.readlink().name for link in (ROOT / "src/hornbeam_server").glob("[a-z]*")}
    assert {"src", "client", *packages} <= set(sent)


def test_services_run_stages_of_the_dockerfile():
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE, re.MULTILINE))
    assert {service["build"]["target"] for service in COMPOSE.values()} <= stages


@contextmanager
def answering(status: int, settings: Settings) -> Iterator[int]:
    """Yield the port of a server with a node's certificate that answers /readyz with `status`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.end_headers()
            self.wfile.write(b"so it is")

        def log_message(self, *_: object) -> None:
            """Print no log lines in tests."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = server_context(settings).wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def readiness(made: Made, port: int) -> subprocess.CompletedProcess[str]:
    environment = made.environment(NODES[0]) | {"HORNBEAM_PORT": str(port)}
    script = [sys.executable, DOCKER / "ready.py"]
    return subprocess.run(script, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1), (404, 1)])
def test_the_health_check_reports_readyz(made, loaded, status, code):
    with answering(status, loaded(NODES[0])) as port:
        found = readiness(made, port)
    assert (found.returncode, found.stderr.strip()) == (code, "so it is" if code else "")


def test_the_health_check_requires_a_certificate_of_the_same_authority(made, loaded, empty):
    empty.make("stranger")
    with answering(200, loaded(NODES[0])) as port:
        found = readiness(made._replace(config=empty.config), port)
    assert found.returncode == 1
    assert "certificate verify failed" in found.stderr
    found = readiness(made, port)  # the server has stopped
    assert found.returncode == 1
    assert "no answer" in found.stderr
