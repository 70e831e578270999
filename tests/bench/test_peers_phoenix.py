"""The statements for Phoenix, without a Phoenix."""

import re
from dataclasses import replace

import pytest

from bench.peers import phoenix_sql as sql
from bench.peers import phoenix_views as views
from bench.peers.design import joins, tpcw
from bench.peers.phoenix_cluster import OMID_POM, PHOENIX_POM, PHOENIX_VERSIONS
from bench.peers.port import Cannot
from hornbeam_server.demo.tpcw.data import Size
from hornbeam_server.schema.catalog import WorkloadStatement

SOURCE = tpcw(Size(customers=50, items=50))
DESIGN = SOURCE.design


def translated(name: str, *, use_views: bool = False) -> sql.PhoenixStatement:
    return sql.translated(SOURCE.tasks[name].sql, DESIGN.views if use_views else DESIGN.plain, "s")


def after_from(name: str, *, use_views: bool = False) -> str:
    return translated(name, use_views=use_views).sql.partition(" FROM ")[2]


@pytest.mark.parametrize("name", SOURCE.tasks)
def test_every_statement_uses_each_parameter_once(name: str) -> None:
    count = SOURCE.tasks[name].sql.count("?")
    for use_views in (False, True):
        text = translated(name, use_views=use_views)
        assert text.sql.count("?") == count
        assert sorted(text.values) == list(range(count))


def test_a_join_scans_the_largest_table_and_broadcasts_the_filtered_ones() -> None:
    assert after_from("get_customer") == (
        "s.address AS address JOIN s.customer AS customer ON customer.c_addr_id = address.addr_id "
        "JOIN s.country AS country ON address.addr_co_id = country.co_id WHERE customer.c_uname = ?"
    )


def test_an_index_lookup_has_a_hint_and_a_covering_index() -> None:
    assert translated("most_recent_order_id").sql == (
        "SELECT /*+ INDEX(orders orders__by_o_c_id) */ orders.o_id FROM s.orders AS orders "
        "JOIN s.customer AS customer ON customer.c_id = orders.o_c_id WHERE customer.c_uname = ? "
        "ORDER BY orders.o_date DESC, orders.o_id DESC LIMIT 1"
    )
    assert sql.joined_by(DESIGN.plain)["orders", "o_c_id"] == {"o_c_id", "o_date", "o_id"}


def test_a_join_of_all_rows_scans_the_largest_table() -> None:
    source = joins(50)
    text = sql.translated(source.tasks["Q2"].sql, source.design.plain, "s").sql
    assert text.startswith("SELECT customer.c_id, ")
    assert text.endswith(
        "FROM s.order_line AS order_line JOIN s.orders AS orders "
        "ON orders.o_id = order_line.ol_o_id "
        "JOIN s.customer AS customer ON customer.c_id = orders.o_c_id"
    )
    assert sql.joined_by(source.design.plain) == {}


def test_stars_are_written_out_in_the_order_of_the_statement() -> None:
    columns = translated("get_book").sql.removeprefix("SELECT ").partition(" FROM ")[0].split(", ")
    item, author = (
        [f"{name}.{column}" for column in DESIGN.plain.schema.relation(name).column_names]
        for name in ("item", "author")
    )
    assert columns == [*item, *author]


def test_a_join_without_an_equality_stays_in_where() -> None:
    text = after_from("related_books")
    assert text.startswith("s.item AS j, s.item AS i WHERE (i.i_related1 = j.i_id OR ")
    assert text.endswith(") AND i.i_id = ?")


def test_subqueries_are_joined_separately() -> None:
    assert after_from("admin_related") == (
        "s.order_line AS order_line JOIN s.orders AS orders ON orders.o_id = order_line.ol_o_id "
        "WHERE NOT (order_line.ol_i_id = ?) AND orders.o_c_id IN "
        "(SELECT orders.o_c_id FROM s.orders AS orders JOIN s.order_line AS order_line "
        "ON orders.o_id = order_line.ol_o_id "
        "WHERE orders.o_id > (SELECT MAX(orders.o_id) - 10000 FROM s.orders AS orders) "
        "AND order_line.ol_i_id = ?) "
        "GROUP BY order_line.ol_i_id ORDER BY SUM(order_line.ol_qty) DESC LIMIT 5"
    )


def test_reads_go_over_the_views_and_keep_their_order() -> None:
    assert translated("most_recent_order_id", use_views=True).sql == (
        "SELECT customer__orders.o_id AS o_id FROM s.customer__orders AS customer__orders "
        "WHERE customer__orders.c_uname = ? "
        "ORDER BY customer__orders.o_date DESC, customer__orders.o_id DESC LIMIT 1"
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("create_cart", "UPSERT INTO s.shopping_cart (sc_id, sc_time) VALUES (?, ?)"),
        (
            "cart_line_update",
            "UPSERT INTO s.shopping_cart_line (scl_qty, scl_sc_id, scl_i_id) VALUES (?, ?, ?)",
        ),
        ("clear_cart", "DELETE FROM s.shopping_cart_line WHERE scl_sc_id = ?"),
    ],
)
def test_writes_become_upserts_and_deletes(name: str, text: str) -> None:
    assert translated(name).sql == text


def test_parameters_follow_the_order_of_the_key() -> None:
    update = "UPDATE order_line SET ol_qty = ? WHERE ol_id = ? AND ol_o_id = ?"
    assert sql.translated(update, DESIGN.plain, "s") == sql.PhoenixStatement(
        "UPSERT INTO s.order_line (ol_qty, ol_o_id, ol_id) VALUES (?, ?, ?)", (0, 2, 1)
    )


