"""Comparisons of a row with a subquery of several columns, `(a, b) = (SELECT c, d …)`, and lists of
rows in the place of a subquery, `a IN (VALUES (1), (2))`, as subqueries of one column.
"""

from __future__ import annotations

from sqlglot import exp

from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.trees import supersede

_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_ALIAS = "hornbeam_row"


def write_out_rows(tree: exp.Expr) -> None:
    """Raises SqlError for a subquery with another number of columns than the row."""
    for node in list(tree.find_all(exp.Values, *_COMPARED)):
        if isinstance(node, exp.Values):
            _write_out_values(node)
        elif not isinstance(node.parent, exp.Update | exp.OnConflict | exp.When):
            _compare(node)


_CALLED = {"all": exp.All, "exists": exp.Exists}
"""What the parser takes for functions of VALUES."""


def _write_out_values(node: exp.Values) -> None:
    """Write VALUES behind IN, ANY, ALL and EXISTS as SELECT."""
    parent = node.parent
    if isinstance(parent, exp.In) and parent.expressions == [node]:
        parent.set("expressions", None)
        parent.set("query", exp.Subquery(this=_selected(node)))
    elif isinstance(parent, exp.Anonymous) and parent.name.lower() in _CALLED:
        supersede(parent, _CALLED[parent.name.lower()](this=_selected(node)))
    elif isinstance(parent, exp.Subquery) and isinstance(parent.parent, exp.Any):
        node.replace(_selected(node))


def _selected(node: exp.Values) -> exp.Select:
    rows = node.copy()
    rows.set("alias", exp.TableAlias(this=exp.to_identifier(_ALIAS)))
    return exp.select(exp.Star()).from_(rows)


def _compare(node: exp.Expr) -> None:
    """Compare the row inside of the subquery, which then has one column. A subquery without a row
    gives NULL, and one with several rows fails, as before."""
    row, rows = node.this.unnest(), node.expression
    turned = isinstance(row, exp.Query) and isinstance(rows.unnest(), exp.Tuple)
    if turned:
        row, rows = rows.unnest(), node.this
    if not isinstance(row, exp.Tuple) or not isinstance(rows, exp.Subquery):
        return
    if row.find(exp.AggFunc, exp.Window, exp.Query) is not None or len(row.expressions) < 2:
        return
    _check_width(rows.this, len(row.expressions))
    names = [f"{_ALIAS}_{i}" for i, _ in enumerate(row.expressions)]
    columns = exp.Tuple(expressions=[exp.column(name, table=_ALIAS) for name in names])
    sides = (columns, row.copy()) if turned else (row.copy(), columns)
    alias = exp.TableAlias(
        this=exp.to_identifier(_ALIAS), columns=[exp.to_identifier(name) for name in names]
    )
    inner = exp.Subquery(this=rows.this.copy(), alias=alias)
    compared = type(node)(this=sides[0], expression=sides[1])
    supersede(node, exp.Subquery(this=exp.select(compared).from_(inner)))


def _check_width(query: exp.Expr, width: int) -> None:
    """Raises SqlError if the subquery has visibly another number of columns than the row."""
    items = query.selects if isinstance(query, exp.Query) else []
    if items and not any(item.is_star for item in items) and len(items) != width:
        raise SqlError(
            f"A row of {width} values is compared with a subquery of {len(items)} columns.",
            cure="Select as many columns as the row has values.",
        )
