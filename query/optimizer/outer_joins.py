"""Outer joins: those that are inner joins in effect, and the sources that they leave alone. Pure.

A LEFT JOIN is an inner join if each row of its left side has a partner, or if the conditions drop
the rows without one:

* its condition is a whole foreign key, whose columns are NOT NULL, to the key that it references:
  foreign keys are enforced, so each row has exactly one partner;
* a condition of WHERE, or of a later inner join, is not true if a column of its right side is NULL.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from hornbeam_server.query.binding.algebra import Block
from hornbeam_server.query.binding.binder import BoundQuery
from hornbeam_server.query.binding.blocks import split
from hornbeam_server.query.optimizer.select_trees import selects_of
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.trees import nodes_of

_REJECTING = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Like, exp.ILike, exp.Between, exp.In,
)  # fmt: skip
"""Conditions that are not true if an operand is NULL."""


def simplify(bound: BoundQuery, tree: exp.Expr, catalog: Catalog) -> bool:
    """Write LEFT JOINs as inner joins in `tree`, a copy of the tree of `bound`, where they are so
    in effect. Returns whether there are any."""
    selects = selects_of(tree)
    changed = False
    for number, block in enumerate(bound.statement.blocks):
        if not block.inner_only:
            changed |= _simplify(number, block, selects[number], catalog)
    return changed


def _simplify(number: int, block: Block, select: exp.Select, catalog: Catalog) -> bool:
    if outer_aliases(number, select) is None:
        return False
    changed = False
    while (join := _inner_in_effect(number, block, select, catalog)) is not None:
        join.set("side", None)
        join.set("kind", None)
        changed = True
    return changed


def _inner_in_effect(
    number: int, block: Block, select: exp.Select, catalog: Catalog
) -> exp.Join | None:
    """A LEFT JOIN that is an inner join in effect; None if there is none."""
    joins: list[exp.Join] = select.args.get("joins") or []
    where = select.args.get("where")
    conditions = [where.this if where is not None else None]
    conditions += [join.args.get("on") for join in joins if not is_left(join)]
    known = [node for condition in conditions for node in split(condition)]
    for join in filter(is_left, joins):
        right = _aliases(number, join.this)
        if any(_rejects(node, number, right) for node in known):
            return join
        if _finds_one(join, number, block, select, catalog):
            return join
    return None


def outer_aliases(number: int, select: exp.Select) -> set[str] | None:
    """The sources of block `number` on the right sides of LEFT JOINs. None if the block has other
    outer, semi or anti joins, or USING in an outer join."""
    found: set[str] = set()
    for join in select.find_all(exp.Join):
        if join.parent_select is not select or _is_inner(join):
            continue
        if not is_left(join) or join.parent is not select:
            return None
        found |= _aliases(number, join.this)
    return found


def _is_inner(join: exp.Join) -> bool:
    kind = join.args.get("kind") or ""
    method = join.args.get("method") or ""
    return (
        not join.args.get("side") and kind in ("", "INNER", "CROSS") and method in ("", "NATURAL")
    )


def is_left(join: exp.Join) -> bool:
    """Is this a LEFT JOIN with a condition?"""
    plain = not (join.args.get("using") or join.args.get("method"))
    kind = join.args.get("kind") or ""
    return join.args.get("side") == "LEFT" and kind in ("", "OUTER") and plain


def _aliases(number: int, item: exp.Expr) -> set[str]:
    sources = (table.meta.get("source") for table in nodes_of(item, exp.Table))
    return {source[1] for source in sources if source is not None and source[0] == number}


def _rejects(node: exp.Expr, number: int, aliases: set[str]) -> bool:
    """Is a condition not true if all columns of `aliases` are NULL?"""
    if isinstance(node, exp.Not) and isinstance(node.this.unnest(), exp.Is):
        test = node.this.unnest()
        return isinstance(test.expression, exp.Null) and _is_of(test.this, number, aliases)
    if not isinstance(node, _REJECTING):
        return False
    operands = [node.this, node.args.get("expression")]
    return any(part is not None and _is_of(part, number, aliases) for part in operands)


def _is_of(node: exp.Expr, number: int, aliases: set[str]) -> bool:
    block, alias, _ = node.unnest().meta.get("column", (None, "", ""))
    return block == number and alias in aliases


def _finds_one(
    join: exp.Join, number: int, block: Block, select: exp.Select, catalog: Catalog
) -> bool:
    """Does each row of the left side have exactly one partner?"""
    right = _aliases(number, join.this)
    if len(right) != 1 or not isinstance(join.this, exp.Table):
        return False
    (parent,) = right
    pairs = [_pair(node, number) for node in split(join.args.get("on"))]
    children = {alias for pair in pairs if pair for alias, _ in pair if alias != parent}
    nullable = outer_aliases(number, select) or set()
    if None in pairs or len(children) != 1 or children & nullable:
        return False
    (child,) = children
    if block.relation(child) not in catalog.schema:
        return False
    relation = catalog.schema.relation(block.relation(child))
    wanted = {frozenset(pair) for pair in pairs if pair}
    return any(
        key.parent == block.relation(parent)
        and not any(
            relation.column(c).nullable and c not in relation.primary_key for c in key.columns
        )
        and wanted == set(_sides(child, parent, key.columns, key.parent_columns))
        for key in relation.foreign_keys
    )


def _sides(
    child: str, parent: str, columns: tuple[str, ...], referenced: tuple[str, ...]
) -> Iterator[frozenset[tuple[str, str]]]:
    for column, of_parent in zip(columns, referenced, strict=True):
        yield frozenset(((child, column), (parent, of_parent)))


def _pair(node: exp.Expr, number: int) -> tuple[tuple[str, str], tuple[str, str]] | None:
    """The two columns of an equality; None for any other condition."""
    if not isinstance(node, exp.EQ):
        return None
    places = [side.unnest().meta.get("column") for side in (node.this, node.expression)]
    if None in places or any(place[0] != number for place in places):
        return None
    return places[0][1:], places[1][1:]
