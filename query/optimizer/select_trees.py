"""Parts of the tree of a bound SELECT, as rewriting reads and builds them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlglot import exp

from hornbeam_server.query.binding.binder import output_name
from hornbeam_server.query.binding.blocks import split
from hornbeam_server.query.dialect.grammar import identifier
from hornbeam_server.schema.trees import nodes_of


def selects_of(tree: exp.Expr) -> dict[int, exp.Select]:
    """Block number → its SELECT."""
    found = {}
    for table in nodes_of(tree, exp.Table):
        source = table.meta.get("source")
        if source is not None:
            select = table.find_ancestor(exp.Select)
            assert isinstance(select, exp.Select)
            found[source[0]] = select
    return found


def free_names(select: exp.Select) -> set[str] | None:
    """Names in a SELECT that stay unqualified, so that a view's column of that name would capture
    them. None if a star or a USING covers columns of an item without a name."""
    stars = [star for node in select.expressions if (star := star_of(node)) is not None]
    if any(_nameless(star.meta["columns"]) or not star.meta["columns"] for star in stars):
        return None
    if any(_nameless(pair) for join in joins_of(select) for pair in join.meta.get("pairs", ())):
        return None
    listed = {id(node) for star in stars for node in _column_names(star)}
    return {
        column.table or column.name
        for column in nodes_of(select, exp.Column)
        if not column.meta.get("column", (None, ""))[1] or column.meta.get("shadowed")
        if id(column) not in listed
    }


def _column_names(star: exp.Star) -> Iterator[exp.Expr]:
    """Yield the columns that EXCLUDE and RENAME list; expanding the star removes them."""
    yield from star.args.get("except_") or ()
    yield from (alias.this for alias in star.args.get("rename") or ())


def joins_of(select: exp.Select) -> Iterator[exp.Join]:
    """Yield the joins of a SELECT's own FROM."""
    return (join for join in nodes_of(select, exp.Join) if join.parent_select is select)


def flatten(select: exp.Select) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """(FROM items in order, conjuncts of their ON conditions). All joins are inner joins. Detaches
    the joins that stand inside an item."""
    found = list(_flat(select.args["from_"].this, select.args.get("joins") or ()))
    items = [node for node, is_item in found if is_item]
    return items, [node for node, is_item in found if not is_item]


def _flat(item: exp.Expr, joins: Iterable[exp.Join]) -> Iterator[tuple[exp.Expr, bool]]:
    """Yield (node, is_item) for the FROM items and the conjuncts of their joins."""
    own = item.args.get("joins") or []
    if isinstance(item, exp.Subquery) and isinstance(item.this, exp.Table):
        yield from _flat(item.this, own)
    else:
        item.set("joins", None)
        yield item, True
        yield from _flat_joins(own)
    yield from _flat_joins(joins)


def _flat_joins(joins: Iterable[exp.Join]) -> Iterator[tuple[exp.Expr, bool]]:
    for join in joins:
        yield from _flat(join.this, ())
        yield from ((node, False) for node in split(join.args.get("on")))
        yield from ((equal_columns(*pair), False) for pair in join.meta.get("pairs", ()))


def equal_columns(left: tuple[Any, ...], right: tuple[Any, ...]) -> exp.EQ:
    return exp.EQ(this=column_of(left, left[3]), expression=column_of(right, right[3]))


def column_of(place: tuple[Any, ...], name: str) -> exp.Column:
    """A reference to the column at `place` by its visible name."""
    column = exp.Column(this=identifier(name), table=identifier(place[1]))
    column.meta["column"] = place[:3]
    return column


def _nameless(places: Iterable[tuple[Any, ...]]) -> bool:
    return any(not place[1] for place in places)


def star_of(node: exp.Expr) -> exp.Star | None:
    """The star of a projection; None for any other projection."""
    inner = node.this if isinstance(node, exp.Column) else node
    return inner if isinstance(inner, exp.Star) else None


def name_projections(select: exp.Select) -> None:
    """Give every result column an explicit name, and expand stars."""
    named: list[exp.Expr] = []
    for node in select.expressions:
        star = star_of(node)
        if star is not None:
            named += _written_out(star)
        elif isinstance(node, exp.Alias):
            named.append(node)
        else:
            named.append(exp.Alias(this=node, alias=identifier(output_name(node))))
    select.set("expressions", named)


def _written_out(star: exp.Star) -> Iterator[exp.Expr]:
    replaced = {alias.alias: alias.this for alias in star.args.get("replace") or ()}
    for number, alias, column, visible, name in star.meta["columns"]:
        value = replaced.get(visible) or column_of((number, alias, column), visible)
        yield exp.Alias(this=value, alias=identifier(name))


class Namer:
    """Generates aliases for views that differ from every name in the statement."""

    def __init__(self, tree: exp.Expr) -> None:
        self.taken = {node.name for node in nodes_of(tree, exp.Identifier)}

    def alias(self, view: str) -> str:
        """A new alias for `view`."""
        alias = self.free(view)
        self.taken.add(alias)
        return alias

    def free(self, view: str) -> str:
        """The alias that `alias` would give next."""
        alias, n = view, 1
        while alias in self.taken:
            n += 1
            alias = f"{view}_{n}"
        return alias


def view_table(view: str, alias: str) -> exp.Table:
    """A FROM item that reads `view`."""
    named = exp.TableAlias(this=identifier(alias)) if alias != view else None
    return exp.Table(this=identifier(view), alias=named)


def qualify(column: exp.Column) -> None:
    """Write the alias before a column that stands without one, unless an inner SELECT uses the same
    alias."""
    place = column.meta.get("column")
    if place is not None and place[1] and not column.table and not column.meta.get("shadowed"):
        column.set("table", identifier(place[1]))


def conjunction(conditions: Sequence[exp.Expr]) -> exp.Expr:
    wrapped = [exp.Paren(this=c) if isinstance(c, exp.Or) else c for c in conditions]
    result = wrapped[0]
    for condition in wrapped[1:]:
        result = exp.And(this=result, expression=condition)
    return result
