"""Filters and projections as closures: the same rows as DuckDB's, of the same types."""

import datetime as dt
from decimal import Decimal as D
from random import Random

import pytest

from hornbeam_server.maintain.deltas.algebra import Map, Scan, walk
from hornbeam_server.maintain.deltas.relations import evaluate, from_rows
from hornbeam_server.maintain.deltas.rows.maps import compile_map, compile_maps
from hornbeam_server.maintain.deltas.rows.parsing import NotCompiledError
from hornbeam_server.maintain.deltas.translate import Translator
from hornbeam_server.query.binding.binder import bind_tree
from hornbeam_server.query.parsing.parse import parse
from hornbeam_server.schema.errors import TypeMismatch
from tests.maintain.deltas.deltas_world import catalog_of

DDL = """CREATE TABLE a (i INTEGER PRIMARY KEY, g BIGINT, x INTEGER, d DECIMAL(9,2), f DOUBLE,
    t TEXT, s DATE, m TIMESTAMP, b BOOLEAN);"""
CATALOG = catalog_of(DDL)
VALUES = {
    "g": [2**60, -5, 0],
    "x": [-7, 0, 1, 2, 2**31 - 1],
    "d": [D("-1.50"), D("0.00"), D("9999999.99"), D("0.05")],
    "f": [-1.5, 0.0, 0.1, 1e300, float("inf")],
    "t": ["", "a", "ab", "Äb", "promo x"],
    "s": [dt.date(1994, 1, 1), dt.date(1995, 12, 31)],
    "m": [dt.datetime(1994, 1, 1, 12), dt.datetime(2020, 2, 29, 0, 0, 0, 1)],
    "b": [True, False],
}
COMPILED = [
    "SELECT t, x FROM a",
    "SELECT i, x + i AS y, d * (1 - d) AS z, -f AS n FROM a WHERE x < 100",
    "SELECT i FROM a WHERE s >= DATE '1994-01-01' AND s < DATE '1995-01-01'",
    "SELECT i FROM a WHERE m > TIMESTAMP '1994-01-01 12:00:00' OR b",
    "SELECT i, CASE WHEN t LIKE 'a%' THEN d ELSE 0 END AS y FROM a WHERE x IN (0, 1) OR x IS NULL",
    "SELECT i, f - f AS nan, f * 0 AS zero FROM a",
    "SELECT i, n > 1 AS y FROM (SELECT i, f - f AS n, d FROM a) AS s WHERE n = n",
    "SELECT i, d / 2 AS y, x / 7 AS z, ROUND(d / 3, 1) AS w FROM a WHERE f / 2 < 9 OR g // 3 > 1",
    "SELECT i, COALESCE(x, 3) AS y, SUBSTRING(t FROM 1 FOR 2) AS u, NOT b AS c FROM a",
    "SELECT i, t || '!' AS u, UPPER(t) AS v, x % 2 AS w FROM a WHERE d BETWEEN 0 AND 5",
    "SELECT i, CAST(x AS BIGINT) + g AS y FROM a WHERE g < 9",
    "SELECT i, EXTRACT(year FROM s) AS y, DATE_TRUNC('month', m) AS z, FLOOR(d) AS w FROM a",
    "SELECT i, CONCAT(t, LEFT(t, 1)) AS u FROM a WHERE STRPOS(t, 'b') > 0 OR DAY(m) = 1",
    "SELECT i, sqrt(abs(d)) AS y FROM a",
    "SELECT y, y AS again, NULL AS n FROM (SELECT CAST(d AS DECIMAL(20,1)) AS y FROM a) AS s",
]
BY_DUCKDB = [
    "SELECT i, sqrt(x) AS y FROM a",
    "SELECT i, EXTRACT(decade FROM s) AS y FROM a",
    "SELECT i, s + INTERVAL 1 DAY AS y FROM a",
]


def maps_of(sql):
    """Return the chain of Maps from the relation to the SELECT's result."""
    tree = parse(sql)
    bind_tree(tree, sql, CATALOG)
    nodes = list(walk(Translator(tree, sql, CATALOG).query(tree, {})))
    assert isinstance(nodes[0], Scan)
    return [node for node in nodes if isinstance(node, Map)]


def draw_rows(random, count):
    columns = CATALOG.schema.relation("a").columns[1:]
    values = [[None, *VALUES[column.name]] for column in columns]
    return [(i, *map(random.choice, values)) for i in range(count)]


def of_scan(map_, rows):
    """Return rows of the relation as rows of the Scan below."""
    scan = map_.input
    places = CATALOG.schema.relation("a").positions
    picked = [tuple(row[places[name]] for name in scan.columns) for row in rows]
    return picked, from_rows(scan.fields, picked)


def answered(maps, table):
    source = "t"
    for map_ in maps:
        source = f"({map_.select(source)})"
    return evaluate(f"SELECT * FROM {source}", {"t": table}, maps[-1].fields).rows()


@pytest.mark.parametrize("sql", COMPILED)
def test_rows_and_types_equal_duckdbs(sql):
    maps = maps_of(sql)
    rows, table = of_scan(maps[0], draw_rows(Random(1), 200))
    expected = [repr(row) for row in answered(maps, table)]
    one = compile_maps(maps, maps[0].input.fields, stored=True)
    assert [repr(row) for row in one.rows(rows)] == expected
    for map_ in maps:
        rows = [found for row in rows if (found := compile_map(map_).row(row)) is not None]
    assert [repr(row) for row in rows] == expected


@pytest.mark.parametrize("sql", BY_DUCKDB)
def test_an_expression_that_is_not_compiled_is_named(sql):
    with pytest.raises(NotCompiledError) as caught:
        compile_map(maps_of(sql)[-1])
    assert "SQRT" in caught.value.expression or '"a.s"' in caught.value.expression


def test_an_overflow_is_reported():
    maps = maps_of("SELECT i, x + 1 AS y FROM a")
    rows, table = of_scan(maps[0], [(1, None, 2**31 - 1, *[None] * 6)])
    with pytest.raises(TypeMismatch):
        answered(maps, table)
    with pytest.raises(TypeMismatch):
        compile_map(maps[0]).rows(rows)


def test_a_value_that_no_row_shows_cannot_overflow():
    """Neither in a column that is not selected, nor in a row that a later filter drops."""
    maps = maps_of("SELECT i FROM (SELECT i, x, x + 1 AS y FROM a) AS s WHERE x < 5 AND y > 0")
    rows, table = of_scan(maps[0], draw_rows(Random(2), 40))
    compiled = compile_maps(maps, maps[0].input.fields, stored=True)
    assert compiled.rows(rows) == answered(maps, table) != []


def test_nan_is_one_object():
    maps = maps_of("SELECT f - f AS nan FROM a WHERE f > 1e301")
    rows, _ = of_scan(maps[0], draw_rows(Random(3), 60))
    found = compile_maps(maps, maps[0].input.fields, stored=True).rows(rows)
    assert len(found) > 1
    assert len({*found}) == 1
