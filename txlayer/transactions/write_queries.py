"""The queries that the statements of a write need, built from their parts."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp


def search_of(ast: exp.Expr, selected: Sequence[exp.Expr]) -> exp.Select:
    """The search for the rows of an UPDATE or DELETE: `selected`, over the relations of FROM or
    USING and the target, which comes last: the conditions of their joins do not see it."""
    origin = ast.args.get("from_")
    items = [origin.this] if origin is not None else ast.args.get("using") or []
    tables: list[exp.Join] = []
    for item in (*items, ast.this):
        first = item.copy()
        joins = first.args.get("joins") or []
        first.set("joins", None)
        tables += [exp.Join(this=first), *joins]
    query = exp.select(*selected, copy=False).from_(tables.pop(0).this, copy=False)
    query.set("joins", tables)
    where = ast.args.get("where")
    return query if where is None else query.where(where.this.copy(), copy=False)


def put_before(with_: exp.With, query: exp.Expr) -> None:
    """Put the CTEs of a statement before those of its part `query`. The part's own CTE hides one of
    the same name."""
    own = query.args.get("with_")
    if own is not None:
        names = {cte.alias for cte in own.expressions}
        outer = [cte for cte in with_.expressions if cte.alias not in names]
        with_.set("expressions", outer + own.expressions)
        with_.set("recursive", with_.args.get("recursive") or own.args.get("recursive"))
    query.set("with_", with_)
