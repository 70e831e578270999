"""Joins in parentheses at the beginning of FROM, as pg_dump writes all joins: (a JOIN b ON …) JOIN
c ON … means the same without the parentheses."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from hornbeam_server.schema.trees import supersede


def open_first_joins(select: exp.Select) -> None:
    """Take the parentheses off the first join of FROM and of each other item, at any depth."""
    origin = select.args.get("from_")
    if origin is None:
        return
    for item in list(_items(select)):
        _open_inside(item)
    first = origin.this
    while _is_join(first) and not first.alias:
        inner, joins = _opened(first)
        select.set("joins", [*joins, *(select.args.get("joins") or ())])
        first = inner


def _items(select: exp.Select) -> Iterator[exp.Expr]:
    yield select.args["from_"].this
    for join in select.args.get("joins") or ():
        yield join.this


def _open_inside(item: exp.Expr) -> None:
    """((a JOIN b) JOIN c) as (a JOIN b JOIN c)."""
    if not _is_join(item):
        return
    while _is_join(item.this) and not item.this.alias:
        inner, joins = _opened(item.this)
        inner.set("joins", joins)
    for join in item.this.args.get("joins") or ():
        _open_inside(join.this)


def _opened(join: exp.Expr) -> tuple[exp.Expr, list[exp.Expr]]:
    """Replace a join in parentheses by its first item. Returns the item, and the joins behind it,
    which are detached."""
    inner = join.this
    joins = [*(inner.args.get("joins") or ()), *(join.args.get("joins") or ())]
    inner.set("joins", None)
    join.set("joins", None)
    supersede(join, inner)
    return inner, joins


def _is_join(node: exp.Expr) -> bool:
    """Is this a join in parentheses, not a query?"""
    if not isinstance(node, exp.Subquery):
        return False
    inner = node.this
    if isinstance(inner, exp.Subquery):
        return bool(inner.args.get("joins")) or _is_join(inner)
    return isinstance(inner, exp.Table)
