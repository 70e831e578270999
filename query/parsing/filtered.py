"""Aggregates with FILTER whose argument divides: the division is only for rows of the filter.

DuckDB computes the argument of every row, and then leaves rows out: `sum(1 / a) FILTER (WHERE
a > 0)` would fail for a row in which a is 0.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from hornbeam_server.schema.trees import supersede

_DIVISIONS = (exp.Div, exp.IntDiv, exp.Mod)
_WITH_CLAUSES = (exp.Distinct, exp.Order, exp.Star)


def guard_divisions(nodes: Iterable[exp.Expr]) -> None:
    """Compute such an argument within CASE WHEN condition THEN argument END."""
    for node in nodes:
        if isinstance(node, exp.Filter):
            _guard(node)


def _guard(node: exp.Filter) -> None:
    condition = node.expression.this
    argument = next(node.this.iter_expressions(), None)
    if argument is None or isinstance(argument, _WITH_CLAUSES) or condition.find(exp.Query):
        return
    if argument.find(*_DIVISIONS) is None:
        return
    branch = exp.If(this=condition.copy(), true=argument.copy())
    supersede(argument, exp.Case(ifs=[branch]))
