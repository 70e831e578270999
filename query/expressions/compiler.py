"""The compiler: one small handler per kind of SQL expression.

A handler lists the arguments of its node that it supports. A node with any other argument (a flag
of the dialect, a modifier) has semantics that the handler does not know, so DuckDB evaluates it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from hornbeam_server.query.dialect.arrays import ARRAY, array_compared
from hornbeam_server.query.dialect.arrays import arguments as array_arguments
from hornbeam_server.query.dialect.jsonb import DIGITS, JSONB, Parameter, arguments
from hornbeam_server.query.dialect.macros import is_macro, macro
from hornbeam_server.query.dialect.numerics import (
    REMAINDER,
    is_long_product,
    is_quotient,
    remainder_sides,
)
from hornbeam_server.query.dialect.operand_kinds import is_rounded_to_even
from hornbeam_server.query.dialect.overloads import OVERLOAD
from hornbeam_server.query.dialect.overloads import arguments as overload_arguments
from hornbeam_server.query.dialect.reals import AROUND, READ
from hornbeam_server.query.dialect.results import AS_KIND
from hornbeam_server.query.dialect.smallints import SMALL
from hornbeam_server.query.expressions import (
    arithmetic,
    arrays,
    casts,
    comparison,
    functions,
    jsonb,
    logic,
    text,
)
from hornbeam_server.query.expressions.literals import parse_number
from hornbeam_server.query.expressions.operands import (
    INTEGER,
    TEXT,
    Evaluate,
    NotNativeError,
    Operand,
    Parameters,
    Scope,
    column_getter,
    constant,
)
from hornbeam_server.query.parsing.placeholders import number_placeholders, parameter_key
from hornbeam_server.query.typing.constants import CONSTANT
from hornbeam_server.schema.types import ColumnType, Row, Value, compared_type

MAY_BE_NAN = "may_be_nan"
"""Key in the meta of a column's node: the column may hold NaN. Stored rows of relations do not."""


@dataclass(frozen=True, slots=True)
class CompiledExpression:
    """A closure over (row, parameters). `type` None: the value is always NULL.

    Calling may raise TypeMismatch where DuckDB reports an overflow or a failing cast, and
    SqlError for a division by zero.
    """

    type: ColumnType | None
    evaluate: Evaluate

    def __call__(self, row: Row, parameters: Parameters = ()) -> Value:
        value: Value = self.evaluate(row, parameters)
        return value


def compile_expression(
    node: exp.Expr, scope: Scope, compiler: Callable[[Scope], Compiler] | None = None
) -> CompiledExpression | None:
    """Compile `node` to a closure with DuckDB's semantics; None if equality is not certain.
    `compiler` makes one that compiles more.

    Placeholders have their number in `meta["index"]`; otherwise they are numbered within `node`.
    Propagates the errors of `scope.resolve`.
    """
    number_placeholders(node)
    try:
        operand = (compiler or Compiler)(scope).compile(node)
    except NotNativeError:
        return None
    return CompiledExpression(operand.type, operand.evaluate)


