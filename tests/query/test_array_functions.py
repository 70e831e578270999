"""Functions of arrays: in our own loops and in DuckDB they have the same values."""

from __future__ import annotations

import re
from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.query.dialect.arrays import FUNCTIONS, PREFIX
from hornbeam_server.query.dialect.definitions import Definitions
from hornbeam_server.query.dialect.duckdb_types import connect
from hornbeam_server.query.dialect.macros import macro
from hornbeam_server.schema.errors import TypeMismatch
from tests.depth import depth

NUMBERS = st.integers(-2, 7)
ELEMENTS = st.none() | st.integers(0, 3)
ARRAYS = st.none() | st.lists(ELEMENTS, max_size=4).map(tuple)
TEXTS = st.none() | st.text("ab,", max_size=5)
DRAWN = {"a": ARRAYS, "e": ELEMENTS, "n": NUMBERS, "t": TEXTS}
TYPES = {"a": "INTEGER[]", "e": "INTEGER", "n": "INTEGER", "t": "VARCHAR"}


@pytest.fixture(scope="module")
def database() -> Iterator[object]:
    with connect() as connection:
        Definitions().create_all(connection)
        yield connection


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=depth(15, long=40), deadline=None)
@given(data=st.data())
def test_a_function_has_the_same_value_in_duckdb(database, name, data):
    function = FUNCTIONS[name]
    drawn = DRAWN | ({"n": st.none() | NUMBERS} if name in {"assigned", "part", "at"} else {})
    given = [data.draw(drawn[kind]) for kind in function.parameters]
    strict = function.strict and None in given
    casts = [f"CAST(${i} AS {TYPES[kind]})" for i, kind in enumerate(function.parameters, start=1)]
    sql = f"SELECT {macro(PREFIX + name)}({', '.join(casts)})"
    try:
        wanted = None if strict else function.run(*given)
    except TypeMismatch as error:
        with pytest.raises(duckdb.Error, match=re.escape(error.message)):
            database.execute(sql, list(map(as_list, given))).fetchone()
        return
    (found,) = database.execute(sql, list(map(as_list, given))).fetchone()
    assert found == as_list(wanted)


def as_list(value):
    return list(value) if isinstance(value, tuple) else value
