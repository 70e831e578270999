"""Relations whose rows are written again because values of columns change, in an embedded
database."""

from __future__ import annotations

import asyncio
import datetime as dt
from contextlib import asynccontextmanager
from decimal import Decimal

import pytest

from hornbeam_server.node.alterations import altered
from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.node.settings import load_settings
from hornbeam_server.schema.catalog import State
from hornbeam_server.schema.errors import (
    BeingLoaded,
    CheckViolation,
    ForeignKeyViolation,
    InvalidRequest,
    LimitExceeded,
    NotNullViolation,
    SchemaError,
    SqlError,
    StalePlan,
    TypeMismatch,
    UniqueViolation,
    Unsupported,
)
from hornbeam_server.txlayer.ddl import copy_records
from hornbeam_server.txlayer.ddl.relation_copies import RelationCopies
from hornbeam_server.txlayer.statements.requests import Statement, TransactionRequest
from tests.txlayer.test_immediate_views import run

TABLES = """
CREATE TABLE shop (s_id INTEGER PRIMARY KEY, s_name TEXT);
CREATE TABLE line (
  l_id INTEGER PRIMARY KEY, l_gone TEXT, l_s_id INTEGER REFERENCES shop (s_id),
  l_code TEXT NOT NULL, l_at TIMESTAMP, l_price DECIMAL(10,2), l_count INTEGER DEFAULT 1,
  l_sum DECIMAL(12,2) GENERATED ALWAYS AS (l_price * l_count) STORED,
  CONSTRAINT positive CHECK (l_count > 0)
);
CREATE UNIQUE INDEX by_code ON line (l_code);
CREATE INDEX by_count ON line (l_count) INCLUDE (l_price);
CREATE INDEX by_shop ON line (l_s_id);
CREATE MATERIALIZED VIEW totals WITH (refresh = 'immediate') AS
  SELECT l_s_id, count(*) AS n, sum(l_price) AS total, max(l_count) AS most
  FROM line GROUP BY l_s_id;
CREATE VIEW dear AS SELECT l_id, l_price FROM line WHERE l_price > 1;
"""
WORKLOAD = """
-- name: of_shop
SELECT s_name, l_id, l_count FROM shop JOIN line ON l_s_id = s_id WHERE s_id = ?;
"""
AT = dt.datetime(2024, 2, 29, 23, 30, 1)


async def apply(database, ddl, usings=(), workload=WORKLOAD):
    request = PlanRequest(ddl, workload, ("shop",), usings=tuple(usings))
    plan = database.plan_schema(request)
    await database.apply_schema(request, plan.plan_id, allow_drop=True)
    await database.keeper.wait_built()
    return plan


async def alter(database, sql):
    change = altered(database.catalog, sql)
    return await apply(database, change.ddl, change.usings)


@asynccontextmanager
async def opened(folder):
    async with await Database.open(load_settings(data=folder)) as database:
        await apply(database, TABLES)
        await run(
            database,
            "INSERT INTO shop VALUES (1, 'a'), (2, 'b')",
            "INSERT INTO line (l_id, l_s_id, l_code, l_at, l_price, l_count) VALUES"
            " (1, 1, '10', '2024-02-29 23:30:01', 1.50, 2), (2, 1, ' 20 ', NULL, NULL, NULL),"
            " (3, 2, '30', '2024-02-28 00:00:00', 2.55, 3), (4, NULL, '40', NULL, 0, 1)",
        )
        await apply(database, TABLES.replace("l_gone TEXT, ", ""))
        yield database


async def require_right(database):
    report = await database.verify()
    assert report.differences == 0, report
    assert all(state is State.READABLE for _, state in database.catalog.states)
    assert not database.catalog.copies


def decimals(*texts):
    return [None if text is None else Decimal(text) for text in texts]


