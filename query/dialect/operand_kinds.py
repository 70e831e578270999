"""What PostgreSQL does with operands that are doubles, booleans, times or intervals, and DuckDB
does not.

ROUND takes the even number for half of a DOUBLE, `||` and CONCAT show it without `.0`, and CONCAT
shows a boolean by one letter and bytes as hexadecimal digits. An interval may be divided. Binding
marks such operands where the syntax shows their type (`KINDS`); `write_operands` writes them for
DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from hornbeam_server.query.dialect.macros import call
from hornbeam_server.query.dialect.numerics import is_remainder, mark_product, mark_remainder
from hornbeam_server.query.dialect.sums import number_kind, number_type
from hornbeam_server.schema.trees import supersede
from hornbeam_server.schema.types import MOMENTS, REAL, ColumnType, Kind

KINDS = "kinds"
"""Key in the meta of ROUND, `||`, CONCAT, `/` and `-`: for each operand its kind if that matters,
None for others and where only DuckDB knows the type."""
TypeOf = Callable[[exp.Expr], ColumnType | None]
MARKED = (exp.Round, exp.DPipe, exp.Div, exp.Mul, exp.Mod, exp.Sub, exp.Anonymous)
"""The nodes that `mark_operands` looks at."""
_JOINED = frozenset({"concat", "concat_ws"})


def mark_operands(node: exp.Expr, type_of: TypeOf) -> None:
    """Note what matters of a node's operands: their kinds (`KINDS`), the kind of a quotient, or
    that a product is long. `type_of` gives the types of names."""
    if isinstance(node, exp.Mul):
        sides = (node.this, node.expression)
        spans = [is_interval(side, type_of) for side in sides]
        if any(spans):
            node.meta[KINDS] = [Kind.INTERVAL if span else Kind.DOUBLE for span in spans]
        else:
            mark_product(node, type_of)
        return
    if is_remainder(node):
        mark_remainder(node, type_of)
        return
    if isinstance(node, exp.Div):
        number_kind(node, type_of)  # notes the kind
        if is_interval(node.this, type_of):
            node.meta[KINDS] = (None, None)
        return
    if isinstance(node, exp.Sub):
        kinds = [_kind_of(type_of(side)) for side in (node.this, node.expression)]
        if kinds == [Kind.TIME, Kind.TIME]:
            node.meta[KINDS] = kinds
        return
    joined = isinstance(node, exp.Anonymous) and node.name.lower() in _JOINED
    if joined or isinstance(node, exp.Round | exp.DPipe):
        node.meta[KINDS] = [_kind(node, operand, type_of) for operand in _operands(node)]


def is_rounded_to_even(node: exp.Round) -> bool:
    return node.args.get("decimals") is None and Kind.DOUBLE in node.meta.get(KINDS, ())


def write_operands(node: exp.Expr) -> None:
    """Write a node with marked operands for DuckDB."""
    if isinstance(node, exp.Div):  # `/` would be its //, which takes no intervals
        divide = exp.to_identifier("/", quoted=True)
        sides = [node.this.copy(), node.expression.copy()]
        supersede(node, exp.Anonymous(this=divide, expressions=sides))
        return
    if isinstance(node, exp.Mul):  # DuckDB's number is an INTEGER or a DOUBLE
        for side, kind in zip((node.this, node.expression), node.meta[KINDS], strict=True):
            if kind is Kind.DOUBLE:
                supersede(side, exp.cast(side, exp.DType.DOUBLE))
        return
    if isinstance(node, exp.Sub):  # DuckDB has no difference of times
        day = exp.cast(exp.Literal.string("2000-01-01"), "DATE", dialect="duckdb")
        for side in (node.this, node.expression):
            supersede(side, exp.Paren(this=exp.Add(this=day.copy(), expression=side.copy())))
        return
    if isinstance(node, exp.Round):
        if is_rounded_to_even(node):
            parts = [node.this.copy(), exp.Literal.number(0)]
            supersede(node, exp.Anonymous(this="round_even", expressions=parts))
        return
    for operand, kind in zip(_operands(node), node.meta[KINDS], strict=True):
        if kind is Kind.DOUBLE:
            supersede(operand, call("text_of_double", operand.copy()))
        elif kind is Kind.BOOLEAN and not isinstance(node, exp.DPipe):
            supersede(operand, call("letter", operand.copy()))
        elif kind is Kind.BYTES and not isinstance(node, exp.DPipe):
            supersede(operand, call("text_of_bytes", operand.copy()))


def _operands(node: exp.Expr) -> Sequence[exp.Expr]:
    if isinstance(node, exp.DPipe):
        return (node.this, node.expression)
    return (node.this,) if isinstance(node, exp.Round) else tuple(node.expressions)


def _kind_of(type_: ColumnType | None) -> Kind | None:
    return None if type_ is None else type_.kind


def is_interval(node: exp.Expr, type_of: TypeOf) -> bool:
    """Is the value an INTERVAL, by the syntax?"""
    inner = node.unnest()
    match inner:
        case exp.Interval():
            return True
        case exp.Cast():
            return inner.is_type(exp.DType.INTERVAL)
        case exp.Sub():
            types = [type_of(inner.this), type_of(inner.expression)]
            if all(_kind_of(type_) in MOMENTS for type_ in types):
                return True
            return is_interval(inner.this, type_of)
        case exp.Add():
            return all(is_interval(side, type_of) for side in (inner.this, inner.expression))
        case exp.Mul():
            return any(is_interval(side, type_of) for side in (inner.this, inner.expression))
        case exp.Neg() | exp.Div():
            return is_interval(inner.this, type_of)
    type_ = type_of(inner)
    return type_ is not None and type_.kind is Kind.INTERVAL


def _kind(node: exp.Expr, operand: exp.Expr, type_of: TypeOf) -> Kind | None:
    inner = operand.unnest()
    known = number_type(inner, type_of)
    if known == REAL and not isinstance(node, exp.Round):
        return None  # `query.dialect.reals` writes it
    number = None if known is None else known.kind
    if number is Kind.DOUBLE:
        return Kind.DOUBLE
    kind = _kind_of(type_of(inner))
    return kind if kind in (Kind.BOOLEAN, Kind.BYTES) else None
