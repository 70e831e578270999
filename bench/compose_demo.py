"""The main job in containers, while nodes are killed: `make demo-compose`.

Starts the services of `docker/compose.yaml` as a project of its own, and runs the load of
`bench/failover.py` on its three nodes, over TLS and with the administrator's key. A node is killed
as its container (SIGKILL). In the end the project is removed with its volumes. Needs a running
Docker engine with Compose 2.20 or newer, and the images of `make images`.
`python -m bench.compose_demo --help` lists the options.
"""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated

import httpx
from rich.console import Console

import hornbeam
from bench.failover import Load, demonstrate, finished
from bench.images import IMAGES, archives
from bench.options import parse
from bench.served import Node, Nodes, client_url
from hornbeam.security import API_KEY_VARIABLE
from hornbeam_server.demo.ending import ended_by_sigterm
from hornbeam_server.demo.results import new_console
from hornbeam_server.schema.errors import HornbeamError, Unavailable

FILE = Path("docker/compose.yaml")
PORTS = (8781, 8782, 8783)
"""The ports of the nodes on this machine, as the file publishes them."""


@dataclass(frozen=True, slots=True)
class Options(Load):
    """The options that `--help` explains."""

    project: Annotated[str, "name of the Compose project, which is removed"] = "hornbeam-demo"
    images: Annotated[Path, "folder with images that buildah has built"] = Path("var/images")
    folder: Annotated[Path, "folder of the report"] = Path("var/demo-compose")


@dataclass(frozen=True, slots=True)
class Project:
    """A Compose project of `docker/compose.yaml`."""

    name: str

    def run(self, *arguments: str) -> str:
        """Run a command of Compose, and return its output. Raises Unavailable."""
        return _output("docker", "compose", "-p", self.name, "-f", str(FILE), *arguments)

    @contextmanager
    def up(self) -> Iterator[None]:
        """Start all services with empty volumes, and wait until they are healthy. Afterwards stop
        and remove everything."""
        self._down()
        try:
            self.run("up", "--no-build", "--pull", "never", "--wait", "--quiet-pull")
            yield
        except Exception:
            _print_state(self)
            raise
        finally:
            self._down()

    def _down(self) -> None:
        self.run("down", "--volumes", "--remove-orphans")


@dataclass
class Container(Node):
    """The container of a node."""

    name: str
    port: int
    project: Project
    http: httpx.Client
    killed: bool = False

    @property
    def address(self) -> str:
        return f"localhost:{self.port}"

    @property
    def url(self) -> str:
        return f"https://{self.address}"

    @property
    def running(self) -> bool:
        return not self.killed

    def start(self) -> None:
        self.project.run("start", self.name)
        self.killed = False

    def kill(self) -> None:
        self.project.run("kill", "--signal", "SIGKILL", self.name)
        self.killed = True

    def get(self, path: str, timeout_s: float) -> httpx.Response:
        return self.http.get(f"{self.url}{path}", timeout=timeout_s)


@dataclass
class Containers(Nodes[Container]):
    """The nodes of a project that is up. `authority` is the file of the authority that has signed
    their certificates."""

    project: Project
    authority: Path
    key: str
    nodes: list[Container] = field(init=False)

    def __post_init__(self) -> None:
        self.nodes = [
            Container(f"node-{number}", port, self.project, self.http)
            for number, port in enumerate(PORTS, start=1)
        ]

    @cached_property
    def http(self) -> httpx.Client:
        trusted = ssl.create_default_context(cafile=str(self.authority))
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx.Client(verify=trusted, headers=headers, trust_env=False)

    @property
    def logs(self) -> str:
        return f"docker compose -p {self.project.name} logs"

    def client_url_of(self, nodes: Sequence[Container]) -> str:
        addresses = [node.address for node in nodes]
        return client_url(addresses, tls="true", ca=str(self.authority))


def run(options: Options, console: Console) -> int:
    """Run the demo. Returns the exit code: 0 without differences and errors."""
    version = _engine()
    console.rule(f"The images of docker/Dockerfile, on Docker {version}")
    _load_images(options.images, console)
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    project, began = Project(options.project), time.monotonic()
    console.print(f"Starting the services of {FILE} as the project {project.name}")
    with project.up():
        console.print(f"All services are healthy after {time.monotonic() - began:.0f} s")
        nodes = _reached(project, options.folder)
        nodes.settled()
        report = demonstrate(nodes, options, console)
        console.print("Stopping the services, and removing them with their volumes")
    return finished(report, options, options.folder, console)


def _reached(project: Project, folder: Path) -> Containers:
    """The nodes, with what their clients need: the authority and the administrator's key, which
    later connections of this process and of its children get from the environment."""
    authority = folder.resolve() / "authority.pem"
    project.run("cp", "node-1:/config/authority.pem", str(authority))
    show = ("run", "--rm", "--no-deps", "-T", "--entrypoint", "cat", "credentials")
    key = project.run(*show, "/secrets/administrator.key").strip()
    os.environ[API_KEY_VARIABLE] = key
    return Containers(project, authority, key)


def _engine() -> str:
    """The version of the engine. Raises Unavailable without an engine that runs, or without
    Compose."""
    cure = "Start Docker (https://docs.docker.com/engine/install), or on a machine without an"
    cure += " engine: docker/engine.sh make demo-compose"
    if shutil.which("docker") is None:
        raise Unavailable("There is no program docker.", cure=cure)
    try:
        version = _output("docker", "info", "--format", "{{.ServerVersion}}").strip()
    except Unavailable as error:
        raise Unavailable(f"No Docker engine runs: {error.message}", cure=cure) from None
    try:
        compose = _output("docker", "compose", "version", "--short").strip()
    except Unavailable as error:
        cure = "Install Docker's plugin (Docker's own packages: docker-compose-plugin)."
        raise Unavailable(f"Docker has no Compose: {error.message}", cure=cure) from None
    return f"{version} with Compose {compose}"


def _load_images(folder: Path, console: Console) -> None:
    """Load the archives of buildah, if there are any. Raises Unavailable if an image is missing."""
    for archive in archives(folder):
        console.print(_output("docker", "load", "--input", str(archive)).strip())
    for image in IMAGES:
        if not _output("docker", "image", "ls", "--quiet", f"hornbeam/{image}").strip():
            raise Unavailable(f"There is no image hornbeam/{image}.", cure="Build it: make images")


def _print_state(project: Project) -> None:
    """Show the state of the services and the last lines of their logs."""
    print(project.run("ps", "--all"), file=sys.stderr)
    print(project.run("logs", "--no-color", "--tail", "20"), file=sys.stderr)


def _output(*command: str) -> str:
    """The standard output of a command. Raises Unavailable with the end of its errors."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines()[-3:] or [f"status {done.returncode}"]
        raise Unavailable(f"{' '.join(command[:3])} …: {' '.join(said)}")
    return done.stdout


def main() -> None:
    options, console = parse(Options, "bench.compose_demo", __doc__), new_console()
    try:
        sys.exit(run(options, console))
    except (HornbeamError, hornbeam.Error, httpx.HTTPError) as error:
        console.print(f"demo-compose: {error}", style="red", markup=False, highlight=False)
        sys.exit(1)


if __name__ == "__main__":
    with ended_by_sigterm():
        main()
