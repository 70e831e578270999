"""Texts that differ only in literals: which literals become parameters."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pytest

from hornbeam_server.query.sharing import MAX_LITERALS, split

FILES = Path(__file__).parent.parent / "sqllogic" / "files"


@pytest.mark.parametrize(
    ("sql", "text", "values"),
    [
        ("SELECT a FROM t WHERE id = 5", "SELECT a FROM t WHERE id = ?", (5,)),
        ("SELECT a FROM t WHERE 5 < id", "SELECT a FROM t WHERE ? < id", (5,)),
        (
            "SELECT a, 1 FROM t WHERE id=5 LIMIT 3 OFFSET 4",
            "SELECT a, 1 FROM t WHERE id=? LIMIT ? OFFSET ?",
            (5, 3, 4),
        ),
        (
            "SELECT a FROM t WHERE d = DATE '2024-01-31' AND date '2024-02-01' > e",
            "SELECT a FROM t WHERE d = ? AND ? > e",
            (dt.date(2024, 1, 31), dt.date(2024, 2, 1)),
        ),
        (
            "SELECT a FROM t WHERE s < TIMESTAMP  '2024-01-31 10:00:00.25'",
            "SELECT a FROM t WHERE s < ?",
            (dt.datetime(2024, 1, 31, 10, 0, 0, 250_000),),
        ),
        (
            "SELECT a = 1, count(*) FROM t WHERE id > 5 GROUP BY a = 1 HAVING a > 6 ORDER BY 2",
            "SELECT a = 1, count(*) FROM t WHERE id > ? GROUP BY a = 1 HAVING a > ? ORDER BY 2",
            (5, 6),
        ),
        (
            "WITH w AS (SELECT a FROM t WHERE id = 5) SELECT 1 FROM w WHERE a IN (SELECT 2)",
            "WITH w AS (SELECT a FROM t WHERE id = ?) SELECT 1 FROM w WHERE a IN (SELECT 2)",
            (5,),
        ),
        (
            "SELECT a FROM t WHERE id = 5 UNION SELECT 1 LIMIT 2",
            "SELECT a FROM t WHERE id = ? UNION SELECT 1 LIMIT ?",
            (5, 2),
        ),
        (
            "SELECT a FROM t WHERE id = 5 ORDER BY 1",
            "SELECT a FROM t WHERE id = ? ORDER BY 1",
            (5,),
        ),
        (
            "SELECT a FROM t WHERE s = 'it''s' AND (d < 2.50 OR NOT id IN (1, 2))",
            "SELECT a FROM t WHERE s = ? AND (d < ? OR NOT id IN (?, ?))",
            ("it's", Decimal("2.50"), 1, 2),
        ),
        (
            "SELECT a FROM t WHERE id BETWEEN 3 AND 7",
            "SELECT a FROM t WHERE id BETWEEN ? AND ?",
            (3, 7),
        ),
        (
            "SELECT x.a FROM t x JOIN u ON x.id = u.id AND u.n = 4 WHERE x.c2 = ''",
            "SELECT x.a FROM t x JOIN u ON x.id = u.id AND u.n = ? WHERE x.c2 = ?",
            (4, ""),
        ),
        (
            "SELECT a FROM t WHERE (id, n) = (1, 2)",
            "SELECT a FROM t WHERE (id, n) = (?, ?)",
            (1, 2),
        ),
        ('SELECT "a 7" FROM t WHERE "b 8" = 9', 'SELECT "a 7" FROM t WHERE "b 8" = ?', (9,)),
        ("SELECT 'ä 5' FROM tä5 WHERE ä6 = 7", "SELECT 'ä 5' FROM tä5 WHERE ä6 = ?", (7,)),
    ],
)
def test_literals_that_are_compared_with_a_column_are_taken(sql, text, values):
    found = split(sql)
    assert found.taking(found.compared()) == (text, values)
    assert [type(value) for value in found.taking(found.compared())[1]] == [*map(type, values)]


@pytest.mark.parametrize(
    "condition",
    [
        *("id + 1 = 5", "id = -5", "id = 5::BIGINT", "id = CAST(5 AS BIGINT)", "lower(s) = 'a'"),
        *("s LIKE 'a%'", "s = 'a' || 'b'", "d = DATE '2024-01-01' + 1"),
        *("t > now() - INTERVAL '1 day'", "d = TIME '10:00'", "d = CAST('2024-01-01' AS DATE)"),
        *("CASE WHEN id = 5 THEN true END", "id IS DISTINCT FROM 5"),
        *("coalesce(id = 5, true)", "j -> 'a' = '5'", "id % 2 = 1", "5 = 6"),
    ],
)
def test_other_literals_stay_in_the_text(condition):
    found = split(f"SELECT a FROM t WHERE {condition}")
    assert found.compared() == ()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM t WHERE id = 5",
        "SELECT a FROM t WHERE id = 5 GROUP BY a",
        "SELECT sum(a) OVER () FROM t WHERE id = 5",
        "SELECT a FROM t WHERE id = 5 UNION SELECT 1",
        "WITH u AS (SELECT 1) SELECT a FROM t WHERE id = 5",
        "SELECT a FROM (SELECT a FROM t WHERE id = 5) u",
    ],
)
def test_selects_that_views_may_answer_are_not_simple(sql):
    assert split(sql).compared()
    assert split(sql).compared_simply() == ()
    assert split("SELECT a FROM t WHERE id = 5").compared_simply() == (0,)


@pytest.mark.parametrize("sql", ["DELETE FROM t WHERE id = 5", "SELECT a FROM t WHERE id ="])
def test_only_selects_share_plans_of_reads(sql):
    found = split(sql)
    assert found is None or found.compared() == ()


@pytest.mark.parametrize(
    "sql",
    [
        *("SELECT a FROM t WHERE s = E'a'", "SELECT a FROM t WHERE s = x'00'"),
        *("SELECT a FROM t WHERE s = $$a$$ AND id = 1", "SELECT a FROM t WHERE id = ? AND n = 1"),
        *("SELECT a FROM t WHERE id = :x AND n = 1", "SELECT a FROM t WHERE id = $1 AND n = 1"),
        *("SELECT a FROM t -- 5\nWHERE id = 1", "SELECT a FROM t /* 5 */ WHERE id = 1"),
        *("SELECT a FROM t WHERE id = 1e5", "SELECT a FROM t WHERE id = .5"),
        *("SELECT a FROM t WHERE id = 5.", "SELECT a FROM t WHERE id = 0x10", r"SELECT '\' , 1"),
        "SELECT a FROM t WHERE d = DATE '2024-02-30'",
        *("SELECT a FROM t WHERE s = 'open", 'SELECT "a FROM t WHERE id = 5', "SELECT a FROM t"),
        "SELECT a FROM t WHERE id IN (" + ", ".join("1" * (MAX_LITERALS + 1)) + ")",
    ],
)
def test_texts_of_unusual_forms_are_not_split(sql):
    assert split(sql) is None


def texts():
    for file in sorted(FILES.glob("**/*.*")):
        for block in file.read_text(errors="ignore").split("\n\n"):
            lines = [line for line in block.splitlines() if not line.startswith("#")]
            if lines and lines[0].startswith(("query", "statement")):
                yield "\n".join(lines[1:]).partition("\n----")[0]


def test_a_text_is_its_parts_and_literals():
    seen = 0
    for sql in texts():
        found = split(sql)
        if found is None:
            continue
        seen += 1
        pieces = zip(found.parts, (*found.literals, ""), strict=True)
        assert "".join(piece for pair in pieces for piece in pair) == sql
        text, values = found.taking(range(len(found.literals)))
        assert text.count("?") == len(values) == len(found.kinds)
    assert seen > 100


@pytest.mark.parametrize(
    ("sql", "places"),
    [
        ("INSERT INTO t VALUES (1, 'a', 2.5), (4, 5 + 6, -7)", (0, 1, 2, 3)),
        ("INSERT INTO t (a) VALUES (CAST(1 AS DECIMAL(10,2)), DATE '2024-01-01')", ()),
        ("INSERT INTO t (a) VALUES (1) RETURNING a, 2", (0,)),
        ("INSERT INTO t (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 2", (0,)),
        ("INSERT INTO t (a) SELECT 1 UNION ALL VALUES (2)", ()),
        ("UPDATE t SET a = 1, b = b + 2, c = 3 WHERE id = 4 AND (n = 5 AND d < 6)", (0, 2, 3, 4)),
        ("DELETE FROM t WHERE id = 1 AND n IN (2, 3) AND id IN (SELECT 4 WHERE a = 5)", (0,)),
        ("SELECT a FROM t WHERE id = 1", ()),
        ("INSERT INTO t VALUES (1", ()),
    ],
)
def test_literals_that_a_write_takes_as_values(sql, places):
    assert split(sql).written() == places
