"""`make images` and `make demo-compose` without an engine: which program builds what, and what the
user reads if a program is missing. Programs are scripts that note how they were called."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from bench import compose_demo, images
from hornbeam_server.schema.errors import InvalidRequest, Unavailable

DOCKER = Path(__file__).parents[2] / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
FAILS = "exit 1"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that is the whole path. The tests work in the root of the repository."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.chdir(DOCKER.parent)
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


def program(folder: Path, name: str, script: str = "") -> None:
    path = folder / name
    path.write_text(f'#!/bin/sh\necho {name} "$@" >>{folder.parent}/calls\n{script}\n')
    path.chmod(0o755)


def calls(programs: Path) -> list[str]:
    return (programs.parent / "calls").read_text().splitlines()


def options(programs: Path, bases: str = "upstream") -> images.Options:
    return images.Options(bases, programs.parent / "images")


def test_an_engine_with_buildx_builds_both_images_and_no_archive_stays(programs):
    program(programs, "docker")
    program(programs, "buildah")
    given = options(programs)
    given.folder.mkdir()
    (given.folder / "node.tar").write_text("of an earlier build by buildah")
    images.build(given)
    assert [call for call in calls(programs) if " build " in call] == [
        f"docker build -f docker/Dockerfile --target {image} -t hornbeam/{image} ."
        for image in ("hbase", "node")
    ]
    assert images.archives(given.folder) == []


@pytest.mark.parametrize("missing", ["no engine", "no buildx"])
def test_buildah_builds_and_writes_archives_where_docker_cannot_build(programs, missing):
    fails = FAILS if missing == "no engine" else 'test "$1" != buildx'
    program(programs, "docker", fails)
    program(programs, "buildah")
    images.build(options(programs))
    built = [call for call in calls(programs) if call.startswith("buildah")]
    assert len(built) == 4
    for image, (bud, push) in zip(("hbase", "node"), (built[:2], built[2:]), strict=True):
        name = f"docker.io/hornbeam/{image}:latest"
        assert bud.endswith(f"-f docker/Dockerfile --target {image} -t {name} .")
        assert "--format docker" in bud  # else the health check is lost
        assert "--ignorefile docker/Dockerfile.dockerignore" in bud
        assert push.endswith(f"docker-archive:{programs.parent}/images/{image}.tar:{name}")


def test_bases_of_debian_have_the_names_of_the_dockerfile(programs):
    program(programs, "docker")
    program(programs, "buildah")
    program(programs, "mmdebstrap")
    images.build(options(programs, "debian"))
    made = [call for call in calls(programs) if "docker/bases.Dockerfile" in call]
    assert [call.split(" -t ")[1].split()[0] for call in made] == [
        f"docker.io/library/{name}" for name in images.base_images(DOCKERFILE)
    ]
    later = [call for call in calls(programs) if "-f docker/Dockerfile" in call]
    assert all("--pull-never" in call for call in later)
    assert len(later) == len(images.IMAGES)


def test_every_base_image_has_a_stage_that_stands_for_it():
    stages = re.findall(r"^FROM \S+ AS (\S+)", (DOCKER / "bases.Dockerfile").read_text(), re.M)
    names = images.base_images(DOCKERFILE)
    assert len(names) == 3
    assert {name.partition(":")[0] for name in names} == set(stages) - {"debian"}


def test_missing_programs_and_failures_are_named(programs):
    with pytest.raises(Unavailable, match="no buildah: make images needs a Docker engine"):
        images.build(options(programs))
    program(programs, "buildah", FAILS)
    with pytest.raises(Unavailable, match="no mmdebstrap"):
        images.build(options(programs, "debian"))
    with pytest.raises(Unavailable, match="buildah has ended with status 1") as raised:
        images.build(options(programs))
    assert "BASES=debian" in raised.value.cure
    with pytest.raises(InvalidRequest, match="upstream or debian, not alpine"):
        images.build(options(programs, "alpine"))


def test_the_demo_uses_the_services_and_images_of_the_file():
    services = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]
    nodes = {name: service for name, service in services.items() if name.startswith("node-")}
    assert [service["ports"] for service in nodes.values()] == [
        [f"127.0.0.1:{port}:8780"] for port in compose_demo.PORTS
    ]
    used = {service["image"].removeprefix("hornbeam/") for service in services.values()}
    assert used == set(images.IMAGES)


@pytest.mark.parametrize(
    ("script", "found", "cure"),
    [
        (None, "There is no program docker", "docker/engine.sh make demo-compose"),
        ("echo no daemon >&2; exit 1", "No Docker engine runs: .*no daemon", "docker/engine.sh"),
        ('test "$1" != compose', "Docker has no Compose", "docker-compose-plugin"),
        ("", "no image hornbeam/hbase", "make images"),
    ],
)
def test_the_demo_says_what_is_missing(programs, capsys, monkeypatch, script, found, cure):
    if script is not None:
        program(programs, "docker", script)
    empty = programs.parent / "empty"
    monkeypatch.setattr(sys, "argv", ["demo", f"--images={empty}", f"--folder={empty}"])
    with pytest.raises(SystemExit) as ended:
        compose_demo.main()
    said = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 1
    assert re.search(found, said)
    assert cure in said
    assert not empty.exists()


def test_an_engine_of_its_own_names_missing_programs(programs):
    command = [str(DOCKER / "engine.sh"), "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no dockerd. Install it" in done.stderr
    done = subprocess.run(command[:1], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "usage: docker/engine.sh COMMAND…\n")
