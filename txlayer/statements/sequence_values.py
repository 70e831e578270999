"""Calls of functions of sequences that parameters have replaced in an expression.

A call in a branch of CASE, behind another argument of COALESCE, or on the right side of AND and OR
takes a number only if the expression needs it. So such a call has a condition of its own, which is
evaluated before the expression.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from hornbeam_server.query.parsing.placeholders import parameter_key
from hornbeam_server.query.parsing.sequence_calls import SequenceCall
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.trees import nodes_of
from hornbeam_server.schema.types import Row
from hornbeam_server.txlayer.statements.requests import Parameters
from hornbeam_server.txlayer.statements.write_expressions import (
    ByValues,
    ConstantScope,
    RowScope,
)


@dataclass(frozen=True, slots=True)
class SequenceValue:
    """A call of a function of sequences in an expression: the value of the parameter `name`. It is
    called for each row for which the expression is evaluated and `condition` holds."""

    call: SequenceCall
    name: str
    condition: ByValues | None

    @classmethod
    def of(
        cls, call: SequenceCall, name: str, scope: RowScope | ConstantScope, root: exp.Expr
    ) -> SequenceValue:
        """The call that the parameter `name` has replaced in the expression below `root`."""
        condition = condition_of(root, name)
        return cls(call, name, None if condition is None else ByValues(condition, scope))

    def needed(self, row: Row, parameters: Parameters) -> bool:
        """Does the expression need the value for this row? Raises Unsupported if only DuckDB can
        evaluate the condition."""
        if self.condition is None:
            return True
        holds = self.condition.native(parameters)
        if holds is None:
            raise Unsupported(
                f"{self.call.function} stands behind a condition that is too complex for it.",
                cure="Compute the condition in a subquery in FROM, and name its column here.",
            )
        return holds(row, parameters) is True


def condition_of(root: exp.Expr, parameter: str) -> exp.Expr | None:
    """The condition under which the expression `root` needs the value of a parameter; None if it
    always does. `root` is the parent of the expression."""
    places = [
        tuple(_conditions(node, root))
        for node in nodes_of(root, exp.Placeholder)
        if parameter_key(node) == parameter
    ]
    if not all(places):
        return None
    return exp.or_(*(exp.and_(*found, copy=False) for found in places), copy=False)


def _conditions(node: exp.Expr, root: exp.Expr) -> Iterator[exp.Expr]:
    """New trees of all conditions of the nodes around `node`, the outermost first."""
    parent = node.parent
    if parent is None or node is root:
        return
    yield from _conditions(parent, root)
    match parent:
        case exp.Case() if node is parent.args.get("default"):
            yield from _none_of(parent, len(parent.args["ifs"]))
        case exp.If() if isinstance(parent.parent, exp.Case):
            before = _number(parent.parent.args["ifs"], parent)
            yield from _none_of(parent.parent, before)
            if node is not parent.this:
                yield _truth(_test(parent.parent, parent))
        case exp.If() if node is not parent.this:
            test = _truth(parent.this.copy())
            yield test if node is parent.args.get("true") else exp.not_(test, copy=False)
        case exp.Coalesce():
            values = [parent.this, *parent.expressions]
            for value in values[: _number(values, node)]:
                yield exp.Is(this=exp.paren(value.copy(), copy=False), expression=exp.Null())
        case exp.And() if node is parent.expression:
            yield exp.not_(_truth(parent.this.copy(), wanted=False), copy=False)
        case exp.Or() if node is parent.expression:
            yield exp.not_(_truth(parent.this.copy()), copy=False)


def _none_of(case: exp.Case, number: int) -> Iterator[exp.Expr]:
    """The conditions of the first `number` branches do not hold."""
    for branch in case.args["ifs"][:number]:
        yield exp.not_(_truth(_test(case, branch)), copy=False)


def _test(case: exp.Case, branch: exp.If) -> exp.Expr:
    test: exp.Expr = branch.this.copy()
    if case.this is None:
        return test
    operand = exp.paren(case.this.copy(), copy=False)
    return exp.EQ(this=operand, expression=exp.paren(test, copy=False))


def _truth(condition: exp.Expr, *, wanted: bool = True) -> exp.Expr:
    value = exp.paren(condition, copy=False)
    return exp.Is(this=value, expression=exp.Boolean(this=wanted))


def _number(nodes: Iterable[exp.Expr], wanted: exp.Expr) -> int:
    return next(i for i, node in enumerate(nodes) if node is wanted)
