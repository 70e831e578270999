"""Binding: names, blocks, parameters, writes; and every refusal with its message."""

import datetime as dt
from decimal import Decimal

import pytest
from sqlglot import exp

from hornbeam_server.demo.tpcw import SCHEMA
from hornbeam_server.demo.tpcw import WORKLOAD as TPCW_WORKLOAD
from hornbeam_server.query.binding.algebra import (
    Comparison,
    EquiJoin,
    Filter,
    Order,
    Source,
    StatementKind,
)
from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.optimizer.rewrite import rewrite
from hornbeam_server.query.parsing.placeholders import Parameter
from hornbeam_server.schema.errors import SqlError, UnknownName, Unsupported
from hornbeam_server.schema.types import ColumnType, Kind
from tests.query.bindertables import FIXTURES, catalog, reflected, statements, view

TPCW = reflected(SCHEMA.read_text())
VIEWS = [
    view(TPCW, "author", "item"),
    view(TPCW, "address", "customer"),
    view(TPCW, "country", "address"),
]
CATALOG = catalog(TPCW, VIEWS, building=["author__item"])
WORKLOAD = dict(statements(TPCW_WORKLOAD.read_text()))
ERRORS = dict(statements((FIXTURES / "binder_errors.sql").read_text()))
INTEGER, BIGINT, TEXT = ColumnType(Kind.INTEGER), ColumnType(Kind.BIGINT), ColumnType(Kind.TEXT)


def only_block(sql):
    (block,) = bind(sql, CATALOG).statement.blocks
    return block


def filters(condition, origin="item, orders"):
    block = only_block(f"SELECT 1 FROM {origin} WHERE {condition}")
    return [(f"{f.alias}.{f.column}", f.comparison, f.values) for f in block.filters]


# -- the workload


@pytest.mark.parametrize("name", WORKLOAD)
def test_every_statement_of_tpcw_binds(name):
    bound = bind(WORKLOAD[name], CATALOG)
    assert len(bound.statement.parameters) == WORKLOAD[name].count("?")
    assert all(type_ is not None for type_ in bound.parameter_types.values())
    if bound.statement.kind is StatementKind.SELECT:
        assert bound.columns
    else:
        assert bound.statement.target in TPCW


def test_most_recent_order_reads_the_address_view_twice():
    found = rewrite(bind(WORKLOAD["most_recent_order"], CATALOG), CATALOG)
    assert {use.aliases for use in found.uses} == {("ship_co", "ship"), ("bill_co", "bill")}
    assert {use.view for use in found.uses} == {"country__address"}
    (block,) = found.bound.statement.blocks
    assert len(block.sources) == 5


def test_best_sellers_has_the_joins_of_both_foreign_keys():
    outer, inner = bind(WORKLOAD["best_sellers"], CATALOG).statement.blocks
    joins = {(join.child, join.parent) for join in outer.fk_joins}
    assert joins == {("order_line", "item"), ("item", "author")}
    assert outer.filters == (Filter("item", "i_subject", Comparison.EQ, (Parameter(0),)),)
    assert (outer.limit, outer.inner_only, outer.conjunctive) == (True, True, False)
    assert inner.sources == (Source("orders", "orders"),)


