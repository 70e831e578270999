"""FETCH FIRST n ROWS WITH TIES: the rows that equal the last one in the order come, too.

The parser writes it as QUALIFY over ranks: `rank() OVER (ORDER BY …) <= n`.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from hornbeam_server.query.dialect.grammar import read_expression
from hornbeam_server.schema.errors import SqlError, Unsupported


def replace_ties(nodes: Sequence[exp.Expr]) -> None:
    """Write each FETCH … WITH TIES among `nodes` as QUALIFY. Raises SqlError and Unsupported."""
    for node in nodes:
        options = node.args.get("limit_options") if isinstance(node, exp.Fetch) else None
        if options is not None and options.args.get("with_ties"):
            _replace(node)


def _replace(fetch: exp.Expr) -> None:
    select = fetch.parent
    order = None if select is None else select.args.get("order")
    if order is None:
        raise SqlError("WITH TIES needs an order.", cure="Write ORDER BY before FETCH.")
    if (
        not isinstance(select, exp.Select)
        or select.args.get("distinct")
        or select.args.get("qualify")
    ):
        raise Unsupported(
            "WITH TIES is for a SELECT without DISTINCT and QUALIFY, and no UNION.",
            cure="Write it as a subquery in FROM, and WITH TIES around it.",
        )
    assert isinstance(select, exp.Select)
    window = exp.Order(expressions=[_ranked(each, select) for each in order.expressions])
    offset = select.args.get("offset")
    skipped = exp.Literal.number(0) if offset is None else offset.expression
    condition = read_expression("rank() OVER () <= n + s AND row_number() OVER () > s")
    values = {"n": fetch.args.get("count") or exp.Literal.number(1), "s": skipped}
    for column in list(condition.find_all(exp.Column)):
        column.replace(exp.Paren(this=values[column.name].copy()))
    for over in condition.find_all(exp.Window):
        over.set("order", window.copy())
    select.set("qualify", exp.Qualify(this=condition))
    select.set("limit", None)
    select.set("offset", None)


def _ranked(ordered: exp.Expr, select: exp.Select) -> exp.Expr:
    """A term of ORDER BY for a window, which knows no names and numbers of output columns."""
    key, items = ordered.this, select.expressions
    found = None
    if isinstance(key, exp.Literal) and key.is_int and 0 < int(key.name) <= len(items):
        found = items[int(key.name) - 1]
    elif isinstance(key, exp.Column) and not key.table:
        found = next((item for item in items if item.alias_or_name == key.name), None)
    term = ordered.copy()
    if found is not None:
        term.set("this", exp.Paren(this=found.unalias().copy()))
    return term
