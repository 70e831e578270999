"""ORDER BY of SELECT DISTINCT: each key has to be an output column. ORDER BY of SELECT DISTINCT ON
begins with the expressions of ON, in any order.

Rows that DISTINCT merges may have several values of any other key, so their order would be
undetermined.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from sqlglot import exp

from hornbeam_server.query.binding.names import Target


def undetermined_key(node: exp.Select, targets: Mapping[int, Target]) -> exp.Expr | None:
    """The first key of ORDER BY that is no output column of a SELECT DISTINCT; None without one.
    `targets` has the targets of references by the id of the node."""
    distinct, order = node.args.get("distinct"), node.args.get("order")
    if distinct is None or distinct.args.get("on") or order is None:
        return None
    shown = {_form(item.unalias(), targets) for item in node.expressions}
    starred = any(item.is_star for item in node.expressions)
    for ordered in order.expressions:
        key: exp.Expr = ordered.this.unnest()
        known = key.meta.get("alias") or isinstance(key, exp.Literal | exp.Var)
        if not (known or (starred and isinstance(key, exp.Column)) or _form(key, targets) in shown):
            return key
    return None


def foreign_key(
    node: exp.Select, targets: Mapping[int, Target], stars: Mapping[int, Sequence[Target]]
) -> exp.Expr | None:
    """The first key of ORDER BY that stands before expressions of DISTINCT ON and is none of them;
    None without one. `stars` has the columns of each `*` by the id of the node."""
    distinct, order = node.args.get("distinct"), node.args.get("order")
    given = None if distinct is None else distinct.args.get("on")
    if given is None or order is None:
        return None
    on = given.expressions if isinstance(given, exp.Tuple) else [given]
    shown = list(_shown(node, targets, stars))
    left = {_meant(each, node, targets, shown) for each in on}
    known = set(left)
    for ordered in order.expressions:
        form = _meant(ordered.this, node, targets, shown)
        if left and form not in known:
            key: exp.Expr = ordered.this
            return key
        left.discard(form)
    return None


def _shown(
    node: exp.Select, targets: Mapping[int, Target], stars: Mapping[int, Sequence[Target]]
) -> Iterator[Hashable]:
    """The forms of the output columns."""
    for item in node.expressions:
        star = item.this if isinstance(item, exp.Column) else item
        if id(star) in stars:
            yield from map(_place, stars[id(star)])
        else:
            yield _form(item.unalias(), targets)


def _meant(
    key: exp.Expr, node: exp.Select, targets: Mapping[int, Target], shown: Sequence[Hashable]
) -> Hashable:
    """The form of a key, which may be the number or the name of an output column."""
    inner = key.unnest()
    if isinstance(inner, exp.Literal) and inner.is_int and 0 < int(inner.this) <= len(shown):
        return shown[int(inner.this) - 1]
    if isinstance(inner, exp.Column) and not inner.table:
        named = [item for item in node.expressions if item.alias_or_name == inner.name]
        if named:
            return _form(named[0].unalias(), targets)
    return _form(inner, targets)


def _form(part: Any, targets: Mapping[int, Target]) -> Hashable:
    """The same for two expressions that mean the same, whatever qualifies their columns."""
    if isinstance(part, list):
        return tuple([_form(each, targets) for each in part])
    if not isinstance(part, exp.Expr):
        leaf: Hashable = part
        return leaf
    inner = part.unnest()
    target = targets.get(id(inner))
    if target is not None:
        return _place(target)
    parts = ((name, _form(value, targets)) for name, value in inner.args.items() if value)
    return type(inner).__name__, tuple(parts)


def _place(target: Target) -> Hashable:
    return target.select, target.item.alias, target.column.name
