"""Partial indexes: the rows for which a condition is true."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.node.database import Database
from hornbeam_server.node.schema_plans import PlanRequest
from hornbeam_server.schema.errors import SqlError, UniqueViolation
from tests.txlayer.database_world import check, run_all
from tests.txlayer.database_world import settings as settings_of
from tests.txlayer.test_plain_views import applied

TABLE = """
CREATE TABLE person (
  p_id INTEGER PRIMARY KEY, p_mail TEXT, p_team INTEGER, p_gone DATE, p_rank INTEGER DEFAULT 0);
"""
INDEXES = """
CREATE UNIQUE INDEX one_mail ON person (p_mail) WHERE p_gone IS NULL;
CREATE UNIQUE INDEX one_lead ON person (p_team) WHERE p_rank = 9 AND p_gone IS NULL;
CREATE INDEX ranked ON person (p_rank DESC NULLS LAST) INCLUDE (p_mail)
  WHERE (p_team > 10 AND p_mail IS NOT NULL);
CREATE INDEX between ON person (p_team) WHERE p_rank BETWEEN 1 AND 5 AND p_rank % 2 = 1;
CREATE INDEX odder ON person (p_team) WHERE p_rank IN (1, 3);
CREATE INDEX odd ON person (p_team) WHERE p_rank % 2 = 1 OR p_mail LIKE 'x%';
"""


@pytest.fixture
async def database(tmp_path):
    async with await Database.open(settings_of(tmp_path)) as database:
        await applied(database, TABLE + INDEXES)
        yield database
        await check(database)


def path(database, sql):
    (step,) = database.explain(sql).steps
    return step.layout


async def test_uniqueness_holds_for_the_rows_of_the_index_alone(database):
    await run_all(
        database,
        "INSERT INTO person VALUES (1, 'a', 1, NULL, 9), (2, 'a', 1, '2026-01-01', 9)",
        "INSERT INTO person VALUES (3, 'a', 1, '2026-01-02', 9), (4, NULL, 1, NULL, 1)",
    )
    for wrong in (
        "INSERT INTO person VALUES (5, 'a', 2, NULL, 0)",
        "INSERT INTO person VALUES (5, 'b', 1, NULL, 9)",
        "UPDATE person SET p_gone = NULL WHERE p_id = 2",
        "UPDATE person SET p_rank = 9 WHERE p_id = 4",
        "INSERT INTO person VALUES (5, 'c', 5, NULL, 0), (6, 'c', 6, NULL, 0)",
    ):
        with pytest.raises(UniqueViolation):
            await database.execute(wrong)
    await run_all(
        database,
        "INSERT INTO person VALUES (7, 'a', 7, NULL, 0) ON CONFLICT DO NOTHING",
        "UPDATE person SET p_gone = CASE WHEN p_id = 1 THEN DATE '2026-02-02' END"
        " WHERE p_id IN (1, 2)",  # two rows change places in the index
        "INSERT INTO person VALUES (5, 'b', 2, NULL, 9)",
    )
    found = await database.fetch("SELECT p_id FROM person WHERE p_gone IS NULL ORDER BY 1")
    assert found == [(2,), (4,), (5,)]
    with pytest.raises(SqlError, match="no primary key or unique index"):
        await database.execute(
            "INSERT INTO person VALUES (8, 'a', 1, NULL, 0) ON CONFLICT (p_mail) DO NOTHING"
        )


async def test_a_query_reads_the_index_if_its_conditions_imply_that_of_the_index(database):
    for sql, layout in {
        "SELECT * FROM person WHERE p_mail = 'a' AND p_gone IS NULL": "one_mail",
        "SELECT * FROM person WHERE p_gone IS NULL AND p_mail IN ('a', 'b')": "one_mail",
        "SELECT * FROM person WHERE p_mail = 'a'": "person",
        "SELECT * FROM person WHERE p_mail = 'a' AND p_gone = '2026-01-01'": "person",
        "SELECT p_id FROM person WHERE p_rank = 3 AND p_team > 10 AND p_mail > ''": "ranked",
        "SELECT p_id FROM person WHERE p_rank = 3 AND p_team > 11 AND p_mail > ''": "ranked",
        "SELECT 1 FROM person WHERE p_rank = 4 AND p_team IN (11, 12) AND p_mail = 'a'": "ranked",
        "SELECT p_id FROM person WHERE p_rank = 4 AND p_team >= 10 AND p_mail > ''": "person",
        "SELECT p_id FROM person WHERE p_rank = 4 AND p_team IN (10, 12) AND p_mail > ''": "person",
        "SELECT p_id FROM person WHERE p_rank = 4 AND p_team > 10": "person",
        "SELECT p_id FROM person WHERE p_team = 3 AND p_rank % 2 = 1": "person",
        "SELECT p_id FROM person WHERE p_team = 3 AND p_rank BETWEEN 1 AND 5": "person",
        "SELECT p_id FROM person WHERE p_team = 3 AND p_rank IN (1, 3)": "odder",
        "SELECT p_id FROM person WHERE p_team = 3 AND p_rank = 1": "odder",
        "SELECT p_id FROM person WHERE p_team = 3 AND p_rank = 2": "person",
        "SELECT p_id FROM person WHERE p_team = 3 AND p_mail LIKE 'x%'": "odd",
        "SELECT p_id FROM person WHERE p_team = 3 AND p_mail LIKE 'y%'": "person",
    }.items():
        assert path(database, sql) == layout, sql


async def test_an_index_is_built_and_checked_over_stored_rows(tmp_path):
    async with await Database.open(settings_of(tmp_path)) as database:
        await applied(database, TABLE)
        await run_all(
            database,
            "INSERT INTO person VALUES (1, 'a', 20, NULL, 9), (2, 'a', 20, NULL, 1)",
            "INSERT INTO person VALUES (3, 'x', 3, '2026-01-01', 3), (4, 'x', 4, NULL, 4)",
        )
        with pytest.raises(UniqueViolation, match="cannot be UNIQUE"):
            await applied(database, TABLE + INDEXES)
        await run_all(database, "UPDATE person SET p_gone = '2026-01-01' WHERE p_id = 2")
        await applied(database, TABLE + INDEXES)
        await check(database)
        sql = "SELECT p_id FROM person WHERE p_mail = 'x' AND p_gone IS NULL"
        assert path(database, sql) == "one_mail"
        assert await database.fetch(sql) == [(4,)]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("p_gone < current_date", "the current time"),
        ("p_id IN (SELECT 1)", "a subquery"),
        ("p_nothing = 1", "p_nothing"),
        ("p_rank + 1", "INTEGER"),
        (r"p_mail ~ '\w'", "A pattern here is constant"),
        ("p_mail < md5('a')", "only DuckDB evaluates"),
    ],
)
async def test_refused_conditions(database, where, said):
    ddl = f"{TABLE}{INDEXES}CREATE INDEX wrong ON person (p_id) WHERE {where};"
    with pytest.raises(SqlError, match=said) as caught:
        database.plan_schema(PlanRequest(ddl))
    assert caught.value.details["line"] == 12


VALUES = st.tuples(
    st.integers(1, 6),
    st.sampled_from([None, "a", "xb"]),
    st.sampled_from([None, 1, 20]),
    st.sampled_from([None, "2026-01-01"]),
    st.sampled_from([None, 1, 2, 9]),
)


async def test_law_the_indexes_follow_every_write(database):
    drawn = []

    @settings(max_examples=40)
    @given(st.lists(VALUES, min_size=1, max_size=4))
    def draw(rows):
        drawn.append(rows)

    draw()
    wanted = {}
    for rows in drawn:
        for row in rows:
            sql = "INSERT OR REPLACE INTO person VALUES (?, ?, ?, ?, ?)"
            others = [r for key, r in wanted.items() if key != row[0] and r[3] is None]
            clash = row[3] is None and any(
                (row[1] is not None and row[1] == other[1])
                or (row[2] is not None and row[2] == other[2] and row[4] == other[4] == 9)
                for other in others
            )
            if clash:
                with pytest.raises(UniqueViolation):
                    await database.execute(sql, row)
                continue
            await database.execute(sql, row)
            wanted[row[0]] = row
    sql = "SELECT p_id FROM person WHERE p_gone IS NULL AND p_mail >= '' ORDER BY 1"
    found = await database.fetch(sql)
    assert found == [(k,) for k, r in sorted(wanted.items()) if r[3] is None and r[1] is not None]
