"""Plain views merged into the SELECTs that name them.

A view's SELECT stands in FROM as a subquery. If it only joins, filters and computes columns, its
FROM and WHERE become parts of the SELECT around it, and each of its columns becomes the expression
that it stands for. So a query over a view has the access paths, and the materialised views, of a
query over its relations. Any other view stays a subquery, with the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from hornbeam_server.query.binding.binder import BoundQuery, bind_tree
from hornbeam_server.query.binding.blocks import split
from hornbeam_server.query.binding.names import distinct
from hornbeam_server.query.binding.plain_views import VIEW
from hornbeam_server.query.dialect.catalogue import VOLATILE
from hornbeam_server.query.dialect.functions import function_name
from hornbeam_server.query.dialect.grammar import identifier
from hornbeam_server.query.optimizer.select_trees import (
    Namer,
    conjunction,
    flatten,
    free_names,
    joins_of,
    name_projections,
    qualify,
    star_of,
)
from hornbeam_server.query.parsing.parse import DIALECT
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.trees import nodes_of, unlink, unlink_gone, written

_SIMPLE = {"expressions", "from_", "joins", "where"}
"""The parts of a SELECT that can become parts of the SELECT around it."""
_WHOLE = (exp.Query, exp.Window, exp.AggFunc, exp.Placeholder, exp.Lambda)
"""Expressions that are not written in the place of a column."""


def with_merged_views(bound: BoundQuery, catalog: Catalog) -> BoundQuery:
    """The statement with the SELECTs of plain views as parts of the SELECTs around them."""
    if not catalog.plain or not any(VIEW in n.meta for n in nodes_of(bound.ast, exp.Subquery)):
        return bound
    tree = bound.ast.copy()
    before = nodes_of(tree)
    if not merge_plain_views(tree, catalog):
        unlink(tree)
        return bound
    unlink_gone(before, tree.walk())
    merged = bind_tree(tree, written(tree, DIALECT), catalog)
    return replace(merged, columns=bound.columns, parameter_types=bound.parameter_types)


def merge_plain_views(tree: exp.Expr, catalog: Catalog) -> bool:
    """Merge the views of a bound tree into the SELECTs around them, in place; inner views first.
    The tree is then to be bound again. Whether it has changed."""
    views = [node for node in nodes_of(tree, exp.Subquery) if _is_of_view(node)]
    namer = Namer(tree)
    changed = False
    for view in reversed(views):
        outer = _mergeable_into(view, catalog)
        if outer is not None:
            _merge(view, outer, namer)
            changed = True
    return changed


def _is_of_view(node: exp.Expr | None) -> bool:
    """Whether a subquery is the SELECT of a view, or stands in one."""
    while node is not None and VIEW not in node.meta:
        node = node.parent
    return node is not None


def _mergeable_into(view: exp.Subquery, catalog: Catalog) -> exp.Select | None:
    """The SELECT around a view, if the view can be merged into it."""
    inner, outer = view.this, view.parent_select
    if not isinstance(inner, exp.Select) or not isinstance(outer, exp.Select):
        return None
    mergeable = (
        _is_simple(inner)
        and _keeps_its_rows(view, outer)
        and bool(view.alias)
        and _named_once(view, outer)
        and _captures_nothing(inner, outer, catalog)
    )
    return outer if mergeable else None


def _captures_nothing(inner: exp.Select, outer: exp.Select, catalog: Catalog) -> bool:
    """Whether no name in the outer SELECT that stays without an alias can mean a column of the
    view's tables, and its stars have known columns."""
    stars = [node for node in outer.expressions if star_of(node) is not None]
    items = [item.this for item in (outer.args["from_"], *joins_of(outer))]
    if stars and not all("source" in item.meta or _is_of_view(item) for item in items):
        return False
    free = free_names(outer)
    tables = [table.name for table in nodes_of(inner, exp.Table)]
    columns = (c for name in tables for c in (*catalog.visible(name), *catalog.identities(name)))
    return free is not None and free.isdisjoint(column.name for column in columns)


def _is_simple(select: exp.Select) -> bool:
    """Whether a SELECT only joins, filters and computes columns."""
    if {part for part, value in select.args.items() if value} - _SIMPLE or not _joins_plainly(
        select
    ):
        return False
    return select.args.get("from_") is not None and all(map(_is_value, select.expressions))


def _joins_plainly(select: exp.Select) -> bool:
    """Whether all joins are inner joins of tables, whose columns have their own names."""
    for join in joins_of(select):
        if join.args.get("side") or join.args.get("method") or join.args.get("using"):
            return False
        if (join.args.get("kind") or "INNER").upper() not in ("INNER", "CROSS"):
            return False
    tables = (select.args["from_"], *joins_of(select)) if select.args.get("from_") else ()
    return all(
        isinstance(item.this, exp.Table)
        and "source" in item.this.meta
        and not (item.this.args.get("alias") and item.this.args["alias"].args.get("columns"))
        for item in tables
    )


