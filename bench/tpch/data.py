"""TPC-H's relations as CSV files of the generator tpchgen-cli (PyPI), one run per scale factor.

The files lie in the user's cache: they are equal for all users, and not part of the checkout.
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
from hornbeam_server.query.parsing.parse import DIALECT
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
"""The relations, parents first."""
LOAD_ROWS = 5_000


def queries() -> dict[str, str]:
    """The SELECT of each view, by view name, over base relations only."""
    views = load_ddl(SCHEMA.read_text() + VIEWS.read_text()).views
    return {view.name: written_out(view, views).sql(DIALECT) for view in views}


def files(scale: float, cache: Path | None = None) -> dict[str, Path]:
    """The CSV file of each relation, with a header, parents first, at scale factor `scale`.

    The default of `cache` is a folder in XDG's cache. Raises InvalidRequest when the generator is
    not installed.
    """
    folder = (cache or _cache()) / f"sf{scale:g}"
    if not folder.exists():
        _generate(scale, folder)
    return {name: folder / f"{name}.csv" for name in RELATIONS}


def load(db: Connection, tables: Mapping[str, Path]) -> int:
    """Insert all rows of the files `tables`, in transactions of `LOAD_ROWS` rows. Returns the
    number of rows."""
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
    """Generate the files into a temporary folder, and rename it: a reader finds all files or
    none."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        arguments = ["csv", "--scale-factor", f"{scale:g}", "--output-dir", str(temporary)]
        subprocess.run([_generator(), *arguments], check=True, capture_output=True)
        _without_repetitions(temporary / "partsupp.csv")
        temporary.rename(folder)
    except OSError:
        if not folder.exists():  # otherwise another process was faster
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _without_repetitions(path: Path) -> None:
    """Remove repeated keys. Below scale factor 0.01 there are so few suppliers that a part has some
    of them twice."""
    header, *lines = path.read_text().splitlines(keepends=True)
    by_key = {tuple(line.split(",")[:2]): line for line in reversed(lines)}
    path.write_text(header + "".join(reversed(by_key.values())))


def _generator() -> str:
    beside = Path(sys.executable).with_name("tpchgen-cli")
    found = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if found is None:
        raise InvalidRequest(
            "TPC-H's generator is not installed.", cure="pip install tpchgen-cli, or make test."
        )
    return found
