"""Law: a call with any number of arguments is planned, or refused by a reported error.

A translation that takes an argument which the call does not have would be an internal error.
"""

from __future__ import annotations

import pytest

from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.dialect.aggregates import Function as Aggregate
from hornbeam_server.query.dialect.arrays import NAMES as OF_ARRAYS
from hornbeam_server.query.dialect.catalogue import AGGREGATES, ROWS
from hornbeam_server.query.dialect.functions import _CALLS, _ORDERED_SETS
from hornbeam_server.query.dialect.jsonb import _NAMES as OF_JSONB
from hornbeam_server.query.dialect.session import SESSION
from hornbeam_server.query.dialect.templates import RENAMED, TEMPLATES
from hornbeam_server.query.dialect.value_functions import CALLED
from hornbeam_server.query.planner import plan_query
from hornbeam_server.schema.catalog import Catalog, Forest
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import HornbeamError, SqlError

CATALOG = Catalog(0, load_ddl("CREATE TABLE t (a INT PRIMARY KEY, b TEXT)"), Forest(("t",)))
NAMES = sorted(
    {
        *(name for name, _ in (*TEMPLATES, *OF_ARRAYS)), *RENAMED, *CALLED, *SESSION, *_CALLS,
        *OF_JSONB, *_ORDERED_SETS, *AGGREGATES, *ROWS, *map(str, Aggregate), "jsonb_object",
    }
)  # fmt: skip
LISTS = ("", "NULL", "a", "b", "a, b", "b, b, b", "a, b, a, b", "'day', a, b, b, a, a, a")


def _refused(sql: str) -> bool:
    try:
        plan_query(bind(sql, CATALOG), CATALOG)
    except HornbeamError:
        return True
    return False


@pytest.mark.parametrize("arguments", LISTS)
def test_a_call_is_planned_or_refused(arguments):
    refused = [_refused(f"SELECT {name}({arguments}) FROM t") for name in NAMES]
    assert any(refused)
    assert not all(refused)


@pytest.mark.parametrize("arguments", LISTS)
@pytest.mark.parametrize("name", sorted(_ORDERED_SETS))
def test_an_ordered_set_takes_its_number_of_arguments(name, arguments):
    count = len(arguments.split(", ")) if arguments else 0
    expected = count != _ORDERED_SETS[name][1]
    assert _refused(f"SELECT {name}({arguments}) WITHIN GROUP (ORDER BY a) FROM t") is expected


@pytest.mark.parametrize(
    ("call", "numbers"),
    [
        ("jsonb_object()", "1 or 2"),
        ("jsonb_object('{a}', '{b}', '{c}')", "1 or 2"),
        ("jsonb_extract_path('{}'::JSONB)", "2 or more"),
        ("jsonb_set('{}'::JSONB, '{a}')", "3 or 4"),
    ],
)
def test_a_function_of_jsonb_says_how_many_arguments_it_takes(call, numbers):
    with pytest.raises(SqlError) as raised:
        bind(f"SELECT {call}", CATALOG)
    assert raised.value.cure == f"Give it {numbers}."
