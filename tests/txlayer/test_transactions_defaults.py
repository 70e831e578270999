"""Defaults that are computed: random UUIDs, and expressions with one value in a transaction."""

import datetime as dt
import uuid

import pytest

from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import SqlError, TypeMismatch, UnknownName, Unsupported
from hornbeam_server.txlayer.statements.default_expressions import (
    compile_default,
    default_expressions,
)
from hornbeam_server.txlayer.statements.requests import Statement, TransactionRequest
from hornbeam_server.txlayer.transactions.random_uuids import RandomUuids
from tests.txlayer.database_world import catalog_of, opened, run_all

DDL = """
CREATE TABLE token (
  id UUID DEFAULT gen_random_uuid() PRIMARY KEY,
  name TEXT DEFAULT uuid_generate_v4()::text,
  made TIMESTAMPTZ NOT NULL DEFAULT now(),
  ends TIMESTAMPTZ NOT NULL DEFAULT now() + INTERVAL '1 day',
  due DATE DEFAULT (CURRENT_DATE + 30),
  size INTEGER DEFAULT 2 * (3 + 4),
  word VARCHAR(9) DEFAULT upper('a' || 'b'),
  n INTEGER
);
"""
ADD = "INSERT INTO token (n) VALUES (1), (2), (3)"


def tokens():
    return catalog_of(load_ddl(DDL))


async def test_each_row_has_its_own_uuid(tmp_path):
    async with opened(tmp_path, tokens()) as database:
        await run_all(database, ADD, ADD)
        await database.load("token", ["n"], [(n,) for n in range(500)])
        rows = await database.fetch("SELECT id, name FROM token")
        names = {name for _, name in rows}
        assert len(rows) == 506
        assert len({id for id, _ in rows} | {uuid.UUID(name) for name in names}) == 2 * len(rows)
        assert {id.version for id, _ in rows} == {4}
        await database.execute("UPDATE token SET name = DEFAULT WHERE n < 10")
        changed = {name for (name,) in await database.fetch("SELECT name FROM token")}
        assert len(changed) == 506
        assert len(changed - names) == 6 + 9 + 1


async def test_a_commit_gives_the_uuids_of_its_dry_run(tmp_path):
    statements = (
        Statement(f"{ADD} RETURNING id, name, ends"),
        Statement("UPDATE token SET name = DEFAULT RETURNING name"),
    )
    async with opened(tmp_path, tokens()) as database:
        trial = await database.transact(TransactionRequest(statements[:1], dry_run=True))
        replay = trial.replay
        longer = await database.transact(
            TransactionRequest(statements, dry_run=True, replay=replay)
        )
        assert longer.statements[0] == trial.statements[0]
        done = await database.transact(TransactionRequest(statements, replay=longer.replay))
        assert done.statements == longer.statements
        other = await database.transact(TransactionRequest(statements[:1], dry_run=True))
        assert other.statements[0] != trial.statements[0]


def test_uuids_follow_from_the_seed():
    first = RandomUuids(lambda: "0" * 32)
    given = [first.next() for _ in range(3)]
    again = RandomUuids(lambda: "1" * 32, first.seed)
    assert [again.next() for _ in range(3)] == given
    assert RandomUuids(lambda: "1" * 32).next() not in given
    assert not RandomUuids(lambda: "1" * 32).seed


async def test_expressions_have_one_value_in_a_transaction(tmp_path, monkeypatch):
    evaluated = []
    evaluate = QueryEngine.evaluate

    async def counted(self, work):
        evaluated.append(work)
        return await evaluate(self, work)

    async with opened(tmp_path, tokens()) as database:
        await run_all(database, ADD)
        monkeypatch.setattr(QueryEngine, "evaluate", counted)
        await database.load("token", ["n"], [(n,) for n in range(1_000)])
        assert len(evaluated) == 1  # `due`, not each row; `ends` needs no DuckDB
        sql = "SELECT DISTINCT made, ends, due, size, word FROM token WHERE n = 77"
        ((made, ends, due, size, word),) = await database.fetch(sql)
        assert ends == made + dt.timedelta(days=1)
        assert due == made.date() + dt.timedelta(days=30)
        assert (size, word) == (14, "AB")


