"""JSONB in statements: which nodes are its operators and functions, and how DuckDB calls them.

Where the syntax shows that a value is JSONB, binding marks the node (`JSONB`) with the name of the
function in `FUNCTIONS` that computes it. Our own loops call this function
(`query/expressions/jsonb.py`). DuckDB has it under the name `hornbeam_jsonb_…`, and arguments of
any type reach it as text of JSON (macro `hornbeam_json`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import wraps
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from hornbeam_server.query.dialect import json_values
from hornbeam_server.query.dialect import jsonb_values as values
from hornbeam_server.query.dialect.macros import call
from hornbeam_server.query.dialect.text_arrays import texts_of
from hornbeam_server.schema.errors import SqlError, Unsupported
from hornbeam_server.schema.trees import supersede
from hornbeam_server.schema.types import JSONB as JSONB_TYPE
from hornbeam_server.schema.types import ColumnType, Kind

if TYPE_CHECKING:
    import duckdb

JSONB = "jsonb"
"""Key in the meta of a node: the name of the function that computes its value."""
_JOINED = "joined_type"
"""Key in the meta of `||`: its type."""
DIGITS = "jsonb_digits"
"""Key in the meta of a cast of JSONB to a number: the name of the function of its digits."""
TypeOf = Callable[[exp.Expr], ColumnType | None]

_JSON, _TEXT = ColumnType(Kind.JSON), ColumnType(Kind.TEXT)
_BOOLEAN, _INTEGER = ColumnType(Kind.BOOLEAN), ColumnType(Kind.INTEGER)
_WHOLE = frozenset({Kind.INTEGER, Kind.BIGINT})
_NUMBERS = _WHOLE | {Kind.DECIMAL, Kind.DOUBLE}


class Parameter(Enum):
    """What a function takes."""

    JSONB = "jsonb"
    ANY = "any"
    """A value of any type, as text of JSON."""
    TEXT = "text"
    TEXTS = "texts"
    """An array of texts, as text of JSON."""
    INTEGER = "integer"
    BOOLEAN = "boolean"
    LIST = "list"
    """Any number of values of any type, each as text of JSON or NULL."""


_P = Parameter
_DUCKDB = {_P.INTEGER: "INTEGER", _P.BOOLEAN: "BOOLEAN", _P.LIST: "VARCHAR[]"}
"""Types of parameters in DuckDB; all others are VARCHAR."""


PARAMETERS = {
    _P.JSONB: JSONB_TYPE,
    _P.TEXT: ColumnType(Kind.TEXT),
    _P.INTEGER: ColumnType(Kind.INTEGER),
    _P.BOOLEAN: ColumnType(Kind.BOOLEAN),
    _P.TEXTS: ColumnType(Kind.TEXT),
}
"""The types of arguments; an argument of any type is not here."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of JSONB. `defaults` stand for the last parameters; `several` is the type of each
    of several rows, if it gives several."""

    run: Callable[..., Any]
    result: ColumnType
    parameters: tuple[Parameter, ...] = (_P.JSONB,)
    defaults: tuple[bool, ...] = ()
    several: bool = False

    @property
    def duckdb_type(self) -> str:
        name = "VARCHAR" if self.result.kind is Kind.TEXT else self.result.sql()
        return f"{name}[]" if self.several else name


_BY_KEY, _BY_PLACE = (_P.JSONB, _P.TEXT), (_P.JSONB, _P.INTEGER)
_BY_PATH = (_P.JSONB, _P.TEXTS)
_OF_RECORDS = (_P.JSONB, _P.TEXT, _P.BOOLEAN)
_CHANGE = (_P.JSONB, _P.TEXTS, _P.JSONB, _P.BOOLEAN)
FUNCTIONS: Mapping[str, Function] = {
    "of_text": Function(values.of_text, JSONB_TYPE),
    "of_text_or_null": Function(values.of_text_or_null, JSONB_TYPE),
    "of_any": Function(values.of_text, JSONB_TYPE, (_P.ANY,)),
    "number": Function(values.number, _TEXT),
    "whole": Function(values.whole, _TEXT),
    "truth": Function(values.truth, _BOOLEAN),
    "type_name": Function(values.type_name, _TEXT),
    "array_length": Function(values.array_length, _INTEGER),
    "strip_nulls": Function(values.strip_nulls, JSONB_TYPE),
    "pretty": Function(values.pretty, _TEXT),
    "field": Function(values.field, JSONB_TYPE, _BY_KEY),
    "field_text": Function(values.field_text, _TEXT, _BY_KEY),
    "element": Function(values.element, JSONB_TYPE, _BY_PLACE),
    "element_text": Function(values.element_text, _TEXT, _BY_PLACE),
    "path": Function(values.path, JSONB_TYPE, _BY_PATH),
    "path_text": Function(values.path_text, _TEXT, _BY_PATH),
    "contains": Function(values.contains, _BOOLEAN, (_P.JSONB, _P.JSONB)),
    "contained": Function(values.contained, _BOOLEAN, (_P.JSONB, _P.JSONB)),
    "exists": Function(values.exists, _BOOLEAN, _BY_KEY),
    "exists_any": Function(values.exists_any, _BOOLEAN, _BY_PATH),
    "exists_all": Function(values.exists_all, _BOOLEAN, _BY_PATH),
    "concatenate": Function(values.concatenate, JSONB_TYPE, (_P.JSONB, _P.JSONB)),
    "without_key": Function(values.without_key, JSONB_TYPE, _BY_KEY),
    "without_keys": Function(values.without_keys, JSONB_TYPE, _BY_PATH),
    "without_element": Function(values.without_element, JSONB_TYPE, _BY_PLACE),
    "without_path": Function(values.without_path, JSONB_TYPE, _BY_PATH),
    "set_path": Function(values.set_path, JSONB_TYPE, _CHANGE, (True,)),
    "insert_path": Function(values.insert_path, JSONB_TYPE, _CHANGE, (False,)),
    "build_array": Function(values.build_array, JSONB_TYPE, (_P.LIST,)),
    "build_object": Function(values.build_object, JSONB_TYPE, (_P.LIST,)),
    "object_of_pairs": Function(values.object_of_pairs, JSONB_TYPE, (_P.LIST, _P.LIST)),
    "object_of_texts": Function(values.object_of_texts, JSONB_TYPE, (_P.TEXTS,)),
    "object_of_two": Function(values.object_of_two, JSONB_TYPE, (_P.TEXTS, _P.TEXTS)),
    "json_array": Function(values.json_array, _JSON, (_P.LIST,)),
    "texts": Function(values.texts, _TEXT, (_P.TEXT,)),
    "elements": Function(values.elements, JSONB_TYPE, several=True),
    "element_texts": Function(values.element_texts, _TEXT, several=True),
    "fields": Function(values.fields, _TEXT, _OF_RECORDS, several=True),
    "field_values": Function(values.field_values, JSONB_TYPE, _OF_RECORDS, several=True),
    "field_arrays": Function(values.field_arrays, _TEXT, _OF_RECORDS, several=True),
    "json_elements": Function(json_values.elements, _JSON, several=True),
    "json_element_texts": Function(json_values.element_texts, _TEXT, several=True),
    "json_keys": Function(json_values.keys, _TEXT, several=True),
    "json_member_values": Function(json_values.member_values, _JSON, several=True),
    "json_member_texts": Function(json_values.member_texts, _TEXT, several=True),
    "keys": Function(values.keys, _TEXT, several=True),
    "member_values": Function(values.member_values, JSONB_TYPE, several=True),
    "member_texts": Function(values.member_texts, _TEXT, several=True),
}
PREFIX = "hornbeam_jsonb_"
_NAMES: Mapping[str, str] = {
    "jsonb_array_element": "element",
    "jsonb_array_element_text": "element_text",
    "jsonb_array_length": "array_length",
    "jsonb_build_array": "build_array",
    "jsonb_build_object": "build_object",
    "jsonb_concat": "concatenate",
    "jsonb_contained": "contained",
    "jsonb_contains": "contains",
    "jsonb_delete_path": "without_path",
    "jsonb_exists": "exists",
    "jsonb_exists_all": "exists_all",
    "jsonb_exists_any": "exists_any",
    "jsonb_extract_path": "path",
    "jsonb_extract_path_text": "path_text",
    "jsonb_insert": "insert_path",
    "jsonb_object_field": "field",
    "jsonb_object_field_text": "field_text",
    "jsonb_pretty": "pretty",
    "jsonb_set": "set_path",
    "jsonb_strip_nulls": "strip_nulls",
    "jsonb_typeof": "type_name",
    "to_jsonb": "of_any",
    **{PREFIX + name: name for name in FUNCTIONS},
}
"""PostgreSQL's names of functions."""
_VARIADIC = {"jsonb_extract_path", "jsonb_extract_path_text"}


