"""Fail when no file imports or starts a Python file (`make check`)."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

PACKAGES = (
    *("schema", "storage", "cluster", "query", "viewselect", "maintain", "txlayer"),
    *("pipeline", "node", "api", "pgwire", "demo", "bench", "client/hornbeam", "tests"),
)

OWN_NAMES = ("hornbeam", "bench", "src", "tests")


def imported(path: Path) -> set[str]:
    """Return the modules that a file imports, and `module.name` for each name from a module."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def module_name(path: Path) -> str:
    """Return the name in imports of the module; a `__main__` has the name of its folder."""
    path = path.parent if path.name == "__main__.py" else path
    name = str(path.with_suffix("")).removeprefix("client/").replace("/", ".")
    return name if name.startswith(OWN_NAMES) else f"hornbeam_server.{name}"


def main() -> int:
    tracked = subprocess.run(
        ["git", "ls-files", "*.py"], capture_output=True, text=True, check=True
    ).stdout.split()
    files = [Path(name) for name in tracked if name.startswith(PACKAGES)]
    used = set().union(*(imported(path) for path in files))
    started = " ".join(
        Path(name).read_text() for name in ("Makefile", "pyproject.toml", "client/pyproject.toml")
    )
    loaded = " ".join(path.read_text() for path in files)
    dead = [
        path
        for path in files
        if module_name(path) not in used
        and path.name not in {"__init__.py", "conftest.py"}
        and not path.name.startswith("test_")
        and path.parent.name != "migrations"  # Django finds them by their place
        and not re.search(rf"\b{re.escape(module_name(path))}\b", started)
        and f'"{module_name(path)}"' not in loaded
        and f'"{module_name(path).removeprefix("hornbeam_server.")}"' not in loaded
    ]
    for path in dead:
        print(f"{path}: no file imports or starts this file")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
