"""Record the answers to catalogue queries: `python -m tests.catalogue.record DSN [NEW]`.

DSN is a PostgreSQL 15 database with `schema.sql`. NEW is a file of further queries,
`[[client, sql], …]`, as the log of that database has them. Prints what differs, to be checked by
eye.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import psycopg

from hornbeam_server.node.database import Database
from hornbeam_server.schema.errors import HornbeamError
from tests.catalogue.asked import (
    OIDS,
    QUERIES,
    filled,
    hornbeam_ddl,
    queries,
    shown,
    templated,
)
from tests.txlayer.database_world import settings
from tests.txlayer.test_plain_views import applied


def main(dsn: str, new: str = "") -> None:
    entries = [dict(each) for each in queries()] if QUERIES.exists() else []
    with psycopg.connect(dsn, autocommit=True) as connection:
        oids = dict(connection.execute(OIDS))
        for client, sql in json.loads(Path(new).read_text()) if new else []:
            entries.append({"client": client, "sql": templated(sql, oids)})
        for entry in entries:
            entry["postgresql"] = _plain(shown(_rows(connection, entry, oids), oids))
    asyncio.run(_ask_hornbeam(entries))
    QUERIES.parent.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in entries)
    QUERIES.write_text(f"[\n{lines}\n]\n")


def _rows(connection: psycopg.Connection, entry: dict[str, Any], oids: dict[int, str]) -> Any:
    try:
        return connection.execute(filled(entry["sql"], oids)).fetchall()
    except psycopg.Error as error:
        return [[f"error {error.sqlstate}"]]


async def _ask_hornbeam(entries: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with await Database.open(settings(Path(folder))) as database:
            await applied(database, hornbeam_ddl())
            oids = dict(await database.fetch(OIDS))
            for number, entry in enumerate(entries):
                entry.pop("hornbeam", None)
                try:
                    answer = await database.fetch(filled(entry["sql"], oids))
                except HornbeamError as error:
                    answer = [[f"error {error.message}"]]
                found = _plain(shown(answer, oids))
                if found != entry["postgresql"]:
                    entry["hornbeam"] = found
                    _print(number, entry)


def _print(number: int, entry: dict[str, Any]) -> None:
    print(f"--- {number} {entry['client']}: {entry['sql']}")
    for row in entry["postgresql"]:
        if row not in entry["hornbeam"]:
            print("  -", row)
    for row in entry["hornbeam"]:
        if row not in entry["postgresql"]:
            print("  +", row)


def _plain(value: Any) -> Any:
    """The value as JSON gives it back."""
    return json.loads(json.dumps(value))


if __name__ == "__main__":
    main(*sys.argv[1:])