ALTERATIONS = [
    (
        "ALTER l_code TYPE INTEGER USING l_code::INTEGER, ALTER l_at TYPE TIMESTAMP(0),"
        " ALTER l_sum TYPE DECIMAL(12,1)",
        {
            "l_code": [10, 20, 30, 40],
            "l_at": [AT, None, dt.datetime(2024, 2, 28), None],
            "l_sum": decimals("3.0", None, "7.7", "0.0"),
        },
    ),
    (
        "ALTER l_code TYPE TEXT, ALTER l_at TYPE DATE, ALTER l_sum TYPE TEXT,"
        " ALTER l_count TYPE INTEGER USING l_count * 10",
        {
            "l_code": ["10", "20", "30", "40"],
            "l_at": [AT.date(), None, dt.date(2024, 2, 28), None],
            "l_sum": ["30.00", None, "76.50", "0.00"],
            "l_count": [20, None, 30, 10],
        },
    ),
    (
        "ALTER l_code TYPE INTEGER USING CAST(concat('1', trim(l_code)) AS INTEGER),"
        " ALTER l_at TYPE TEXT, ALTER l_price TYPE DECIMAL(10,1),"
        " ALTER l_count TYPE BIGINT USING coalesce(l_count, 7), ALTER l_count SET NOT NULL",
        {
            "l_code": [110, 120, 130, 140],
            "l_at": ["2024-02-29", None, "2024-02-28", None],
            "l_price": decimals("1.5", None, "2.6", "0.0"),
            "l_count": [20, 7, 30, 10],
        },
    ),
    ("ALTER l_price TYPE INTEGER", {"l_price": [2, None, 3, 0], "l_sum": ["40", None, "90", "0"]}),
]


async def test_values_are_converted(tmp_path):
    """The values are those of PostgreSQL. Indexes, CHECKs, generated columns and views follow."""
    async with opened(tmp_path) as database:
        for changes, expected in ALTERATIONS:
            plan = await alter(database, f"ALTER TABLE line {changes}")
            assert [row.name for row in plan.rewritten()] == ["line"]
            for column, values in expected.items():
                found = await database.fetch(f"SELECT {column} FROM line ORDER BY l_id")
                assert [row[0] for row in found] == values, (changes, column)
            await require_right(database)
        await run(
            database,
            "INSERT INTO line (l_id, l_s_id, l_code, l_price, l_count) VALUES (5, 2, 50, 2.5, 4)",
            "UPDATE line SET l_price = 8 WHERE l_id = 1",
        )
        assert await database.fetch("SELECT * FROM line WHERE l_id = 5") == [
            (5, 2, 50, None, 3, 4, "12")
        ]
        with pytest.raises(UniqueViolation):
            await run(database, "INSERT INTO line (l_id, l_code, l_count) VALUES (6, 110, 1)")
        with pytest.raises(CheckViolation):
            await run(database, "UPDATE line SET l_count = 0")
        await require_right(database)


REFUSED = [
    ("ALTER l_code TYPE BIGINT", TypeMismatch, "USING CAST"),
    ("ALTER l_code TYPE BIGINT USING md5(l_code)::BIGINT", Unsupported, "only DuckDB"),
    ("ALTER l_code TYPE DATE USING l_code::DATE", TypeMismatch, r"\(l_id = 1\).*l_code = '10'"),
    ("ALTER l_price TYPE DECIMAL(3,2) USING l_price * 5", TypeMismatch, r"\(l_id = 3\)"),
    ("ALTER l_count TYPE BIGINT USING l_count - 1", CheckViolation, r"\(l_id = 4\).*positive"),
    ("ALTER l_at TYPE DATE, ALTER l_at SET NOT NULL", NotNullViolation, r"\(l_id = 2\)"),
    ("ALTER l_code TYPE TEXT USING length(l_code)::TEXT", UniqueViolation, "l_code"),
    ("ALTER l_s_id TYPE INTEGER USING l_id", ForeignKeyViolation, "l_s_id"),
    ("ALTER l_s_id TYPE TEXT", SchemaError, "l_s_id"),
    ("ALTER l_id TYPE TEXT", SchemaError, "primary key"),
    ("ALTER l_sum TYPE TEXT USING 'a'", InvalidRequest, "generated"),
    ("ALTER l_price TYPE DOUBLE PRECISION", Unsupported, "totals"),
    ("ALTER l_count TYPE TEXT", SqlError, "positive|l_sum"),
]