# -- conditions


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("i_id = 5", [("item.i_id", "=", (5,))]),
        ("5 = i_id", [("item.i_id", "=", (5,))]),
        ("5 < i_id", [("item.i_id", ">", (5,))]),
        ("i_id >= -5", [("item.i_id", ">=", (-5,))]),
        ("i_id = 5.0", [("item.i_id", "=", (5,))]),
        ("i_id = 5.5", [("item.i_id", "<", (-(2**31),))]),  # matches no value
        ("i_id < 5.5", [("item.i_id", "<=", (5,))]),
        ("i_id >= -1e300", [("item.i_id", ">=", (-(2**31),))]),
        (
            "i_id BETWEEN 1.5 AND 1e300",
            [("item.i_id", ">=", (2,)), ("item.i_id", "<=", (2**31 - 1,))],
        ),
        ("i_id IN (1, 2.5, 3.0)", [("item.i_id", "in", (1, 3))]),
        ("i_id = '5'", [("item.i_id", "=", (5,))]),
        ("i_id = NULL", []),
        ("i_id = 1e3", [("item.i_id", "=", (1000,))]),
        ("i_cost = 1.5", [("item.i_cost", "=", (Decimal("1.50"),))]),
        ("i_cost > 1.005", [("item.i_cost", ">=", (Decimal("1.01"),))]),
        ("(i_id, i_page) > (5, 6)", [("item.i_id", ">=", (5,))]),
        ("i_cost > CAST('3' AS DECIMAL(9,2))", [("item.i_cost", ">", (Decimal("3.00"),))]),
        (
            "i_id BETWEEN 2 AND ?",
            [("item.i_id", ">=", (2,)), ("item.i_id", "<=", (Parameter(0),))],
        ),
        ("i_id NOT BETWEEN 2 AND 3", []),
        ("i_id IN (2, ?, 2)", [("item.i_id", "in", (2, Parameter(0)))]),
        ("i_id NOT IN (2, 3)", []),
        ("i_id IN (2, i_page)", []),
        ("i_id IN (SELECT 1)", []),
        ("i_title LIKE 'abc%'", [("item.i_title", "like", ("abc%",))]),
        ("i_title LIKE 'a_c%'", []),
        ("i_title LIKE '%abc'", []),
        ("i_title LIKE :p", [("item.i_title", "like", (Parameter("p"),))]),
        ("i_title NOT LIKE 'abc%'", []),
        ("i_title ILIKE 'abc%'", []),
        ("i_title IS NULL", [("item.i_title", "is null", ())]),
        ("i_title IS NOT NULL", []),
        ("i_pub_date = DATE '2020-01-31'", [("item.i_pub_date", "=", (dt.date(2020, 1, 31),))]),
        ("i_pub_date < '2020-01-31'", [("item.i_pub_date", "<", (dt.date(2020, 1, 31),))]),
        (
            "o_date >= TIMESTAMP '2020-01-31 10:00:00'",
            [("orders.o_date", ">=", (dt.datetime(2020, 1, 31, 10),))],
        ),
        ("(i_id = 1) AND ((i_page = 2))", [("item.i_id", "=", (1,)), ("item.i_page", "=", (2,))]),
        ("i_id = 1 OR i_page = 2", []),
        ("NOT i_id = 1", []),
        ("i_id + 1 = 2", []),
    ],
)
def test_conditions_become_filters(condition, expected):
    assert [(a, b.value, c) for a, b, c in filters(condition)] == expected


def test_equality_of_rows_becomes_equality_of_their_values():
    block = only_block(
        "SELECT 1 FROM item JOIN orders ON (i_id, ((i_title), 1 + 1)) = (o_id, (o_status, 2))"
        " WHERE (i_stock, i_cost) = (?, 3)"
    )
    (join,) = block.equi_joins
    assert (join.left_columns, join.right_columns) == (("i_id", "i_title"), ("o_id", "o_status"))
    assert [f.column for f in block.filters if f.alias == "item"] == ["i_stock", "i_cost"]
    either = bind("SELECT (o_id IS NULL OR i_id = 1, 2) = (true, 2) FROM item, orders", CATALOG)
    assert either.ast.expressions[0].this.sql() == "((o_id IS NULL OR i_id = 1) = (TRUE) AND 2 = 2)"
    assert bind("UPDATE item SET (i_stock, i_cost) = (1, 2) WHERE i_id = 1", CATALOG)
    with pytest.raises(SqlError):
        bind("SELECT 1 FROM item WHERE (i_id, i_stock) = (1, nothing)", CATALOG)


def test_equalities_are_transitive():
    block = only_block(
        "SELECT 1 FROM order_line l, orders o, cc_xacts x"
        " WHERE l.ol_o_id = x.cx_o_id AND x.cx_o_id = o.o_id AND o.o_id = ?"
    )
    joins = {(join.child, join.parent): join.implied for join in block.fk_joins}
    assert joins == {("x", "o"): False, ("l", "o"): True}
    assert {(f.alias, f.column) for f in block.filters} == {
        ("o", "o_id"),
        ("l", "ol_o_id"),
        ("x", "cx_o_id"),
    }


def test_using_and_natural_become_equi_joins_and_merge_columns():
    bound = bind(
        "SELECT * FROM (customer c NATURAL JOIN customer d) JOIN address ON addr_id = c_addr_id",
        CATALOG,
    )
    (block,) = bound.statement.blocks
    names = TPCW.relation("customer").column_names
    assert block.equi_joins[0] == EquiJoin("c", names, "d", names)
    assert [column.name for column in bound.columns] == [
        *names,
        *TPCW.relation("address").column_names,
    ]


def test_outer_joins_keep_only_necessary_filters():
    block = only_block(
        "SELECT 1 FROM item LEFT JOIN author ON a_id = i_a_id AND a_lname = 'x' AND i_stock = 1"
        " WHERE i_subject = 's' AND a_fname IS NULL"
    )
    assert {(f.column, f.comparison) for f in block.filters} == {
        ("a_lname", Comparison.EQ),
        ("i_subject", Comparison.EQ),
    }
    assert not block.equi_joins
    assert not block.inner_only


def test_an_asof_join_does_not_filter_its_right_side():
    block = only_block(
        "SELECT 1 FROM orders o ASOF JOIN cc_xacts x ON o.o_date >= x.cx_xact_date"
        " WHERE x.cx_type = 'VISA' AND o.o_id = 1"
    )
    assert [f.alias for f in block.filters] == ["o"]
    assert not block.inner_only