class Compiler:
    """Compiles the nodes of an expression over the columns and parameters of `scope`."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def compile(self, node: Any) -> Operand:
        if CONSTANT in node.meta:
            type_, value = node.meta[CONSTANT]
            if value == value:  # noqa: PLR0124  NaN sorts differently
                return constant(type_, value)
        if JSONB in node.meta:
            return self._jsonb(node)
        if ARRAY in node.meta:
            return self._array(node)
        if OVERLOAD in node.meta:
            given = self.all(*overload_arguments(node))
            return functions.called(macro(node.meta[OVERLOAD]), given)
        if REMAINDER in node.meta:
            sides = self.all(*remainder_sides(node))
            return arithmetic.remainder(node.meta[REMAINDER], *sides)
        handler = _HANDLERS.get(type(node))
        if handler is None:
            raise NotNativeError
        known, function = handler
        if any(value and name not in known for name, value in node.args.items()):
            raise NotNativeError
        found = function(self, node)
        return arithmetic.smallint(found) if SMALL in node.meta else found

    def _jsonb(self, node: Any) -> Operand:
        given = ((parameter, nodes) for parameter, nodes in arguments(node))
        return jsonb.called(
            node.meta[JSONB],
            [
                jsonb.texts(nodes[0])
                if parameter is Parameter.TEXTS and nodes
                else self.all(*nodes)
                for parameter, nodes in given
            ],
        )

    def _array(self, node: Any) -> Operand:
        name = node.meta[ARRAY]
        if name != "compared":
            return arrays.called(name, self.all(*array_arguments(node)))
        array = array_compared(node)
        every = not isinstance(node.expression, exp.Any)
        return arrays.compared(_TESTS[type(node)], *self.all(node.this, array), every=every)

    def all(self, *nodes: Any) -> list[Operand]:
        return [self.compile(node) for node in nodes]

    def sides(self, node: Any) -> list[Operand]:
        return self.all(node.this, node.expression)


Handler = Callable[[Compiler, Any], Operand]
_HANDLERS: dict[type, tuple[frozenset[str], Handler]] = {}


def _handles(type_: type, *arguments: str) -> Callable[[Handler], Handler]:
    def register(function: Handler) -> Handler:
        _HANDLERS[type_] = (frozenset({"this", *arguments}), function)
        return function

    return register


# --- leaves ----------------------------------------------------------------------------------


@_handles(exp.Column, "table", "db", "catalog")
def _column(compiler: Compiler, node: exp.Column) -> Operand:
    position, type_ = compiler.scope.resolve(node)
    nan = bool(node.meta.get(MAY_BE_NAN))
    return Operand(type_, column_getter(position), position=position, may_be_nan=nan)


@_handles(exp.Literal, "is_string")
def _literal(_: Compiler, node: exp.Literal) -> Operand:
    if node.is_string:
        return constant(TEXT, node.this, text=node.this)
    number = parse_number(node.this)
    if number is None:
        raise NotNativeError
    return constant(*number)


@_handles(exp.Null)
def _null(_: Compiler, _node: exp.Null) -> Operand:
    return constant(None, None)


@_handles(exp.Boolean)
def _boolean(_: Compiler, node: exp.Boolean) -> Operand:
    return logic.truth(bool(node.this))


@_handles(exp.Placeholder)
def _placeholder(compiler: Compiler, node: exp.Placeholder) -> Operand:
    key = parameter_key(node)
    type_ = compiler.scope.parameter_type(key)
    if type_ is None:
        raise NotNativeError
    type_ = compared_type(type_)  # it is not rounded
    return Operand(type_, lambda _row, parameters: parameters[key])  # type: ignore[index]


@_handles(exp.Array, "expressions")
def _array(compiler: Compiler, node: exp.Array) -> Operand:
    return arrays.written(compiler.all(*node.expressions))


@_handles(exp.Paren)
def _paren(compiler: Compiler, node: exp.Paren) -> Operand:
    return compiler.compile(node.this)


# --- comparison and logic --------------------------------------------------------------------


def _comparison(test: comparison.Test) -> Handler:
    return lambda compiler, node: comparison.compare(test, *compiler.sides(node))


_TESTS: dict[type[exp.Expr], comparison.Test] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}
for _type, _test in _TESTS.items():
    _handles(_type, "expression")(_comparison(_test))


@_handles(exp.NullSafeNEQ, "expression")
def _distinct(compiler: Compiler, node: exp.NullSafeNEQ) -> Operand:
    return comparison.distinct(*compiler.sides(node))


@_handles(exp.NullSafeEQ, "expression")
def _not_distinct(compiler: Compiler, node: exp.NullSafeEQ) -> Operand:
    return logic.negation(comparison.distinct(*compiler.sides(node)))


@_handles(exp.Between, "low", "high")
def _between(compiler: Compiler, node: exp.Between) -> Operand:
    return comparison.between(*compiler.all(node.this, node.args["low"], node.args["high"]))


@_handles(exp.In, "expressions")
def _in(compiler: Compiler, node: exp.In) -> Operand:
    return comparison.member(compiler.compile(node.this), compiler.all(*node.expressions))


@_handles(exp.And, "expression")
def _and(compiler: Compiler, node: exp.And) -> Operand:
    parts = compiler.all(*_flattened(node, exp.And))
    return logic.conjunction([logic.condition(part) for part in parts])


@_handles(exp.Or, "expression")
def _or(compiler: Compiler, node: exp.Or) -> Operand:
    parts = compiler.all(*_flattened(node, exp.Or))
    return logic.disjunction([logic.condition(part) for part in parts])


def _flattened(node: Any, type_: Any) -> Iterator[Any]:
    if type(node) is type_:
        yield from _flattened(node.this, type_)
        yield from _flattened(node.expression, type_)
    else:
        yield node


@_handles(exp.Not)
def _not(compiler: Compiler, node: exp.Not) -> Operand:
    return logic.negation(compiler.compile(node.this))


@_handles(exp.Is, "expression")
def _is(compiler: Compiler, node: exp.Is) -> Operand:
    operand = compiler.compile(node.this)
    match node.expression:
        case exp.Null():
            return logic.is_null(operand)
        case exp.Boolean(this=wanted):
            return logic.is_truth(operand, bool(wanted))
    raise NotNativeError


@_handles(exp.Case, "ifs", "default")
def _case(compiler: Compiler, node: exp.Case) -> Operand:
    subject = compiler.compile(node.this) if node.this is not None else None
    branches = []
    for branch in node.args["ifs"]:
        test, value = compiler.all(branch.this, branch.args["true"])
        if subject is not None:
            test = comparison.compare(operator.eq, subject, test)
        branches.append((test, value))
    default = node.args.get("default")
    return logic.case(branches, constant(None, None) if not default else compiler.compile(default))


@_handles(exp.Coalesce, "expressions")
def _coalesce(compiler: Compiler, node: exp.Coalesce) -> Operand:
    return logic.coalesce(compiler.all(node.this, *node.expressions))


@_handles(exp.Nullif, "expression")
def _nullif(compiler: Compiler, node: exp.Nullif) -> Operand:
    found = logic.nullif(*compiler.sides(node))
    kind = AS_KIND.get(node.meta.get(AROUND, ""))
    return found if kind is None else arithmetic.as_kind(found, kind)


@_handles(exp.Greatest, "expressions", "ignore_nulls")
def _greatest(compiler: Compiler, node: exp.Greatest) -> Operand:
    return logic.extreme(max, compiler.all(node.this, *node.expressions))


@_handles(exp.Least, "expressions", "ignore_nulls")
def _least(compiler: Compiler, node: exp.Least) -> Operand:
    return logic.extreme(min, compiler.all(node.this, *node.expressions))


# --- numbers ---------------------------------------------------------------------------------


def _arithmetic(function: arithmetic.Binary) -> Handler:
    return lambda compiler, node: arithmetic.arithmetic(function, *compiler.sides(node))


_handles(exp.Add, "expression")(_arithmetic(operator.add))
_handles(exp.Sub, "expression")(_arithmetic(operator.sub))


@_handles(exp.Mul, "expression")
def _product(compiler: Compiler, node: exp.Mul) -> Operand:
    sides = compiler.sides(node)
    if is_long_product(node):
        return arithmetic.long_product(*sides)
    return arithmetic.arithmetic(operator.mul, *sides)


@_handles(exp.Div, "expression", "typed", "safe")
def _quotient(compiler: Compiler, node: exp.Div) -> Operand:
    if node.args.get("typed"):
        raise NotNativeError  # of another dialect: the type of the operands is kept
    if is_quotient(node):
        return arithmetic.numeric_quotient(*compiler.sides(node))
    return arithmetic.quotient(*compiler.sides(node))


@_handles(exp.IntDiv, "expression")
def _whole_quotient(compiler: Compiler, node: exp.IntDiv) -> Operand:
    return arithmetic.whole_quotient(*compiler.sides(node))


@_handles(exp.Mod, "expression")
def _modulo(compiler: Compiler, node: exp.Mod) -> Operand:
    return arithmetic.modulo(*compiler.sides(node))


@_handles(exp.Neg)
def _neg(compiler: Compiler, node: exp.Neg) -> Operand:
    return arithmetic.minus(compiler.compile(node.this))


@_handles(exp.Abs)
def _abs(compiler: Compiler, node: exp.Abs) -> Operand:
    return arithmetic.absolute(compiler.compile(node.this))


@_handles(exp.Round, "decimals")
def _round(compiler: Compiler, node: exp.Round) -> Operand:
    digits = _number(node.args.get("decimals"))
    even = is_rounded_to_even(node)
    (operand,) = _read(node, compiler.all(node.this))
    return arithmetic.rounded(operand, digits or 0, even=even)


def _read(node: exp.Expr, operands: list[Operand]) -> list[Operand]:
    """The operands of a node of which the first may be read as a number of another kind."""
    kind = AS_KIND.get((*node.meta.get(READ, ()), "")[0])
    return operands if kind is None else [arithmetic.as_kind(operands[0], kind), *operands[1:]]


@_handles(exp.Cast, "to")
def _cast(compiler: Compiler, node: exp.Cast) -> Operand:
    to, operand = node.args["to"], compiler.compile(node.this)
    if DIGITS in node.meta:
        operand = jsonb.number(node.meta[DIGITS], operand)
    if casts.is_numeric(to):
        return casts.numeric(operand, node.this)
    if casts.is_padded(to):
        return text.trim(casts.cast(operand, TEXT), "TRAILING", None)
    if to.this is exp.DType.SMALLINT:
        return arithmetic.smallint(casts.cast(operand, INTEGER))
    return casts.cast(operand, casts.target_type(to))


def _number(node: exp.Expr | None) -> int | None:
    """The value of an integer literal; None without a node. Raises NotNativeError for others."""
    if node is None:
        return None
    if type(node) is not exp.Literal or node.is_string or not node.this.isdecimal():
        raise NotNativeError
    return int(node.this)


# --- functions by name -----------------------------------------------------------------------


@_handles(exp.Anonymous, "expressions")
def _call(compiler: Compiler, node: exp.Anonymous) -> Operand:
    if node.find(exp.Column) is None and not is_macro(node.name):
        raise NotNativeError  # the type of DATE_PART of a constant depends on its value
    return functions.called(node.name, _read(node, compiler.all(*node.expressions)))


# --- text ------------------------------------------------------------------------------------


@_handles(exp.Like, "expression", "negate")
def _like(compiler: Compiler, node: exp.Like) -> Operand:
    return _pattern(compiler, node, text.BACKSLASH)


@_handles(exp.ILike, "expression", "negate")
def _ilike(compiler: Compiler, node: exp.ILike) -> Operand:
    return _pattern(compiler, node, text.BACKSLASH)


@_handles(exp.Escape, "expression")
def _escape(compiler: Compiler, node: exp.Escape) -> Operand:
    character = node.expression
    like = node.this
    known = {"this", "expression", "negate"}
    if type(character) is not exp.Literal or not character.is_string:
        raise NotNativeError
    if type(like) not in (exp.Like, exp.ILike) or any(
        like.args[k] for k in like.args.keys() - known
    ):
        raise NotNativeError
    return _pattern(compiler, like, character.this or None)


def _pattern(compiler: Compiler, node: Any, escape: str | None) -> Operand:
    insensitive = isinstance(node, exp.ILike)
    found = text.like(*compiler.sides(node), insensitive=insensitive, escape=escape)
    return logic.negation(found) if node.args.get("negate") else found


@_handles(exp.DPipe, "expression", "safe")
def _concatenation(compiler: Compiler, node: exp.DPipe) -> Operand:
    return text.concatenate(*compiler.sides(node))


@_handles(exp.Lower)
def _lower(compiler: Compiler, node: exp.Lower) -> Operand:
    return text.change_case(compiler.compile(node.this), text.lower)


@_handles(exp.Upper)
def _upper(compiler: Compiler, node: exp.Upper) -> Operand:
    return text.change_case(compiler.compile(node.this), text.upper)


@_handles(exp.StrPosition, "substr")
def _place(compiler: Compiler, node: exp.StrPosition) -> Operand:
    return text.position(*compiler.all(node.this, node.args["substr"]))


@_handles(exp.Length)
def _length(compiler: Compiler, node: exp.Length) -> Operand:
    return text.length(compiler.compile(node.this))


@_handles(exp.Substring, "start", "length")
def _substring(compiler: Compiler, node: exp.Substring) -> Operand:
    start = _number(node.args.get("start"))
    if start is None:
        raise NotNativeError
    return text.substring(compiler.compile(node.this), start, _number(node.args.get("length")))


@_handles(exp.Trim, "expression", "position")
def _trim(compiler: Compiler, node: exp.Trim) -> Operand:
    characters = node.expression
    if characters and not (type(characters) is exp.Literal and characters.is_string):
        raise NotNativeError
    return text.trim(
        compiler.compile(node.this),
        str(node.args.get("position") or "BOTH"),
        characters.this if characters else None,
    )
