"""Bounds on what writing a statement, and DuckDB's macros, make of it.

A macro copies its argument to each place of its parameter, so the copies multiply in a nest of
calls. `bind_arguments` writes a call with large arguments over a variable, of which DuckDB computes
the value once: `list_transform([argument], lambda value: call(value))[1]`. It changes only
statements that would become large. What cannot be written in this way, such as aggregates over
subqueries with aggregates, is bounded (`check_copies`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from sqlglot import exp

from hornbeam_server.query.dialect import macros, value_functions
from hornbeam_server.query.dialect.catalogue import AGGREGATES
from hornbeam_server.schema.errors import SqlError
from hornbeam_server.schema.trees import nodes_of

LARGE = 5_000
"""A statement that DuckDB makes no larger than this many nodes is left as it is."""
MAX_NODES = 5_000_000
"""Maximum number of nodes of a statement, with all its copies."""
VALUE = "hornbeam_value"
"""The name of the variable. A call with arguments over it never contains another one."""
_LEAVES = (exp.Column, exp.Literal, exp.Null, exp.Boolean, exp.Placeholder)
_AGGREGATES = {macros.macro("average"): 8, "json_group_object": 2, "json_group_array": 2}
"""Macros that aggregate, which cannot be called over a variable, with their copies."""
_OF_DUCKDB = {"fmod": 2, "array_to_string": 2, "array_to_string_comma_default": 2, "nullif": 2}
"""DuckDB's own macros that copy an argument."""
_ROWS = (exp.AggFunc, exp.Query, exp.Window, exp.Explode, exp.Unnest)
"""What the body of a lambda cannot contain."""
_WORD = re.compile(r"\b\w+(?=\()")
_PARAMETERS = re.compile(r"\(([a-z]\w*(?: \w+(?:\[\])?)?(?:, [a-z]\w*)*)\) AS ")


# ---------------------------------------------------------------- macros


@cache
def copies_of(name: str) -> int:
    """How many copies of an argument a macro makes at most, with the macros that it calls."""
    text = value_functions.all_macros().get(name)
    if text is None:
        return _OF_DUCKDB.get(name, 1)
    readings = _PARAMETERS.findall(text)
    parameters = {each.split()[0] for reading in readings for each in reading.split(", ")}
    body = _PARAMETERS.sub("", text)
    own = max((len(re.findall(rf"\b{each}\b", body)) for each in parameters), default=1)
    return max(own, 1) * max((copies_of(inner) for inner in _called(name)), default=1)


@cache
def _size_of(name: str) -> int:
    """About how many nodes the body of a macro has."""
    text = value_functions.all_macros().get(name)
    return 1 if text is None else len(text) // 8 + sum(map(_size_of, _called(name)))


def _called(name: str) -> set[str]:
    texts = value_functions.all_macros()
    called = set(_WORD.findall(texts[name])) - {name}
    return called & (texts.keys() | _OF_DUCKDB.keys())


def _copies(node: exp.Expr, child: exp.Expr) -> int:
    """How many times DuckDB has `child`, a direct part of `node`."""
    match node:
        case exp.Anonymous():
            name = node.name.lower()
            return _AGGREGATES.get(name) or copies_of(name)
        case exp.Nullif():
            return 2
        case exp.Case() if child.arg_key == "this":
            return len(node.args["ifs"])
        case exp.Between():
            return 2
        case exp.In() if child.arg_key == "this":
            return max(len(node.expressions), 2)
    return 1


# ---------------------------------------------------------------- before writing


def check_copies(nodes: Sequence[exp.Expr], made: Callable[[exp.Expr], int]) -> None:
    """Raise SqlError if a tree becomes too large when each node is replaced by a number of copies
    (`made`) of its parts. `nodes` has the tree's nodes, parents first."""
    copies: dict[int, int] = {}
    total = 0
    for node in nodes:
        around = copies.get(id(node.parent), 1)
        copies[id(node)] = around * made(node)
        total += around
    if total > MAX_NODES:
        raise too_large()


