"""The chosen access path and the keys that it reads: one small case per rule."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import pytest

from hornbeam_server.query.binding.algebra import (
    Block,
    Comparison,
    EquiJoin,
    Filter,
    Source,
)
from hornbeam_server.query.optimizer.access_paths import (
    Access,
    Equality,
    JoinColumn,
    Reach,
    Term,
    choose,
    exact,
)
from hornbeam_server.query.optimizer.join_order import nested_loops, order_joins
from hornbeam_server.query.optimizer.key_ranges import keys, ranges, successor
from hornbeam_server.query.parsing.placeholders import Parameter
from hornbeam_server.schema.catalog import State
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.storage.codec.keyrange import KeyRange
from tests.query.query_world import make_catalog
from tests.txlayer.database_world import catalog_of

CATALOG = make_catalog()
EQ, IN, GE, LT = Comparison.EQ, Comparison.IN, Comparison.GE, Comparison.LT


def block(relation: str, *filters: tuple[str, Comparison, Any], **more: Any) -> Block:
    return Block(
        (Source("t", relation),),
        filters=tuple(
            Filter("t", column, comparison, value if isinstance(value, tuple) else (value,))
            for column, comparison, value in filters
        ),
        **more,
    )


def path(
    relation: str, *filters: tuple[str, Comparison, Any], columns: str = "", **options: Any
) -> Access:
    used = {"t": frozenset(columns.split())} if columns else {}
    return choose(CATALOG, block(relation, *filters, columns=used), "t", **options)


def test_a_whole_key_is_a_point_read():
    found = path("line", ("l_no", EQ, 1), ("l_o_id", EQ, Parameter("o")))
    assert (found.reach, found.layout.name) == (Reach.POINT, "line")
    assert keys(found, {"o": 7}) == [(7, 1)]


def test_in_lists_produce_every_key_once():
    found = path("line", ("l_o_id", IN, (2, 1, Parameter(0))), ("l_no", IN, (5, 6)))
    assert keys(found, {0: 1}) == [(2, 5), (2, 6), (1, 5), (1, 6)]


def test_null_equals_nothing_and_is_null_finds_null():
    by_value = path("line", ("l_i_id", EQ, Parameter(0)))
    assert keys(by_value, {0: None}) == []
    by_null = path("line", ("l_i_id", Comparison.IS_NULL, ()))
    assert by_null.layout.name == "line_l_i_id"
    assert keys(by_null, {}) == [(None,)]


def test_leading_equalities_may_precede_one_range():
    found = path("line", ("l_o_id", EQ, 3), ("l_no", GE, 1), ("l_no", LT, 4))
    assert found.reach is Reach.RANGE
    assert ranges(found, {}) == [
        KeyRange((3,), low=1, low_inclusive=True, high=4, high_inclusive=False)
    ]


@pytest.mark.parametrize("value", [None, 5])
def test_a_null_bound_matches_no_row(value):
    found = path("line", ("l_o_id", GE, Parameter(0)))
    assert len(ranges(found, {0: value})) == (0 if value is None else 1)


def test_an_index_is_covering_when_it_holds_the_columns_used():
    wide = path("item", ("i_subject", EQ, "art"))
    narrow = path("item", ("i_subject", EQ, "art"), columns="i_id i_subject i_title")
    assert (wide.layout.name, wide.covering) == ("item_subject", False)
    assert (narrow.layout.name, narrow.covering) == ("item_subject", True)


def test_an_index_under_construction_is_not_read():
    found = choose(make_catalog(readable=False), block("item", ("i_subject", EQ, "art")), "t")
    assert (found.layout.name, found.reach) == ("item", Reach.SCAN)


def test_without_conditions_a_covering_index_is_scanned():
    assert path("line", columns="l_i_id").layout.name == "line_l_i_id"
    assert path("line").layout.name == "line"


@pytest.mark.parametrize(
    ("terms", "ordered", "reverse"),
    [
        ([Term("i_pub", True)], 1, False),
        ([Term("i_subject"), Term("i_pub", True)], 2, False),
        ([Term("i_pub", True), Term("i_title")], 1, False),  # the key has NULL titles first
        ([Term("i_pub", True), Term("i_title", nulls_first=True)], 2, False),
        ([Term("i_pub", True, nulls_first=True)], 1, False),
        ([Term("i_pub", True, nulls_first=True), Term("i_title")], 1, False),
        ([Term("i_pub")], 1, True),
        ([Term("i_pub"), Term("i_title", True)], 2, True),
        ([Term("i_title")], 0, False),
    ],
)
def test_an_order_that_the_key_delivers_is_recognised(terms, ordered, reverse):
    found = path(
        "item", ("i_subject", EQ, "art"), columns="i_id i_pub i_title", order=terms, limited=True
    )
    assert (found.ordered, found.reverse) == (ordered, reverse)


def test_nulls_that_must_come_last_are_read_last():
    found = path(
        "item", ("i_subject", EQ, "art"), columns="i_id i_pub", order=[Term("i_pub")], limited=True
    )
    assert ranges(found, {}) == [
        KeyRange(("art",), low=dt.date.min),
        KeyRange(("art", None)),
    ]


def test_nulls_that_must_come_first_are_read_first():
    order = [Term("i_pub", True, nulls_first=True)]
    found = path("item", ("i_subject", EQ, "art"), columns="i_id i_pub", order=order, limited=True)
    assert ranges(found, {}) == [
        KeyRange(("art", None)),
        KeyRange(("art",), low=dt.date.min),
    ]


def test_several_prefixes_deliver_no_order():
    found = path(
        "item", ("i_subject", IN, ("a", "b")), columns="i_id i_pub", order=[Term("i_pub", True)]
    )
    assert found.ordered == 0


@pytest.mark.parametrize(
    ("pattern", "low", "high"),
    [
        ("ab%", "ab", "ac"),
        ("a_c", "a", "b"),
        ("%x", "", None),
        ("z", "z", "{"),
        ("a\\%b%", "a%b", "a%c"),
        ("\\\\_", "\\", "]"),
        ("a\\", "a", "b"),
    ],
)
def test_like_reads_the_range_of_its_literal_prefix(pattern, low, high):
    catalog_index = path(
        "author_item", ("i_subject", EQ, "x"), ("i_title", Comparison.PREFIX, Parameter("p"))
    )
    assert ranges(catalog_index, {"p": pattern}) == [
        KeyRange(("x",), low=low, high=high, high_inclusive=False)
    ]


def test_the_successor_of_text_skips_surrogates():
    assert successor("a\ud7ff") == "a\ue000"
    assert successor("a\U0010ffff") == "b"
    assert successor("\U0010ffff") is None


def test_exact_paths_need_no_check():
    both = block("line", ("l_o_id", EQ, 1), ("l_no", GE, 2))
    assert exact(choose(CATALOG, both, "t"), both)
    more = block("line", ("l_o_id", EQ, 1), ("l_qty", EQ, 2))
    assert not exact(choose(CATALOG, more, "t"), more)
    twice = block("line", ("l_o_id", EQ, 1), ("l_o_id", EQ, 2))
    assert not exact(choose(CATALOG, twice, "t"), twice)
    mixed = block("line", ("l_o_id", EQ, 1), conjunctive=False)
    assert not exact(choose(CATALOG, mixed, "t"), mixed)


def test_joins_begin_at_constants_and_follow_keys():
    joined = Block(
        (Source("a", "author"), Source("i", "item"), Source("l", "line")),
        equi_joins=(
            EquiJoin("i", ("i_a_id",), "a", ("a_id",)),
            EquiJoin("l", ("l_i_id",), "i", ("i_id",)),
        ),
        filters=(Filter("l", "l_o_id", EQ, (Parameter(0),)),),
    )
    steps = order_joins(CATALOG, joined, looked_up=True)
    assert [step.alias for step in steps] == ["l", "i", "a"]
    assert steps[1].equalities == (Equality("i_id", (JoinColumn("l", "l_i_id"),)),)
    assert [step.reach for step in steps] == [Reach.PREFIX, Reach.POINT, Reach.POINT]
    assert nested_loops(steps)


def test_a_join_without_an_access_path_runs_no_nested_loops():
    joined = Block(
        (Source("x", "item"), Source("y", "item")),
        equi_joins=(EquiJoin("x", ("i_pub",), "y", ("i_pub",)),),
    )
    assert not nested_loops(order_joins(CATALOG, joined))


def test_a_condition_on_a_column_of_a_view_is_one_on_its_equal_columns():
    """The view's rows have o_id = l_o_id, so both columns find its rows by its key."""
    ddl = """
        CREATE TABLE orders (o_id INTEGER PRIMARY KEY);
        CREATE TABLE line (
          l_o_id INTEGER REFERENCES orders (o_id), l_no INTEGER, PRIMARY KEY (l_o_id, l_no));
        CREATE TABLE customer (c_id INTEGER PRIMARY KEY);
    """
    made = catalog_of(load_ddl(ddl), views=[("orders", "line")])
    catalog = replace(made, states=tuple((name, State.READABLE) for name, _ in made.states))
    view = "orders__line"
    for column in ("o_id", "l_o_id"):
        found = choose(catalog, block(view, (column, EQ, Parameter(0))), "t")
        assert (found.reach, keys(found, {0: 7})) == (Reach.PREFIX, [(7,)]), column
    ranged = choose(catalog, block(view, ("o_id", GE, 3), ("o_id", LT, 5)), "t")
    assert ranges(ranged, {}) == [KeyRange((), low=3, high=5, high_inclusive=False)]
    joined = Block(
        (Source("t", view), Source("o", "customer")),
        equi_joins=(EquiJoin("t", ("o_id",), "o", ("c_id",)),),
    )
    looked_up = choose(catalog, joined, "t", fetched={"o": 1.0}, joined=True)
    assert looked_up.reach is Reach.PREFIX
    assert looked_up.join_columns == (JoinColumn("o", "c_id"),)
