"""ROWS FROM (f(…), g(…)), and unnest of several arrays, which is ROWS FROM of an unnest of each.

Every function becomes the list of its rows (`query/dialect/listed_rows.py`); one that returns a
value has a single row.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from hornbeam_server.query.dialect.calls_in_from import TABLE_FUNCTIONS
from hornbeam_server.query.dialect.functions import function_name, is_aggregate
from hornbeam_server.query.dialect.jsonb_rows import POPULATING, RECORDS, lists_of
from hornbeam_server.query.dialect.listed_rows import Listed, rows_of
from hornbeam_server.query.dialect.templates import PLACES
from hornbeam_server.schema.errors import SqlError, Unsupported

_FUNCTIONS = "rows_from"
"""The part of an item of FROM that has the functions of ROWS FROM."""


def has_several_functions(node: exp.Expr) -> bool:
    """Is the node an item of FROM that `side_by_side` writes?"""
    if isinstance(node, exp.Unnest):
        return len(node.expressions) > 1 and node.arg_key != _FUNCTIONS
    return isinstance(node, exp.Table) and bool(node.args.get(_FUNCTIONS))


def side_by_side(node: exp.Expr) -> exp.Lateral:
    """The item of FROM, for which `has_several_functions` holds, as a query. Raises SqlError,
    Unsupported."""
    alias = node.args.get("alias")
    given = [column.name for column in alias.columns] if alias is not None else []
    functions = node.args.get(_FUNCTIONS) or [node]
    columns = [column for each in functions for column in _columns(each)]
    if len(columns) == 1 and node.alias:
        columns = [Listed(node.alias, columns[0].values, columns[0].type)]
    number = node.args.get("offset") or node.args.get("ordinality")
    if isinstance(number, exp.Identifier):  # the parser stores the last alias column here
        given.append(number.name)
    return rows_of(columns, node.alias or _name(functions[0]), given, numbered=bool(number))


def _name(item: exp.Expr) -> str:
    return "unnest" if isinstance(item, exp.Unnest) else function_name(item.this)


def _columns(item: exp.Expr) -> Sequence[Listed]:
    """The columns of one function."""
    if isinstance(item, exp.Unnest):
        return [Listed("unnest", each) for each in item.expressions]
    call = item.this
    if not isinstance(call, exp.Func) or is_aggregate(call):
        raise SqlError(
            "ROWS FROM takes functions alone.", cure="Join relations and subqueries in FROM."
        )
    name = function_name(call)
    if name in POPULATING:
        raise Unsupported(
            f"{name} in ROWS FROM is not supported.", cure="Make it an item of FROM of its own."
        )
    alias = item.args.get("alias")
    if alias is not None and name not in RECORDS:
        raise SqlError(
            f"{name} in ROWS FROM has an alias of its own.",
            cure="Name the columns behind ROWS FROM (…): AS t (a, b).",
        )
    return lists_of(call, alias) or [Listed(name, _list(name, call))]


def _list(name: str, call: exp.Func) -> exp.Expr:
    """The list of the rows of a function of one column."""
    if name in TABLE_FUNCTIONS:
        return call
    if name == "generate_subscripts":
        return exp.Anonymous(this=PLACES, expressions=[each.copy() for each in call.expressions])
    return exp.Array(expressions=[call.copy()])
