"""Values of every type are unchanged by joins, groups, minima, maxima and keys."""

import datetime as dt
import uuid
from functools import partial
from random import Random

import pytest

from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.intervals import Interval
from hornbeam_server.schema.types import JSONB
from tests.maintain.deltas.deltas_world import World, catalog_of

JOINED = ("u", "b", "z", "f", "m", "o", "t")
VALUES = {
    "uuid": [uuid.UUID(int=n << 100 | n) for n in range(4)],
    "bytes": [b"", b"a\0", b"\xff"],
    "date": [dt.date(1950, 1, 1), dt.date(2020, 2, 29)],
    "timestamp": [dt.datetime(2020, 1, 1, 0, 0, 0, n) for n in range(3)],
    "timestamptz": [dt.datetime(1950, 1, 1, 0, 0, 0, n, tzinfo=dt.UTC) for n in range(3)],
    "boolean": [False, True],
    "json": ['{"a": 1}', "[1,  2]"],
    "double": [0.1, -2.5, 1e300, 0.0],
    "bigint": [2**63 - 1, -(2**63), 5],
    "text": ["", "a", "ä\n"],
}


def ddl():
    columns = (
        "u UUID, b BLOB, s DATE, m TIMESTAMP, z TIMESTAMP WITH TIME ZONE, o BOOLEAN, j JSON, "
        "f DOUBLE, g BIGINT, t VARCHAR(9)"
    )
    for name in ("p", "q"):
        yield f"CREATE TABLE {name} (i UUID PRIMARY KEY, {columns});"
        yield from (f"CREATE INDEX {name}_{c} ON {name} ({c});" for c in JOINED)


def test_views_over_every_type_equal_duckdb():
    on = " AND ".join(f"p.{column} = q.{column}" for column in JOINED[2:])
    calls = ", ".join(
        f"MIN({c}) AS lo_{c}, MAX({c}) AS hi_{c}, COUNT(DISTINCT {c}) AS n_{c}" for c in JOINED
    )
    views = {
        "rows": "SELECT p.*, q.i AS other FROM p LEFT JOIN q ON p.i = q.u",
        "all": f"SELECT p.i, q.i AS other FROM p JOIN q ON {on}",
        "bytes": "SELECT p.i, q.i AS other, p.b FROM p JOIN q ON p.b = q.b",
        "calls": f"SELECT o, {calls}, SUM(g) AS s FROM p GROUP BY o",
        "bag": "SELECT u, b, z, m, f, s, o, g, t FROM p UNION ALL SELECT u, b, z, m, f, s, o, g, t "
        "FROM q",
        "made": "SELECT s + INTERVAL 1 DAY AS d, j->>'a' AS a, COUNT(*) AS n FROM p GROUP BY ALL",
    }
    world = World(catalog_of("\n".join(ddl())), views)
    random = Random(28)

    def value(column):
        if column.nullable and random.random() < 0.1:
            return None
        return random.choice(VALUES[column.type.kind.value])

    for _ in range(2):
        world.commit(
            *(
                (relation.name, tuple(value(column) for column in relation.columns))
                for relation in world.catalog.schema.relations
                for _ in range(5)
            ),
            ("p", (VALUES["uuid"][0],), None),
        )
        world.check()
    world.check_anew()


def test_views_over_jsonb_equal_duckdb():
    views = {
        "kinds": "SELECT j ->> 'a' AS a, COUNT(*) AS n, SUM((j -> 'n')::INTEGER) AS s FROM p"
        " WHERE j ? 'a' GROUP BY j ->> 'a'",
        "parts": "SELECT i, j || '{\"z\": 1}' AS joined, jsonb_typeof(j -> 'a') AS t FROM p"
        " WHERE j @> '{\"n\": 1}' OR j IS NULL",
        "pairs": "SELECT p.i, q.i AS other FROM p JOIN q ON p.i = q.i AND p.j -> 'a' = q.j",
    }
    tables = "".join(f"CREATE TABLE {name} (i INT PRIMARY KEY, j JSONB);" for name in "pq")
    world = World(catalog_of(tables), views)
    documents = ['{"a": "x", "n": 1}', '{"n": 2, "a": [ 1 ]}', '{"n":1}', '"x"', "[1.0]", None]
    random = Random(7)
    for _ in range(3):
        world.commit(
            *(
                (name, (random.randrange(5), JSONB.coerce(random.choice(documents))))
                for name in "pq"
                for _ in range(3)
            ),
            ("p", (1,), None),
        )
        world.check()
    world.check_anew()


