"""Functions that return several rows, such as generate_series and unnest, in places where
PostgreSQL refuses them, or where DuckDB would return other rows.

PostgreSQL has no such function in CASE, COALESCE and VALUES. It takes the rows of a SELECT DISTINCT
ON before it computes such a function for each of them; DuckDB computes the function first. DuckDB's
unnest takes one array.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from hornbeam_server.query.dialect.functions import function_name, returns_rows, takes_lists
from hornbeam_server.query.dialect.grammar import at
from hornbeam_server.schema.errors import SqlError, Unsupported
from hornbeam_server.schema.trees import supersede

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


def join_arrays(nodes: Iterable[exp.Expr]) -> None:
    """Write FROM unnest(a, b) as the query of both functions; the shorter array ends in NULLs."""
    for node in nodes:
        if isinstance(node, exp.Unnest) and len(node.expressions) > 1:
            supersede(node, _of_arrays(node))


def _of_arrays(node: exp.Unnest) -> exp.Lateral:
    alias, arrays = node.args.get("alias"), list(node.expressions)
    names = [column.name for column in alias.columns] if alias is not None else []
    items: list[exp.Expr] = [_unnested(array.copy()) for array in arrays]
    number = node.args.get("offset")
    if number:
        names += [number.name] if isinstance(number, exp.Identifier) else []
        lengths = [_call("coalesce", _call("len", array.copy()), _number(0)) for array in arrays]
        last = exp.Add(this=_call("greatest", *lengths), expression=_number(1))
        items.append(_unnested(_call("range", _number(1), last)))
    if len(names) > len(items):
        raise SqlError(f"{len(names)} names for {len(items)} columns.", cure="Leave names out.")
    others = ["unnest"] * len(arrays) + ["ordinality"]
    titles = [*names, *others[len(names) :]]
    listed = [
        exp.Alias(this=item, alias=exp.to_identifier(title, quoted=True))
        for item, title in zip(items, titles, strict=False)
    ]
    name = exp.to_identifier(node.alias or "unnest", quoted=True)
    query = exp.Subquery(this=exp.Select(expressions=listed))
    return exp.Lateral(this=query, alias=exp.TableAlias(this=name))


def _unnested(array: exp.Expr) -> exp.Expr:
    return _call("unnest", array)


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _number(value: int) -> exp.Expr:
    return exp.Literal.number(value)
