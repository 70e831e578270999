"""Parameters in expressions: placeholders, and the keys by which values are given for them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp


@dataclass(frozen=True, slots=True)
class Parameter:
    """`?` number `name` (from 0), or `:name`."""

    name: int | str


def parameter_key(node: exp.Placeholder) -> int | str:
    """The number (from 0) of a `?`, as set by the binder or `number_placeholders`, or the name."""
    parameter: Parameter | None = node.meta.get("parameter")
    if parameter is not None:
        return parameter.name
    index: int | None = node.meta.get("index")
    return str(node.this) if index is None else index


def named_placeholder(name: str) -> exp.Placeholder:
    """The node of the parameter `name`."""
    node = exp.Placeholder(this=name)
    node.meta["parameter"] = Parameter(name)
    return node


def number_placeholders(node: exp.Expr) -> None:
    """Number the nameless placeholders in order of appearance, unless all have numbers."""
    nameless = [p for p in node.dfs() if isinstance(p, exp.Placeholder) and not p.this]
    if any("index" not in placeholder.meta for placeholder in nameless):
        for number, placeholder in enumerate(nameless):
            placeholder.meta["index"] = number
