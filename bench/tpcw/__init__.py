"""TPC-W: schema and statements of Synergy's evaluation, data, and sessions of emulated browsers."""

from pathlib import Path

FOLDER = Path(__file__).parent
SCHEMA = FOLDER / "schema.sql"
WORKLOAD = FOLDER / "workload.sql"
TOTALS = FOLDER / "totals.sql"
LIVE = FOLDER / "live.sql"
CART_AND_ORDER_TOTALS = FOLDER / "cart_and_order_totals.sql"
PAPER_ROOTS = ("author", "customer", "country")
