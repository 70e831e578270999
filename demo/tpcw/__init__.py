"""TPC-W: schema and statements of Synergy's evaluation, data, and sessions of emulated browsers."""

from pathlib import Path

_FOLDER = Path(__file__).parent
SCHEMA = _FOLDER / "schema.sql"
WORKLOAD = _FOLDER / "workload.sql"
TOTALS = _FOLDER / "totals.sql"
LIVE = _FOLDER / "live.sql"
PAPER_ROOTS = ("author", "customer", "country")
