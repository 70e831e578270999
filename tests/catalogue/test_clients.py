"""Clients of PostgreSQL get the recorded answers to their catalogue queries."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hornbeam_server.node.database import Database
from hornbeam_server.schema.errors import HornbeamError
from tests.catalogue.asked import OIDS, filled, hornbeam_ddl, queries, shown
from tests.txlayer.database_world import settings
from tests.txlayer.test_plain_views import applied

CLIENTS = {
    "psql", "sqlalchemy", "psycopg", "asyncpg", "django", "pgjdbc", "dbeaver", "metabase",
    "grafana", "pgadmin", "pgcli", "tableau",
}  # fmt: skip


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with await Database.open(settings(tmp_path)) as database:
        await applied(database, hornbeam_ddl())
        yield database


async def test_each_query_of_a_client_has_its_recorded_answer(database: Database) -> None:
    oids = dict(await database.fetch(OIDS))
    wrong = []
    for entry in queries():
        try:
            answer = await database.fetch(filled(entry["sql"], oids))
        except HornbeamError as error:
            answer = [(f"error {error.message}",)]
        found = json.loads(json.dumps(shown(answer, oids)))
        if found != entry.get("hornbeam", entry["postgresql"]):
            wrong.append((entry["client"], entry["sql"], found))
    assert wrong == []


def test_most_answers_are_those_of_postgresql() -> None:
    assert {entry["client"] for entry in queries()} == CLIENTS
    refused = [e["sql"] for e in queries() if str(e.get("hornbeam")).startswith("[['error")]
    assert refused == []
    alike = Counter("hornbeam" in entry for entry in queries())
    assert alike[False] > 2 * alike[True]