def test_order_is_listed_when_all_terms_are_plain_columns():
    order = "SELECT i_id AS n, i_title FROM item ORDER BY n DESC, i_title NULLS FIRST"
    assert only_block(order).order == (
        Order("item", "i_id", descending=True, nulls_first=True),
        Order("item", "i_title", nulls_first=True),
    )
    assert only_block("SELECT 1 FROM item ORDER BY i_id, i_title DESC NULLS LAST").order == (
        Order("item", "i_id"),
        Order("item", "i_title", descending=True),
    )
    assert only_block("SELECT i_id FROM item ORDER BY i_id, i_cost + 1").order == ()


# -- names


@pytest.mark.parametrize(
    ("sql", "blocks", "columns"),
    [
        ("SELECT I_ID AS N, Item.I_Title FROM ITEM", 1, ["n", "i_title"]),
        ('SELECT "i_id" AS "N" FROM item', 1, ["N"]),
        ("SELECT t.a FROM author AS t (a, b)", 1, ["a"]),
        ("WITH item AS (SELECT 1 AS z) SELECT z FROM item", 0, ["z"]),
        ("WITH x AS (SELECT a_id FROM author) SELECT x.*, y.a_id FROM x, x AS y", 1, None),
        (
            "WITH RECURSIVE r(n) AS (SELECT i_related1 FROM item WHERE i_id = 1 UNION"
            " SELECT i_related1 FROM item, r WHERE i_id = n) SELECT n FROM r",
            2,
            ["n"],
        ),
        ("SELECT a_id FROM author WHERE EXISTS (SELECT 1 FROM item WHERE i_a_id = a_id)", 2, None),
        (
            "SELECT x.m FROM author, LATERAL (SELECT max(i_id) AS m FROM item"
            " WHERE i_a_id = a_id) x",
            2,
            ["m"],
        ),
        ("SELECT a_id FROM author UNION SELECT i_id FROM item ORDER BY a_id LIMIT 3", 2, ["a_id"]),
        ("SELECT a_id FROM author UNION ALL BY NAME SELECT i_id FROM item", 2, ["a_id", "i_id"]),
        ("SELECT u, i FROM range(3) r(i), unnest([1, 2]) AS t(u)", 0, ["u", "i"]),
        ("VALUES (1, 2), (3, 4)", 0, ["column1", "column2"]),
        ("FROM author SELECT a_id", 1, ["a_id"]),
        ("SELECT c_id FROM address__customer", 1, ["c_id"]),
        ("SELECT count(*), a_id + 1 AS b FROM author GROUP BY b", 1, ["count", "b"]),
        ("SELECT list_transform([1, 2], lambda x: x + a_id) AS l FROM author", 1, ["l"]),
        ("SELECT s.k FROM (SELECT {'k': a_id} AS s FROM author) t", 1, ["k"]),
        ("SELECT max(i_id) OVER w s FROM item WINDOW w AS (ORDER BY i_id)", 1, ["s"]),
        (
            "SELECT * EXCLUDE (a_bio) REPLACE (1 AS a_id) RENAME (a_dob AS born) FROM author",
            1,
            ["a_id", "a_fname", "a_lname", "a_mname", "born"],
        ),
    ],
)
def test_names_resolve(sql, blocks, columns):
    bound = bind(sql, CATALOG)
    assert len(bound.statement.blocks) == blocks
    if columns is not None:
        assert [column.name for column in bound.columns] == columns


def test_columns_of_each_alias_include_uses_in_subqueries():
    outer, inner = bind(
        "SELECT a.a_lname FROM author a WHERE EXISTS (SELECT 1 FROM item WHERE i_a_id = a.a_id)",
        CATALOG,
    ).statement.blocks
    assert outer.columns == {"a": frozenset({"a_lname", "a_id"})}
    assert inner.columns == {"item": frozenset({"i_a_id"})}


def test_tables_carry_their_block_and_alias():
    bound = bind("SELECT 1 FROM author x WHERE a_id IN (SELECT i_a_id FROM item)", CATALOG)
    found = {table.name: table.meta["source"] for table in bound.ast.find_all(exp.Table)}
    assert found == {"author": (0, "x"), "item": (1, "item")}


def test_output_types_are_inferred():
    some = "a_id, max(a_dob), count(*), CAST(1 AS BIGINT), a_id / 2"
    bound = bind(f"SELECT {some} FROM author GROUP BY 1", CATALOG)
    kinds = [column.type.kind if column.type else None for column in bound.columns]
    assert kinds == [Kind.INTEGER, Kind.DATE, Kind.BIGINT, Kind.BIGINT, None]


# -- parameters