def create_function(name: str, connection: duckdb.DuckDBPyConnection) -> None:
    """Create `FUNCTIONS[name]` in a DuckDB database. DuckDB needs numpy for it."""
    function = FUNCTIONS[name]
    types = [_DUCKDB.get(parameter, "VARCHAR") for parameter in function.parameters]
    create: Any = connection.create_function
    # DuckDB's own handling of NULL would not let a result be NULL.
    create(
        PREFIX + name, _strict(function.run), types, function.duckdb_type, null_handling="special"
    )


def _strict(run: Callable[..., Any]) -> Callable[..., Any]:
    """`run`, whose value is NULL if an argument is NULL."""

    @wraps(run)  # DuckDB reads the number of parameters
    def called(*given: Any) -> Any:
        return None if None in given else run(*given)

    return called


# ---------------------------------------------------------------- which function a node means

_OF_LEFT: Mapping[type[exp.Expr], str] = {
    exp.JSONBExtract: "path",
    exp.JSONBExtractScalar: "path_text",
    exp.JSONBContains: "exists",
    exp.JSONBContainsAnyTopKeys: "exists_any",
    exp.JSONBContainsAllTopKeys: "exists_all",
    exp.JSONBDeleteAtPath: "without_path",
}
"""Operators that have one function, if their left side is JSONB."""
_ONLY_JSONB: Mapping[type[exp.Expr], str] = {
    exp.JSONBContains: "?",
    exp.JSONBContainsAnyTopKeys: "?|",
    exp.JSONBContainsAllTopKeys: "?&",
    exp.JSONBDeleteAtPath: "#-",
}
_STEPS: Mapping[type[exp.Expr], str] = {exp.JSONExtract: "", exp.JSONExtractScalar: "_text"}
_KINDS: tuple[type[Any], ...] = (
    exp.Anonymous, exp.Cast, exp.Sub, exp.DPipe, exp.ArrayContainsAll, exp.ArrayContainedBy,
    *_OF_LEFT, *_STEPS,
)  # fmt: skip
_BYTES = ColumnType(Kind.BYTES)
_UNTYPED = (exp.Null, exp.Placeholder)


