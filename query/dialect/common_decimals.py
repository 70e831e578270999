"""Decimals that meet: in CASE, COALESCE, arrays, VALUES and set operations.

DuckDB gives them a common type of at most 38 digits. If there are more, it drops decimal places:
of DECIMAL(38,0) and DECIMAL(38,20) it makes DECIMAL(38,0), and 4999.5 becomes 5000. Binding marks
such operands, and they are cast to a DECIMAL with all places. A value with too many digits before
the point is then refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from hornbeam_server.query.dialect.grammar import NAME
from hornbeam_server.query.dialect.macros import CAST_FROM
from hornbeam_server.query.dialect.sums import (
    TypeOf,
    common_number,
    is_unlimited,
    number_type,
    operands_that_meet,
)
from hornbeam_server.schema import spelling
from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.quotients import PLACES
from hornbeam_server.schema.types import MAX_DECIMAL_PRECISION, ColumnType, Kind, array_of

GiveType = Callable[[exp.Expr, ColumnType], None]
MEETS = "meets"
"""Key in the meta of an operand: the type to which it is cast."""
COLUMNS = "columns_that_meet"
"""Key in the meta of a side of a set operation: its columns' names, and the types to which they are
cast, None for a column that stays."""
MEETING = (
    exp.Coalesce, exp.Greatest, exp.Least, exp.Case, exp.Array, exp.Lag, exp.Lead, exp.Anonymous,
)  # fmt: skip
"""The nodes that `mark_operands_that_meet` looks at."""


# ---------------------------------------------------------------- types


def exact_type(types: Sequence[ColumnType | None]) -> ColumnType | None:
    """The type to which decimals of these types are cast, where DuckDB would drop decimal places;
    None where its own common type has them all. Types that are None are not known."""
    known = [type_ for type_ in types if type_ is not None]
    decimals = [t for t in known if t.kind is Kind.DECIMAL and not is_unlimited(t)]
    if len({type_.scale for type_ in decimals}) < 2 or any(t.kind is Kind.DOUBLE for t in known):
        return None
    places = max(type_.scale or 0 for type_ in decimals)
    whole = max((type_.precision or 0) - (type_.scale or 0) for type_ in decimals)
    return _numeric(places) if whole + places > MAX_DECIMAL_PRECISION else None


def recursive_type(
    name: str, first: ColumnType | None, second: ColumnType | None
) -> ColumnType | None:
    """The type to which both parts of a recursive CTE are cast in a column; None for a column that
    stays. A number grows with each step: it has the places of a quotient if the recursive part has
    more places than the first part. Raises SqlError if the numbers become another kind."""
    if first is None or second is None or first == second:
        return None
    if _KINDS[first.kind] < _KINDS[second.kind]:
        raise SqlError(
            f"Column {name} of a recursive CTE is {first.kind.upper()} in its first part, but"
            f" {second.kind.upper()} in its recursive part.",
            cure=f"Cast the value in the first part to {second.kind.upper()}.",
        )
    if first.kind is not Kind.DECIMAL or second.kind is not Kind.DECIMAL:
        return None
    places = [None if is_unlimited(type_) else type_.scale or 0 for type_ in (first, second)]
    if places[0] == places[1] is not None:
        return _numeric(places[0] or 0)
    return _numeric(max(PLACES, *(each or 0 for each in places)))


def recursive_array(type_: ColumnType | None) -> ColumnType | None:
    """The type of a column of a recursive CTE that is an array of decimals in its first part: the
    recursive part may add decimals with more places. None for columns of other types."""
    element = None if type_ is None else type_.element
    if element is None or element.kind is not Kind.DECIMAL:
        return None
    return array_of(_numeric(max(PLACES, element.scale or 0)))


_KINDS = {Kind.INTEGER: 0, Kind.BIGINT: 0, Kind.DECIMAL: 1, Kind.DOUBLE: 2}
"""What a number of a recursive CTE cannot become: a kind with a greater number."""


def _numeric(places: int) -> ColumnType:
    return ColumnType(Kind.DECIMAL, MAX_DECIMAL_PRECISION, places)


# ---------------------------------------------------------------- marking


def mark_operands_that_meet(node: exp.Expr, type_of: TypeOf, give_type: GiveType) -> None:
    """Note to which type the operands of a node are cast. `give_type` gives a parameter a type."""
    values = node.expressions if isinstance(node, exp.Array) else operands_that_meet(node)
    mark_values_that_meet(values, type_of, give_type)
    if isinstance(node, exp.Lag | exp.Lead):
        _mark_default(values, type_of)


def mark_values_that_meet(values: Sequence[exp.Expr], type_of: TypeOf, give_type: GiveType) -> None:
    """Note to which type these values of one column or array, or of one expression, are cast."""
    types = [number_type(value, type_of) for value in values]
    known = [type_ for type_ in types if type_ is not None]
    common = common_number(known)
    if common is None or common.kind is not Kind.DECIMAL:
        return
    type_parameters(values, common, give_type)
    types = [type_ or _of_text(value) for value, type_ in zip(values, types, strict=True)]
    target = exact_type(types)
    if target is None and len(known) < len(values):  # DuckDB casts a text to the type of the others
        everything = common_number([type_ for type_ in types if type_ is not None])
        target = everything if everything != common else None
    if target is not None and not is_unlimited(target):
        _mark(values, types, target)


def type_parameters(values: Sequence[exp.Expr], type_: ColumnType, give_type: GiveType) -> None:
    """Give the parameters among `values` the type of the decimals if it has no room for more
    places. Then a value of more places becomes a literal, whose places count."""
    if type_.precision == MAX_DECIMAL_PRECISION:
        for value in values:
            give_type(value, type_)


def _of_text(value: exp.Expr) -> ColumnType | None:
    """The type of a number that is written as text; None for any other value."""
    text = value.unnest()
    if not isinstance(text, exp.Literal) or not text.is_string:
        return None
    try:
        number = spelling.decimal(text.name)
    except (ValueError, ArithmeticError):
        return None
    _, digits, exponent = number.as_tuple()
    places = max(-int(exponent), 0)
    precision = max(len(digits) + max(int(exponent), 0), places, 1)
    fits = precision <= MAX_DECIMAL_PRECISION
    return ColumnType(Kind.DECIMAL, precision, places) if fits else None


def _mark_default(values: Sequence[exp.Expr], type_of: TypeOf) -> None:
    """DuckDB casts the default to the type of the value; PostgreSQL takes their common type."""
    types = [number_type(value, type_of) for value in values]
    known = [type_ for type_ in types if type_ is not None]
    common = common_number(known)
    if len(known) < 2 or common is None or is_unlimited(common) or common == types[0]:
        return
    _mark(values, types, exact_type(types) or common)


def _mark(
    values: Sequence[exp.Expr], types: Sequence[ColumnType | None], target: ColumnType
) -> None:
    for value, type_ in zip(values, types, strict=True):
        if type_ is not None and type_ != target:
            value.meta[MEETS] = target


def mark_sides(
    sides: Sequence[exp.Expr], names: Sequence[str], types: Sequence[ColumnType | None]
) -> None:
    """Note to which types the columns of the sides of a set operation are cast."""
    if any(type_ is not None for type_ in types):
        for side in sides:
            side.meta[COLUMNS] = tuple(zip(names, types, strict=True))


# ---------------------------------------------------------------- writing


def cast_decimals_that_meet(nodes: Sequence[exp.Expr]) -> bool:
    """Write the casts of the marked operands and sides among the nodes of a tree, which has parents
    first. Returns whether there are any."""
    found = False
    for node in reversed(nodes):  # inner nodes first
        if MEETS in node.meta:
            found = True
            target = node.meta.pop(MEETS)
            node.replace(cast := exp.Cast(this=exp.Null()))
            _set_cast(cast, node, target)
        elif COLUMNS in node.meta:
            found = True
            columns = node.meta.pop(COLUMNS)
            node.replace(side := exp.Subquery())
            side.replace(_cast_columns(node, columns))
    return found


def _set_cast(cast: exp.Cast, value: exp.Expr, type_: ColumnType) -> exp.Cast:
    cast.set("this", value)
    cast.set("to", exp.DataType.build(type_.sql(), NAME))
    cast.meta[CAST_FROM] = type_
    return cast


def _cast_columns(query: exp.Expr, columns: Sequence[tuple[str, ColumnType | None]]) -> exp.Select:
    """A SELECT that casts the columns of a query, which keep their names."""
    names = [exp.to_identifier(f"column_{i}") for i in range(len(columns))]
    values = [exp.column(name.copy()) for name in names]
    items = [
        exp.alias_(
            value if type_ is None else _set_cast(exp.Cast(), value, type_), name, quoted=True
        )
        for value, (name, type_) in zip(values, columns, strict=True)
    ]
    alias = exp.TableAlias(this=exp.to_identifier("side"), columns=names)
    return exp.select(*items, copy=False).from_(exp.Subquery(this=query, alias=alias), copy=False)
