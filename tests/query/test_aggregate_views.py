"""Aggregates answered from immediate views: which statements are, how, and why others are not."""

from __future__ import annotations

from decimal import Decimal

import pytest

from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.dialect.grammar import NAME
from hornbeam_server.query.engine import QueryEngine
from hornbeam_server.query.execution.loops import NativePlan
from hornbeam_server.query.optimizer.rewrite import rewrite
from hornbeam_server.schema.ddl import load_ddl
from tests.query.aggregate_world import World, catalog_with

SHOP = load_ddl(
    """
    CREATE TABLE land (l_id INTEGER PRIMARY KEY, l_name TEXT);
    CREATE TABLE customer (c_id INTEGER PRIMARY KEY, c_name TEXT,
      c_land INTEGER NOT NULL REFERENCES land (l_id));
    CREATE TABLE product (p_id INTEGER PRIMARY KEY, p_kind TEXT);
    CREATE TABLE sale (s_id INTEGER PRIMARY KEY, s_c INTEGER NOT NULL REFERENCES customer (c_id),
      s_p INTEGER REFERENCES product (p_id), s_qty INTEGER, s_price DECIMAL(9,2), s_big BIGINT,
      s_day DATE, s_kind TEXT);
    """
)
VIEWS = {
    "by_customer": "SELECT s_c, c_name, count(*) AS n, count(s_qty) AS nq, sum(s_qty) AS q,"
    " sum(s_price) AS total, sum(s_big) AS big FROM sale JOIN customer ON s_c = c_id"
    " GROUP BY s_c, c_name",
    "by_product": "SELECT s_p, s_kind, count(*) AS n, sum(s_qty) AS q FROM sale"
    " JOIN product ON s_p = p_id WHERE s_qty > 0 GROUP BY s_p, s_kind",
    "by_parity": "SELECT s_qty % 2 AS parity, avg(s_qty) AS mean, sum(s_qty) AS q,"
    " sum(s_qty) FILTER (WHERE s_kind = 'a') AS qa FROM sale GROUP BY s_qty % 2",
    "everything": "SELECT count(*) AS n, sum(s_big) AS big FROM sale",
}
CATALOG = catalog_with(SHOP, VIEWS)
DATA = {
    "land": [(1, "NL"), (2, None)],
    "customer": [(1, "a", 1), (2, "b", 1), (3, None, 2), (4, "a", 2)],
    "product": [(1, "x"), (2, None)],
    "sale": [
        (
            i,
            i % 3 + 1,
            (None, 1, 2)[i % 3],
            (None, 0, i, -i)[i % 4],
            None if i % 5 == 0 else Decimal(i * 25) / 100,
            None if i % 7 == 0 else i * 10**15,
            None,
            ("a", None, "b")[i % 3],
        )
        for i in range(30)
    ],
}
JOINED = "sale JOIN customer ON s_c = c_id"