async def test_a_change_that_rows_or_the_schema_refuse_changes_nothing(tmp_path):
    async with opened(tmp_path) as database:
        schema, rows = database.catalog.schema, await database.fetch("SELECT * FROM line")
        stored = {database.catalog.layout(name).table for name in database.catalog.stored}
        for change, error, match in REFUSED:
            with pytest.raises(error, match=f"(?s){match}"):
                await alter(database, f"ALTER TABLE line {change}")
            assert not database.catalog.copies
            assert database.catalog.schema == schema, change
        await require_right(database)
        assert await database.fetch("SELECT * FROM line") == rows
        assert {t for t in await database.store.tables() if t.startswith(("r.", "i."))} <= stored


async def planned(database, sql):
    change = altered(database.catalog, sql)
    return PlanRequest(change.ddl, WORKLOAD, ("shop",), usings=change.usings)


async def test_transactions_go_on_and_keep_the_copy(tmp_path, monkeypatch):
    async with opened(tmp_path) as database:
        many = [[i, 1 + i % 2, str(i), i] for i in range(100, 2000)]
        await database.load("line", ["l_id", "l_s_id", "l_code", "l_count"], many)
        request = await planned(
            database, "ALTER TABLE line ALTER l_code TYPE BIGINT USING l_code::BIGINT"
        )
        begun, written, filled = asyncio.Event(), asyncio.Event(), RelationCopies._filled

        async def held(self, names):
            begun.set()
            await written.wait()
            await filled(self, names)

        monkeypatch.setattr(RelationCopies, "_filled", held)
        plan = database.plan_schema(request)
        change = asyncio.ensure_future(database.apply_schema(request, plan.plan_id))
        await begun.wait()
        assert database.catalog.copies
        for i in range(100, 2000, 100):
            await run(
                database,
                f"UPDATE line SET l_code = '{i + 5000}' WHERE l_id = {i}",
                f"DELETE FROM line WHERE l_id = {i + 1}",
                f"INSERT INTO line (l_id, l_s_id, l_code) VALUES ({i + 9000}, 1, '{i + 9000}')",
                f"UPDATE line SET l_id = {i + 20_000} WHERE l_id = {i + 2}",
            )
        with pytest.raises(TypeMismatch, match=r"(?s)\(l_id = 100\).*'x'.*is being altered"):
            await run(database, "UPDATE line SET l_code = 'x' WHERE l_id = 100")
        result = await database.transact(
            TransactionRequest((Statement("DELETE FROM line WHERE l_id = 200"),), dry_run=True)
        )
        assert "line..copy" not in {mutation.layout for mutation in result.mutations}
        assert result.affected.keys() == {mutation.layout for mutation in result.mutations}
        before = await database.fetch("SELECT l_id, CAST(l_code AS BIGINT) FROM line ORDER BY l_id")
        written.set()
        await change
        assert await database.fetch("SELECT l_id, l_code FROM line ORDER BY l_id") == before
        await database.keeper.wait_built()
        await require_right(database)


async def test_stored_rows_get_random_uuids(tmp_path, monkeypatch):
    async with opened(tmp_path) as database:
        many = [[i, 1, str(i)] for i in range(100, 1500)]
        await database.load("line", ["l_id", "l_s_id", "l_code"], many)
        sql = "ALTER TABLE line ADD COLUMN l_u UUID DEFAULT gen_random_uuid() NOT NULL UNIQUE"
        request = await planned(database, sql)
        plan, filled = database.plan_schema(request), RelationCopies._filled
        shown = [row.detail for row in plan.changes.rows() if row.name == "line.l_u"]
        assert any("another value for each row" in detail for detail in shown)

        async def held(self, names):
            (copy,) = database.catalog.copies
            assert "gen_random_uuid" not in str(copy.conversions)
            await run(
                database,
                "INSERT INTO line (l_id, l_s_id, l_code) VALUES (9000, 1, '9000')",
                "UPDATE line SET l_count = 7 WHERE l_id BETWEEN 200 AND 300",
                "UPDATE line SET l_id = 9001 WHERE l_id = 400",
                "DELETE FROM line WHERE l_id = 500",
            )
            await filled(self, names)

        monkeypatch.setattr(RelationCopies, "_filled", held)
        await database.apply_schema(request, plan.plan_id)
        await database.keeper.wait_built()
        await run(database, "INSERT INTO line (l_id, l_s_id, l_code) VALUES (9002, 1, '9002')")
        rows = await database.fetch("SELECT l_id, l_u FROM line")
        assert len({found for _, found in rows}) == len(rows) == 4 + 1400 + 1
        assert {found.version for _, found in rows} == {4}
        ((_, known),) = [row for row in rows if row[0] == 9001]
        found = await database.fetch("SELECT l_id FROM line WHERE l_u = ?", (known,))
        assert found == [(9001,)]
        await require_right(database)
        monkeypatch.undo()
        again = "ALTER TABLE line ADD COLUMN l_v TEXT DEFAULT gen_random_uuid()"
        await alter(database, again)
        both = await database.fetch("SELECT CAST(l_u AS TEXT), l_v FROM line")
        assert len({text for row in both for text in row}) == 2 * len(rows)


