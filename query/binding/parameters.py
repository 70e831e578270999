"""Parameters at run time: a parameter compares like the literal of its value.

A statement is planned once for all values. A compared parameter has the type of the other operand.
A value that is not of this type (2.5 compared with an INTEGER, or a text if the type is unknown) is
a `Misfit`: the statement is planned again with the value's literal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from sqlglot import exp

from hornbeam_server.query.binding.binder import USE, BoundQuery, Use, bind_tree
from hornbeam_server.query.typing.comparands import Gap, given, own
from hornbeam_server.query.typing.literals import literal
from hornbeam_server.query.typing.value_types import Untyped, value_type
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.types import MAX_DECIMAL_PRECISION, ColumnType, Kind, Value

Name = int | str
Reader = tuple[Name, Callable[[Any], bool], Callable[[Any], Value]]
"""(parameter, fast check that a value needs no conversion, conversion of any other value)."""


class Misfit(Exception):
    """The value needs a literal instead of its parameter. The statement's runner catches this."""


def readers(bound: BoundQuery, assigned: Callable[[ColumnType, Any], Value]) -> tuple[Reader, ...]:
    """The readers of a statement's parameters; `assigned` converts values that are not compared.
    Readers raise TypeMismatch and Misfit."""
    return tuple(
        (name, *_reader(type_, bound.uses.get(name, ()), assigned))
        for name, type_ in bound.parameter_types.items()
    )


def read(found: Sequence[Reader], values: Mapping[Any, Any]) -> dict[Any, Value]:
    """The converted values of all parameters. Raises KeyError, TypeMismatch, Misfit."""
    result: dict[Any, Value] = {}
    for name, stays, reader in found:
        value = values[name]
        result[name] = value if value is None or stays(value) else reader(value)
    return result


def with_literals(
    bound: BoundQuery, found: Sequence[Reader], values: Mapping[Any, Any], catalog: Catalog
) -> tuple[BoundQuery, dict[Any, Any]]:
    """The statement with literals instead of the parameters of misfits, and the values of the
    remaining parameters. Raises TypeMismatch."""
    misfits = {name for name, stays, reader in found if _misfit(values[name], stays, reader)}
    tree = bound.ast.copy()
    for node in list(tree.find_all(exp.Placeholder)):
        name = node.meta["parameter"].name
        if name in misfits and USE in node.meta:
            node.replace(literal(values[name]))
    again = bind_tree(tree, bound.statement.sql, catalog)
    return again, {name: values[name] for name in again.parameter_types}


def untyped(bound: BoundQuery) -> tuple[Name, ...]:
    """The parameters whose types are those of their values, such as that of `balance + ?`."""
    return tuple(name for name, type_ in bound.parameter_types.items() if type_ is None)


def types_of(
    bound: BoundQuery, names: Sequence[Name], values: Sequence[Any] | Mapping[str, Any]
) -> tuple[ColumnType | None, ...] | None:
    """The types of the values of untyped parameters; None in the tuple for NULL. None alone if a
    value is missing, or is such that only its literal tells its type."""
    try:
        given = [values[name] for name in names]  # type: ignore[index]
        uses = map(bound.uses.get, names)
        return tuple(map(_type_of, given, uses))
    except (KeyError, IndexError, TypeError, Untyped):
        return None


def _type_of(value: Any, uses: Sequence[Use] | None) -> ColumnType | None:
    if value is None:
        return None
    if uses and _ambiguous(value):
        raise Untyped
    return value_type(value)


def with_types(
    bound: BoundQuery, types: Mapping[Name, ColumnType | None], catalog: Catalog
) -> BoundQuery:
    """The statement with parameters cast to `types`, and NULL for a parameter whose type is None.
    It has the same parameters. Raises SqlError and its subclasses where PostgreSQL would refuse a
    parameter of this type.

    balance + ?, for a DECIMAL(3,2)    =>  balance + CAST(? AS DECIMAL(3,2))
    """
    tree = bound.ast.copy()
    for node in list(tree.find_all(exp.Placeholder)):
        name = node.meta["parameter"].name
        if name in types:
            type_ = types[name]
            cast = None if type_ is None else exp.cast(node.copy(), type_.sql(), dialect="duckdb")
            node.replace(exp.Null() if cast is None else cast)
    again = bind_tree(tree, bound.statement.sql, catalog)
    known = again.parameter_types
    return replace(again, parameter_types={name: known.get(name) for name in bound.parameter_types})


def _misfit(value: Any, stays: Callable[[Any], bool], reader: Callable[[Any], Value]) -> bool:
    try:
        if not (value is None or stays(value)):
            reader(value)
    except Misfit:
        return True
    return False


def _reader(
    type_: ColumnType | None,
    uses: Sequence[Use],
    assigned: Callable[[ColumnType, Any], Value],
) -> tuple[Callable[[Any], bool], Callable[[Any], Value]]:
    if type_ is None and not uses:
        return _always, _itself
    if not uses:
        assert type_ is not None
        return own(type_), lambda value: assigned(type_, value)
    types = {use.type for use in uses}
    stays = own(type_) if type_ is not None and types == {type_} else _never
    if len(uses) == 1 and types == {type_}:
        return stays, lambda value: _fitted(uses[0], value)

    def reader(value: Any) -> Value:
        found = [_fitted(use, value) for use in uses]
        if type_ is not None and type_ not in types:
            found.insert(0, assigned(type_, value))
        if not all(_same(found[0], other) for other in found):
            raise Misfit
        return found[0]

    return stays, reader


def _always(_: Any) -> bool:
    return True


def _never(_: Any) -> bool:
    return False


def _itself(value: Any) -> Any:
    return value


def _fitted(use: Use, value: Any) -> Value:
    if use.type is None:
        if _ambiguous(value):
            raise Misfit
        found: Value = value
        return found
    if use.cast and isinstance(value, str) and use.type.kind is not Kind.DOUBLE:
        return use.type.coerce(value)  # like a cast literal; not for DOUBLE, which may be NaN
    try:
        fitted = given(use.type, value)
    except TypeMismatch:
        if use.cast:
            raise Misfit from None
        raise
    if isinstance(fitted, Gap):
        raise Misfit
    return fitted


def _ambiguous(value: Any) -> bool:
    """Whether DuckDB may infer another type from the value than from its literal."""
    if isinstance(value, Decimal):
        return not value.is_finite() or len(value.as_tuple().digits) > MAX_DECIMAL_PRECISION
    if isinstance(value, int):
        return not -(1 << 63) <= value < 1 << 63
    if isinstance(value, list | tuple):
        return any(map(_ambiguous, value)) or not any(each is not None for each in value)
    return isinstance(value, str | float)


def _same(left: Value, right: Value) -> bool:
    """Whether both values compare equally with every value."""
    exact = isinstance(left, int | Decimal) and isinstance(right, int | Decimal)
    return (exact or type(left) is type(right)) and left == right