ANSWERED = {
    # equal groups
    f"SELECT s_c, c_name, sum(s_qty), count(*) FROM {JOINED} GROUP BY s_c, c_name": (
        "SELECT by_customer.s_c AS s_c, by_customer.c_name AS c_name,"
        " by_customer.q AS sum, by_customer.n AS count FROM by_customer"
    ),
    # the name of a customer follows from its key
    "SELECT s_c, sum(s_qty) AS n FROM sale GROUP BY s_c HAVING count(*) > 2 ORDER BY n": (
        "SELECT by_customer.s_c AS s_c, by_customer.q AS n FROM by_customer"
        " WHERE by_customer.n > 2 ORDER BY (by_customer.q)"
    ),
    # look-ups
    "SELECT sum(s_qty) FROM sale WHERE s_c = 2": (
        "SELECT MAX(by_customer.q) AS sum FROM by_customer WHERE by_customer.s_c = 2"
    ),
    "SELECT count(*) + 1 AS k, sum(s_price) FROM sale WHERE s_c = 77": (
        "SELECT CAST(COALESCE(MAX(by_customer.n), 0) AS BIGINT) + 1 AS k,"
        " MAX(by_customer.total) AS sum FROM by_customer WHERE by_customer.s_c = 77"
    ),
    "SELECT count(*), sum(s_big) FROM sale": (
        "SELECT everything.n AS count, everything.big AS sum FROM everything"
    ),
    "SELECT count(*) FROM sale WHERE 1 = 0": (
        "SELECT CAST(COALESCE(MAX(everything.n), 0) AS BIGINT) AS count FROM everything WHERE 1 = 0"
    ),
    # unions of groups
    f"SELECT c_name, sum(s_big), sum(s_price) FROM {JOINED} GROUP BY c_name": (
        "SELECT by_customer.c_name AS c_name, SUM(by_customer.big) AS sum,"
        " SUM(by_customer.total) AS sum FROM by_customer GROUP BY by_customer.c_name"
    ),
    "SELECT count(s_qty), sum(s_qty) FROM sale WHERE s_c > 1": (
        "SELECT CAST(COALESCE(SUM(by_customer.nq), 0) AS BIGINT) AS count,"
        " CAST(SUM(by_customer.q) AS BIGINT) AS sum FROM by_customer"
        " WHERE by_customer.s_c > 1"
    ),
    "SELECT s_c % 2 AS s, count(*) FROM sale WHERE s_c IN (1, 2, 3) GROUP BY s": (
        "SELECT by_customer.s_c % 2 AS s, CAST(SUM(by_customer.n) AS BIGINT) AS count"
        " FROM by_customer WHERE by_customer.s_c IN (1, 2, 3) GROUP BY (by_customer.s_c % 2)"
    ),
    "SELECT min(s_c), max(c_name), count(DISTINCT s_c), sum(s_qty)"
    " FROM sale, customer WHERE c_id = s_c": (
        "SELECT MIN(by_customer.s_c) AS min, MAX(by_customer.c_name) AS max,"
        " COUNT(DISTINCT by_customer.s_c) AS count,"
        " CAST(SUM(by_customer.q) AS BIGINT) AS sum FROM by_customer"
    ),
    # averages: a column, a sum and a count of one row, of several
    "SELECT s_qty % 2 AS p, avg(s_qty) AS m FROM sale GROUP BY s_qty % 2 HAVING avg(s_qty) > 0": (
        "SELECT by_parity.parity AS p, by_parity.mean AS m FROM by_parity WHERE by_parity.mean > 0"
    ),
    "SELECT s_c, avg(s_qty) FROM sale, customer WHERE s_c = c_id GROUP BY s_c": (
        "SELECT by_customer.s_c AS s_c, (by_customer.q / by_customer.nq) AS avg FROM by_customer"
    ),
    "SELECT avg(s_qty) FROM sale WHERE s_c = 2": (
        "SELECT (MAX(by_customer.q) / MAX(by_customer.nq)) AS avg FROM by_customer"
        " WHERE by_customer.s_c = 2"
    ),
    "SELECT s_c % 2 AS g, avg(s_qty) AS a FROM sale GROUP BY g ORDER BY a DESC": (
        "SELECT by_customer.s_c % 2 AS g, (SUM(by_customer.q)"
        " / SUM(by_customer.nq)) AS a FROM by_customer"
        " GROUP BY (by_customer.s_c % 2) ORDER BY ((SUM(by_customer.q)"
        " / SUM(by_customer.nq))) DESC"
    ),
    # the view's condition, and one over its groups
    "SELECT s_p, sum(s_qty) FROM sale AS s, product AS p WHERE p.p_id = s.s_p AND 0 < s.s_qty"
    " AND s_kind IS NULL GROUP BY p.p_id, s_p": (
        "SELECT by_product.s_p AS s_p, by_product.q AS sum FROM by_product"
        " WHERE by_product.s_kind IS NULL"
    ),
    # grouping expressions, FILTER
    "SELECT s_qty % 2, sum(s_qty) FILTER (WHERE s_kind = 'a') FROM sale GROUP BY s_qty % 2": (
        'SELECT by_parity.parity AS "?column?", by_parity.qa AS sum FROM by_parity'
    ),
    # subqueries that read nothing of the block
    "SELECT s_c FROM sale WHERE s_c > (SELECT min(c_id) FROM customer) GROUP BY s_c"
    " HAVING sum(s_qty) > (SELECT max(p_id) FROM product)": (
        "SELECT by_customer.s_c AS s_c FROM by_customer WHERE by_customer.s_c >"
        " (SELECT MIN(customer.c_id) AS min FROM customer) AND by_customer.q >"
        " (SELECT MAX(product.p_id) AS max FROM product)"
    ),
    # relations beside the view
    "SELECT p_kind, sum(s_qty), max(l_name), count(*) FROM sale JOIN land ON s_c = l_id, product"
    " WHERE p_id = s_c + 1 AND l_id < 3 GROUP BY p_kind": (
        "SELECT product.p_kind AS p_kind,"
        " CAST(SUM(by_customer.q) AS BIGINT) AS sum, MAX(land.l_name) AS max,"
        " CAST(SUM(by_customer.n) AS BIGINT) AS count FROM by_customer, land, product"
        " WHERE by_customer.s_c = land.l_id AND product.p_id = by_customer.s_c + 1"
        " AND land.l_id < 3 GROUP BY product.p_kind"
    ),
    "SELECT s_c, sum(s_qty) FROM sale, land WHERE l_id >= s_c GROUP BY s_c": (
        "SELECT by_customer.s_c AS s_c, CAST(SUM(by_customer.q) AS BIGINT) AS sum"
        " FROM by_customer, land WHERE land.l_id >= by_customer.s_c GROUP BY by_customer.s_c"
    ),
    # outer joins that are inner joins in effect
    "SELECT c_name, sum(s_qty) FROM sale LEFT JOIN customer ON s_c = c_id GROUP BY c_name": (
        "SELECT by_customer.c_name AS c_name, CAST(SUM(by_customer.q) AS BIGINT) AS sum"
        " FROM by_customer GROUP BY by_customer.c_name"
    ),
    "SELECT sum(s_qty) FROM sale LEFT JOIN product ON s_p = p_id WHERE s_qty > 0 AND p_id < 2": (
        "SELECT CAST(SUM(by_product.q) AS BIGINT) AS sum FROM by_product WHERE by_product.s_p < 2"
    ),
    # blocks inside of others
    "SELECT c_id, (SELECT sum(s_qty) FROM sale WHERE s_c = c_id) AS s FROM customer": (
        "SELECT customer.c_id, (SELECT CAST(SUM(by_customer.q) AS BIGINT) AS"
        ' sum FROM by_customer WHERE by_customer.s_c = "customer".c_id) AS s FROM customer'
    ),
    "SELECT max(t.q) FROM (SELECT s_c, sum(s_qty) AS q FROM sale GROUP BY s_c) AS t": (
        "SELECT MAX(t.q) AS max FROM (SELECT by_customer.s_c AS s_c, by_customer.q AS q"
        " FROM by_customer) AS t"
    ),
    "SELECT count(*) FROM sale UNION ALL SELECT sum(s_qty) FROM sale WHERE s_c = 1": (
        "SELECT everything.n AS count FROM everything UNION ALL"
        " SELECT MAX(by_customer.q) AS sum FROM by_customer WHERE by_customer.s_c = 1"
    ),
}