NUMBERED = """
ALTER TABLE line ADD COLUMN l_no SERIAL UNIQUE, ADD COLUMN l_at2 TIMESTAMP DEFAULT now(),
  ADD COLUMN l_twice BIGINT GENERATED ALWAYS AS (l_no * 2) STORED CHECK (l_twice > 0)
"""


async def test_stored_rows_get_numbers_while_transactions_go_on(tmp_path, monkeypatch):
    """No two rows have the same number, and later rows get higher ones."""
    async with opened(tmp_path) as database:
        many = [[i, 1, str(i)] for i in range(100, 1500)]
        await database.load("line", ["l_id", "l_s_id", "l_code"], many)
        request, filled = await planned(database, NUMBERED), RelationCopies._filled
        plan = database.plan_schema(request)
        shown = [row.detail for row in plan.changes.rows() if row.name == "line.l_no"]
        assert any("another value for each row" in detail for detail in shown)

        async def held(self, names):
            await run(
                database,
                "INSERT INTO line (l_id, l_s_id, l_code) VALUES (9000, 1, '9000')",
                "UPDATE line SET l_count = 7 WHERE l_id BETWEEN 200 AND 300",
                "UPDATE line SET l_id = 9001 WHERE l_id = 400",
                "DELETE FROM line WHERE l_id = 500",
            )
            await filled(self, names)

        monkeypatch.setattr(RelationCopies, "_filled", held)
        await database.apply_schema(request, plan.plan_id)
        await database.keeper.wait_built()
        rows = await database.fetch("SELECT l_no, l_twice, l_at2 FROM line")
        assert len({number for number, *_ in rows}) == len(rows) == 4 + 1400
        assert all(number > 0 and twice == 2 * number for number, twice, _ in rows)
        assert len({at for *_, at in rows}) == 1
        await run(database, "INSERT INTO line (l_id, l_s_id, l_code) VALUES (9002, 1, '9002')")
        ((number,),) = await database.fetch("SELECT l_no FROM line WHERE l_id = 9002")
        assert number > max(number for number, *_ in rows)
        await require_right(database)


async def test_numbers_of_a_new_sequence_and_of_one_in_force(tmp_path):
    """A changed file may declare the sequence together with the column. Without transactions beside
    it, rows are numbered in the order of their key, as often as the sequence has numbers."""
    async with opened(tmp_path) as database:
        text = TABLES.replace("l_gone TEXT, ", "")
        text = f"CREATE SEQUENCE by_five INCREMENT 5;\n{text}"
        added = "STORED,\n  l_five TEXT NOT NULL DEFAULT 'A' || nextval('by_five'),"
        text = text.replace("STORED,", added)
        await apply(database, text)
        found = await database.fetch("SELECT l_five FROM line ORDER BY l_id")
        assert found == [("A1",), ("A6",), ("A11",), ("A16",)]
        await require_right(database)
        await alter(
            database, "ALTER TABLE shop ADD COLUMN s_five BIGINT DEFAULT nextval('by_five')"
        )
        assert await database.fetch("SELECT s_five FROM shop ORDER BY s_id") == [(21,), (26,)]
        schema = database.catalog.schema
        few = "ALTER TABLE line ADD COLUMN l_few INT GENERATED ALWAYS AS IDENTITY (MAXVALUE 3)"
        with pytest.raises(LimitExceeded, match="l_few has no number behind 3"):
            await alter(database, few)
        assert database.catalog.schema == schema
        assert not database.catalog.copies
        await alter(database, few.replace("MAXVALUE 3", "START 3 INCREMENT -1 MINVALUE -9"))
        found = await database.fetch("SELECT l_few FROM line ORDER BY l_id")
        assert found == [(3,), (2,), (1,), (0,)]
        await require_right(database)


