"""Enumerations in a statement: the types that it names, its labels, and where a value of an ENUM
may stand.

In DuckDB a value of an ENUM is the position of its label, a text that is ordered as the labels are.
So no function of texts may see it: it is compared, ordered, grouped and passed on as it is, and
cast to text where PostgreSQL writes its label. All other uses are refused, as by PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from hornbeam_server.query.dialect.arrays import FUNCTIONS, array_compared, is_joined
from hornbeam_server.query.dialect.arrays import arguments as array_arguments
from hornbeam_server.query.dialect.arrays import function_of as function_of_arrays
from hornbeam_server.query.dialect.duckdb_sql import names_relation
from hornbeam_server.query.dialect.enumerations import ENUMERATION
from hornbeam_server.query.dialect.grammar import at
from hornbeam_server.query.dialect.macros import macro
from hornbeam_server.query.dialect.reals import compared_values
from hornbeam_server.query.dialect.type_names import check_type
from hornbeam_server.query.parsing.assignments import is_assignment
from hornbeam_server.query.typing.comparisons import EXCHANGED
from hornbeam_server.query.typing.constants import CONSTANT
from hornbeam_server.query.typing.domains import checked_cast
from hornbeam_server.query.typing.literals import typed
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.enumerations import Enumeration, position_of
from hornbeam_server.schema.errors import SqlError, Unsupported
from hornbeam_server.schema.trees import supersede
from hornbeam_server.schema.type_names import full_name
from hornbeam_server.schema.types import ColumnType, Kind, array_of, enum_of, enumeration_of

TypeOf = Callable[[exp.Expr], ColumnType | None]
GiveType = Callable[[exp.Expr, ColumnType], None]
_TEXT = ColumnType(Kind.TEXT)
_CHOICES = (exp.Case, exp.Coalesce, exp.Greatest, exp.Least)
"""Nodes whose value is that of one of their operands."""
_PASSED_ON = (
    exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue, exp.IgnoreNulls,
    exp.RespectNulls,
)  # fmt: skip
_PASSED_ON_BY_NAME = frozenset(
    {"any_value", "mode", "first", "last", "arg_min", "arg_max", "quantile_disc"}
)
_OF_ORDER = frozenset({"mode", "percentile_disc"})
"""Aggregates whose value is one of those by which WITHIN GROUP orders."""
_WRITTEN_AS_TEXT = frozenset(
    [
        *("concat", "concat_ws", "to_jsonb", "jsonb_build_array", "jsonb_build_object"),
        *("json_group_object", macro("shown"), macro("json"), macro("json_key")),
        *(macro("quote_literal"), macro("quote_nullable"), macro("jsonb_json_array")),
        *(macro("jsonb_object_of_pairs"), macro("jsonb_build_array")),
    ]
)
"""Functions of values of any type, by the names that the parser gives them. They write an ENUM as
its label."""
_TAKES_ANY = (
    exp.Select, exp.Alias, exp.Subquery, exp.Ordered, exp.Order, exp.Group, exp.Distinct, exp.Tuple,
    exp.Window, exp.Filter, exp.Count, exp.Is, exp.Returning, exp.Cube, exp.Rollup,
    exp.GroupingSets, exp.Values, exp.Unnest, exp.Paren, exp.Min, exp.Max, exp.Nullif, exp.If,
    exp.WithinGroup, exp.Array, exp.From, exp.Join, exp.Lateral, exp.CTE, exp.SetOperation,
    exp.Exists, exp.Insert, exp.Update, exp.Merge, *_CHOICES, *_PASSED_ON,
)  # fmt: skip
"""Nodes that keep, order or count values, whatever their type is."""
_FUNCTIONS = frozenset({"enum_first", "enum_last", "enum_range"})
_TAKES_ANY_BY_NAME = frozenset(
    ["array_agg", "unnest", "count", "row_number", "grouping", "mode", "all", *_PASSED_ON_BY_NAME]
)


# ---------------------------------------------------------------- the names of types


def name_types(tree: exp.Expr, catalog: Catalog) -> None:
    """Note the enumerations that the casts of a tree name, and write casts to domains out. Raises
    Unsupported for a type that does not exist."""
    known = {enumeration.full: enumeration for enumeration in catalog.schema.enumerations}
    domains = {domain.name: domain for domain in catalog.schema.domains}
    for node in reversed([*tree.find_all(exp.DataType)]):  # the inner ones of casts first
        if node.this is not exp.DType.USERDEFINED or ENUMERATION in node.meta:
            continue
        name = full_name(node)
        if name in domains and isinstance(node.parent, exp.Cast):
            cast = checked_cast(node.parent, domains[name], catalog)
            name_types(cast, catalog)
            node.parent.replace(cast)
            continue
        found = known.get(name)
        if found is not None:
            node.meta[ENUMERATION] = found
        elif not (isinstance(node.parent, exp.Cast) and names_relation(node.parent)):
            check_type(node)


# ---------------------------------------------------------------- types of expressions


def label_type(node: exp.Expr, type_of: TypeOf) -> ColumnType | None:
    """The type of a node that is a constant of an ENUM, or passes one on; None for others."""
    if CONSTANT in node.meta:
        type_: ColumnType = node.meta[CONSTANT][0]
        return type_ if enumeration_of(type_) is not None else None
    if isinstance(node, exp.Array):
        element = _first(type_of(each) for each in node.expressions)
        return None if element is None or element.element is not None else array_of(element)
    if isinstance(node, exp.Anonymous) and node.name.lower() in _FUNCTIONS:
        labels = enumeration_of(_first(type_of(each) for each in node.expressions))
        if labels is None:
            return None
        ranged = node.name.lower() == "enum_range"
        return array_of(enum_of(labels)) if ranged else enum_of(labels)
    return _first(type_of(each) for each in _passed_on(node))


def _first(types: Iterator[ColumnType | None]) -> ColumnType | None:
    return next((type_ for type_ in types if enumeration_of(type_) is not None), None)


def _passed_on(node: exp.Expr) -> Iterator[exp.Expr]:
    """The operands of which one is the value of the node."""
    match node:
        case exp.Case():
            yield from (branch.args["true"] for branch in node.args["ifs"])
            if node.args.get("default") is not None:
                yield node.args["default"]
        case exp.Coalesce() | exp.Greatest() | exp.Least():
            yield from (node.this, *node.expressions)
        case exp.Nullif():
            yield from (node.this, node.expression)
        case exp.Any():
            yield node.this
        case exp.Subquery() | exp.Select():
            query = node.unnest()
            if isinstance(query, exp.Select) and len(query.expressions) == 1:
                yield query.expressions[0].unalias()
        case exp.Lag() | exp.Lead():
            yield node.this
        case exp.WithinGroup() if node.this.name.lower() in _OF_ORDER:
            yield from (ordered.this for ordered in node.expression.expressions)
        case exp.Anonymous() if node.name.lower() in _PASSED_ON_BY_NAME and node.expressions:
            value = node.expressions[0]
            yield value.this if isinstance(value, exp.Order) else value
        case _ if isinstance(node, _PASSED_ON):
            yield node.this


# ---------------------------------------------------------------- labels


def settle_labels(node: exp.Expr, type_of: TypeOf, give_type: GiveType) -> None:
    """Read texts that share a type with values of an ENUM as its labels, and give parameters there
    its type. Raises TypeMismatch for a text that is no label."""
    for operands in _of_one_type(node, type_of):
        type_ = _first(type_of(each) for each in operands)
        for operand in operands if type_ is not None else ():
            assert type_ is not None
            given = type_of(operand)
            if given != type_ and not make_label(operand, type_, give_type):
                raise SqlError(
                    f"{type(node).__name__.upper()} types {type_.ddl()} and {_name(given)} cannot"
                    " be matched.",
                    cure=f"CAST one of them: … :: {type_.ddl()}, or … :: TEXT.",
                )


def _of_one_type(node: exp.Expr, type_of: TypeOf) -> Iterator[Sequence[exp.Expr]]:
    """The groups of operands of a node that have one type."""
    if isinstance(node, (*_CHOICES, exp.Nullif)):
        yield list(_passed_on(node))
    elif isinstance(node, exp.Array):
        yield node.expressions
    elif isinstance(node, exp.Lag | exp.Lead) and node.args.get("default") is not None:
        yield [node.this, node.args["default"]]


def make_label(node: exp.Expr, type_: ColumnType, give_type: GiveType) -> bool:
    """Make a text a constant of an ENUM, or of an array of it, and give the type to a parameter.
    The result says whether the node has the type then. Raises TypeMismatch."""
    inner = node.unnest()
    if isinstance(inner, exp.Placeholder):
        give_type(inner, type_)
        return True
    if isinstance(inner, exp.Null):
        return True
    if isinstance(inner, exp.Array) and type_.element is not None:
        made = [make_label(each, type_.element, give_type) for each in inner.expressions]
        return False not in made
    if CONSTANT in inner.meta:
        return bool(inner.meta[CONSTANT][0] == type_)
    if isinstance(inner, exp.Literal) and inner.is_string:
        supersede(inner, typed(type_, type_.coerce(inner.name)))
        return True
    return False


def common_type_of_sides(
    types: Sequence[ColumnType | None],
    sides: Sequence[Sequence[exp.Expr]],
    give_type: GiveType,
    what: str,
) -> ColumnType | None:
    """The ENUM among the types of a column that `sides` have: of the sides of UNION, or the rows of
    VALUES. Texts in the other sides become its labels. None without an ENUM. Raises SqlError for a
    side of another type."""
    found = _first(iter(types))
    if found is None:
        return None
    for type_, side in zip(types, sides, strict=True):
        if type_ == found:
            continue
        made = [make_label(each, found, give_type) for each in side]
        if not made or False in made:
            raise SqlError(
                f"{what} types {found.ddl()} and {_name(type_)} cannot be matched.",
                cure=f"CAST one of them: … :: {found.ddl()}, or … :: TEXT.",
            )
    return found


def assign_label(
    value: exp.Expr, column: str, type_: ColumnType | None, type_of: TypeOf, give_type: GiveType
) -> None:
    """Check a value that is assigned to a column: an ENUM takes its own values and labels that are
    spelled; a text takes an ENUM, as its label. Raises SqlError."""
    given = type_of(value)
    wanted, has = enumeration_of(type_), enumeration_of(given)
    if type_ is None or (wanted is None and has is None) or given == type_:
        return
    if wanted is not None and has is None and make_label(value, type_, give_type):
        return
    if type_.kind is Kind.TEXT and given is not None and given.enumeration is not None:
        _write_as_text(value)
        return
    raise SqlError(
        f"Column {column} is of type {type_.ddl()}, and the expression is of type {_name(given)}.",
        cure=f"CAST it: … :: {type_.ddl()}.",
    )


def _name(type_: ColumnType | None) -> str:
    return "text" if type_ is None else type_.ddl()


def _write_as_text(value: exp.Expr) -> None:
    """Cast a value to text, in its place."""
    inner = value.unnest() if isinstance(value, exp.Paren) else value
    if isinstance(inner, exp.Select):
        inner = inner.expressions[0].unalias()
    cast = exp.Cast(to=exp.DataType(this=exp.DType.TEXT))
    inner.replace(cast)
    cast.set("this", inner)


# ---------------------------------------------------------------- places

_NO_VALUES = (exp.Paren, exp.Select, exp.DataType, exp.Identifier, exp.Table, exp.If, exp.Any)


def check_places(nodes: Sequence[exp.Expr], type_of: TypeOf, give_type: GiveType, sql: str) -> bool:
    """Check where values of an ENUM stand, and cast them to text where their labels are written.
    The result says whether the tree has changed. Raises SqlError."""
    changed = False
    for node in nodes:
        if isinstance(node, _NO_VALUES) or node.parent is None:
            continue
        type_ = type_of(node)
        if type_ is None or enumeration_of(type_) is None:
            continue
        changed |= _check_place(node, type_, type_of, give_type, sql)
    return changed


def _check_place(
    node: exp.Expr, type_: ColumnType, type_of: TypeOf, give_type: GiveType, sql: str
) -> bool:
    inside, around = node, node.parent
    while around is not None and _is_around_argument(around, inside):
        inside, around = around, around.parent
    if around is None or (isinstance(around, _TAKES_ANY) and not _makes_row(around)):
        return False
    if isinstance(around, exp.Cast):
        _check_cast(around, type_, sql)
        return False
    if _is_comparison(around):
        _check_compared(around, type_of, give_type, sql)
        return False
    if function_of_arrays(around, type_of) is not None:
        _label_arguments(around, type_of, give_type)
        return False
    name = ""
    if isinstance(around, exp.Anonymous):
        name = around.name.lower()
        if name in _TAKES_ANY_BY_NAME or is_joined(around):
            return False
        if name in _FUNCTIONS or name == "typeof":
            supersede(around, _called(around, name, type_, sql))
            return True
    joins = isinstance(around, exp.DPipe) and _joins_text(around, type_of)
    if (name in _WRITTEN_AS_TEXT or joins) and type_.enumeration is not None:
        _write_as_text(node)
        return True
    raise SqlError(
        f"A value of type {type_.ddl()} may not stand here{at(node, sql)}:"
        f" {_shown(around)} takes no {type_.ddl()}.",
        cure="CAST it to TEXT.",
    )


def _makes_row(node: exp.Expr) -> bool:
    """Does a node make a row or a list, whose type binding does not know?"""
    row = isinstance(node, exp.Tuple) and not isinstance(node.parent, exp.In | exp.Values)
    return (row and isinstance(node.parent, exp.Cast | exp.Alias | exp.Anonymous)) or (
        isinstance(node, exp.Min | exp.Max) and bool(node.expressions)
    )


def _is_around_argument(node: exp.Expr, inside: exp.Expr) -> bool:
    """Is a node only around an argument of a function: parentheses, DISTINCT, or ORDER BY?"""
    if isinstance(node, exp.Order):
        return node.this is inside
    of_call = isinstance(node, exp.Distinct) and not isinstance(node.parent, exp.Select)
    return isinstance(node, exp.Paren) or of_call


def _shown(node: exp.Expr) -> str:
    """The name of a function or of an operator."""
    return node.name.lower() if isinstance(node, exp.Anonymous) else type(node).__name__.lower()


def _joins_text(node: exp.DPipe, type_of: TypeOf) -> bool:
    """Is one of the sides of `||` a text, or the spelling of one?"""
    types = [type_of(side) for side in (node.this, node.expression)]
    return sum(enumeration_of(type_) is not None for type_ in types) == 1


def _is_comparison(node: exp.Expr) -> bool:
    return type(node) in EXCHANGED or isinstance(node, exp.Between | exp.In | exp.Any | exp.All)


def _check_cast(cast: exp.Cast, type_: ColumnType, sql: str) -> None:
    """Raise SqlError for a cast of an ENUM to another type than text and the ENUM itself."""
    to: exp.DataType = cast.args["to"]
    inner = to.expressions[0] if type_.element is not None and to.expressions else to
    text = inner.this in exp.DataType.TEXT_TYPES or to.this in exp.DataType.TEXT_TYPES
    named: Enumeration | None = inner.meta.get(ENUMERATION)
    if not text and named != enumeration_of(type_):
        raise SqlError(
            f"Cannot cast type {type_.ddl()} to {to.sql('postgres')}{at(cast, sql)}.",
            cure="CAST it to TEXT first.",
        )


def _operands(node: exp.Expr) -> Iterator[exp.Expr]:
    match node:
        case exp.Between() | exp.In():
            yield from compared_values(node)
        case exp.Binary():
            yield from (node.this, node.expression)
        case _:
            yield node.this


def _check_compared(node: exp.Expr, type_of: TypeOf, give_type: GiveType, sql: str) -> None:
    """Read texts that are compared with an ENUM as its labels. Raises SqlError for a comparison
    with a value of another type."""
    if is_assignment(node) or isinstance(node, exp.Any | exp.All):
        return
    array = array_compared(node)
    if array is not None:
        _check_array_compared(node, array, type_of, give_type, sql)
        return
    operands = [
        each.this if isinstance(each, exp.Any | exp.All) else each for each in _operands(node)
    ]
    found = _first(type_of(each) for each in operands)
    for operand in operands:
        _require_type(operand, found, type_of, give_type, sql)


def check_merged(types: Sequence[ColumnType | None], name: str, where: str, *, full: bool) -> None:
    """Raise SqlError if USING or NATURAL equates a column of an ENUM with one of another type, and
    Unsupported for a FULL JOIN, whose column has the values of both sides."""
    if full and any(enumeration_of(type_) is not None for type_ in types):
        raise Unsupported(
            f"FULL JOIN does not merge the columns {name} of an ENUM{where}.",
            cure=f"Write ON, and coalesce(a.{name}, b.{name}).",
        )
    if any(enumeration_of(type_) is not None for type_ in types) and types[0] != types[1]:
        raise SqlError(
            f"The columns {name} are of types {_name(types[0])} and {_name(types[1])}{where}.",
            cure="Write ON, and CAST one of them.",
        )


def _check_array_compared(
    node: exp.Expr, array: exp.Expr, type_of: TypeOf, give_type: GiveType, sql: str
) -> None:
    of_array, of_value = enumeration_of(type_of(array)), enumeration_of(type_of(node.this))
    enumeration = of_array or of_value
    assert enumeration is not None
    type_ = enum_of(enumeration)
    _require_type(node.this, type_, type_of, give_type, sql)
    _require_type(array, array_of(type_), type_of, give_type, sql)


def _require_type(
    node: exp.Expr, wanted: ColumnType | None, type_of: TypeOf, give_type: GiveType, sql: str
) -> None:
    given = type_of(node)
    if wanted is None or given == wanted or make_label(node, wanted, give_type):
        return
    raise SqlError(
        f"A value of type {wanted.ddl()} is compared with one of type {_name(given)}"
        f"{at(node, sql)}: there is no such operator.",
        cure="CAST one of them to the type of the other, or both to TEXT.",
    )


def _label_arguments(node: exp.Expr, type_of: TypeOf, give_type: GiveType) -> None:
    """Read texts among the arguments of a function of arrays as labels. Raises SqlError."""
    name = function_of_arrays(node, type_of)
    given = array_arguments(node) if name is None else _arguments(node)
    enumeration = next(filter(None, (enumeration_of(type_of(each)) for each in given)), None)
    if name is None or enumeration is None:
        return
    types = {"e": enum_of(enumeration), "a": array_of(enum_of(enumeration))}
    for argument, kind in zip(given, FUNCTIONS[name].parameters, strict=False):
        if kind in types:
            _require_type(argument, types[kind], type_of, give_type, "")


def _arguments(node: exp.Expr) -> Sequence[exp.Expr]:
    match node:
        case exp.Anonymous():
            return node.expressions
        case exp.Bracket():
            return [node.this]
        case _:
            return [node.this, node.expression]


# ---------------------------------------------------------------- functions of enumerations


def _range(labels: Enumeration, low: str | None, high: str | None) -> exp.Expr:
    positions = labels.positions
    found = [p for p in positions if (low is None or p >= low) and (high is None or p <= high)]
    value = tuple(labels.by_position[position] for position in found)
    return typed(array_of(enum_of(labels)), value)


def _called(node: exp.Anonymous, name: str, type_: ColumnType, sql: str) -> exp.Expr:
    """The value of a function of an enumeration. It follows from the types of the arguments, and
    for enum_range with two of them from these constants."""
    if name == "typeof":
        return exp.Literal.string(type_.ddl())
    labels = enumeration_of(type_)
    assert labels is not None
    if name != "enum_range":
        if not labels.labels:
            return exp.Null()
        ends = {"enum_first": labels.labels[0], "enum_last": labels.labels[-1]}
        return typed(type_, labels.by_label[ends[name]])
    if len(node.expressions) == 1:
        return _range(labels, None, None)
    bounds = [_bound(each, labels, node, sql) for each in node.expressions]
    return _range(labels, *bounds)


def _bound(node: exp.Expr, labels: Enumeration, call: exp.Expr, sql: str) -> str | None:
    inner = node.unnest()
    if CONSTANT in inner.meta:
        return str(inner.meta[CONSTANT][1].position)
    if isinstance(inner, exp.Null) or (
        isinstance(inner, exp.Cast) and isinstance(inner.this.unnest(), exp.Null)
    ):
        return None
    if isinstance(inner, exp.Literal) and inner.is_string:
        return str(position_of(enum_of(labels).coerce(inner.name)))
    raise SqlError(
        f"enum_range takes labels{at(call, sql)}, not other expressions.",
        cure="Write labels, or compare: WHERE label BETWEEN … AND ….",
    )
