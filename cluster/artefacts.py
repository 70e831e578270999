"""Java, Maven, and the jars: one folder for all processes, resolved once by `pom.xml`.

The jars go to a cache outside any checkout, under a name derived from the pom's content and the
versions. Another pom has another folder, and clusters that still run with the old pom keep their
jars.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from hornbeam_server.cluster.layout import DEFAULT_VERSIONS, Versions
from hornbeam_server.schema.errors import Unavailable

JAVA_FROM, JAVA_BELOW = 17, 24
"""Hadoop 3.4 calls javax.security.auth.Subject.getSubject, which works up to Java 23."""

_HERE = Path(__file__).parent
_TIMEOUT_S = 1_800


def java() -> Path:
    """The Java program of JAVA_HOME or of the path. Raises Unavailable."""
    home = os.environ.get("JAVA_HOME")
    found = f"{home}/bin/java" if home else shutil.which("java")
    version = java_version(found) if found else 0
    if not found or not JAVA_FROM <= version < JAVA_BELOW:
        there = f"{found} is Java {version}" if version else "there is none"
        raise Unavailable(
            f"A cluster needs Java {JAVA_FROM} to {JAVA_BELOW - 1}; {there}.",
            cure="Install it (Debian, Ubuntu: apt install openjdk-17-jdk-headless)"
            " or let JAVA_HOME name it.",
        )
    return Path(found)


def java_version(program: str) -> int:
    """The major version of a Java program; 0 if it does not run or does not say."""
    try:
        said = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr)
    return int(found[1]) if found else 0


def pom() -> Path:
    """The file that lists the jars of a cluster."""
    return _HERE / "pom.xml"


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "hornbeam"


def jars_folder(of: Path | None = None, versions: Versions = DEFAULT_VERSIONS) -> Path:
    """The folder for the jars of a pom, whether it exists or not. The cluster's pom may be the
    parent of another pom, so the name for another pom depends on both."""
    poms = (pom(),) if of is None else (of, pom())
    content = b"".join(path.read_bytes() for path in poms)
    if versions != DEFAULT_VERSIONS:
        content += str(versions).encode()
    return cache() / f"cluster-{hashlib.sha256(content).hexdigest()[:16]}"


def resolve(of: Path | None = None, versions: Versions = DEFAULT_VERSIONS) -> Path:
    """The folder of the jars of a pom, by default the cluster's, in the given versions; fetches
    them from Maven Central when the folder does not exist.

    Several processes may call it at one time: the first to finish wins. Raises Unavailable.
    """
    folder = jars_folder(of, versions)
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as partial:
        _copy_dependencies(of or pom(), versions, Path(partial) / "jars")
        try:
            (Path(partial) / "jars").rename(folder)
        except OSError:  # another process was quicker
            if not folder.exists():
                raise
    return folder


def _definitions(versions: Versions) -> tuple[str, ...]:
    """Maven's options that set the versions; none for those of the pom. HBase has builds for
    Hadoop 3 that bear it in their version, except of its gateways."""
    if versions == DEFAULT_VERSIONS:
        return ()
    return (
        f"-Dhbase.version={versions.hbase}-hadoop3",
        f"-Dhbase.thrift.version={versions.hbase}",
        f"-Dhadoop.version={versions.hadoop}",
    )


def _copy_dependencies(of: Path, versions: Versions, into: Path) -> None:
    """Fetch the jars of a pom into a folder. Raises Unavailable, also for a wrong checksum."""
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable(
            "A cluster needs Maven to fetch HBase and Hadoop; there is no mvn.",
            cure="Install it (Debian, Ubuntu: apt install maven). It is needed once.",
        )
    quietly = ("-B", "-q", "--strict-checksums")
    goal = "dependency:copy-dependencies"
    command = (maven, *quietly, *_definitions(versions), "-f", str(of), goal)
    try:
        done = subprocess.run(
            [*command, f"-DoutputDirectory={into}"],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"Maven took longer than {_TIMEOUT_S} s.") from None
    if done.returncode:
        said = re.search(r"\[ERROR\] +(.+)", done.stdout)
        reason = said[1] if said else done.stderr.strip() or f"exit code {done.returncode}"
        raise Unavailable(
            f"Maven could not fetch HBase and Hadoop: {reason}",
            cure=f"Is Maven Central within reach? Try: {' '.join(command)} -DoutputDirectory=…",
        )
