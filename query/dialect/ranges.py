"""Results of type DOUBLE that are out of range: errors, as in PostgreSQL, and not Infinity or 0.

DuckDB computes on. An Infinity that no operand is, is an overflow; a product or quotient that is 0
though no factor is, is an underflow. Binding marks the outermost operation of arithmetic
(`RANGED`), and one condition around it finds what goes wrong in any of its parts:

* An overflow stays Infinity or NaN through sums and products, so that the whole shows it. A divisor
  hides it, and has a check of its own. If an operand is Infinity itself, nothing shows.
* An underflow shows in its product alone. A product is checked with all its factors at once, since
  a 0 stays a 0 in it.

So the size of what is written grows with the depth of sums in products, and not as a power of it.
An operand with a check of its own, such as a function of a product, is an argument of a lambda.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

from sqlglot import exp

from hornbeam_server.query.dialect.deviations import UNITS
from hornbeam_server.query.dialect.expansion import over_variable, variables
from hornbeam_server.query.dialect.overloads import OVERLOAD
from hornbeam_server.query.dialect.reals import AROUND, argument_value
from hornbeam_server.query.dialect.sums import (
    KIND,
    SUMMED,
    TypeOf,
    number_type,
    whole,
    with_clauses_of,
)
from hornbeam_server.query.dialect.templates import filled
from hornbeam_server.schema.trees import nodes_of, supersede
from hornbeam_server.schema.types import ColumnType, Kind

RANGED = "ranged"
"""Key in the meta of the outermost operation of arithmetic of type DOUBLE."""
TOTAL = "total_of_doubles"
"""Key in the meta of SUM or AVG of doubles that is checked."""
CHECKED = "checked"
"""Key in the meta of a CASE that checks a result."""
OUT_OF_RANGE = "The result is out of range for type double precision."
ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div)
_DOUBLE = ColumnType(Kind.DOUBLE)
_ERROR = f"error('{OUT_OF_RANGE}')"
_POWER = f"""
CASE WHEN isfinite(CAST(a AS DOUBLE)) AND isfinite(CAST(b AS DOUBLE)) AND a <> 0
AND (NOT isfinite(power(a, b)) OR power(a, b) = 0) THEN {_ERROR} ELSE power(a, b) END
"""
_GROWING = """
CASE WHEN isfinite(CAST(a AS DOUBLE)) AND NOT isfinite({0}(a)) THEN {1} ELSE {0}(a) END
"""
_FUNCTIONS = {
    ("exp", 1): f"CASE WHEN isfinite(CAST(a AS DOUBLE)) AND (NOT isfinite(exp(a)) OR exp(a) = 0)"
    f" THEN {_ERROR} ELSE exp(a) END",
    ("power", 2): _POWER,
    ("pow", 2): _POWER,
    ("degrees", 1): _GROWING.format("degrees", _ERROR),
    ("radians", 1): f"CASE WHEN a <> 0 AND radians(a) = 0 THEN {_ERROR} ELSE radians(a) END",
}
"""Functions whose result may be out of range, by name and number of arguments."""


_DEVIATIONS = frozenset({"stddev", "stddev_pop", "stddev_samp", "var_pop", "var_samp", "variance"})
_OF_PAIRS = frozenset(
    {
        *("corr", "covar_pop", "covar_samp", "regr_intercept", "regr_r2", "regr_slope"),
        *("regr_sxx", "regr_sxy", "regr_syy"),
    }
)


def mark_range(node: exp.Expr, type_of: TypeOf) -> None:
    """Note that a node is the outermost operation of arithmetic of type DOUBLE. A REAL is rounded,
    which finds what is out of range."""
    if isinstance(_around(node), ARITHMETIC):
        return
    if number_type(node, type_of) == _DOUBLE:
        node.meta[RANGED] = True


def _around(node: exp.Expr) -> exp.Expr | None:
    """What computes with the value of a node."""
    parent = node.parent
    while isinstance(parent, exp.Paren | exp.Neg):
        parent = parent.parent
    return parent


def check_ranges(nodes: Sequence[exp.Expr]) -> bool:
    """Write the checks of the marked operations, and of functions, among the nodes of a tree, which
    has parents first, and mark the totals of doubles (`TOTAL`). Returns whether there are new
    nodes."""
    found = False
    for node in reversed(nodes):  # inner nodes first
        if node.meta.pop(RANGED, False):
            found = True
            _check(node)
        elif (call := _called(node)) in _FUNCTIONS and OVERLOAD not in node.meta:
            found = True
            values = dict(zip("ab", _arguments(node), strict=False))
            supersede(node, filled(_FUNCTIONS[call], values))
        elif isinstance(node, exp.Sum | exp.Avg):
            if node.meta.get(SUMMED) is Kind.DOUBLE and AROUND not in node.meta:
                node.meta[TOTAL] = True
        elif _is_measure(call) and UNITS not in node.meta:
            found = True
            _check_measure(node)
    return found


def _is_measure(call: tuple[str, int]) -> bool:
    name, count = call
    return (name in _DEVIATIONS and count == 1) or (name in _OF_PAIRS and count == 2)


def _check_measure(node: exp.Expr) -> None:
    """Check what PostgreSQL adds up for a deviation or a correlation: the values, and the squares
    of their distances from the average."""
    values = [argument_value(each) for each in node.expressions]
    if len(values) == 1:
        sums = [_aggregate("sum", values), node]
    else:
        sums = [_aggregate(name, values) for name in ("regr_sxx", "regr_syy", "regr_sxy")]
    _guard_aggregate(whole(node), sums, values)


def _aggregate(name: str, values: Sequence[exp.Expr]) -> exp.Expr:
    doubles = [exp.cast(value, exp.DType.DOUBLE) for value in values]
    return exp.Anonymous(this=name, expressions=doubles)


def _guard_aggregate(top: exp.Expr, sums: Sequence[exp.Expr], values: Sequence[exp.Expr]) -> None:
    """Write an aggregate, with its FILTER and OVER, so that it is an error if one of the sums is
    not finite, though all values are."""
    beyond: list[exp.Expr] = [
        exp.Not(this=_finite(with_clauses_of(top, each.copy()))) for each in sums
    ]
    finite = exp.Anonymous(this="bool_and", expressions=[reduce(_both, map(_finite, values))])
    wrong = _both(exp.Paren(this=reduce(_either, beyond)), with_clauses_of(top, finite))
    supersede(top, _guarded(wrong, top.copy()))


def _called(node: exp.Expr) -> tuple[str, int]:
    if isinstance(node, exp.Pow):
        return "power", 2
    called = isinstance(node, exp.Anonymous)
    return (node.name.lower(), len(node.expressions)) if called else ("", 0)


def _arguments(node: exp.Expr) -> Sequence[exp.Expr]:
    return [node.this, node.expression] if isinstance(node, exp.Pow) else node.expressions


def checked_aggregate(node: exp.AggFunc) -> None:
    """Write SUM or AVG of doubles, with its FILTER and OVER, so that an overflow is an error."""
    _guard_aggregate(whole(node), [node], [argument_value(node.this)])


# ---------------------------------------------------------------- conditions


def _check(node: exp.Expr) -> None:
    """Write the check of an operation around it. Operands with checks of their own are computed
    once, as arguments of a function."""
    operands = [leaf for leaf in _parts(node, ARITHMETIC) if not isinstance(leaf, _SIMPLE)]
    place = exp.Paren(this=exp.Null())
    node.replace(place)
    place.set("this", node)
    if not any(CHECKED in part.meta for leaf in operands for part in nodes_of(leaf, exp.Case)):
        supersede(place, _checked(node))
        return
    given = [leaf.copy() for leaf in operands]
    for leaf, variable in zip(operands, variables(len(operands)), strict=True):
        supersede(leaf, variable)
    supersede(place, over_variable(given, _checked(place.this)))


_SIMPLE = (exp.Column, exp.Literal, exp.Placeholder)


def _checked(node: exp.Expr) -> exp.Expr:
    return _guarded(reduce(_either, _conditions(node)), node.copy())


def _guarded(wrong: exp.Expr, value: exp.Expr) -> exp.Case:
    error = exp.Anonymous(this="error", expressions=[exp.Literal.string(OUT_OF_RANGE)])
    case = exp.Case(ifs=[exp.If(this=wrong, true=error)], default=value)
    case.meta[CHECKED] = True
    return case


def _conditions(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield what is true if a part of an operation is out of range."""
    leaves = [leaf for leaf in _parts(node, ARITHMETIC) if not _is_number(leaf)]
    beyond: exp.Expr = exp.Not(this=_finite(node))
    yield reduce(_both, map(_finite, leaves), beyond)
    for part in _operations(node):
        if not isinstance(part, exp.Mul | exp.Div):
            continue
        if not isinstance(_around(part), exp.Mul | exp.Div) or part is node:
            factors = [each for each in _parts(part, (exp.Mul, exp.Div)) if not _is_number(each)]
            yield reduce(_both, [*map(_is_not_zero, factors), *_divisors(part)], _is_zero(part))
        if isinstance(part, exp.Div) and _is_operation(part.expression):
            yield from _conditions(part.expression.unnest())


