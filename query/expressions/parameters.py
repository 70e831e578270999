"""Parameters in expressions: which placeholder takes which value."""

from __future__ import annotations

from sqlglot import exp

from query.algebra import Parameter


def parameter_key(node: exp.Placeholder) -> int | str:
    """Number (from 0) of a `?`, as the binder or `number_placeholders` noted it, or the name."""
    parameter: Parameter | None = node.meta.get("parameter")
    if parameter is not None:
        return parameter.name
    index: int | None = node.meta.get("index")
    return str(node.this) if index is None else index


def number_placeholders(node: exp.Expr) -> None:
    """Number the nameless placeholders that have no number yet, in order of appearance."""
    nameless = [p for p in node.dfs() if isinstance(p, exp.Placeholder) and not p.this]
    if any("index" not in placeholder.meta for placeholder in nameless):
        for number, placeholder in enumerate(nameless):
            placeholder.meta["index"] = number
