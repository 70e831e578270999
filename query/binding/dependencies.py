"""Functional dependency: GROUP BY a primary key groups by all columns of its relation, too.

SQL allows such columns outside of aggregates. They become grouping columns, which changes no group,
so that every later stage finds a complete GROUP BY.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from hornbeam_server.query.binding.names import Target
from hornbeam_server.query.dialect.functions import is_aggregate
from hornbeam_server.schema.model import Schema

_PLAIN = {"expressions"}
"""Parts of GROUP BY without ROLLUP, CUBE, GROUPING SETS and ALL."""
Key = tuple[str, str]
"""(alias of an item in FROM, column)."""


Stars = Mapping[int, Sequence[tuple[Target, str]]]
"""The columns of each `*`, with their visible names, by the id of the node."""


def dependent_columns(
    node: exp.Select, targets: Mapping[int, Target], stars: Stars, number: int, schema: Schema
) -> list[tuple[exp.Column, Target]]:
    """References to the columns in SELECT number `number` that are not in its GROUP BY, but follow
    from a primary key that is; one for each column. `targets` has the targets of references by the
    id of the node."""
    group = node.args.get("group")
    if group is None or any(value for name, value in group.args.items() if name not in _PLAIN):
        return []
    grouped = {key for each in group.expressions if (key := _key(each, node, targets, number))}
    found: dict[Key, tuple[exp.Column, Target]] = {}
    for target, visible in _outside_of_aggregates(node, targets, stars):
        key = (target.item.alias, target.column.name)
        if key in grouped or key in found or target.select != number:
            continue
        if _is_keyed(target, grouped, schema):
            found[key] = exp.column(visible, table=target.item.alias, quoted=True), target
    return list(found.values())


def _key(
    each: exp.Expr, node: exp.Select, targets: Mapping[int, Target], number: int
) -> Key | None:
    """The column that an element of GROUP BY names, itself, by its position or by an alias."""
    inner = each.unnest()
    if isinstance(inner, exp.Literal) and inner.is_int and int(inner.name) <= len(node.expressions):
        inner = node.expressions[int(inner.name) - 1].unalias().unnest()
    elif inner.meta.get("alias"):
        named = (item.unalias() for item in node.expressions if item.alias == inner.name)
        inner = next(named, inner).unnest()
    target = targets.get(id(inner))
    return (target.item.alias, target.column.name) if target and target.select == number else None


def _outside_of_aggregates(
    node: exp.Select, targets: Mapping[int, Target], stars: Stars
) -> Iterator[tuple[Target, str]]:
    """The columns that stand outside of aggregates, with their visible names."""
    clauses = [node.args.get(name) for name in ("having", "qualify", "order")]
    for part in [*node.expressions, *(clause for clause in clauses if clause is not None)]:
        for inner in part.walk(prune=_is_group_aggregate):
            if id(inner) in targets:
                yield targets[id(inner)], inner.name
            yield from stars.get(id(inner), ())


def _is_group_aggregate(node: exp.Expr) -> bool:
    """Is the node an aggregate of a group? With OVER it reads groups."""
    around = node.parent
    if isinstance(around, exp.Filter) and around.this is node:
        around = around.parent
    return is_aggregate(node) and not isinstance(around, exp.Window)


def _is_keyed(target: Target, grouped: set[Key], schema: Schema) -> bool:
    relation = target.item.relation
    if relation is None or relation not in schema:
        return False
    return all(
        (target.item.alias, name) in grouped for name in schema.relation(relation).primary_key
    )
