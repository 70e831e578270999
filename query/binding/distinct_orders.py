"""ORDER BY of SELECT DISTINCT: each key has to be an output column.

Rows that DISTINCT merges may have several values of any other key, so their order would be
undetermined.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
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
        return target.select, target.item.alias, target.column.name
    parts = ((name, _form(value, targets)) for name, value in inner.args.items() if value)
    return type(inner).__name__, tuple(parts)
