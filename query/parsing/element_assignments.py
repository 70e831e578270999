"""`SET a[1] = 5` and `SET j['k'] = '5'`: an element of an array, or a member of a JSONB document.

They are written out before names are bound: the whole column gets the value in which one element
is another. Several elements of one column are assigned one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard

from sqlglot import exp

from hornbeam_server.query.dialect.arrays import arguments
from hornbeam_server.query.dialect.grammar import at
from hornbeam_server.query.dialect.macros import call
from hornbeam_server.query.dialect.templates import filled
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.types import JSONB, ColumnType

_WITH_MEMBER = "jsonb_set(coalesce(base, '{}'), ARRAY[CAST(part AS TEXT)], member)"


def write_out_elements(
    write: exp.Expr, target: str, columns: Mapping[str, ColumnType | None], sql: str
) -> None:
    """Write out the assignments to elements in the SET list of `write`, whose relation has the name
    `target` and these columns. Raises Unsupported for parts of arrays, and for elements of
    elements."""
    first: dict[str, exp.EQ] = {}
    for node in list(write.expressions):
        if not _is_of_element(node):
            continue
        bracket: exp.Bracket = node.this
        column = bracket.this
        places = bracket.expressions
        if (
            not isinstance(column, exp.Column)
            or len(places) != 1
            or isinstance(places[0], exp.Slice)
        ):
            raise _refused(bracket, sql)
        before = first.get(column.name)
        base = exp.Column(this=column.this.copy(), table=exp.to_identifier(target, quoted=True))
        given = base if before is None else before.expression.copy()
        value = _with_element(bracket, given, node.expression.copy(), columns.get(column.name))
        if value is None:
            raise _refused(bracket, sql)
        if before is None:
            first[column.name] = node
            node.set("this", column)
        else:
            node.pop()
        first[column.name].set("expression", value)


def _is_of_element(node: exp.Expr) -> TypeGuard[exp.EQ]:
    return isinstance(node, exp.EQ) and isinstance(node.this, exp.Bracket)


def _with_element(
    bracket: exp.Bracket, base: exp.Expr, value: exp.Expr, type_: ColumnType | None
) -> exp.Expr | None:
    """The value `base` of a column, in which the element that `bracket` names is `value`; None for
    a column that has no elements."""
    _, place = arguments(bracket)
    if type_ is not None and type_.element is not None:
        return call("array_assigned", base, place.copy(), value)
    if type_ != JSONB:
        return None
    literal = isinstance(value, exp.Literal) and value.is_string
    if literal or isinstance(value, exp.Placeholder | exp.Null):
        value = exp.cast(value, exp.DType.JSONB)
    key = bracket.expressions[0]
    return filled(_WITH_MEMBER, {"base": base, "part": key, "member": value})


def _refused(node: exp.Expr, sql: str) -> Unsupported:
    return Unsupported(
        f"A part of a value, or an element of an element, is not assigned to{at(node, sql)}.",
        cure="Assign the whole value: SET a = a[1:2] || 5 || a[4:], or SET j = jsonb_set(j, …).",
    )