def _operations(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the operations of arithmetic in a node, without those in divisors."""
    left = [node]
    while left:
        inner = _unsigned(left.pop())
        if _is_operation(inner):
            yield inner
            left += [inner.this] if isinstance(inner, exp.Div) else [inner.expression, inner.this]


def _parts(node: exp.Expr, kinds: tuple[type[exp.Expr], ...]) -> Iterator[exp.Expr]:
    """Yield the operands of a nest of operations of these kinds."""
    left = [node]
    while left:
        inner = _unsigned(left.pop())
        if isinstance(inner, kinds) and _is_operation(inner):
            left += [inner.expression, inner.this]
        else:
            yield inner


def _divisors(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield that the divisors in a product are finite: by Infinity, 0 is no underflow."""
    left = [node]
    while left:
        inner = _unsigned(left.pop())
        if isinstance(inner, exp.Mul | exp.Div) and _is_operation(inner):
            left.append(inner.this)
            if isinstance(inner, exp.Div):
                yield _finite(inner.expression)
            else:
                left.append(inner.expression)


def _is_operation(node: exp.Expr) -> bool:
    """Is the node an operation of doubles or whole numbers? A quotient of other numbers is not."""
    inner = _unsigned(node)
    whole_or_exact = isinstance(inner, exp.Div) and inner.meta.get(KIND) is not Kind.DOUBLE
    return isinstance(inner, ARITHMETIC) and not whole_or_exact


def _unsigned(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren | exp.Neg):
        node = node.this
    return node


def _is_number(node: exp.Expr) -> bool:
    """Is the operand a number that is written, other than 0?"""
    return isinstance(node, exp.Literal) and not node.is_string and float(node.name) != 0


def _finite(node: exp.Expr) -> exp.Expr:
    number = exp.cast(node, exp.DType.DOUBLE)
    return exp.Anonymous(this="isfinite", expressions=[number])


def _is_zero(node: exp.Expr) -> exp.Expr:
    return exp.EQ(this=exp.Paren(this=node.copy()), expression=exp.Literal.number(0))


def _is_not_zero(node: exp.Expr) -> exp.Expr:
    return exp.NEQ(this=exp.Paren(this=node.copy()), expression=exp.Literal.number(0))


def _both(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.And(this=left, expression=right)


def _either(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.Or(this=left, expression=right)