REFUSED = {
    "SELECT avg(s_price) FROM sale": {
        "view by_customer: it has no avg(sale.s_price) of these groups, and not both its SUM and"
        " COUNT",
        "view by_product: it joins product, which may drop or repeat rows",
        "view by_parity: it has no avg(sale.s_price) of these groups, and not both its SUM and"
        " COUNT",
        "view everything: it has no avg(sale.s_price) of these groups, and not both its SUM and"
        " COUNT",
    },
    "SELECT avg(DISTINCT s_qty) FROM sale WHERE s_c = 1": {
        "view by_customer: avg(DISTINCT sale.s_qty) does not follow from its columns",
        "view by_product: it joins product, which may drop or repeat rows",
        "view by_parity: sale.s_c is no grouping column of it",
        "view everything: sale.s_c is no grouping column of it",
    },
    "SELECT s_kind, count(*) FROM sale GROUP BY s_kind": {
        "view by_customer: sale.s_kind is no grouping column of it",
        "view by_product: it joins product, which may drop or repeat rows",
        "view by_parity: sale.s_kind is no grouping column of it",
        "view everything: it has no groups",
    },
    "SELECT s_p, count(*) FROM sale, product WHERE s_p = p_id GROUP BY s_p": {
        "view by_product: its condition sale.s_qty > 0 does not follow from the statement's",
    },
    "SELECT s_p, count(*) FROM sale, product WHERE s_p = p_id AND s_qty > 0 AND p_kind = 'x'"
    " GROUP BY s_p": {"view by_product: product.p_kind is no grouping column of it"},
    "SELECT sum(s_price) FROM sale, product WHERE s_p = p_id AND s_qty > 0": {
        "view by_product: it has no sum(sale.s_price)",
    },
    "SELECT count(DISTINCT s_qty) FROM sale, customer WHERE s_c = c_id": {
        "view by_customer: it has no count(DISTINCT sale.s_qty)",
    },
    "SELECT count(*) FROM sale, customer WHERE s_qty = c_id": {
        "view by_customer: it joins by sale.s_c = customer.c_id, the statement does not",
    },
    "SELECT sum(s_qty) FROM sale LEFT JOIN product ON s_p = p_id AND s_qty > 0": {
        "no view answers the aggregates: the block has outer, semi or anti joins",
        "a block with outer, semi or anti joins is answered from its relations",
    },
    "SELECT DISTINCT sum(s_qty) FROM sale, customer WHERE s_c = c_id": {
        "no view answers the aggregates: the block has DISTINCT",
    },
    "SELECT c_name, row_number() OVER (ORDER BY c_name) FROM sale, customer WHERE s_c = c_id"
    " GROUP BY c_name": {"no view answers the aggregates: the block has window functions"},
    "SELECT count(*) FROM sale, customer WHERE s_c = c_id AND random() < 2": {
        "no view answers the aggregates: the block has a function that is evaluated for each row",
    },
    "SELECT string_agg(c_name) FROM sale, customer WHERE s_c = c_id": {
        "view by_customer: string_agg(customer.c_name) does not follow from its columns",
    },
    "WITH by_customer AS (SELECT 1) SELECT count(*) FROM sale, customer WHERE s_c = c_id": {
        "view by_customer: an alias or a CTE of the statement has one of its names",
    },
    "SELECT s_c FROM sale, customer WHERE s_id = 3 AND s_c = c_id GROUP BY s_c": {
        "view by_customer: the statement reads one row of sale by its key",
    },
    "SELECT c_land, sum(s_qty) FROM sale, customer, land WHERE s_c = c_id AND c_land = l_id"
    " GROUP BY c_land": {"view by_customer: customer.c_land is no grouping column of it"},
    "SELECT s_c, sum(s_qty) FROM sale GROUP BY s_c, s_kind": {
        "view by_customer: sale.s_kind is no grouping column of it",
    },
    "SELECT count(*) + 1 AS k FROM sale GROUP BY s_kind": {"view everything: it has no groups"},
    "SELECT sum(s_qty * l_id) FROM sale, land WHERE s_c = l_id": {
        "view by_customer: it has no sum(sale.s_qty * land.l_id)",
    },
}


