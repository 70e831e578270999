"""TPC-W: schema and statements of the evaluation in Synergy, data, and sessions of shoppers."""

from pathlib import Path

FOLDER = Path(__file__).parent
SCHEMA = FOLDER / "schema.sql"
WORKLOAD = FOLDER / "workload.sql"
PAPER_ROOTS = ("author", "customer", "country")