def test_parameters_are_numbered_in_order_and_typed_by_their_columns():
    bound = bind(
        "WITH t AS (SELECT i_id FROM item WHERE i_cost > ?) SELECT ? FROM t, item"
        " WHERE i_title LIKE ? AND item.i_pub_date IN (?, ?) LIMIT ? OFFSET ?",
        CATALOG,
    )
    types = [type_ and type_.kind for type_ in bound.parameter_types.values()]
    date = Kind.DATE
    assert list(bound.parameter_types) == list(range(7))
    assert types == [Kind.DECIMAL, None, Kind.TEXT, date, date, Kind.BIGINT, Kind.BIGINT]
    assert "$3" in bound.ast.sql("duckdb").partition("LIKE")[2]


def test_a_parameter_may_be_cast_by_colons():
    bound = bind(
        """SELECT ?::TEXT, '?::' AS "?::", ? :: INTEGER /* ?:: */, ?::DATE::TEXT -- ?::
           FROM item WHERE i_id = ?::BIGINT""",
        CATALOG,
    )
    kinds = [type_.kind for type_ in bound.parameter_types.values()]
    assert kinds == [Kind.TEXT, Kind.INTEGER, Kind.DATE, Kind.BIGINT]
    assert [column.name for column in bound.columns][1] == "?::"
    assert bound.ast.sql("duckdb").count("CAST") == 5


def test_named_parameters_are_typed_by_their_columns():
    bound = bind(
        "SELECT :a, {'k': 1}, [1, 2][1:2] FROM item WHERE i_id = :a AND i_title=:b", CATALOG
    )
    assert {name: type_.kind for name, type_ in bound.parameter_types.items()} == {
        "a": Kind.INTEGER,
        "b": Kind.TEXT,
    }


# -- writes


def test_writes_bind_their_target_columns_and_parameters():
    update = bind("UPDATE item SET i_cost = ?, i_stock = i_stock - 1 WHERE i_id = ?", CATALOG)
    statement = update.statement
    assert (statement.kind, statement.target) == (StatementKind.UPDATE, "item")
    assert statement.written == ("i_cost", "i_stock")
    assert statement.blocks[0].filters == (Filter("item", "i_id", Comparison.EQ, (Parameter(1),)),)
    assert [type_.kind for type_ in update.parameter_types.values()] == [Kind.DECIMAL, Kind.INTEGER]

    insert = bind("INSERT INTO author (a_id, a_dob) VALUES (?, ?) RETURNING a_id", CATALOG)
    assert [type_.kind for type_ in insert.parameter_types.values()] == [Kind.INTEGER, Kind.DATE]
    assert [column.name for column in insert.columns] == ["a_id"]
    assert insert.statement.blocks == ()

    delete = bind("DELETE FROM item AS i WHERE i.i_id IN (SELECT ol_i_id FROM order_line)", CATALOG)
    assert [block.sources for block in delete.statement.blocks] == [
        (Source("i", "item"),),
        (Source("order_line", "order_line"),),
    ]


def test_insert_from_a_query_and_on_conflict_bind():
    bound = bind(
        "INSERT INTO author (a_id, a_lname) SELECT i_id, ? FROM item WHERE i_id = ?"
        " ON CONFLICT (a_id) DO UPDATE SET a_lname = excluded.a_lname",
        CATALOG,
    )
    assert bound.parameter_types[0] == TPCW.relation("author").column("a_lname").type
    assert [b.sources[0].relation for b in bound.statement.blocks] == ["item"]


def test_a_write_is_not_rewritten():
    bound = bind(WORKLOAD["set_stock"], CATALOG)
    assert rewrite(bound, CATALOG).bound is bound


# -- refusals


def _refusal(sql):
    with pytest.raises(SqlError) as raised:
        bind(sql, CATALOG)
    return f"{type(raised.value).__name__}: {raised.value}"


def test_every_refusal_has_its_message():
    shown = "".join(f"-- {name}\n{_refusal(sql)}\n\n" for name, sql in ERRORS.items())
    assert shown == (FIXTURES / "binder_errors.txt").read_text()


def test_errors_state_position_and_similar_names():
    with pytest.raises(UnknownName, match=r"line 2, column 8") as raised:
        bind(ERRORS["unknown qualified column"], CATALOG)
    assert raised.value.details["near"][0] == "item.i_stock"
    assert "i_stock" in raised.value.cure


def test_deep_nesting_is_refused_without_a_crash():
    with pytest.raises(SqlError, match="nested too deeply"):
        bind("SELECT " + "(" * 5000 + "1" + ")" * 5000, CATALOG)


def test_an_empty_text_is_refused():
    with pytest.raises(SqlError, match="no statement"):
        bind(" ; -- nothing\n", CATALOG)
    with pytest.raises(Unsupported):
        bind("VACUUM", CATALOG)