@pytest.fixture(scope="module")
def engine():
    engine = QueryEngine()
    yield engine
    engine.close()


@pytest.mark.parametrize("sql", ANSWERED)
def test_a_statement_is_answered_from_a_view(sql):
    found = rewrite(bind(sql, CATALOG), CATALOG)
    assert found.bound.ast.sql(NAME) == ANSWERED[sql]
    assert found.uses


@pytest.mark.parametrize("sql", REFUSED)
def test_a_statement_is_not_answered_and_the_reason_is_given(sql):
    found = rewrite(bind(sql, CATALOG), CATALOG)
    assert not found.uses
    assert REFUSED[sql] <= set(found.notes)


@pytest.mark.parametrize("sql", [*ANSWERED, *REFUSED])
def test_the_answer_is_that_of_the_relations_and_of_duckdb(sql, engine):
    world = World(engine, CATALOG, DATA)
    found, wanted = world.ask(sql), world.ask(sql, use_views=False)
    key = repr if "ORDER BY n" not in sql else (lambda _: 0)
    assert sorted(found.rows, key=key) == sorted(wanted.rows, key=key)
    assert found.types == wanted.types
    names = [column.name for column in world.prepared(sql).columns]
    assert names == [column.name for column in world.prepared(sql, use_views=False).columns]
    assert sorted(map(_short, world.oracle(sql))) == sorted(map(_short, wanted.rows))


