"""Builds the images of `docker/Dockerfile`: `make images`.

A Docker engine with buildx builds them, or else buildah, which writes them to `var/images` as
archives; `make demo-compose` loads these. With `--bases debian`, which needs buildah and
mmdebstrap, `docker/bases.Dockerfile` makes the base images from Debian's packages, for a machine
that reaches no registry of images.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from bench.options import parse
from hornbeam_server.demo.ending import ended_by_sigterm
from hornbeam_server.schema.errors import HornbeamError, InvalidRequest, Unavailable

IMAGES = ("hbase", "node")
"""The images, which are stages of the Dockerfile."""
DOCKERFILE = Path("docker/Dockerfile")
IGNORED = Path("docker/Dockerfile.dockerignore")
BASES = Path("docker/bases.Dockerfile")
SUITE = "bookworm"
CERTIFICATES = Path("/usr/local/share/ca-certificates")
"""Where Debian keeps the certificates that a machine's owner has added."""
UPSTREAM, DEBIAN = "upstream", "debian"


@dataclass(frozen=True, slots=True)
class Options:
    """The options that `--help` explains."""

    bases: Annotated[str, "upstream: base images of a registry; debian: of Debian's packages"] = (
        UPSTREAM
    )
    folder: Annotated[Path, "folder of the archives"] = Path("var/images")


def archives(folder: Path) -> list[Path]:
    """The images that buildah has written to `folder`."""
    return sorted(folder.glob("*.tar"))


def build(options: Options) -> None:
    """Build both images. Raises Unavailable, InvalidRequest."""
    if options.bases not in (UPSTREAM, DEBIAN):
        raise InvalidRequest(f"The base images are {UPSTREAM} or {DEBIAN}, not {options.bases}.")
    for archive in archives(options.folder):
        archive.unlink()
    if options.bases == UPSTREAM and _builds(["docker", "info"], ["docker", "buildx", "version"]):
        for image in IMAGES:
            _run("docker", "build", "-f", str(DOCKERFILE), "--target", image, *_named(image), ".")
        return
    _require("buildah", "make images needs a Docker engine with buildx, or buildah")
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.bases == DEBIAN:
        _require("mmdebstrap", "base images of Debian need mmdebstrap")
        _build_bases(options.folder / "bases")
    for image in IMAGES:
        _build_archive(image, options)


def base_images(dockerfile: str) -> list[str]:
    """The images of other projects that a Dockerfile begins with."""
    stages = set(re.findall(r"^FROM \S+ AS (\S+)", dockerfile, re.MULTILINE))
    names = re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    return list(dict.fromkeys(name for name in names if name not in stages))


def _build_bases(context: Path) -> None:
    """Build Debian's stand-in for each base image, under that image's name."""
    shutil.rmtree(context, ignore_errors=True)
    certificates = context / "certificates"
    certificates.mkdir(parents=True)
    for path in CERTIFICATES.glob("*.crt"):
        shutil.copy(path, certificates)
    root = context / "debian.tar"
    _run("mmdebstrap", "--variant=minbase", "--include=ca-certificates", SUITE, str(root))
    for name in base_images(DOCKERFILE.read_text(encoding="utf-8")):
        stage = name.partition(":")[0]
        _buildah(BASES, stage, f"docker.io/library/{name}", context, "--pull-never")


def _build_archive(image: str, options: Options) -> None:
    name = f"docker.io/hornbeam/{image}:latest"
    pull = ("--pull-never",) if options.bases == DEBIAN else ()
    _buildah(DOCKERFILE, image, name, Path(), "--ignorefile", str(IGNORED), *pull)
    _run("buildah", "push", name, f"docker-archive:{options.folder / image}.tar:{name}")


def _buildah(file: Path, stage: str, name: str, context: Path, *options: str) -> None:
    """Build a stage. Without `--format docker` an image has no health check. Other isolations than
    chroot need rights that a container or a build machine lacks."""
    how = ("--format", "docker", "--isolation", "chroot", "--network", "host", "--layers")
    what = ("-f", str(file), "--target", stage, "-t", name)
    _run("buildah", "bud", *how, *options, *what, str(context))


def _named(image: str) -> tuple[str, str]:
    return "-t", f"hornbeam/{image}"


def _builds(*commands: Sequence[str]) -> bool:
    """Whether all commands succeed."""
    if shutil.which(commands[0][0]) is None:
        return False
    return all(
        subprocess.run(command, capture_output=True, check=False).returncode == 0
        for command in commands
    )


def _require(program: str, why: str) -> None:
    if shutil.which(program) is None:
        raise Unavailable(
            f"There is no {program}: {why}.", cure=f"Install it (Debian: apt install {program})."
        )


def _run(*command: str) -> None:
    """Run a command, and show its output. Raises Unavailable."""
    print("+", *command, flush=True)
    began = time.monotonic()
    code = subprocess.run(command, check=False).returncode
    if code:
        raise Unavailable(
            f"{command[0]} has ended with status {code}.",
            cure="If a base image was not reached: make images BASES=debian",
        )
    print(f"{command[0]}: {time.monotonic() - began:.0f} s", flush=True)


def main() -> None:
    try:
        build(parse(Options, "bench.images", __doc__))
    except HornbeamError as error:
        print(f"images: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    with ended_by_sigterm():
        main()
