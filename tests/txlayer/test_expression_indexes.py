"""Indexes on expressions over a row."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.node.alterations import altered
from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.schema.errors import SqlError, UniqueViolation
from tests.txlayer.database_world import check, run_all
from tests.txlayer.database_world import settings as settings_of
from tests.txlayer.test_partial_indexes import path
from tests.txlayer.test_plain_views import applied

TABLE = """
CREATE TABLE person (
  p_id INTEGER PRIMARY KEY, p_mail TEXT, p_a INTEGER, p_b INTEGER, p_day DATE, p_doc JSONB);
"""
INDEXES = """
CREATE UNIQUE INDEX one_mail ON person (lower(p_mail));
CREATE UNIQUE INDEX one_sum ON person (p_b, (p_a + p_b) DESC) WHERE p_a > 0;
CREATE INDEX by_year ON person (extract(year FROM p_day), upper(p_mail) text_pattern_ops, p_a);
CREATE INDEX by_kind ON person ((p_doc ->> 'kind')) INCLUDE (p_doc);
CREATE INDEX truth ON person ((p_a = p_b));
CREATE INDEX quotient ON person ((100 / p_a)) WHERE p_a > 1;
"""


@pytest.fixture
async def database(tmp_path):
    async with await Database.open(settings_of(tmp_path)) as database:
        await applied(database, TABLE + INDEXES)
        yield database
        await check(database)


ROWS = """INSERT INTO person VALUES
  (1, 'Ann', 1, 2, '2026-01-01', '{"kind": "x"}'), (2, 'BOB', 2, 2, '2025-01-01', NULL),
  (3, NULL, 0, NULL, NULL, '{"kind": "y"}'), (4, NULL, 7, 1, NULL, '[]')"""


async def test_uniqueness_holds_for_the_values_of_the_expressions(database):
    await run_all(database, ROWS)
    for wrong in (
        "INSERT INTO person (p_id, p_mail) VALUES (5, 'ANN')",
        "INSERT INTO person (p_id, p_mail) VALUES (5, 'c'), (6, 'C')",
        "UPDATE person SET p_mail = 'bob' WHERE p_id = 1",
        "INSERT INTO person (p_id, p_a, p_b) VALUES (5, 1, 2)",
    ):
        with pytest.raises(UniqueViolation):
            await database.execute(wrong)
    await run_all(
        database,
        "UPDATE person SET p_mail = upper(p_mail)",
        "UPDATE person SET p_mail = CASE p_id WHEN 1 THEN 'bob' ELSE 'ann' END WHERE p_id < 3",
        "INSERT INTO person (p_id, p_mail) VALUES (5, 'ANN') ON CONFLICT DO NOTHING",
        "INSERT INTO person AS p (p_id, p_mail) VALUES (5, 'ANN')"
        " ON CONFLICT (lower(p_mail)) DO UPDATE SET p_a = p.p_a + 10",
        "INSERT INTO person (p_id, p_mail) VALUES (5, 'Bob')"
        " ON CONFLICT ((lower(person.p_mail))) DO NOTHING",
    )
    found = await database.fetch("SELECT p_id, p_mail, p_a FROM person ORDER BY 1 LIMIT 2")
    assert found == [(1, "bob", 1), (2, "ann", 12)]
    for target in ("upper(p_mail)", "(p_a + p_b), p_b", "lower(p_mail) DESC"):
        with pytest.raises(SqlError, match="ON CONFLICT"):
            await database.execute(
                f"INSERT INTO person (p_id) VALUES (9) ON CONFLICT ({target}) DO NOTHING"
            )


async def test_a_query_reads_the_index_if_it_compares_the_same_expression(database):
    await run_all(database, ROWS)
    for sql, layout, rows in (
        ("SELECT p_id FROM person WHERE lower(p_mail) = 'ann'", "one_mail", [1]),
        ("SELECT p_id FROM person AS x WHERE 'bob' = (lower(x.p_mail))", "one_mail", [2]),
        ("SELECT p_id FROM person WHERE lower(p_mail) IN ('ann', 'bob')", "one_mail", [1, 2]),
        ("SELECT p_id FROM person WHERE lower(p_mail) LIKE 'a%'", "one_mail", [1]),
        ("SELECT p_id FROM person WHERE lower(p_mail) IS NULL", "one_mail", [3, 4]),
        ("SELECT p_id FROM person WHERE upper(p_mail) = 'ANN'", "person", [1]),
        ("SELECT p_id FROM person WHERE lower(p_mail || '') = 'ann'", "person", [1]),
        ("SELECT p_id FROM person WHERE p_b = 2 AND p_a + p_b > 3 AND p_a > 0", "one_sum", [2]),
        ("SELECT p_id FROM person WHERE p_b = 2 AND p_b + p_a > 3", "person", [2]),
        ("SELECT p_id FROM person WHERE extract(year FROM p_day) = 2025", "by_year", [2]),
        ("SELECT p_doc FROM person WHERE p_doc ->> 'kind' = 'y'", "by_kind", ['{"kind": "y"}']),
        ("SELECT p_id FROM person WHERE p_a = p_b", "truth", [2]),
        ("SELECT p_id FROM person WHERE p_a > 1 AND 100 / p_a = 14", "quotient", [4]),
    ):
        assert path(database, sql) == layout, sql
        assert sorted(value for (value,) in await database.fetch(sql)) == rows, sql
    sql = "SELECT p_id FROM person WHERE lower(p_mail) = ? AND p_a = ?"
    assert path(database, sql) == "one_mail"
    assert await database.fetch(sql, ["ann", 1]) == [(1,)]
    joined = (
        "SELECT y.p_id FROM person AS x LEFT JOIN person AS y ON lower(y.p_mail) = 'ann'"
        " WHERE x.p_id = 3"
    )
    assert await database.fetch(joined) == [(1,)]
    outer = "SELECT x.p_id FROM person x LEFT JOIN person y ON y.p_id = x.p_id + 3"
    found = await database.fetch(f"{outer} WHERE lower(y.p_mail) IS NULL")
    assert sorted(found) == [(1,), (2,), (3,), (4,)]
    await run_all(database, "DELETE FROM person WHERE lower(p_mail) = 'bob'")
    assert await database.fetch("SELECT count(*) FROM person") == [(3,)]


async def test_an_index_is_built_and_checked_over_stored_rows(tmp_path):
    async with await Database.open(settings_of(tmp_path)) as database:
        await applied(database, TABLE)
        await run_all(database, ROWS, "INSERT INTO person (p_id, p_mail) VALUES (5, 'ann')")
        with pytest.raises(UniqueViolation, match=r"lower\(p_mail\).*cannot be UNIQUE"):
            await applied(database, TABLE + INDEXES)
        await run_all(database, "DELETE FROM person WHERE p_id = 5")
        with pytest.raises(SqlError, match="zero"):
            await applied(database, f"{TABLE}CREATE INDEX q ON person ((100 / p_a));")
        await applied(database, TABLE + INDEXES)
        await check(database)
        sql = "SELECT p_id FROM person WHERE lower(p_mail) = 'bob'"
        assert path(database, sql) == "one_mail"
        assert await database.fetch(sql) == [(2,)]


async def test_an_index_follows_a_renamed_column_and_goes_with_a_dropped_one(database):
    await run_all(database, ROWS)
    tables = {index: database.catalog.layout(index).table for index in ("one_mail", "by_year")}
    await alter(database, "ALTER TABLE person RENAME COLUMN p_mail TO mail")
    assert {index: database.catalog.layout(index).table for index in tables} == tables
    sql = "SELECT p_id FROM person WHERE lower(mail) = 'bob'"
    assert path(database, sql) == "one_mail"
    assert await database.fetch(sql) == [(2,)]
    await check(database)
    await alter(database, "ALTER TABLE person DROP COLUMN p_day")
    assert "by_year" not in database.catalog.index
    assert "one_mail" in database.catalog.index


async def alter(database, sql):
    change = altered(database.catalog, sql)
    request = PlanRequest(change.ddl, None, renames=change.renames)
    plan_id = database.plan_schema(request).plan_id
    await database.apply_schema(request, plan_id, allow_drop=True)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ("(p_day < current_date)", "the current time"),
        ("(p_id + (SELECT 1))", "a subquery"),
        ("(p_nothing + 1)", "p_nothing"),
        ("(random() * p_a)", "only DuckDB evaluates"),
        ("(p_doc -> 'a')", "has no order"),
        ("count(p_a)", "an aggregate"),
    ],
)
async def test_refused_expressions(database, parts, said):
    ddl = f"{TABLE}{INDEXES}CREATE INDEX wrong ON person (p_a, {parts});"
    with pytest.raises(SqlError, match=said) as caught:
        database.plan_schema(PlanRequest(ddl))
    assert caught.value.details["line"] == 11


VALUES = st.tuples(
    st.integers(1, 6),
    st.sampled_from([None, "a", "A", "xb"]),
    st.sampled_from([None, 0, 1, 2]),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, "2026-01-01", "2025-12-31"]),
    st.sampled_from([None, '{"kind": "x"}', "[]"]),
)


async def test_law_the_indexes_follow_every_write(database):
    drawn = []

    @settings(max_examples=40)
    @given(st.lists(VALUES, min_size=1, max_size=4))
    def draw(rows):
        drawn.append(rows)

    draw()
    wanted = {}
    for row in (row for rows in drawn for row in rows):
        sql = "INSERT OR REPLACE INTO person VALUES (?, ?, ?, ?, ?, ?)"
        others = [other for key, other in wanted.items() if key != row[0]]
        if any(
            mail(row) == mail(o) is not None or sums(row) == sums(o) is not None for o in others
        ):
            with pytest.raises(UniqueViolation):
                await database.execute(sql, row)
            continue
        await database.execute(sql, row)
        wanted[row[0]] = row
    found = await database.fetch("SELECT p_id FROM person WHERE lower(p_mail) >= '' ORDER BY 1")
    assert found == [(key,) for key, row in sorted(wanted.items()) if row[1] is not None]


def mail(row):
    return None if row[1] is None else row[1].lower()


def sums(row):
    a, b = row[2:4]
    return (b, a + b) if a and b else None
