"""Normalisation of comparisons with constants, so that all execution paths compare equally.

At binding, a constant compared with an operand of a known type becomes a constant of that type, so
that native execution, key access, writes and DuckDB compare the same two values. A constant that
equals no value of the type (`i < 2.5`, `i = 1e300`) becomes the neighbouring value (`i <= 2`), or
the comparison becomes one that is never true. The other operand stays in the tree exactly once,
because it may contain subqueries.

If the type is unknown, DuckDB decides. Only exponents are expanded, because DuckDB reads such
numbers as doubles and PostgreSQL does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from sqlglot import exp

from hornbeam_server.query.dialect.sums import COMPARED, is_unlimited, number_type
from hornbeam_server.query.parsing.assignments import is_assignment
from hornbeam_server.query.typing.comparands import Gap, exact_number, lowest, meant
from hornbeam_server.query.typing.constants import CONSTANT, named_type, second_digits
from hornbeam_server.query.typing.literals import typed, without_exponent, written
from hornbeam_server.query.typing.text_operands import OPERATORS, text_operand
from hornbeam_server.schema.errors import TypeMismatch, Unsupported
from hornbeam_server.schema.spelling import sql_bytes
from hornbeam_server.schema.trees import nodes_of, supersede
from hornbeam_server.schema.types import (
    ColumnType,
    Kind,
    Value,
    compared_type,
    enumeration_of,
    without_padding,
)

TypeOf = Callable[[exp.Expr], ColumnType | None]
Comparison = type[exp.Binary]

_TEXT = ColumnType(Kind.TEXT)
_BIGINT = ColumnType(Kind.BIGINT)
EXCHANGED: dict[type[exp.Expr], Comparison] = {
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.NullSafeEQ: exp.NullSafeEQ,
    exp.NullSafeNEQ: exp.NullSafeNEQ,
}
"""Per comparison: the equivalent comparison with its sides exchanged."""


def settle(tree: exp.Expr, type_of: TypeOf) -> None:
    """Settle every comparison in `tree` except `tree` itself. Settled comparisons do not change.

    Raises TypeMismatch for a constant that cannot be compared with the other operand.
    """
    for node in reversed(nodes_of(tree)):  # inner nodes first
        found = _settled(node, type_of) if node is not tree else node
        if found is not node:
            supersede(node, found)


def _settled(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    match node:
        case exp.Cast():
            return _cast(node)
        case exp.Binary() if type(node) in EXCHANGED and not is_assignment(node):
            return _compared(node, type_of)
        case exp.Between() if not node.args.get("symmetric"):
            return _between(node, type_of)
        case exp.In() if node.expressions:
            return _member(node, type_of)
        case exp.Case() if node.this is not None:
            for branch in node.args["ifs"]:
                branch.set("this", _candidate(node.this, branch.this, type_of))
        case exp.Binary() if isinstance(node, OPERATORS):
            found = text_operand(node, type_of)
            if found is not None:
                supersede(found[0], _cast(found[1]))
        case exp.Nullif():
            _settle_nullif(node, type_of)
        case exp.Like() | exp.ILike():
            pattern = written(node.expression)
            if pattern is not None:
                meant(_TEXT, pattern.value)
        case exp.Limit() | exp.Offset():
            _count(node)
    return node


def _cast(node: exp.Cast) -> exp.Expr:
    """A string literal cast to a type as a constant of the type, with decimals rounded as by CAST;
    any other cast unchanged. Raises TypeMismatch if the text is not a value of the type."""
    to: exp.DataType = node.args["to"]
    type_, text = named_type(to), node.this.unnest()
    if type_ is None or type_.kind is Kind.TEXT or isinstance(node, exp.TryCast):
        return node
    if type_.kind is Kind.DECIMAL and not to.expressions:
        return node  # NUMERIC keeps the digits that are written (`query.dialect.duckdb_sql`)
    if CONSTANT in node.meta or not (isinstance(text, exp.Literal) and text.is_string):
        return node
    if type_.kind is Kind.ARRAY and to.expressions[0].expressions:
        return node  # each element is shortened or rounded
    if type_.kind is Kind.BYTES:
        return _beside(node, type_, sql_bytes(text.name))
    if type_.kind is Kind.DOUBLE:
        value = meant(type_, text.name)
        return _beside(node, type_, math.nan if isinstance(value, Gap) else value)
    digits = second_digits(to)
    precise = type_ if digits is None else ColumnType(type_.kind, precision=digits)
    return _beside(node, type_, precise.coerce(text.name))


def _beside(node: exp.Expr, type_: ColumnType, value: Value) -> exp.Expr:
    constant = typed(type_, value)
    labels = enumeration_of(type_) is not None
    if labels or isinstance(constant, exp.Cast) or not isinstance(node, exp.Cast):
        return constant
    kept = exp.cast(constant, type_.sql(), dialect="duckdb")  # keeps the number's exact type
    kept.meta[CONSTANT] = (type_, value)
    return kept


def _compared(node: exp.Binary, type_of: TypeOf) -> exp.Expr:
    left, right = node.this, node.expression
    if written(left) is not None and written(right) is None:
        left, right, kind = right, left, EXCHANGED[type(node)]
    else:
        kind = type(node)
    constant = written(right)
    if constant is None or written(left) is not None:
        return node
    type_ = type_of(left)
    if type_ is None:
        if (exact := without_exponent(right)) is not right:
            right.replace(exact)
        return node
    if _is_of_decimals(type_) and isinstance(constant.value, str):
        return node  # the text keeps all digits (`query.typing.arrays`)
    value = meant(type_, constant.value)
    if isinstance(value, Gap):
        return _beside_gap(kind, left, type_, value)
    if not _plain(right, type_):
        right.replace(_constant(type_, value))
    return node


def _is_of_decimals(type_: ColumnType) -> bool:
    return type_.element is not None and type_.element.kind is Kind.DECIMAL


def _constant(type_: ColumnType, value: Value) -> exp.Expr:
    """A constant that is compared with values of `type_`."""
    return typed(compared_type(type_), value)


def _beside_gap(kind: Comparison, left: exp.Expr, type_: ColumnType, gap: Gap) -> exp.Expr:
    if kind in (exp.LT, exp.LTE) and gap.below is not None:
        return exp.LTE(this=left, expression=_constant(type_, gap.below))
    if kind in (exp.GT, exp.GTE) and gap.above is not None:
        return exp.GTE(this=left, expression=_constant(type_, gap.above))
    never = _never(left, type_)
    if kind is exp.NEQ:
        return exp.GTE(this=left, expression=_constant(type_, lowest(type_)))
    if kind is exp.NullSafeEQ:
        return _is_true(never)
    return exp.Not(this=_is_true(never)) if kind is exp.NullSafeNEQ else never


def _never(left: exp.Expr, type_: ColumnType) -> exp.Expr:
    """A comparison that is false, or NULL if `left` is NULL."""
    return exp.LT(this=left, expression=_constant(type_, lowest(type_)))


def _is_true(node: exp.Expr) -> exp.Expr:
    return exp.Is(this=exp.Paren(this=node), expression=exp.Boolean(this=True))


def _between(node: exp.Between, type_of: TypeOf) -> exp.Expr:
    subject, low, high = node.this, node.args["low"], node.args["high"]
    if _given(subject) and not (_given(low) and _given(high)):
        above = exp.LTE(this=low, expression=subject)
        below = exp.GTE(this=high, expression=subject.copy())
        both = exp.And(this=_settled(above, type_of), expression=_settled(below, type_of))
        return exp.Paren(this=both)
    type_ = type_of(subject)
    if type_ is None:
        node.set("low", without_exponent(low))
        node.set("high", without_exponent(high))
        return node
    if type_.kind is Kind.ARRAY:
        raise Unsupported(
            "BETWEEN does not compare arrays.", cure="Compare with one bound, or by an element."
        )
    bounds: dict[str, Any] = {}
    for key, bound in (("low", low), ("high", high)):
        constant = written(bound)
        if constant is None:
            continue
        value = meant(type_, constant.value)
        if isinstance(value, Gap):
            value = value.above if key == "low" else value.below
            if value is None:
                return _never(subject, type_)
        elif _plain(bound, type_):
            continue
        bounds[key] = _constant(type_, value)
    for key, bound in bounds.items():
        node.set(key, bound)
    return node


def _member(node: exp.In, type_of: TypeOf) -> exp.Expr:
    subject = node.this
    if _given(subject) and any(not _given(item) for item in node.expressions):
        return _alternatives(subject, node.expressions, type_of)
    type_ = None if _given(subject) else type_of(subject)
    if type_ is None:
        node.set("expressions", [without_exponent(item) for item in node.expressions])
        return node
    items = list(_members(node.expressions, type_))
    if not items:
        return _never(subject, type_)
    node.set("expressions", items)
    return node


def _members(items: list[exp.Expr], type_: ColumnType) -> Iterator[exp.Expr]:
    """Yield the items, without constants that equal no value of the type."""
    for item in items:
        constant = written(item)
        if constant is None:
            yield item
            continue
        value = meant(type_, constant.value)
        if not isinstance(value, Gap):
            yield item if _plain(item, type_) else _constant(type_, value)


def _alternatives(subject: exp.Expr, items: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    """`5 IN (a, b)` as a disjunction, so that each item is compared by its own type."""
    found: exp.Expr | None = None
    for item in items:
        equal = _settled(exp.EQ(this=item, expression=subject.copy()), type_of)
        found = equal if found is None else exp.Or(this=found, expression=equal)
    assert found is not None
    return exp.Paren(this=found)


def _candidate(subject: exp.Expr, other: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """The settled operand that CASE or NULLIF compares with `subject`; NULL if it equals no value
    of the subject's type."""
    constant, type_ = written(other), type_of(subject)
    if constant is None or _given(subject):
        return other
    if type_ is None:
        return without_exponent(other)
    value = meant(type_, constant.value)
    if isinstance(value, Gap):
        return exp.Null()
    return other if _plain(other, type_) else _constant(type_, value)


