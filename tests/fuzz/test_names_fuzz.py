"""Grants are checked against all relations named in a statement, at any nesting.

The oracle is DuckDB's own binder, which lists the tables that a query reads.
"""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from hornbeam_server.api.rest.authorization import Named, named_in
from hornbeam_server.schema.catalog import Catalog, Forest
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import SqlError
from tests.depth import depth
from tests.fuzz.fuzz_shop import DDL, READS, times

SCHEMA = load_ddl(DDL, "<ddl>")
CATALOG = Catalog(1, SCHEMA, Forest(SCHEMA.names))
TABLES = st.sampled_from(SCHEMA.names)
CTES = st.sampled_from(["w", "customer", "orders", "line"])
"""Names of CTEs; some hide relations."""
AROUND = (
    "SELECT n FROM ({q}) AS x",
    "SELECT x.n FROM ({q}) AS x, {t} AS y",
    "SELECT n FROM (({q}) AS x CROSS JOIN {t} AS y)",
    "SELECT x.n FROM {t} AS y LEFT JOIN ({q}) AS x ON true",
    "SELECT x.n FROM {t} AS y, LATERAL ({q}) AS x",
    "SELECT 1 AS n FROM {t} AS y SEMI JOIN ({q}) AS x ON true",
    "SELECT 1 AS n FROM {t} AS y ANTI JOIN ({q}) AS x ON true",
    "SELECT 1 AS n FROM {t} AS y WHERE 1 IN ({q})",
    "SELECT 1 AS n WHERE EXISTS ({q})",
    "SELECT (SELECT count(*) FROM ({q}) AS x) AS n",
    "SELECT 1 AS n ORDER BY (SELECT max(n) FROM ({q}) AS x)",
    "SELECT 1 AS n FROM {t} AS y GROUP BY ALL HAVING count(*) > (SELECT count(*) FROM ({q}) AS x)",
    "SELECT CASE WHEN EXISTS ({q}) THEN 1 ELSE 2 END AS n",
    "SELECT n FROM range(3) AS r(n) WHERE n > ALL ({q})",
    "WITH {c} AS ({q}) SELECT 1 AS n FROM {c}",
    "WITH {c} AS ({q}) SELECT 1 AS n FROM {t} AS y",
    "WITH {c} AS ({q}), d AS (SELECT 1 AS n FROM {c}) SELECT n FROM d",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 2 AND EXISTS ({q}))"
    " SELECT n FROM r",
    "({q}) UNION ALL (SELECT 1 AS n FROM {t} AS y)",
    "({q}) EXCEPT (SELECT 1 AS n FROM {c} AS y)",
    "({q}) INTERSECT ({q})",
    "FROM ({q}) AS x SELECT n",
)


def wrapped(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        lambda around, q, t, c: around.format(q=q, t=t, c=c),
        *(st.sampled_from(AROUND), inner, TABLES, CTES),
    )


QUERIES = st.recursive(TABLES.map("SELECT 1 AS n FROM {} AS z".format), wrapped, max_leaves=6)


@pytest.fixture(scope="module")
def oracle():
    with duckdb.connect() as connection:
        for relation in SCHEMA.relations:
            columns = ", ".join(f"{c.name} {c.type.sql()}" for c in relation.columns)
            connection.execute(f"CREATE TABLE {relation.name} ({columns})")
        yield connection


def test_every_table_that_a_query_reads_is_named(oracle):
    @times(depth(150, long=400))
    @given(QUERIES)
    def law(sql):
        try:
            wanted = oracle.get_table_names(sql)
        except duckdb.Error:
            event("not for DuckDB")
            return
        try:
            named = named_in(sql, CATALOG)
        except SqlError as refused:
            event(f"refused: {refused.code}")
            return
        assert named.target is None
        assert named.reads >= wanted, sql
        assert named.reads == wanted or "WITH" in sql, sql  # DuckDB skips unused CTEs
        event("compared")
        law.compared += 1

    law.compared = 0
    law()
    assert law.compared > depth(75, long=200)


@pytest.mark.parametrize("sql", READS)
def test_plain_reads_name_exactly_their_tables(oracle, sql):
    wanted = oracle.get_table_names(sql.replace(":i", "1").replace("?", "1"))
    assert named_in(sql, CATALOG) == Named(frozenset(wanted), None)