def _short(row):
    """A row with 12 digits of averages, which DuckDB computes as DOUBLE."""
    return repr([f"{float(v):.12g}" if isinstance(v, Decimal | float | int) else v for v in row])


def test_nothing_is_found_over_empty_relations(engine):
    world = World(engine, CATALOG, {})
    sql = "SELECT count(*), sum(s_qty), min(s_c) FROM sale WHERE s_c {}"
    assert world.ask(sql.format("= 1")).rows == [(0, None, None)]
    assert world.ask(sql.format("> 1")).rows == [(0, None, None)]
    assert world.ask("SELECT count(*), sum(s_big) FROM sale").rows == [(0, None)]
    assert world.ask("SELECT s_c, count(*) FROM sale GROUP BY s_c").rows == []
    assert world.ask("SELECT count(*) FROM sale GROUP BY 1 + 1").rows == []


@pytest.mark.parametrize(
    ("sql", "step"),
    [
        ("SELECT sum(s_qty) FROM sale WHERE s_c = ?", "key prefix of by_customer, where s_c = ?"),
        (
            "SELECT sum(s_qty) + 1 AS s FROM sale, customer WHERE s_c = ? AND c_id = s_c"
            " AND c_name = 'a'",
            "row by key of by_customer, where s_c = ? AND c_name = 'a'",
        ),
        ("SELECT s_c, sum(s_qty) AS s FROM sale WHERE s_c = ? GROUP BY s_c", "key prefix"),
        ("SELECT count(*) FROM sale WHERE s_c > ?", "key range of by_customer"),
    ],
)
def test_a_look_up_in_a_view_does_not_need_duckdb(sql, step, engine):
    query = engine.prepare(sql, CATALOG)
    assert isinstance(query.plan, NativePlan), query.plan.reason
    assert f"by_customer: {step}" in query.explain().text
    assert query.explain().views == ("by_customer",)


def test_a_parameter_has_the_type_of_the_aggregate_it_is_compared_with():
    sql = "SELECT s_c FROM sale WHERE s_c < ? GROUP BY s_c HAVING sum(s_price) > ? AND count(*) < ?"
    bound = bind(sql, CATALOG)
    found = rewrite(bound, CATALOG)
    assert found.uses
    assert found.bound.parameter_types == bound.parameter_types
    assert found.bound.uses == bound.uses


def test_the_view_with_the_fewest_rows_answers():
    views = {
        "fine": "SELECT s_c, s_p, count(*) AS n FROM sale GROUP BY s_c, s_p",
        "coarse": "SELECT s_c, count(*) AS n FROM sale GROUP BY s_c",
        "other": "SELECT s_p, s_c, count(*) AS n FROM sale GROUP BY s_p, s_c",
    }
    catalog = catalog_with(SHOP, views)

    def used(sql: str) -> str:
        (use,) = rewrite(bind(sql, catalog), catalog).uses
        return use.view

    assert used("SELECT count(*) FROM sale") == "coarse"
    assert used("SELECT count(*) FROM sale WHERE s_c = 1") == "coarse"
    assert used("SELECT count(*) FROM sale WHERE s_p = 1") == "other"


