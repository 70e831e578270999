"""TPC-H's relations as CSV files, by the generator tpchgen-cli (PyPI), made once per scale factor.

The files lie in the user's cache: they are the same for everybody, and no part of the checkout.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench.tpch import SCHEMA, VIEWS
from hornbeam import Connection
from hornbeam_server.maintain.deltas.nesting import written_out
from hornbeam_server.query.binding.parse import DIALECT
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import InvalidRequest

RELATIONS = (
    "region",
    "nation",
    "part",
    "supplier",
    "partsupp",
    "customer",
    "orders",
    "lineitem",
)
"""Parents first."""
LOAD_ROWS = 5_000


def queries() -> dict[str, str]:
    """The SELECT of each view by its name, over the relations alone."""
    views = load_ddl(SCHEMA.read_text() + VIEWS.read_text()).views
    return {view.name: written_out(view, views).sql(DIALECT) for view in views}


def files(scale: float, cache: Path | None = None) -> dict[str, Path]:
    """A CSV file with a header per relation, parents first, at scale factor `scale`.

    `cache` is by default XDG's. Raises InvalidRequest where the generator is not installed.
    """
    folder = (cache or _cache()) / f"sf{scale:g}"
    if not folder.exists():
        _generate(scale, folder)
    return {name: folder / f"{name}.csv" for name in RELATIONS}


def load(db: Connection, tables: Mapping[str, Path]) -> int:
    """Insert all rows of `files`, by transactions of some thousands; returns how many there are."""
    rows = 0
    for name, path in tables.items():
        header, *lines = path.read_bytes().splitlines(keepends=True)
        for start in range(0, len(lines), LOAD_ROWS):
            body = header + b"".join(lines[start : start + LOAD_ROWS])
            db.transport.post(f"/v1/load/{name}", body, {"Content-Type": "text/csv"})
        rows += len(lines)
    return rows


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hornbeam" / "tpch"


def _generate(scale: float, folder: Path) -> None:
    """Into a folder beside it first: whoever looks finds all or nothing."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        arguments = ["csv", "--scale-factor", f"{scale:g}", "--output-dir", str(made)]
        subprocess.run([_generator(), *arguments], check=True, capture_output=True)
        _without_repetitions(made / "partsupp.csv")
        made.rename(folder)
    except OSError:
        if not folder.exists():  # else somebody else was faster
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _without_repetitions(path: Path) -> None:
    """Below scale factor 0.01 there are so few suppliers that a part has some of them twice."""
    header, *lines = path.read_text().splitlines(keepends=True)
    by_key = {tuple(line.split(",")[:2]): line for line in reversed(lines)}
    path.write_text(header + "".join(reversed(by_key.values())))


def _generator() -> str:
    beside = Path(sys.executable).with_name("tpchgen-cli")
    found = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if found is None:
        raise InvalidRequest(
            "TPC-H's generator is not here.", cure="pip install tpchgen-cli, or make test."
        )
    return found