def is_jsonb(type_: ColumnType | None) -> bool:
    return type_ is not None and type_.declared is JSONB_TYPE.declared


def function_of(node: exp.Expr, type_of: TypeOf) -> str | None:
    """The name of the function of JSONB that computes `node`; None for other nodes. Raises
    Unsupported and SqlError."""
    if not isinstance(node, _KINDS):
        return None
    if isinstance(node, exp.Anonymous):
        return _named(node)
    if isinstance(node, exp.Cast):
        return _cast(node, type_of)
    return _operator(node, type_of)


def result_type(name: str) -> ColumnType:
    return FUNCTIONS[name].result


def _named(node: exp.Anonymous) -> str | None:
    name, given = node.name.lower(), len(node.expressions)
    found = _NAMES.get(name)
    if name == "jsonb_object":
        found, least, most = "object_of_texts" if given == 1 else "object_of_two", 1, 2
    elif found is None:
        return None
    else:
        function = FUNCTIONS[found]
        if function.parameters[-1] is _P.LIST and _is_written(node):
            return found
        most = len(function.parameters)
        least = most - len(function.defaults)
    if given < least or (given > most and name not in _VARIADIC):
        more = " or more" if name in _VARIADIC else ""
        raise SqlError(
            f"Function {name} does not take {given} arguments.",
            cure=f"Give it {' or '.join(map(str, range(least, most + 1)))}{more}.",
        )
    return found


