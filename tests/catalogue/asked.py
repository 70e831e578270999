"""The catalogue queries that clients of PostgreSQL send, and their answers without OIDs.

`fixtures/queries.json` has the queries as the clients sent them to PostgreSQL 15 (psql by `-E`, the
drivers by the log of statements; those of Tableau and its ODBC driver are from the `source` of the
entry, with names of this schema), with `{relation}` for the OID of a relation of `schema.sql`, and
PostgreSQL's answers. Where Hornbeam's answer differs, the entry has both.
`python -m tests.catalogue.record DSN` records both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
QUERIES = FOLDER / "fixtures/queries.json"
SCHEMA = FOLDER / "schema.sql"
OIDS = """
SELECT c.oid, n.nspname || '.' || c.relname FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname IN ('public', 'shop')
UNION ALL SELECT o.oid, 'constraint ' || o.conname FROM pg_constraint o
JOIN pg_namespace n ON n.oid = o.connamespace WHERE n.nspname IN ('public', 'shop')
UNION ALL SELECT t.oid, 'type ' || t.typname FROM pg_type t
JOIN pg_namespace n ON n.oid = t.typnamespace WHERE n.nspname IN ('public', 'shop')
UNION ALL SELECT n.oid, 'schema ' || n.nspname FROM pg_namespace n
UNION ALL SELECT e.oid, 'label ' || e.enumlabel FROM pg_enum e
UNION ALL SELECT d.oid, 'default ' || d.adnum FROM pg_attrdef d
"""
MANY = 60
_WORDS = ("public", "shop", "author", "book", "sale'", "plain'", "tickets", "mood", "price")
Answer = list[list[Any]]


def hornbeam_ddl() -> str:
    """The schema as Hornbeam takes it: a materialised view says how it is kept."""
    view = "CREATE MATERIALIZED VIEW by_author "
    return SCHEMA.read_text().replace(view, f"{view}WITH (refresh = 'immediate') ")


def queries() -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = json.loads(QUERIES.read_text())
    return found


def filled(sql: str, oids: Mapping[int, str]) -> str:
    """The query with the OIDs of relations."""
    numbers = {name: str(oid) for oid, name in oids.items()}
    return re.sub(
        r"\{((?:(?:public|shop)\.|type )\w+)\}", lambda found: numbers.get(found[1], "0"), sql
    )


def shown(rows: Iterable[Sequence[Any]], oids: Mapping[int, str]) -> Answer:
    """The rows in an order of their own, with names for OIDs. Of many rows those about objects of
    the schema: PostgreSQL has more built-in objects."""
    named = sorted(([_shown(value, oids) for value in row] for row in rows), key=repr)
    if len(named) <= MANY:
        return named
    return [row for row in named if any(word in repr(row) for word in _WORDS)]


def _shown(value: Any, oids: Mapping[int, str]) -> Any:
    match value:
        case None | bool():
            return value
        case list() | tuple():
            return [_shown(each, oids) for each in value]
        case int() if value in oids:
            return oids[value]
        case str() if value.isdigit() and int(value) in oids:
            return oids[int(value)]
        case str():
            return re.sub(r"\b\d{5,10}\b", lambda n: oids.get(int(n[0]), n[0]), value)
        case int() | float():
            return value
    return str(value)


def templated(sql: str, oids: Mapping[int, str]) -> str:
    """The query with `{relation}` for the OIDs of relations."""

    def name(found: re.Match[str]) -> str:
        named = oids.get(int(found[0]), "")
        return (
            f"{{{named}}}" if re.fullmatch(r"(?:(?:public|shop)\.|type )\w+", named) else found[0]
        )

    return re.sub(r"\b\d{5,10}\b", name, sql)