def test_views_over_arrays_equal_duckdb():
    views = {
        "sizes": "SELECT cardinality(a) AS size, COUNT(*) AS n, SUM(a[1]) AS s FROM p"
        " GROUP BY cardinality(a)",
        "parts": "SELECT i, a || 7 AS longer, a[1:1] AS first, a::TEXT AS said FROM p"
        " WHERE a @> '{1}' OR 2 = ANY (a) OR a IS NULL",
        "pairs": "SELECT p.i, q.i AS other, q.a FROM p JOIN q ON p.i = q.i AND p.a && q.a",
    }
    tables = "".join(f"CREATE TABLE {name} (i INT PRIMARY KEY, a INTEGER[]);" for name in "pq")
    world = World(catalog_of(tables), views)
    arrays = [(), (1,), (1, 2), (2, None), (None,), (3, 1, 3), None]
    random = Random(7)
    for _ in range(3):
        world.commit(
            *((name, (random.randrange(5), random.choice(arrays))) for name in "pq" for _ in "abc"),
            ("p", (1,), None),
        )
        world.check()
    world.check_anew()


def test_views_keep_the_parts_of_intervals():
    """Equal intervals with other parts replace one another in relations, and so in views."""
    views = {
        "copied": "SELECT i, n, m FROM p WHERE n > INTERVAL '1 day' OR n IS NULL",
        "joined": "SELECT p.i, q.i AS other, p.n + q.n AS both FROM p LEFT JOIN q ON p.k = q.i",
        "parts": "SELECT extract(month FROM n) AS months, count(*) AS rows, sum(k) AS s FROM p"
        " GROUP BY extract(month FROM n)",
        "texts": "SELECT n::TEXT AS n, count(*) AS rows, min(m::TEXT) AS low FROM q"
        " GROUP BY n::TEXT",
        "seconds": "SELECT k, sum(extract(epoch FROM n)) AS s FROM p GROUP BY k",
    }
    tables = "".join(
        f"CREATE TABLE {name} (i INT PRIMARY KEY, k INT, n INTERVAL, m INTERVAL[]);"
        f" CREATE INDEX {name}_k ON {name} (k);"
        for name in "pq"
    )
    world = World(catalog_of(tables), views)
    month, days, hours = Interval(1), Interval(0, 30), Interval(0, 0, 720 * 3_600_000_000)
    random = Random(3)
    one = partial(random.choice, [month, days, hours, Interval(1, -1, 5), None])
    for _ in range(6):
        world.commit(
            *(
                (name, (random.randrange(4), random.randrange(3), one(), (one(), one())))
                for name in "pq"
                for _ in range(3)
            )
        )
        world.check()
    world.check_anew()


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT n, count(*) AS c FROM p GROUP BY n", "GROUP BY cannot use the INTERVAL column"),
        ("SELECT DISTINCT n FROM p", "DISTINCT cannot use the INTERVAL column"),
        ("SELECT max(n) AS m FROM p", "Max cannot use the INTERVAL column"),
        ("SELECT sum(n) AS s FROM p", "SUM and AVG of INTERVAL cannot be kept"),
        ("SELECT n FROM p UNION ALL SELECT n FROM p", "identified by the INTERVAL column"),
    ],
)
def test_views_in_which_equal_intervals_would_meet_are_refused(sql, reason):
    with pytest.raises(Unsupported, match=reason):
        World(catalog_of("CREATE TABLE p (i INT PRIMARY KEY, n INTERVAL);"), {"v": sql})
