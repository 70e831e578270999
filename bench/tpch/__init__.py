"""TPC-H: schema, generated data, queries as deferred views, and random changes."""

from pathlib import Path

FOLDER = Path(__file__).parent
SCHEMA = FOLDER / "schema.sql"
VIEWS = FOLDER / "views.sql"