def _cast(node: exp.Cast, type_of: TypeOf) -> str | None:
    to = node.args["to"]
    kind = to.this if isinstance(to, exp.DataType) else None
    if kind is exp.DType.JSONB:
        given = type_of(node.this)
        if given is not None and given.kind not in (Kind.TEXT, Kind.JSON):
            raise Unsupported(
                f"A value of type {given.sql()} is not cast to JSONB.",
                cure="Write to_jsonb(value).",
            )
        return "of_text_or_null" if isinstance(node, exp.TryCast) else "of_text"
    if kind is exp.DType.BOOLEAN and is_jsonb(type_of(node.this)):
        return "truth"
    return None


def digits_function(to: ColumnType | None, given: ColumnType | None) -> str | None:
    """The function of the digits of a JSONB number, for a cast to a type of numbers."""
    if to is None or not is_jsonb(given) or to.kind not in _NUMBERS:
        return None
    return "whole" if to.kind in _WHOLE else "number"


def _operator(node: exp.Expr, type_of: TypeOf) -> str | None:
    if isinstance(node, exp.DPipe):
        return "concatenate" if is_jsonb(concatenated_type(node, type_of)) else None
    left, right = node.this, node.expression
    of_left = is_jsonb(type_of(left))
    if isinstance(node, exp.ArrayContainsAll | exp.ArrayContainedBy):
        name = "contains" if isinstance(node, exp.ArrayContainsAll) else "contained"
        return name if of_left or is_jsonb(type_of(right)) else None
    if not of_left:
        if type(node) in _ONLY_JSONB:
            raise Unsupported(
                f"The operator {_ONLY_JSONB[type(node)]} is for JSONB.",
                cure="Write j::JSONB before it.",
            )
        return None
    if isinstance(node, exp.Sub):
        return _removal(right, type_of)
    if type(node) in _STEPS:
        place = _is_place(right, type_of)
        return f"{'element' if place else 'field'}{_STEPS[type(node)]}"
    return _OF_LEFT[type(node)]


def concatenated_type(node: exp.DPipe, type_of: TypeOf) -> ColumnType | None:
    """The type of `||`, if the syntax shows it. It is kept in the node: a chain of these is asked
    for each of its parts."""
    if _JOINED not in node.meta:
        node.meta[_JOINED] = _joined_type(node, type_of)
    found: ColumnType | None = node.meta[_JOINED]
    return found


def _joined_type(node: exp.DPipe, type_of: TypeOf) -> ColumnType | None:
    """`||` joins JSONB or bytes, also with a side that has no type of its own, and texts if one of
    its sides is of type TEXT, and none an array."""
    sides = (node.this.unnest(), node.expression.unnest())
    types = [type_of(side) for side in sides]
    untyped = [side.is_string or isinstance(side, _UNTYPED) for side in sides]
    for joined in (JSONB_TYPE, _BYTES):
        if joined in types and all(
            free or type_ == joined for free, type_ in zip(untyped, types, strict=True)
        ):
            return joined
    arrays = any(type_ is not None and type_.element is not None for type_ in types)
    return _TEXT if _TEXT in types and not arrays else None


def _removal(right: exp.Expr, type_of: TypeOf) -> str:
    if _is_place(right, type_of):
        return "without_element"
    if isinstance(right.unnest(), exp.Array) or _is_array(right):
        return "without_keys"
    return "without_key"


