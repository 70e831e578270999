"""Rows of a view decoded in runs equal rows decoded one by one; damage is found all the same."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hornbeam_server.schema.catalog import Catalog, Forest
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import Corruption
from hornbeam_server.schema.views import JoinView, ViewColumn
from hornbeam_server.storage.codec.rows import Codecs, LayoutCodec

SCHEMA = load_ddl(
    "CREATE TABLE a (a_id INTEGER PRIMARY KEY, a_n DECIMAL(9,2), a_t TEXT);"
    "CREATE TABLE b (b_id INTEGER PRIMARY KEY, b_a INTEGER REFERENCES a (a_id), b_t TEXT);"
)
COLUMNS = tuple(
    ViewColumn(column, relation.name, column)
    for relation in SCHEMA.relations
    for column in relation.column_names
)
VIEW = JoinView("v", ("a", "b"), SCHEMA.relation("b").foreign_keys, COLUMNS)
CATALOG = Catalog(1, SCHEMA, Forest(("a",)), (VIEW,))

HEADS = st.tuples(
    st.integers(0, 2), st.sampled_from([None, "1.50", "-7.25"]), st.sampled_from(["", "x" * 40])
)
TAILS = st.tuples(st.integers(0, 300), st.integers(0, 2) | st.none(), st.none() | st.text())


def codec() -> LayoutCodec:
    return Codecs(CATALOG)("v")


def encoded(rows: list[Any]) -> list[bytes]:
    return [codec().encode((*head, *tail)) for head, tail in rows]


@given(st.lists(st.tuples(HEADS, TAILS), max_size=12))
def test_runs_decode_like_single_rows(rows: list[Any]) -> None:
    one_by_one = codec()
    values = encoded(rows)
    assert codec().decode_all(values) == [one_by_one.decode(value) for value in values]


def test_rows_with_the_same_ancestors_share_their_objects() -> None:
    head = (1, "1.50", "x" * 40)
    rows = codec().decode_all(encoded([(head, (i, 1, "t")) for i in range(3)]))
    assert rows[0][1] is rows[2][1]
    assert [row[3] for row in rows] == [0, 1, 2]


@pytest.mark.parametrize("cut", [-1, -3])
def test_a_damaged_row_inside_a_run_is_found(cut: int) -> None:
    values = encoded([((1, "1.50", "x" * 40), (i, 1, "text")) for i in range(4)])
    values[2] = values[2][:cut]
    with pytest.raises(Corruption):
        codec().decode_all(values)


def test_a_surplus_value_inside_a_run_is_found() -> None:
    values = encoded([((1, "1.50", "x" * 40), (i, 1, "text")) for i in range(4)])
    values[3] += b"\x01"
    with pytest.raises(Corruption):
        codec().decode_all(values)


def test_rows_of_relations_decode_without_sharing() -> None:
    rows = [(1, 1, "x"), (2, 1, "x")]
    of_b = Codecs(CATALOG)("b")
    assert of_b.decode_all([of_b.encode(row) for row in rows]) == rows
