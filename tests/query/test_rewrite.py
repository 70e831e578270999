"""Rewriting: one golden pair per form of SQL, each executed as written and over the views."""

import pytest

from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.dialect.grammar import NAME
from hornbeam_server.query.optimizer.rewrite import MAX_CANDIDATES, rewrite
from hornbeam_server.schema.catalog import Index
from hornbeam_server.schema.model import KeyPart
from tests.query.bindertables import FIXTURES, catalog, oracle, reflected, statements, view

SHOP = reflected(
    """
    CREATE TABLE country (id INTEGER PRIMARY KEY, name VARCHAR);
    CREATE TABLE address (id INTEGER PRIMARY KEY, street VARCHAR,
      country INTEGER NOT NULL REFERENCES country (id));
    CREATE TABLE customer (id INTEGER PRIMARY KEY, name VARCHAR, balance DECIMAL(9,2),
      address INTEGER REFERENCES address (id));
    CREATE TABLE orders (id INTEGER PRIMARY KEY, total DECIMAL(9,2),
      customer INTEGER REFERENCES customer (id),
      ship INTEGER REFERENCES address (id), bill INTEGER REFERENCES address (id));
    CREATE TABLE item (id INTEGER PRIMARY KEY, title VARCHAR, price DECIMAL(9,2));
    CREATE TABLE line (orders INTEGER REFERENCES orders (id), no INTEGER,
      item INTEGER REFERENCES item (id), qty INTEGER, PRIMARY KEY (orders, no));
    """
)
VIEWS = [
    view(SHOP, "country", "address"),
    view(SHOP, "country", "address", "customer"),
    view(SHOP, "country", "address", "customer", "orders"),
    view(SHOP, "item", "line"),
]
CATALOG = catalog(SHOP, VIEWS)
DATA = {
    "country": [(1, "NL"), (2, "DE"), (3, None)],
    "address": [(1, "a", 1), (2, "b", 1), (3, "c", 2), (4, "d", 3)],
    "customer": [
        (1, "a", 5, 1),
        (2, "x", -1, 1),
        (3, "c", 0, 3),
        (4, "n", 2, None),
        (5, "d", None, 4),
    ],
    "orders": [(1, 10, 1, 1, 2), (2, 5, 2, 3, 3), (3, 7, 4, None, 1), (4, None, 5, 4, None)],
    "item": [(1, "one", 1), (2, "two", 2), (3, "three", 3)],
    "line": [
        (1, 1, 1, 4),
        (1, 2, 2, 1),
        (2, 1, 2, 7),
        (3, 3, 3, None),
        (4, 1, None, 2),
        (4, 2, 2, 2),
    ],
}
PAIRS = dict(statements((FIXTURES / "rewrite_pairs.sql").read_text()))
GOLDEN = FIXTURES / "rewrite_pairs.txt"


def _shown(sql: str) -> str:
    found = rewrite(bind(sql, CATALOG), CATALOG)
    uses = [f"uses {use.view} for {', '.join(use.aliases)}" for use in found.uses]
    notes = [f"note {note}" for note in found.notes]
    return "\n".join([found.bound.ast.sql(NAME), *uses, *notes])


def test_rewriting_gives_the_golden_file():
    shown = "".join(f"-- {name}\n{_shown(sql)}\n\n" for name, sql in PAIRS.items())
    assert shown == GOLDEN.read_text()


@pytest.mark.parametrize("name", PAIRS)
def test_a_rewritten_statement_gives_the_same_rows_and_names(name):
    bound = bind(PAIRS[name], CATALOG)
    found = rewrite(bound, CATALOG)
    with oracle(CATALOG, DATA) as connection:
        before = connection.execute(PAIRS[name])
        expected = sorted(before.fetchall(), key=repr)
        after = connection.execute(found.bound.ast.sql(NAME))
        names = [column[0] for column in after.description]
        assert sorted(after.fetchall(), key=repr) == expected
    if found.uses:
        assert names == [column.name for column in bound.columns]
    assert found.bound.columns == bound.columns


def test_a_view_with_an_index_for_the_filter_is_preferred():
    index = Index("by_title", "item__line", (KeyPart("title"),))
    other = view(SHOP, "orders", "line")
    sql = (
        "SELECT l.no FROM line l, item i, orders o"
        " WHERE l.item = i.id AND l.orders = o.id AND {} = 'x'"
    )
    both = catalog(SHOP, [other, *VIEWS], indexes=[index])
    (use,) = rewrite(bind(sql.format("i.title"), both), both).uses
    assert use.view == "item__line"
    plain = catalog(SHOP, [other, *VIEWS])
    (use,) = rewrite(bind(sql.format("i.title"), plain), plain).uses
    assert use.view == "orders__line"


def test_an_unreadable_view_is_named_and_not_used():
    building = catalog(SHOP, VIEWS, building=["item__line"])
    found = rewrite(bind("SELECT 1 FROM line l JOIN item i ON l.item = i.id", building), building)
    assert not found.uses
    assert found.notes == ("join l to i (line.item_fkey): view item__line is building",)


def test_parameters_keep_their_numbers_and_types():
    bound = bind(
        "SELECT ? FROM line l JOIN item i ON l.item = i.id AND i.price > ? WHERE l.qty = ?",
        CATALOG,
    )
    found = rewrite(bound, CATALOG)
    assert found.bound.parameter_types == bound.parameter_types
    with oracle(CATALOG, DATA) as connection:
        rows = connection.execute(found.bound.ast.sql(NAME), [7, 1.5, 1]).fetchall()
    assert rows == [(7,)]


def test_the_search_over_many_candidates_is_bounded():
    joins = [(f"l{i}", f"i{i}") for i in range(20)]
    tables = ", ".join(f"line {line}, item {item}" for line, item in joins)
    where = " AND ".join(f"{line}.item = {item}.id" for line, item in joins)
    found = rewrite(bind(f"SELECT 1 FROM {tables} WHERE {where}", CATALOG), CATALOG)
    assert len(found.uses) == MAX_CANDIDATES