def _settle_nullif(node: exp.Nullif, type_of: TypeOf) -> None:
    """Note the type of the number that NULLIF compares with (`COMPARED`). A text and NULL take this
    type."""
    found, first = number_type(node.expression, type_of), node.this.unnest()
    if found is not None and not is_unlimited(found):
        node.meta[COMPARED] = found
        if isinstance(first, exp.Null):
            supersede(node.this, exp.cast(first, found.sql(), dialect="duckdb"))
        elif isinstance(first, exp.Literal) and first.is_string:
            value = meant(found, first.name)
            if not isinstance(value, Gap):
                supersede(node.this, _constant(found, value))
    node.set("expression", _candidate(node.this, node.expression, type_of))


def _count(node: exp.Expr) -> None:
    """Convert a constant of LIMIT or OFFSET to BIGINT, rounded half away from zero. Raises
    TypeMismatch if it is out of range."""
    clause = node.expression
    constant = written(clause) if isinstance(clause, exp.Expr) else None
    if constant is None:
        return
    value = meant(_BIGINT, constant.value)
    if isinstance(value, Gap):
        number = exact_number(constant.value)
        if number is None or value.below is None or value.above is None:
            raise TypeMismatch("LIMIT or OFFSET is out of range for BIGINT.", type="BIGINT")
        value = int(Decimal(number).to_integral_value(ROUND_HALF_UP))
    if not _plain(clause, _BIGINT):
        node.set("expression", typed(_BIGINT, value))


def _given(node: exp.Expr) -> bool:
    """Whether the node is a constant or a parameter."""
    return written(node) is not None or isinstance(node.unnest(), exp.Placeholder)


def _plain(node: exp.Expr, type_: ColumnType) -> bool:
    """Whether all execution paths already read the constant as the same value of `type_`."""
    node = node.unnest()
    if CONSTANT in node.meta:
        return bool(node.meta[CONSTANT][0].kind is type_.kind)
    number = node.this.unnest() if isinstance(node, exp.Neg) else node
    if isinstance(number, exp.Boolean):
        return True
    if number.is_string:
        return type_.kind is Kind.TEXT and without_padding(type_, number.name) == number.name
    digits = number.name
    if type_.kind in (Kind.INTEGER, Kind.BIGINT):
        return digits.isdecimal()
    return type_.kind is Kind.DECIMAL and "e" not in digits.lower()