async def test_a_node_that_begins_to_lead_drops_copies(tmp_path):
    async with opened(tmp_path) as database:
        request = await planned(database, "ALTER TABLE line ALTER l_at TYPE DATE")
        plan = database.plan_schema(request)

        async def begin(current):
            return copy_records.begun(plan.catalog, current)

        await database.keeper.change(begin)
        assert database.catalog.copies
        schema = database.catalog.schema
        with pytest.raises(BeingLoaded, match="line"):
            await alter(database, "ALTER TABLE line ADD COLUMN l_more TEXT")
        with pytest.raises(BeingLoaded, match="line"):
            await alter(database, "ALTER TABLE line ALTER l_at TYPE TEXT")
        with pytest.raises(BeingLoaded, match="line"):
            await database.initial_loads.begin(["shop"], "x", {})
    async with await Database.open(load_settings(data=tmp_path)) as database:
        await database.keeper.wait_built()
        await require_right(database)
        assert database.catalog.schema == schema
        assert not [t for t in await database.store.tables() if "copy" in t]
        with pytest.raises(StalePlan):
            copy_records.arrived(plan.catalog, database.catalog)
        await alter(database, "ALTER TABLE line ALTER l_at TYPE DATE")
        await require_right(database)


async def test_a_generated_column_is_added_and_changed(tmp_path):
    async with opened(tmp_path) as database:
        added = "l_twice INTEGER GENERATED ALWAYS AS (l_count * 2) STORED"
        await alter(database, f"ALTER TABLE line ADD COLUMN {added}")
        found = await database.fetch("SELECT l_twice FROM line ORDER BY l_id")
        assert found == [(4,), (None,), (6,), (2,)]
        await require_right(database)
        ddl = altered(database.catalog, "ALTER TABLE line DROP COLUMN IF EXISTS nothing").ddl
        await apply(database, ddl.replace("l_count * 2", "l_count * 3"))
        found = await database.fetch("SELECT l_twice FROM line ORDER BY l_id")
        assert found == [(6,), (None,), (9,), (3,)]
        await require_right(database)


async def test_rows_without_a_key_and_numbered_rows_keep_their_numbers(tmp_path):
    ddl = """
CREATE TABLE note (n_text TEXT, n_gone TEXT, n_at TEXT);
CREATE TABLE event (e_id INTEGER GENERATED ALWAYS AS IDENTITY PRIMARY KEY, e_kind TEXT DEFAULT '1');
"""
    async with await Database.open(load_settings(data=tmp_path)) as database:
        for text in (ddl, ddl.replace("n_gone TEXT, ", "")):
            request = PlanRequest(text)
            plan = database.plan_schema(request)
            await database.apply_schema(request, plan.plan_id, allow_drop=True)
        await run(
            database,
            "INSERT INTO note VALUES ('1', '2024-02-29'), ('1', '2024-02-29')",
            "INSERT INTO event VALUES (DEFAULT, '7')",
        )
        numbers = await database.fetch("SELECT rowid FROM note ORDER BY rowid")
        for sql in (
            "ALTER TABLE note ALTER n_text TYPE INT USING n_text::INT, ALTER n_at TYPE DATE"
            " USING n_at::DATE, ADD COLUMN n_more INT DEFAULT 5",
            "ALTER TABLE event ALTER e_kind TYPE INT USING e_kind::INT",
        ):
            change = altered(database.catalog, sql)
            request = PlanRequest(change.ddl, usings=change.usings)
            plan = database.plan_schema(request)
            await database.apply_schema(request, plan.plan_id)
        await run(
            database, "INSERT INTO note (n_text) VALUES (2)", "INSERT INTO event DEFAULT VALUES"
        )
        assert await database.fetch("SELECT * FROM note ORDER BY n_text") == [
            (1, AT.date(), 5),
            (1, AT.date(), 5),
            (2, None, 5),
        ]
        kept = await database.fetch("SELECT rowid FROM note WHERE n_text = 1 ORDER BY rowid")
        assert kept == numbers
        assert await database.fetch("SELECT * FROM event ORDER BY e_id") == [(1, 7), (2, 1)]
        await require_right(database)
