"""Operators and functions of arrays: which function a node means, and its form for DuckDB.

Binding marks a node with the name of its function where the syntax shows that a side is an array
(`ARRAY` in its meta). DuckDB has each function as a macro `hornbeam_array_…`
(`query/dialect/array_macros.py`), our own loops as a function over tuples
(`query/dialect/array_values.py`). Lists that only DuckDB knows keep its operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.expressions import apply_index_offset

from hornbeam_server.query.dialect import array_values as values
from hornbeam_server.query.dialect.macros import call, macro
from hornbeam_server.schema.arrays import elements_of
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.trees import supersede
from hornbeam_server.schema.types import UNORDERED, ColumnType, Kind, array_of

if TYPE_CHECKING:  # only workers load DuckDB, not the server process
    import duckdb

ARRAY = "array"
"""Key in the meta of a node: the name of its function."""
SHOWN = "shown"
"""Key in the meta of array_to_string: the type of the elements."""
_JOINS = "joins_arrays"
"""Key in the meta of `||`: does its syntax show that a side is an array?"""
PREFIX = "array_"
ELEMENTS = macro("array_elements")
TypeOf = Callable[[exp.Expr], ColumnType | None]
_BOOLEAN, _INTEGER = ColumnType(Kind.BOOLEAN), ColumnType(Kind.INTEGER)
_TEXT = ColumnType(Kind.TEXT)


@dataclass(frozen=True, slots=True)
class Function:
    """A function of arrays. Each parameter is an array (`a`), an element (`e`), a number (`n`) or a
    text (`t`), and so is the result, which may also be a truth value (`b`) or an array of numbers
    (`i`) or texts (`s`). A `strict` function is NULL if an argument is."""

    run: Callable[..., Any]
    parameters: str
    result: str
    strict: bool = True


FUNCTIONS: Mapping[str, Function] = {
    "at": Function(values.at, "an", "e"),
    "part": Function(values.part, "ann", "a"),
    "contains": Function(values.contains, "aa", "b"),
    "contained": Function(values.contained, "aa", "b"),
    "overlaps": Function(values.overlaps, "aa", "b"),
    "concatenated": Function(values.concatenated, "aa", "a", strict=False),
    "appended": Function(values.appended, "ae", "a", strict=False),
    "prepended": Function(values.prepended, "ea", "a", strict=False),
    "assigned": Function(values.assigned, "ane", "a", strict=False),
    "removed": Function(values.removed, "ae", "a", strict=False),
    "replaced": Function(values.replaced, "aee", "a", strict=False),
    "position": Function(values.position, "ae", "n", strict=False),
    "position_from": Function(values.position_from, "aen", "n", strict=False),
    "positions": Function(values.positions, "ae", "i", strict=False),
    "length": Function(values.length, "an", "n"),
    "lower": Function(values.lower, "an", "n"),
    "number": Function(len, "a", "n"),
    "dimensions": Function(values.dimensions, "a", "n"),
    "bounds": Function(values.bounds, "a", "t"),
    "split": Function(values.split, "ttt", "s", strict=False),
}
NAMES: Mapping[tuple[str, int], str] = {
    ("array_append", 2): "appended",
    ("array_cat", 2): "concatenated",
    ("array_dims", 1): "bounds",
    ("array_length", 2): "length",
    ("array_lower", 2): "lower",
    ("array_ndims", 1): "dimensions",
    ("array_position", 2): "position",
    ("array_position", 3): "position_from",
    ("array_positions", 2): "positions",
    ("array_prepend", 2): "prepended",
    ("array_remove", 2): "removed",
    ("array_replace", 3): "replaced",
    ("array_upper", 2): "length",
    ("cardinality", 1): "number",
    ("string_to_array", 2): "split",
    ("string_to_array", 3): "split",
    (macro("array_assigned"), 3): "assigned",
}
"""PostgreSQL's functions, by name and number of arguments."""
_OPERATORS: Mapping[type[exp.Expr], str] = {
    exp.ArrayContainsAll: "contains",
    exp.ArrayContainedBy: "contained",
    exp.ArrayOverlaps: "overlaps",
}
_UNTYPED = (exp.Null, exp.Placeholder)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


