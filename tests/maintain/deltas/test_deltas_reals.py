"""Deferred views over columns of REAL and NUMERIC: both executors keep what DuckDB computes."""

from __future__ import annotations

from decimal import Decimal

from hornbeam_server.schema.reals import real_of
from tests.maintain.deltas.deltas_world import World, catalog_of

CATALOG = catalog_of(
    "CREATE TABLE t (id INTEGER PRIMARY KEY, g INTEGER, r REAL, d DOUBLE, n DECIMAL(10,2));"
    "CREATE TABLE u (no INTEGER PRIMARY KEY, t INTEGER REFERENCES t, q REAL);"
    "CREATE INDEX u_t ON u (t)"
)
SQLS = {
    "grouped": "SELECT g, min(r) AS lo, max(r) AS hi, count(r) AS c FROM t GROUP BY g",
    "computed": "SELECT id, r * r AS s, r + n AS x, -r AS m, r::TEXT AS t, sqrt(abs(n)) AS w"
    " FROM t WHERE r > 0.05",
    "joined": "SELECT no, q, t.r, q * t.r AS p FROM u JOIN t ON u.t = t.id WHERE q < t.d",
    "by_value": "SELECT r, count(*) AS c FROM t GROUP BY r",
}


def row(i, r, d, n):
    return i, i % 2, None if r is None else real_of(r), d, n


def test_deferred_views_of_reals_are_kept():
    world = World(CATALOG, SQLS)
    world.commit(
        ("t", row(1, 0.1, 0.1, Decimal("1.50"))),
        ("t", row(2, 12345678.9, 2.5, Decimal("-2.25"))),
        ("t", row(3, None, None, None)),
        ("u", (1, 1, real_of(0.05))),
    )
    world.check()
    world.commit(("t", row(1, 0.3, 0.5, None)), ("t", (2,), None), ("u", (2, 1, real_of(0.4))))
    world.check()
