"""Joins by lookups read no more than they must: they look up partners only of rows that the WHERE
leaves, and of a path with a range only the rows whose index entries are in the range."""

from __future__ import annotations

import datetime as dt
import itertools
import operator
from collections import Counter
from decimal import Decimal

import pytest

from hornbeam_server.node.database import Database
from hornbeam_server.node.settings import load_settings
from hornbeam_server.storage.snapshot import Snapshot
from tests.txlayer.test_altered_relations import apply
from tests.txlayer.test_immediate_views import run

VALUES = {
    "INTEGER": lambda n: n - 3,
    "BIGINT": lambda n: n - (1 << 40),
    "NUMERIC(12, 2)": lambda n: Decimal(n) / 4,
    "TEXT": lambda n: f"{chr(0xFF + n // 4)}{n % 4}",
    "BYTEA": lambda n: bytes([n, 0]),
    "DATE": lambda n: dt.date(2020, 1, 1) + dt.timedelta(n),
    "TIMESTAMP": lambda n: dt.datetime(2020, 1, 1) + dt.timedelta(hours=n),
    "DOUBLE PRECISION": lambda n: n / 4,
}
"""Makes the value of a number, in ascending order, by type."""
NAMES = {
    f"{direction}_{kind.split('(')[0].replace(' ', '_').lower()}": (kind, direction)
    for kind, direction in itertools.product(VALUES, ("asc", "desc"))
}
TABLES = "CREATE TABLE customer (c_id INTEGER PRIMARY KEY, c_group INTEGER);" + "".join(
    f"""
    CREATE TABLE {name} (id INTEGER PRIMARY KEY, c INTEGER, v {kind}, n INTEGER);
    CREATE INDEX {name}_by_v ON {name} (c, v {direction});
    """
    for name, (kind, direction) in NAMES.items()
)
CUSTOMERS, SALES = 4, 24
NULLS = 2
COMPARISONS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


@pytest.fixture(scope="module")
async def database(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranges")
    async with await Database.open(load_settings(data=folder)) as database:
        await apply(database, TABLES, workload="")
        await run(
            database,
            *(f"INSERT INTO customer VALUES ({n}, {n % 2})" for n in range(CUSTOMERS)),
        )
        for name, (kind, _) in NAMES.items():
            for customer, n in itertools.product(range(CUSTOMERS), range(SALES)):
                value = None if n < NULLS else VALUES[kind](n)
                row = (customer * SALES + n, customer, value, n)
                await database.execute(f"INSERT INTO {name} VALUES (?, ?, ?, ?)", row)
        await apply(database, TABLES, workload="")  # with the row counts that plans use
        yield database


def joined(name, condition):
    return (
        f"SELECT c_id, n FROM customer JOIN {name} ON c = c_id"
        f" WHERE c_group = 1 AND {condition} ORDER BY c_id, n"
    )


@pytest.fixture
def gotten(monkeypatch):
    """The numbers of rows that were read by key, by layout."""
    counts = Counter()
    get = Snapshot.get

    async def counted(self, layout, keys, **options):
        counts[layout] += len(keys)
        return await get(self, layout, keys, **options)

    monkeypatch.setattr(Snapshot, "get", counted)
    return counts


@pytest.mark.parametrize("name", NAMES)
async def test_only_entries_in_the_range_are_looked_up(database, gotten, name):
    kind, _ = NAMES[name]
    for sign, compare in COMPARISONS.items():
        sql, bound = joined(name, f"v {sign} ?"), VALUES[kind](10)
        wanted = [n for n in range(NULLS, SALES) if compare(VALUES[kind](n), bound)]
        assert await database.fetch(sql, (bound,)) == [(c, n) for c in (1, 3) for n in wanted]
        gotten.clear()
        explained = await database.analyzed(sql, (bound,))
        assert explained.steps[1].layout == f"{name}_by_v", explained.text
        assert explained.steps[1].read.rows == 2 * SALES, explained.text
        # A bound of DOUBLE may be NaN, which Python orders in another way.
        assert gotten[name] == 2 * (SALES if kind == "DOUBLE PRECISION" else len(wanted))


@pytest.mark.parametrize("name", NAMES)
async def test_a_bound_of_null_matches_nothing(database, name):
    assert await database.fetch(joined(name, "v > ?"), (None,)) == []


async def test_a_pattern_is_a_range(database, gotten):
    pattern = f"{chr(0xFF + 3)}%"
    sql = joined("asc_text", "v LIKE ?")
    found = await database.fetch(sql, (pattern,))
    assert found == [(c, n) for c in (1, 3) for n in range(12, 16)]
    assert gotten["asc_text"] == 2 * 4


async def test_a_left_join_keeps_customers_without_rows_in_the_range(database):
    sql = (
        "SELECT c_id, n FROM customer LEFT JOIN asc_integer ON c = c_id AND v > ?"
        " WHERE c_group = 1 ORDER BY c_id, n"
    )
    assert await database.fetch(sql, (SALES - 5,)) == [(1, SALES - 1), (3, SALES - 1)]
    assert await database.fetch(sql, (SALES,)) == [(1, None), (3, None)]
    assert await database.fetch(sql, (None,)) == [(1, None), (3, None)]


async def test_rows_that_the_where_drops_have_no_partners_looked_up(database, gotten):
    """Also those of a source in the middle of a join, and those of a LEFT JOIN."""
    sql = (
        "SELECT a.id, b.id FROM customer JOIN asc_integer AS a ON a.c = c_id AND a.v > 0"
        " {} desc_integer AS b ON b.id = a.id WHERE c_group = 1 AND a.n = ?"
        " AND (b.n > 0 OR c_id = 1) ORDER BY 1"
    )
    wanted = [(customer * SALES + 9, customer * SALES + 9) for customer in (1, 3)]
    for join in ("JOIN", "LEFT JOIN"):
        gotten.clear()
        assert await database.fetch(sql.format(join), (9,)) == wanted
        assert gotten["desc_integer"] == 2