def array_compared(node: exp.Expr) -> exp.Expr | None:
    """The array of `x = ANY (array)` or `x = ALL (array)`, for all comparisons; None for others."""
    side = node.expression if isinstance(node, _COMPARISONS) else None
    found = None
    if isinstance(side, exp.Any):
        found = side.this
    elif isinstance(side, exp.Anonymous) and is_all(side):
        (found,) = side.expressions
    found = None if found is None else found.unnest()
    return None if isinstance(found, exp.Query | None) else found


def is_joined(node: exp.Anonymous) -> bool:
    return node.name.lower() == "array_to_string" and len(node.expressions) in (2, 3)


def is_all(node: exp.Anonymous) -> bool:
    return node.name.lower() == "all" and len(node.expressions) == 1


def function_of(node: exp.Expr, type_of: TypeOf) -> str | None:
    """The name of the function of arrays that computes `node`; None for other nodes."""
    if isinstance(node, exp.Anonymous):
        return NAMES.get((node.name.lower(), len(node.expressions)))
    if isinstance(node, exp.Bracket):
        return _bracket(node, type_of)
    if isinstance(node, exp.DPipe):
        return _concatenation(node, type_of)
    found = _OPERATORS.get(type(node))
    sides = () if found is None else (node.this, node.expression)
    return found if any(is_array(side, type_of) for side in sides) else None


def is_array(node: exp.Expr, type_of: TypeOf) -> bool:
    """Does the syntax show that the value is an array? The type of its elements may be unknown."""
    inner = node.unnest()
    type_ = type_of(inner)
    return _spells_array(inner) if type_ is None else type_.element is not None


def _spells_array(node: exp.Expr) -> bool:
    """Is the value an array, whatever its elements are?"""
    match node:
        case exp.Array():
            return True
        case exp.Cast():
            return node.is_type(exp.DType.ARRAY)
        case exp.Query():
            return len(node.selects) == 1 and _spells_array(node.selects[0].unalias())
        case exp.DPipe():
            return _joins_arrays(node)
        case exp.Anonymous(this="array", expressions=[exp.Query()]):  # ARRAY(SELECT …)
            return True
        case exp.Anonymous():
            name = NAMES.get((node.name.lower(), len(node.expressions)))
            return name is not None and FUNCTIONS[name].result in "ais"
    return False


def _joins_arrays(node: exp.DPipe) -> bool:
    """Is a side of `||` an array? The answer is kept in the node, since a chain asks each part."""
    if _JOINS not in node.meta:
        sides = (node.this.unnest(), node.expression.unnest())
        node.meta[_JOINS] = any(map(_spells_array, sides))
    return bool(node.meta[_JOINS])


def has_dimensions(node: exp.Expr, type_of: TypeOf) -> bool:
    """Does the node make an array of arrays, or take an element of an element? A list in brackets
    alone, `[[1], [2]]`, is DuckDB's."""
    match node:
        case exp.Array() if not node.args.get("bracket_notation"):
            return any(is_array(_selected(each), type_of) for each in node.expressions)
        case exp.Anonymous(expressions=[value, *_]) if node.name.lower() == "array_agg":
            value = value.this if isinstance(value, exp.Order) else value
            value = value.expressions[0] if isinstance(value, exp.Distinct) else value
            return is_array(value, type_of)
        case exp.Bracket():
            inner = node.this.unnest()
            kind = _bracket(inner, type_of) if isinstance(inner, exp.Bracket) else None
            # A part of an array in parentheses is an array.
            return kind is not None and (kind == "at" or inner is node.this)
    return False


def _selected(node: exp.Expr) -> exp.Expr:
    """The value of a query of one column, as in `ARRAY(SELECT …)`; another node as it is."""
    inner = node.unnest()
    if isinstance(inner, exp.Query) and len(inner.selects) == 1:
        return inner.selects[0].unalias()
    return inner


def _bracket(node: exp.Bracket, type_of: TypeOf) -> str | None:
    if len(node.expressions) != 1 or not is_array(node.this, type_of):
        return None
    inside = node.expressions[0]
    if not isinstance(inside, exp.Slice):
        return "at"
    return None if inside.args.get("step") else "part"


def _concatenation(node: exp.DPipe, type_of: TypeOf) -> str | None:
    """`||` of two arrays, or of an array and an element. A text without a type, a parameter and
    NULL are arrays, as in PostgreSQL."""
    sides = (node.this.unnest(), node.expression.unnest())
    known = [is_array(side, type_of) for side in sides]
    if not any(known):
        return None
    left, right = (
        is_known or side.is_string or isinstance(side, _UNTYPED)
        for is_known, side in zip(known, sides, strict=True)
    )
    return {(True, True): "concatenated", (True, False): "appended"}.get((left, right), "prepended")