def too_large() -> SqlError:
    return SqlError(
        "The statement is too large for DuckDB: parts inside of aggregates and CASEs are repeated.",
        cure="Name the inner parts in WITH, or nest fewer aggregates in one another.",
    )


# ---------------------------------------------------------------- after writing


def bind_arguments(root: exp.Expr) -> None:
    """Write the calls in a large statement so that each argument is computed once, in place. Raises
    SqlError if the statement is too large then."""
    nodes = list(root.walk(bfs=False))
    if _expanded(nodes)[id(root)] <= LARGE:
        return
    for node in reversed(nodes):
        if large := [part for part in _copied(node) if not isinstance(part, _LEAVES)]:
            _bind(node, large)
    if _expanded(list(root.walk(bfs=False)))[id(root)] > MAX_NODES:
        raise too_large()


def _expanded(nodes: Sequence[exp.Expr]) -> Mapping[int, int]:
    """About how many nodes each node becomes in DuckDB. `nodes` has parents first."""
    found: dict[int, int] = {}
    for node in reversed(nodes):
        own = _size_of(node.name.lower()) if isinstance(node, exp.Anonymous) else 1
        parts = node.iter_expressions()
        found[id(node)] = own + sum(found[id(part)] * _copies(node, part) for part in parts)
    return found


def _copied(node: exp.Expr) -> Sequence[exp.Expr]:
    """The arguments of a call of which DuckDB makes copies, if a variable can stand for them."""
    if isinstance(node, exp.Anonymous) and node.name.lower() in _AGGREGATES:
        return ()
    if isinstance(node, exp.Case | exp.In) and _computes_rows(node):
        return ()
    parts = list(node.iter_expressions())
    if not any(_copies(node, part) > 1 for part in parts):
        return ()
    first = isinstance(node, exp.Case | exp.In)
    return [part for part in parts if not first or part.arg_key == "this"]


def _computes_rows(node: exp.Case | exp.In) -> bool:
    """Is there something behind the operand that the body of a lambda cannot contain?"""
    others = [part for part in node.iter_expressions() if part.arg_key != "this"]
    names = {call.name.lower() for part in others for call in nodes_of(part, exp.Anonymous)}
    if names & (AGGREGATES | _AGGREGATES.keys()):
        return True
    return any(part.find(*_ROWS) for part in others)


def _bind(node: exp.Expr, arguments: Sequence[exp.Expr]) -> None:
    """Write `node` over a variable for its arguments."""
    place = exp.Null()
    node.replace(place)
    for each, variable in zip(arguments, variables(len(arguments)), strict=True):
        each.replace(variable)
    place.replace(over_variable(arguments, node))


def variables(count: int) -> Sequence[exp.Expr]:
    """What stands for each of `count` arguments: the variable, or the fields of a structure."""
    if count == 1:
        return (exp.column(VALUE),)
    names = (exp.Literal.string(_field(i)) for i in range(count))
    fields = ([exp.column(VALUE), name] for name in names)
    return [exp.Anonymous(this="struct_extract", expressions=field) for field in fields]


def over_variable(arguments: Sequence[exp.Expr], body: exp.Expr) -> exp.Expr:
    """`body`, in which `variables` stand for the arguments, as an expression that computes each
    argument once."""
    fields = {_field(i): argument for i, argument in enumerate(arguments)}
    value = arguments[0] if len(arguments) == 1 else macros.structure(fields)
    function = exp.Lambda(this=body, expressions=[exp.to_identifier(VALUE)])
    listed = [exp.Array(expressions=[value]), function]
    found = [exp.Anonymous(this="list_transform", expressions=listed), exp.Literal.number(1)]
    return exp.Anonymous(this="list_extract", expressions=found)


def _field(i: int) -> str:
    return f"a{i}"