@pytest.mark.parametrize(
    "update",
    [
        "UPDATE item SET i_stock = i_stock - 1 WHERE i_id = ?",
        "UPDATE item SET i_stock = ? WHERE i_subject = ?",
        "UPDATE item SET i_stock = ? WHERE i_id = ? AND i_page = 3",
        "UPDATE item SET i_stock = ? WHERE i_id = ? AND NOT i_subject = ?",
        "UPDATE item SET i_stock = ?",
        "SELECT a_id FROM author LEFT JOIN item ON a_id = i_a_id",
        "SELECT a_id FROM author UNION SELECT i_id FROM item",
    ],
)
def test_statements_that_phoenix_cannot_express_are_refused(update: str) -> None:
    with pytest.raises(Cannot):
        sql.translated(update, DESIGN.plain, "s")


# ---------------------------------------------------------------- definitions


def test_a_tables_key_comes_first() -> None:
    line = DESIGN.plain.schema.relation("order_line")
    assert sql.create_table("s.order_line", line.columns, line.primary_key, transactional=True) == (
        "CREATE TABLE s.order_line (ol_o_id INTEGER NOT NULL, ol_id INTEGER NOT NULL, "
        "ol_i_id INTEGER, ol_qty INTEGER, ol_discount DOUBLE, ol_comments VARCHAR(110), "
        "CONSTRAINT pk PRIMARY KEY (ol_o_id, ol_id)) "
        "TRANSACTIONAL=true, TRANSACTION_PROVIDER='OMID'"
    )


def test_an_index_includes_only_columns_that_it_lacks() -> None:
    (index,) = (i for i in DESIGN.views.indexes if i.name == "orders__order_line__by_ol_i_id")
    wider = replace(index, include=(*index.include, "ol_id", "ol_i_id"))
    assert sql.create_index(wider, "s.v", ("ol_o_id", "ol_id")) == (
        "CREATE INDEX orders__order_line__by_ol_i_id ON s.v (ol_i_id) "
        "INCLUDE (o_id, o_c_id, ol_qty)"
    )


@pytest.mark.parametrize("name", ["phoenix", "omid"])
def test_the_report_names_the_versions_of_the_poms(name: str) -> None:
    poms = PHOENIX_POM.read_text() + OMID_POM.read_text()
    group = rf"org\.apache\.{name}</groupId><artifactId>[^<]*</artifactId><version>"
    found = re.search(rf"<{name}\.version>([^<]*)|{group}([^<$]+)<", poms)
    assert found
    assert PHOENIX_VERSIONS[name] in found.groups()


# ---------------------------------------------------------------- views of an application


def maintenance(text: str) -> list[sql.PhoenixStatement]:
    return list(views.maintenance(text, DESIGN.views, "s"))


def test_an_insert_into_the_last_relation_of_a_view_inserts_its_row() -> None:
    (text,) = maintenance(
        "INSERT INTO address (addr_street1, addr_id, addr_co_id) VALUES (?, ?, ?)"
    )
    assert text.values == (1,)
    assert text.sql.startswith(
        "UPSERT INTO s.country__address (co_id, co_name, co_exchange, co_currency, addr_id, "
    )
    assert text.sql.endswith(
        "FROM s.country AS country JOIN s.address AS address "
        "ON address.addr_co_id = country.co_id WHERE address.addr_id = ?"
    )


def test_an_update_of_an_ancestor_changes_the_rows_that_hold_it() -> None:
    assert maintenance(SOURCE.tasks["refresh_session"].sql) == [
        sql.PhoenixStatement(
            "UPSERT INTO s.customer__orders (c_login, c_expiration, o_id) "
            "SELECT CAST(? AS TIMESTAMP), CAST(? AS TIMESTAMP), o_id "
            "FROM s.customer__orders WHERE c_id = ?",
            (0, 1, 2),
        )
    ]
    assert [
        (index.on, index.columns[0].column) for index in views.maintenance_indexes(DESIGN.views)
    ] == [("customer__orders", "c_id")]


def test_an_update_of_the_last_relation_is_one_of_the_views_row() -> None:
    assert maintenance(SOURCE.tasks["set_stock"].sql) == [
        sql.PhoenixStatement("UPSERT INTO s.author__item (i_stock, i_id) VALUES (?, ?)", (0, 1))
    ]


def test_a_delete_from_the_last_relation_deletes_the_views_rows() -> None:
    assert maintenance("DELETE FROM order_line WHERE ol_o_id = ?") == [
        sql.PhoenixStatement("DELETE FROM s.orders__order_line WHERE ol_o_id = ?", (0,))
    ]


@pytest.mark.parametrize("name", ["create_cart", "cart_line_delete", "create_customer"])
def test_other_writes_leave_the_views_alone(name: str) -> None:
    assert maintenance(SOURCE.tasks[name].sql) == []


@pytest.mark.parametrize(
    "write",
    [
        "UPDATE orders SET o_c_id = ? WHERE o_id = ?",
        "UPDATE customer SET c_login = NULL WHERE c_id = ?",
        "DELETE FROM orders",
        "INSERT INTO address (addr_id, addr_co_id) VALUES (?, ?), (?, ?)",
        "INSERT INTO address (addr_id, addr_co_id) SELECT 1, 1 FROM country",
    ],
)
def test_writes_that_cannot_maintain_the_views_are_refused(write: str) -> None:
    with pytest.raises(Cannot):
        maintenance(write)


def test_maintenance_indexes_follow_from_the_workload() -> None:
    update = WorkloadStatement("rename", "UPDATE author SET a_lname = ? WHERE a_id = ?")
    catalog = replace(DESIGN.views, workload=(update,))
    assert [index.name for index in views.maintenance_indexes(catalog)] == [
        "author__item__of_author"
    ]