COMPUTING = {
    "means": "SELECT s_c, sum(s_price) / count(*) AS mean, sum(s_qty) AS q, count(*) + 1 AS more"
    " FROM sale GROUP BY s_c",
    "large": "SELECT s_p, sum(s_qty) AS q FROM sale GROUP BY s_p HAVING count(*) > 2",
}


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT s_c, count(*) FROM sale GROUP BY s_c", "it has no count(*)"),
        ("SELECT s_c, sum(s_price) FROM sale GROUP BY s_c", "it has no sum("),
        ("SELECT s_p, sum(s_qty) FROM sale GROUP BY s_p", "HAVING leaves out some of its groups"),
        ("SELECT sum(s_qty) FROM sale", ""),
        ("SELECT s_c, sum(s_qty) FROM sale GROUP BY s_c HAVING sum(s_qty) > 3", ""),
    ],
)
def test_only_plain_aggregates_of_a_view_that_shows_all_groups_answer(sql, reason, engine):
    world = World(engine, catalog_with(SHOP, COMPUTING), DATA)
    explained = world.prepared(sql).explain()
    assert explained.views == (() if reason else ("means",))
    assert any(reason in note for note in explained.notes) or not reason
    found, wanted = world.ask(sql), world.ask(sql, use_views=False)
    assert (sorted(map(repr, found.rows)), found.types) == (
        sorted(map(repr, wanted.rows)),
        wanted.types,
    )


def test_a_view_that_is_not_readable_is_named_and_not_used():
    catalog = catalog_with(SHOP, VIEWS, building=["everything"])
    found = rewrite(bind("SELECT min(s_big) FROM sale", catalog), catalog)
    assert "view everything: it is building" in found.notes


def test_a_further_join_of_the_view_must_find_exactly_one_row():
    views = {"v": "SELECT s_kind, count(*) AS n FROM sale JOIN {} GROUP BY s_kind"}
    joins = {
        "customer ON s_c = c_id": True,
        "customer ON s_c = c_id JOIN land ON c_land = l_id": True,
        "product ON s_p = p_id": False,
        "customer ON s_c = c_id AND c_name > ''": False,
    }
    for join, answers in joins.items():
        catalog = catalog_with(SHOP, {"v": views["v"].format(join)})
        found = rewrite(bind("SELECT s_kind, count(*) FROM sale GROUP BY 1", catalog), catalog)
        assert bool(found.uses) is answers, join


def test_a_relation_that_is_joined_twice_is_matched_to_either_occurrence():
    schema = load_ddl(
        "CREATE TABLE place (id INTEGER PRIMARY KEY, name TEXT);"
        "CREATE TABLE way (id INTEGER PRIMARY KEY, a INTEGER NOT NULL REFERENCES place (id),"
        " b INTEGER NOT NULL REFERENCES place (id), km INTEGER);"
    )
    select = "SELECT p.name, q.name AS other, sum(km) AS km FROM way, place p, place q"
    view = f"{select} WHERE a = p.id AND b = q.id GROUP BY p.name, q.name"
    catalog = catalog_with(schema, {"v": view})
    sql = "SELECT x.name, sum(km) FROM way, place x WHERE {} = x.id GROUP BY x.name"
    for column, name in (("a", "name"), ("b", "other")):
        found = rewrite(bind(sql.format(column), catalog), catalog)
        assert found.bound.ast.sql(NAME) == (
            f"SELECT v.{name} AS name, CAST(SUM(v.km) AS BIGINT) AS sum FROM v GROUP BY v.{name}"
        )


def test_part_of_a_key_does_not_determine_its_row(engine):
    schema = load_ddl(
        "CREATE TABLE seat (line INTEGER, no INTEGER, kind TEXT, PRIMARY KEY (line, no));"
        "CREATE TABLE visit (id INTEGER PRIMARY KEY, line INTEGER NOT NULL, no INTEGER NOT NULL,"
        " FOREIGN KEY (line, no) REFERENCES seat (line, no));"
    )
    view = (
        "SELECT v.line, kind, count(*) AS n FROM visit v JOIN seat s"
        " ON v.line = s.line AND v.no = s.no GROUP BY v.line, kind"
    )
    data = {
        "seat": [(1, 1, "a"), (1, 2, "b"), (2, 1, None)],
        "visit": [(1, 1, 1), (2, 1, 1), (3, 1, 2), (4, 2, 1)],
    }
    world = World(engine, catalog_with(schema, {"v": view}, version=2), data)
    assert world.ask("SELECT count(*) FROM visit WHERE line = 1").rows == [(3,)]
    assert world.prepared("SELECT count(*) FROM visit WHERE line = 1").rewritten.uses
    found = world.ask("SELECT line, count(*) FROM visit GROUP BY line").rows
    assert sorted(found) == [(1, 3), (2, 1)]
