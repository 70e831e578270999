"""The statements for PostgreSQL, without a PostgreSQL."""

import pytest

from bench.peers import postgres_sql
from bench.peers.design import tpcw
from hornbeam_server.demo.tpcw.data import Size

SOURCE = tpcw(Size(customers=50, items=50))
DESIGN = SOURCE.design


def translated(name: str, *, views: bool = True) -> str:
    return postgres_sql.translated(SOURCE.tasks[name].sql, DESIGN.views if views else DESIGN.plain)


def test_parameters_go_by_number_and_nulls_keep_their_place() -> None:
    assert translated("most_recent_order_id", views=False) == (
        "SELECT o_id FROM customer, orders WHERE customer.c_id = orders.o_c_id AND c_uname = $1 "
        "ORDER BY o_date DESC, orders.o_id DESC LIMIT 1"
    )


def test_reads_go_over_the_views() -> None:
    assert translated("address_country") == (
        "SELECT country__address.co_id AS co_id FROM country__address "
        "WHERE country__address.addr_id = $1"
    )


@pytest.mark.parametrize(
    ("statement", "views"),
    [
        ("get_stock", []),
        ("create_customer", []),
        ("enter_order", ["customer__orders"]),
        ("refresh_session", ["customer__orders"]),
        ("set_stock", ["author__item"]),
        ("clear_cart", []),
    ],
)
def test_a_write_refreshes_the_views_that_it_may_change(statement: str, views: list[str]) -> None:
    assert postgres_sql.touched(SOURCE.tasks[statement].sql, DESIGN.views) == views


def test_views_are_defined_with_their_indexes() -> None:
    definitions = list(postgres_sql.definitions(DESIGN.views))
    assert len(definitions) == 10 + 2 * len(DESIGN.views.views) + len(DESIGN.views.indexes)
    view = next(each for each in definitions if "VIEW country__address AS" in each)
    assert view.startswith("CREATE MATERIALIZED VIEW country__address AS SELECT country.co_id AS")
    assert view.endswith(
        "FROM country, address WHERE address.addr_co_id = country.co_id WITH NO DATA"
    )
    assert (
        "CREATE INDEX customer__orders__by_c_uname_o_date_desc_o_id_desc ON customer__orders "
        "(c_uname, o_date DESC, o_id DESC)"
    ) in definitions
