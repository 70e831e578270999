"""Functions that return several rows, such as generate_series and unnest, in places where
PostgreSQL refuses them, or where DuckDB would return other rows.

PostgreSQL has no such function in CASE, COALESCE and VALUES. It takes the rows of a SELECT DISTINCT
ON before it computes such a function for each of them; DuckDB computes the function first.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from hornbeam_server.query.dialect.functions import function_name, returns_rows, takes_lists
from hornbeam_server.query.dialect.grammar import at
from hornbeam_server.schema.errors import Unsupported

_AROUND = (exp.Query, exp.From, exp.Join, exp.Lateral, exp.Table)
_CONDITIONAL = (exp.Case, exp.If, exp.Coalesce)
_CURE = "Write it into FROM, and a condition into WHERE."


def check_row_functions(nodes: Iterable[exp.Expr], sql: str) -> None:
    """Raise Unsupported for a function of several rows in such a place."""
    for node in nodes:
        if isinstance(node, exp.Func) and returns_rows(node):
            _check(node, sql)


def _check(call: exp.Func, sql: str) -> None:
    name, part = function_name(call), _outermost(call, sql)
    select = part.parent
    distinct = select.args.get("distinct") if isinstance(select, exp.Select) else None
    if distinct is not None and distinct.args.get("on") and part.arg_key == "expressions":
        raise Unsupported(
            f"{name} gives rows, and is in the list of SELECT DISTINCT ON{at(call, sql)}.",
            cure="Write SELECT DISTINCT ON in a subquery, and the function around it.",
        )


def _outermost(call: exp.Func, sql: str) -> exp.Expr:
    """The part of a query around the call, whose parent is the query. Raises Unsupported if a CASE,
    a VALUES or another such function stands between them."""
    name = function_name(call)
    part: exp.Expr = call
    while part.parent is not None and not isinstance(part.parent, _AROUND):
        part = part.parent
        if name == "generate_series" and takes_lists(part):
            continue  # a list there
        if isinstance(part, _CONDITIONAL):
            raise Unsupported(
                f"{name} gives rows, so it stands in no CASE and no COALESCE{at(call, sql)}.",
                cure=_CURE,
            )
        if isinstance(part, exp.Values):
            raise Unsupported(
                f"{name} gives rows, so it stands in no VALUES{at(call, sql)}.",
                cure="Write SELECT instead of VALUES.",
            )
        if isinstance(part, exp.Func) and returns_rows(part):
            raise Unsupported(
                f"{name} gives rows, and is an argument of {function_name(part)}{at(call, sql)}.",
                cure=_CURE,
            )
    return part