@pytest.mark.parametrize(
    ("type_", "default", "error", "message"),
    [
        ("SMALLINT", "20000 * 3", TypeMismatch, "Default of column d: 60000"),
        ("INT", "'x' || 'y'", TypeMismatch, "'xy' is not a value of type INTEGER"),
        ("DOUBLE", "random()", Unsupported, "cannot have random"),
        ("TEXT", "lower(gen_random_uuid()::text)", Unsupported, "differs from call to call"),
        ("INT", "k + 1", UnknownName, "Default of t.d: Column k is unknown"),
        ("INT", "(SELECT 1)", Unsupported, "cannot have a subquery"),
        ("INT", "max(1)", Unsupported, "cannot have an aggregate"),
    ],
)
def test_other_defaults_are_refused(type_, default, error, message):
    ddl = f"CREATE TABLE t (k INT PRIMARY KEY, d {type_} DEFAULT {default})"
    relation = load_ddl(ddl).relation("t")
    (column,) = default_expressions(relation)
    with pytest.raises(error, match=message) as caught:
        _checked(column, relation)
    assert "line 1" not in caught.value.message


def _checked(column, relation):
    compile_default(column, relation).check()


async def test_a_value_that_does_not_fit_is_an_error_of_the_insert(tmp_path):
    ddl = "CREATE TABLE t (k INT PRIMARY KEY, d VARCHAR(3) DEFAULT repeat('ab', 2))"
    async with opened(tmp_path, catalog_of(load_ddl(ddl))) as database:
        with pytest.raises(TypeMismatch, match="Default of column d"):
            await database.execute("INSERT INTO t (k) VALUES (1)")
        await database.execute("INSERT INTO t VALUES (1, 'x')")


async def test_the_date_is_midnight_in_a_timestamp(tmp_path):
    ddl = (
        "CREATE TABLE t (id INT PRIMARY KEY, a TIMESTAMP DEFAULT CURRENT_DATE,"
        " b TIMESTAMPTZ DEFAULT ('now'::text)::date, c TIMESTAMP DEFAULT now(),"
        " d DATE DEFAULT now())"
    )
    async with opened(tmp_path, catalog_of(load_ddl(ddl))) as database:
        await run_all(database, "INSERT INTO t (id) VALUES (1)", "INSERT INTO t VALUES (2)")
        await database.load("t", ["id"], [(3,)])
        for a, b, c, d in await database.fetch("SELECT a, b, c, d FROM t"):
            assert a == dt.datetime.combine(d, dt.time())
            assert b == a.replace(tzinfo=dt.UTC)
            assert c.date() == d


async def test_values_without_a_list_of_columns_are_those_of_the_first_columns(tmp_path):
    ddl = (
        "CREATE TABLE t (id INT PRIMARY KEY, a TEXT DEFAULT 'x', b INT NOT NULL DEFAULT 5,"
        " c INT GENERATED ALWAYS AS (b + 1) STORED); CREATE TABLE u (a INT, b INT DEFAULT 7)"
    )
    async with opened(tmp_path, catalog_of(load_ddl(ddl))) as database:
        await run_all(
            database,
            "INSERT INTO t VALUES (1), (2)",
            "INSERT INTO t VALUES (3, 'y'), (4, DEFAULT)",
            "INSERT INTO t SELECT id + 4, a FROM t WHERE id < 3",
            "INSERT INTO t VALUES (1, 'z') ON CONFLICT (id) DO UPDATE SET a = excluded.a, b = 6",
            "INSERT INTO u VALUES (1)",
            "INSERT INTO u SELECT 2",
        )
        (row,) = (await database.execute("INSERT INTO t VALUES (9) RETURNING *")).statements[0].rows
        assert row == (9, "x", 5, 6)
        assert await database.fetch("SELECT * FROM t ORDER BY id") == [
            (1, "z", 6, 7), (2, "x", 5, 6), (3, "y", 5, 6), (4, "x", 5, 6), (5, "x", 5, 6),
            (6, "x", 5, 6), (9, "x", 5, 6),
        ]  # fmt: skip
        assert await database.fetch("SELECT * FROM u ORDER BY a") == [(1, 7), (2, 7)]
        for sql, error in (
            ("INSERT INTO t VALUES (1, 'x'), (2)", "1 values for 2"),
            ("INSERT INTO t VALUES (1, 'x', 2, DEFAULT, 3)", "5 values for 4"),
            ("INSERT INTO t (id, a) VALUES (7)", "1 values for 2"),
            ("INSERT INTO t (id, a) SELECT 7", "1 values for 2"),
            ("INSERT INTO u SELECT 1, 2, 3", "3 values for 2"),
        ):
            with pytest.raises(SqlError, match=error):
                await database.execute(sql)
