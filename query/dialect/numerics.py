"""NUMERIC of PostgreSQL where DuckDB has another type or fewer digits.

DuckDB divides decimals as DOUBLE, and multiplies them only if all decimal places fit. There both
are functions over texts in Python (`schema.quotients`), which our own loops call, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from hornbeam_server.query.dialect.macros import call
from hornbeam_server.query.dialect.sums import (
    FEW,
    KIND,
    TypeOf,
    digits_before_point,
    is_unlimited,
    number_kind,
    number_of_all,
    number_type,
    remainder_type,
)
from hornbeam_server.schema.quotients import (
    PLACES,
    QUOTIENT,
    product_of_texts,
    quotient_of_texts,
    remainder_of_texts,
)
from hornbeam_server.schema.trees import nodes_of, supersede
from hornbeam_server.schema.types import MAX_DECIMAL_PRECISION, Kind

if TYPE_CHECKING:
    import duckdb

FUNCTIONS: Mapping[str, Callable[[str, str], str]] = {
    "hornbeam_quotient_of_texts": quotient_of_texts,
    "hornbeam_product_of_texts": product_of_texts,
    "hornbeam_remainder_of_texts": remainder_of_texts,
}
"""The functions by their names in DuckDB, where they take and return texts. Macros call them."""
REMAINDER = "remainder"
"""Key in the meta of `%` and `mod`: the type of the remainder, if DuckDB would have a DOUBLE."""
LONG = "long_product"
"""Key in the meta of `*`: has it more decimal places than DuckDB multiplies?"""


def create_function(name: str, connection: duckdb.DuckDBPyConnection) -> None:
    """Create the function `name` of `FUNCTIONS` in a DuckDB database."""
    function = FUNCTIONS[name]

    def of_texts(a: str | None, b: str | None) -> str | None:
        return None if a is None or b is None else function(a, b)

    create: Any = connection.create_function
    create(name, of_texts, ["VARCHAR", "VARCHAR"], "VARCHAR", null_handling="special")


def write_numeric(node: exp.Expr) -> bool:
    """Write a quotient, a long product or a remainder of NUMERIC for DuckDB. Returns whether it is
    one."""
    if REMAINDER in node.meta:
        found = call("remainder", *(side.copy() for side in remainder_sides(node)))
        supersede(node, exp.cast(found, node.meta[REMAINDER].sql(), dialect="duckdb"))
        return True
    if not (is_quotient(node) or is_long_product(node)):
        return False
    name = "quotient" if isinstance(node, exp.Div) else "product"
    supersede(node, call(name, node.this.copy(), node.expression.copy()))
    return True


# ---------------------------------------------------------------- numbers with an exponent


def has_exponent(node: exp.Expr) -> bool:
    """Is this a number with an exponent, which is a NUMERIC? DuckDB reads it as a DOUBLE."""
    return isinstance(node, exp.Literal) and not node.is_string and "e" in node.name.lower()


def without_exponent(node: exp.Expr) -> exp.Expr:
    """A number with an exponent as the digits that DuckDB reads as a DECIMAL: `1e3` as `1000.`. A
    number with more digits than a DECIMAL has stays as it is."""
    try:
        number = Decimal(node.name)
    except ArithmeticError:
        return node
    places = max(-int(number.as_tuple().exponent), 0)
    if max(number.adjusted() + 1, 1) + places > MAX_DECIMAL_PRECISION:
        return node
    return exp.Literal.number(f"{number:f}" if places else f"{number:f}.")


# ---------------------------------------------------------------- quotients and products


def is_quotient(node: exp.Expr) -> bool:
    """Is this a quotient of NUMERIC? Binding asks each `/` for its kind."""
    return isinstance(node, exp.Div) and node.meta.get(KIND) is Kind.DECIMAL


def is_long_product(node: exp.Expr) -> bool:
    return LONG in node.meta


def mark_product(node: exp.Mul, type_of: TypeOf) -> None:
    """Note whether a product has too many decimal places (`LONG`)."""
    sides = (node.this, node.expression)
    if number_kind(node, type_of) is not Kind.DECIMAL:
        return
    long = [_has_quotient(side, type_of) for side in sides]
    few = [_places(side.unnest(), type_of) <= FEW for side in sides]
    if all(long) or (any(long) and not any(few)):
        node.meta[LONG] = True


def is_remainder(node: exp.Expr) -> bool:
    """Is this `a % b` or `mod(a, b)`?"""
    called = isinstance(node, exp.Anonymous) and node.name.lower() == "mod"
    return isinstance(node, exp.Mod) or (called and len(node.expressions) == 2)


def remainder_sides(node: exp.Expr) -> Sequence[exp.Expr]:
    """The sides of `%` and of `mod(a, b)`."""
    return (node.this, node.expression) if isinstance(node, exp.Mod) else node.expressions


def mark_remainder(node: exp.Expr, type_of: TypeOf) -> None:
    """Note the type of a remainder of decimals (`REMAINDER`) that have more digits together than a
    DECIMAL."""
    sides = remainder_sides(node)
    common, found = number_of_all(sides, type_of), remainder_type(sides, type_of)
    if common is None or found is None or common.kind is not Kind.DECIMAL or is_unlimited(common):
        return
    types = [number_type(side, type_of) for side in sides if not isinstance(side, exp.Null)]
    whole = max(digits_before_point(type_) for type_ in types if type_ is not None)
    wide = whole + (common.scale or 0) > MAX_DECIMAL_PRECISION
    if wide or any(map(_is_huge, nodes_of(node, exp.Literal))):
        node.meta[REMAINDER] = found


def _is_huge(node: exp.Literal) -> bool:
    """Is this a whole number that DuckDB reads as a HUGEINT, and divides as a DOUBLE?"""
    return not node.is_string and node.name.isdecimal() and int(node.name) >= 1 << 63


def _has_quotient(node: exp.Expr, type_of: TypeOf) -> bool:
    return any(
        _places(part, type_of) >= PLACES
        if isinstance(part, exp.Column)
        else is_quotient(part) or is_long_product(part) or _is_average(part, type_of)
        for part in node.walk(prune=_has_own_places)
    )


def _is_average(node: exp.Expr, type_of: TypeOf) -> bool:
    """Is this an average or a deviation with the type of a quotient?"""
    computed = isinstance(node, exp.Avg | exp.Anonymous | exp.Pow)
    return computed and type_of(node) == QUOTIENT


def _has_own_places(node: exp.Expr) -> bool:
    """Does the number of places not depend on the parts?"""
    return isinstance(node, exp.Cast | exp.Query | exp.Round)


def _places(node: exp.Expr, type_of: TypeOf) -> int:
    """The decimal places of a literal or a name; those of a quotient if they are not known."""
    if isinstance(node, exp.Literal):
        return len(node.name.partition(".")[2])
    type_ = type_of(node)
    if type_ is None or (type_.kind is Kind.DECIMAL and type_.scale is None):
        return PLACES
    return type_.scale or 0
