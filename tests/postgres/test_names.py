"""Law: the columns of a result have the names that PostgreSQL gives them."""

from __future__ import annotations

import pytest

from hornbeam_server.query.binding.binder import bind
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import SqlError
from tests.postgres.hornbeam import database
from tests.postgres.names import QUERIES, named, recorded_names
from tests.postgres.statements import TABLES
from tests.txlayer.database_world import catalog_of

CATALOG = catalog_of(load_ddl(";".join(TABLES)))


def _names(sql: str) -> list[str] | None:
    try:
        return [column.name for column in bind(sql, CATALOG).columns]
    except SqlError:
        return None


def test_columns_have_the_names_of_postgresql():
    answers = recorded_names()
    assert list(answers) == list(named()), "Run python -m tests.postgres.ask."
    # an aggregate beside a column is an error that only planning finds
    wanted = {q: None if isinstance(names, str) else names for q, names in answers.items()}
    found = {sql: _names(sql) for sql in wanted}
    differ = {q: (found[q], names) for q, names in wanted.items() if found[q] != names}
    assert not differ


async def test_names_stay_when_a_query_runs(tmp_path):
    answers = recorded_names()
    kept = (sql for sql in QUERIES.strip().splitlines() if isinstance(answers[sql], list))
    async with database(tmp_path) as db:
        for sql in filter(lambda each: each.startswith(("SELECT", "WITH", "VALUES")), kept):
            async with db.reads.query(sql) as result:
                await result.stream.all()
                assert [c.name for c in result.stream.columns] == answers[sql], sql


def test_a_cast_has_the_name_of_its_enumeration_or_domain():
    schema = (
        "CREATE TYPE mood AS ENUM ('sad');"
        'CREATE DOMAIN "Score" AS INTEGER CHECK (VALUE > 0);'
        "CREATE TABLE t (a INTEGER PRIMARY KEY)"
    )
    catalog = catalog_of(load_ddl(schema))
    casts = "'sad'::MOOD, CAST(NULL AS public.mood), 1::\"Score\", a::\"Score\", '{sad}'::mood[]"
    columns = bind(f"SELECT {casts} FROM t", catalog).columns
    assert [column.name for column in columns] == ["mood", "mood", "Score", "a", "mood"]
    for unknown in ("Score", '"MOOD"', 'public."mood "'):
        with pytest.raises(SqlError, match="is not supported"):
            bind(f"SELECT NULL::{unknown} FROM t", catalog)