def _is_value(projection: exp.Expr) -> bool:
    """Whether a projection can be written in the place of its column: it is a function of columns
    of the row. (A constant in GROUP BY or ORDER BY would be a number of a column.)"""
    if projection.is_star:
        return True
    if projection.find(exp.Column) is None:
        return False
    for node in projection.walk():
        if isinstance(node, _WHOLE) or (
            isinstance(node, exp.Func) and function_name(node) in VOLATILE
        ):
            return False
    return True


def _keeps_its_rows(view: exp.Subquery, outer: exp.Select) -> bool:
    """Whether the joins around a view drop and keep rows alike, whether its conditions are inside
    of the view or in WHERE. The other outer joins are LEFT JOINs behind the view."""
    for join in joins_of(outer):
        side, method = join.args.get("side") or "", join.args.get("method") or ""
        kind = (join.args.get("kind") or "").upper()
        if method or join.args.get("using") or kind in ("SEMI", "ANTI", "ASOF"):
            return False
        if side not in ("", "LEFT") or (side and join.this is view):
            return False
    return isinstance(view.parent, exp.From | exp.Join) and view.parent.parent is outer


def _named_once(view: exp.Subquery, outer: exp.Select) -> bool:
    """Whether no other item of FROM inside of `outer` has the alias of the view, except in the view
    itself."""
    kinds = (exp.Table, exp.Subquery, exp.Values, exp.Lateral, exp.Unnest, exp.CTE)
    own = set(map(id, view.walk()))
    items = (item for item in nodes_of(outer, *kinds) if id(item) not in own)
    return all(item.alias_or_name != view.alias for item in items)


def _merge(view: exp.Subquery, outer: exp.Select, namer: Namer) -> None:
    inner = view.this
    name_projections(inner)
    name_projections(outer)
    for column in outer.find_all(exp.Column):
        qualify(column)
    own_columns = [column for column in nodes_of(inner, exp.Column) if _is_of(column, inner)]
    aliases = _renamed(inner, namer)
    for column in own_columns:
        if column.table in aliases:
            column.set("table", identifier(aliases[column.table]))
    listed = [column.name for column in view.args["alias"].columns]
    names = listed + [projection.alias for projection in inner.expressions[len(listed) :]]
    values = {n: e.this for n, e in zip(distinct(names), inner.expressions, strict=True)}
    own = set(map(id, inner.walk()))
    for column in [each for each in outer.find_all(exp.Column) if id(each) not in own]:
        place = column.meta.get("column")
        if place is not None and place[0] is None and place[1] == view.alias:
            value = values[place[2]].copy()
            plain = isinstance(value, exp.Column)
            column.replace(value if plain else exp.Paren(this=value))
    items, conditions = flatten(inner)
    where = inner.args.get("where")
    conditions += split(where.this) if where is not None else []
    _put(view, outer, items, conditions)


def _is_of(column: exp.Column, select: exp.Select) -> bool:
    """Whether a column is one of a table in the FROM of the SELECT itself. An inner SELECT may
    have a table with the same alias. The tables are of several blocks if views have become parts
    of the SELECT before."""
    place = column.meta.get("column")
    if place is None:  # a star
        return column.parent_select is select
    items = (select.args["from_"], *joins_of(select))
    return any(place[0] == item.this.meta["source"][0] for item in items)


def _renamed(select: exp.Select, namer: Namer) -> Mapping[str, str]:
    """Give each table of FROM an alias that nothing else in the statement has: old → new."""
    aliases: dict[str, str] = {}
    for item in (select.args["from_"], *joins_of(select)):
        table = item.this
        new = namer.alias(table.alias_or_name)
        aliases[table.alias_or_name] = new
        table.set("alias", exp.TableAlias(this=identifier(new)))
    return aliases


def _put(
    view: exp.Subquery,
    outer: exp.Select,
    items: list[exp.Expr],
    conditions: list[exp.Expr],
) -> None:
    """Put the tables and conditions of a view into the SELECT around it."""
    own = view.args.get("joins") or []
    first, *rest = items
    crossed = [exp.Join(this=item, kind="CROSS") for item in rest]
    parent = view.parent
    assert parent is not None, "checked by _keeps_its_rows"
    joins = outer.args.get("joins") or []
    at = 0
    if isinstance(parent, exp.Join):  # an inner join: its condition may name all tables
        at = joins.index(parent) + 1
        conditions = [*split(parent.args.get("on")), *conditions]
        parent.set("on", None)
        parent.set("kind", "CROSS")
    parent.set("this", first)
    outer.set("joins", [*joins[:at], *own, *crossed, *joins[at:]])
    where = outer.args.get("where")
    kept = split(where.this) if where is not None else []
    if all_ := [*kept, *conditions]:
        outer.set("where", exp.Where(this=conjunction(all_)))
