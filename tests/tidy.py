"""Fail when code that a simulation runs uses the machine instead of its ports, and when a module is
too long to be read (`make check`).

Wall time, randomness, fresh ids and sockets come through ports (`storage/ports.py`), so that one
seed decides a whole run. Only adapters of the machine, and the program that listens, may use them.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGES = (
    "schema",
    "storage",
    "query",
    "viewselect",
    "maintain",
    "txlayer",
    "node",
    "api",
    "pgwire",
)
ADAPTERS = (
    *("storage/local/", "storage/rocks/", "storage/hbase/", "storage/hdfs/", "storage/zookeeper/"),
    *("storage/tcp/", "query/workers/processes.py", "query/workers/forkserver.py"),
    "api/serve.py",
    "api/telemetry/",
)
LONGEST = 700
"""Maximum lines of a module. What is longer has parts that belong apart."""
MAY_BE_LONGER = {"query/binding/binder.py"}
"""The binder is one recursion over the syntax tree, whose parts know each other."""
SEEDED = {"random.Random"}
"""The simulation draws from generators with a seed."""

MODULES = {"time", "random", "secrets", "socket", "select", "selectors", "threading"}
CALLS = {
    *("datetime.now", "datetime.utcnow", "datetime.today", "date.today"),
    *("uuid.uuid1", "uuid.uuid4", "uuid.getnode", "os.urandom", "os.getrandom", "os.times"),
}


def offences(path: Path) -> Iterator[str]:
    """Yield `file:line name` for every use of the machine in `path`."""
    tree = ast.parse(path.read_text())
    seeded = {name.split(".")[0] for name in SEEDED if name in path.read_text()}
    for node in ast.walk(tree):
        for what in _asked(node):
            if what not in seeded:
                yield f"{path}:{getattr(node, 'lineno', 0)} {what}"


def _asked(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import():
            yield from (a.name for a in node.names if a.name.split(".")[0] in MODULES)
        case ast.ImportFrom(module=str(module)):
            if module.split(".")[0] in MODULES:
                yield module
            names = (f"{module.split('.')[-1]}.{alias.name}" for alias in node.names)
            yield from (name for name in names if name in CALLS)
        case ast.Attribute():
            dotted = ast.unparse(node)
            yield from (call for call in CALLS if f".{dotted}".endswith(f".{call}"))


def too_long(path: Path) -> Iterator[str]:
    """Yield `file:line length` for a module that is too long."""
    length = len(path.read_text().splitlines())
    if length > LONGEST and str(path) not in MAY_BE_LONGER:
        yield f"{path}:{length} has more than {LONGEST} lines: move what belongs apart"


def main() -> int:
    everything = (*PACKAGES, "cluster", "pipeline", "client/hornbeam")
    modules = (path for package in everything for path in sorted(Path(package).rglob("*.py")))
    long = [offence for path in modules for offence in too_long(path)]
    print(*long, sep="\n", end="\n" if long else "")
    files = (path for package in PACKAGES for path in sorted(Path(package).rglob("*.py")))
    inside = (path for path in files if not str(path).startswith(ADAPTERS))
    found = [offence for path in inside for offence in offences(path)]
    for offence in found:
        print(f"{offence}: use the Clock or Ids port, or move this into an adapter")
    return 1 if found or long else 0


if __name__ == "__main__":
    sys.exit(main())
