"""TPC-H on Hornbeam: data, answers equal to DuckDB's, and changes that respect foreign keys."""

from collections import Counter
from decimal import Decimal
from itertools import islice

import duckdb
import pytest

import hornbeam
from bench.tpch import SCHEMA, VIEWS
from bench.tpch.changes import KEYS, Changes
from bench.tpch.data import RELATIONS, files, queries
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.quotients import PLACES
from tests.api.api_world import world

SCALE = 0.001
TRANSACTIONS = 250
FEW = {f"q{number}" for number in (2, 5, 7, 8, 11, 17, 18, 19, 20, 21)}
"""Queries that may have no result on so little data, with ten suppliers."""


@pytest.fixture(scope="module")
def tables():
    return files(SCALE)


@pytest.fixture(scope="module")
def db(tmp_path_factory, tables):
    with world(tmp_path_factory.mktemp("tpch")) as served:
        assert served.apply(ddl=SCHEMA.read_text(), workload="", roots=None).status_code == 200
        for name, path in tables.items():
            headers = {"Content-Type": "text/csv"}
            loaded = served.client.post(
                f"/v1/load/{name}", content=path.read_bytes(), headers=headers
            )
            assert loaded.is_success, loaded.text
        url = f"hornbeam://{served.client.base_url.host}:{served.client.base_url.port}"
        with hornbeam.connect(url, autocommit=True) as connection:
            yield connection


@pytest.fixture
def duck(tables, db):
    """DuckDB with the current rows of Hornbeam."""
    connection = duckdb.connect()
    for name in RELATIONS:
        rows = db.cursor().arrow(f"SELECT * FROM {name}")
        connection.register("rows", rows)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM rows")
    yield connection
    connection.close()


def exact(rows):
    """Sort rows, and round doubles, because averages depend on the order of addition, and quotients
    of decimals, which are doubles in DuckDB."""
    return sorted(tuple(map(rounded, row)) for row in rows)


def rounded(value):
    if isinstance(value, Decimal) and value.as_tuple().exponent == -PLACES:
        return round(float(value), 6)
    return round(value, 6) if isinstance(value, float) else value


def answered(db, duck):
    for name, sql in queries().items():
        found = exact(db.cursor().execute(sql).fetchall())
        assert found == exact(duck.sql(sql).fetchall()), name
        yield name, len(found)


def test_the_loaded_rows_equal_the_generated_ones(db, tables):
    for name, path in tables.items():
        expected = duckdb.sql(f"SELECT * FROM read_csv('{path}', all_varchar = true)").fetchall()
        (columns,) = ([c[0] for c in db.cursor().execute(f"SELECT * FROM {name}").description],)
        casts = ", ".join(f"CAST({c} AS TEXT)" for c in columns)
        rows = db.cursor().execute(f"SELECT {casts} FROM {name}").fetchall()
        assert Counter(map(normal, rows)) == Counter(map(normal, expected)), name


def normal(row):
    return tuple(number(value) for value in row)


def number(text):
    """Convert numbers to decimals, so that 1.5 equals Hornbeam's 1.50."""
    try:
        return Decimal(text)
    except ArithmeticError:
        return text


def test_queries_answer_as_duckdb_does(db, duck):
    rows = dict(answered(db, duck))
    assert rows.keys() == {"revenue", *(f"q{number}" for number in range(1, 23))}
    assert rows["q1"] == 4
    assert {name for name, count in rows.items() if not count} < FEW


def test_the_views_are_views_of_the_schema():
    schema = load_ddl(SCHEMA.read_text() + VIEWS.read_text())
    assert schema.names == RELATIONS
    assert len(queries()) == VIEWS.read_text().count("CREATE MATERIALIZED VIEW")


def test_random_changes_respect_foreign_keys_and_affect_every_query(db, tables, request):
    before = {name: exact(db.cursor().execute(sql).fetchall()) for name, sql in queries().items()}
    kinds = Counter()
    for transaction in islice(Changes(tables, seed=7), TRANSACTIONS):
        db.autocommit = False
        for sql, parameters in transaction:
            cursor = db.cursor().execute(sql, parameters)
            assert cursor.rowcount == 1, (sql, parameters)
            words = sql.split()
            kinds[words[0], words[2 if words[0] in {"INSERT", "DELETE"} else 1]] += 1
        db.commit()
    db.autocommit = True
    assert set(kinds) >= {(kind, name) for kind in ("INSERT", "UPDATE") for name in KEYS}
    assert {name for kind, name in kinds if kind == "DELETE"} >= {"orders", "lineitem", "customer"}
    duck = request.getfixturevalue("duck")
    after = {name: exact(duck.sql(sql).fetchall()) for name, sql in queries().items()}
    assert len(dict(answered(db, duck))) == 23
    assert {name for name in after if after[name] == before[name]} < FEW


def test_the_same_seed_gives_the_same_changes(tables):
    one, two, other = (list(islice(Changes(tables, seed), 50)) for seed in (1, 1, 2))
    assert one == two != other