def result_type(node: exp.Expr, name: str, type_of: TypeOf) -> ColumnType | None:
    """The type of a node that function `name` computes; None if the syntax does not show it."""
    match FUNCTIONS[name].result:
        case "b":
            return _BOOLEAN
        case "n":
            return _INTEGER
        case "t":
            return _TEXT
        case "i":
            return array_of(_INTEGER)
        case "s":
            return array_of(_TEXT)
        case result:
            array = array_type(node, name, type_of)
            return None if array is None else array.element if result == "e" else array


def array_type(node: exp.Expr, name: str, type_of: TypeOf) -> ColumnType | None:
    """The type of the arrays among the arguments, or the type that an element implies."""
    given = list(zip(FUNCTIONS[name].parameters, arguments(node), strict=False))
    types = [(kind, type_of(each)) for kind, each in given]
    for kind, type_ in types:
        if kind == "a" and type_ is not None and type_.element is not None:
            return type_
    elements = [type_ for kind, type_ in types if kind == "e" and type_ is not None]
    plain = bool(elements) and elements[0].kind not in UNORDERED
    return array_of(elements[0].stored()) if plain else None


def arguments(node: exp.Expr) -> Sequence[exp.Expr]:
    """The arguments of a node with a function of arrays, without defaults."""
    match node:
        case exp.Anonymous():
            return node.expressions
        case exp.Bracket():
            inside = node.expressions[0]
            if not isinstance(inside, exp.Slice):
                return (node.this, *apply_index_offset(node.this, [inside.copy()], 1))
            first = inside.this or exp.Literal.number(1)
            last = inside.args.get("expression") or exp.Literal.number(_LAST)
            return (node.this, first, last)
        case _:
            return (node.this, node.expression)


_LAST = (1 << 31) - 1
"""The place of the last element of a slice without an end."""


def typed_arguments(
    node: exp.Expr, name: str, type_of: TypeOf
) -> Iterator[tuple[exp.Expr, ColumnType]]:
    """Yield the arguments whose type the others imply, with this type."""
    array = array_type(node, name, type_of)
    for kind, each in zip(FUNCTIONS[name].parameters, arguments(node), strict=False):
        if kind == "n":
            yield each, _INTEGER
        elif kind == "t":
            yield each, _TEXT
        elif array is not None:
            yield each, array if kind == "a" else array.element_type


def write_array(node: exp.Expr) -> None:
    """Write a marked node for DuckDB."""
    if node.meta[ARRAY] == "compared":
        _write_compared(node)
        return
    function = FUNCTIONS[node.meta[ARRAY]]
    given = [each.copy() for each in arguments(node)]
    given += [exp.Null() for _ in function.parameters[len(given) :]]
    supersede(node, call(PREFIX + node.meta[ARRAY], *given))


def _write_compared(node: exp.Expr) -> None:
    """Write a comparison with ANY or ALL of an array, which is NULL for no array; DuckDB takes NULL
    for an empty one."""
    array = array_compared(node)
    assert array is not None
    if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any):
        supersede(node, call("array_any", node.this.copy(), array.copy()))
        return
    if isinstance(node, exp.NEQ) and not isinstance(node.expression, exp.Any):
        found = call("array_any", node.this.copy(), array.copy())
        supersede(node, exp.Paren(this=exp.Not(this=found)))
        return
    plain = node.copy()
    plain.meta.pop(ARRAY)
    absent = exp.If(this=exp.Is(this=array.copy(), expression=exp.Null()), true=exp.Null())
    supersede(node, exp.Case(ifs=[absent], default=plain))


# ---------------------------------------------------------------- the text of an array


def create_elements(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the function `elements` in a DuckDB database. DuckDB needs numpy for it."""
    create: Any = connection.create_function
    create(ELEMENTS, elements, ["VARCHAR"], "VARCHAR[]", null_handling="special")


def elements(text: str | None) -> list[str | None] | None:
    """The elements in the text of an array. Raises TypeMismatch."""
    if text is None:
        return None
    try:
        return elements_of(text)
    except ValueError as error:
        shown = text if len(text) <= 60 else text[:57] + "..."
        raise TypeMismatch(f"{shown!r} is not an array: {error}.") from None