def _is_array(node: exp.Expr) -> bool:
    return isinstance(node.unnest(), exp.Cast) and node.unnest().is_type(exp.DType.ARRAY)


def _is_place(node: exp.Expr, type_of: TypeOf) -> bool:
    """Is the right side of an operator a position in an array? Any other value is a key."""
    inner = node.unnest()
    number = inner.this if isinstance(inner, exp.Neg) else inner
    if isinstance(number, exp.Literal):
        return bool(number.is_int)
    type_ = type_of(inner)
    return type_ is not None and type_.kind in _WHOLE


# ---------------------------------------------------------------- arguments


def arguments(node: exp.Expr) -> Iterator[tuple[Parameter, list[exp.Expr]]]:
    """Yield each parameter of the marked node's function with its arguments: several for arrays and
    lists, none for a default."""
    function = FUNCTIONS[node.meta[JSONB]]
    given: Sequence[exp.Expr] = _given(node)
    last = len(function.parameters) - 1
    variadic = isinstance(node, exp.Anonymous) and node.name.lower() in _VARIADIC
    for i, parameter in enumerate(function.parameters):
        if parameter is _P.LIST and isinstance(node, exp.Anonymous) and _is_written(node):
            yield parameter, list(given)
        elif i == last and variadic:
            yield parameter, [exp.Array(expressions=[each.copy() for each in given[i:]])]
        else:
            yield parameter, list(given[i : i + 1])


def _is_written(node: exp.Anonymous) -> bool:
    return not node.name.lower().startswith(PREFIX)


def _given(node: exp.Expr) -> Sequence[exp.Expr]:
    if isinstance(node, exp.Anonymous):
        return node.expressions
    return (node.this,) if isinstance(node, exp.Cast) else (node.this, node.expression)


def path_text(node: exp.Expr) -> str | None:
    """A constant array of texts as text of JSON; None for other nodes. Raises SqlError."""
    texts = texts_of(node)
    if texts is None and isinstance(node.unnest(), exp.Literal):
        raise SqlError(
            f"{node.name!r} is not an array of texts.", cure="Write '{a,b}' or ARRAY['a', 'b']."
        )
    return None if texts is None else values.write(texts)


# ---------------------------------------------------------------- DuckDB


def write_jsonb(node: exp.Expr) -> None:
    """Write a marked node for DuckDB."""
    name = node.meta[JSONB]
    function = FUNCTIONS[name]
    missing = iter(function.defaults)
    parts = [_part(parameter, given, missing) for parameter, given in arguments(node)]
    supersede(node, exp.Anonymous(this=PREFIX + name, expressions=parts))


def _part(parameter: Parameter, given: list[exp.Expr], missing: Iterator[bool]) -> exp.Expr:
    if parameter is _P.LIST:
        if len(given) == 1 and isinstance(given[0], exp.Anonymous | exp.Filter | exp.Window):
            return given[0].copy()
        listed = exp.Array(expressions=[call("json", each.copy()) for each in given])
        return exp.Cast(this=listed, to=exp.DataType.build("VARCHAR[]", dialect="duckdb"))
    if not given:
        return exp.Boolean(this=next(missing))
    (node,) = given
    if parameter is _P.ANY:
        return call("json", node.copy())
    if parameter is _P.TEXTS:
        return _texts(node)
    return node.copy()


def _texts(node: exp.Expr) -> exp.Expr:
    constant = path_text(node)
    if constant is not None:
        return exp.Literal.string(constant)
    inner = node.unnest()
    if isinstance(inner, exp.Null):
        return exp.Null()
    if isinstance(inner, exp.Placeholder):
        return exp.Anonymous(this=f"{PREFIX}texts", expressions=[inner.copy()])
    listed = exp.Cast(this=inner.copy(), to=exp.DataType.build("VARCHAR[]", dialect="duckdb"))
    return call("json", listed)
