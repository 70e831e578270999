"""Names of output columns that have none: the rule of PostgreSQL.

Every projection of a SELECT and of RETURNING that is no column gets an alias in the tree, so that
all later stages, DuckDB, and the SELECTs around it know the same name. The rule is `FigureColname`
of PostgreSQL's `parse_target.c`: the name of the column, the function or the construct; a cast has
the name of its operand, or else of its type; any other expression is called `?column?`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from hornbeam_server.query.dialect.functions import function_name
from hornbeam_server.query.dialect.grammar import EXACT, identifier
from hornbeam_server.query.dialect.session import is_word
from hornbeam_server.schema.type_names import parts_of_name

FIGURED = "figured"
"""Key in the meta of an alias that the statement does not write: ORDER BY and GROUP BY know it, and
no other clause does."""
UNNAMED = "?column?"
VALUE = "column"
"""The columns of VALUES have this name and their number, from 1."""
_CERTAIN = 2
"""How sure a name is: a cast replaces the name of its operand, unless that is certain."""
_WEAK = 1
_NONE = 0
_Figured = tuple[str, int]

_WORDS: dict[type[exp.Expr], str] = {
    exp.Array: "array",
    exp.AtTimeZone: "timezone",
    exp.Exists: "exists",
    exp.Tuple: "row",
    exp.CurrentDate: "current_date",
    exp.CurrentTimestamp: "current_timestamp",
    exp.Localtimestamp: "localtimestamp",
    exp.CurrentUser: "current_user",
    exp.SessionUser: "session_user",
    exp.CurrentCatalog: "current_catalog",
    exp.StrPosition: "position",
    exp.Overlay: "overlay",
}
_INNER = (
    exp.Paren, exp.Window, exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls,
    exp.Bracket,
)  # fmt: skip
"""Constructs that have the name of their first part."""
_TRIMMED = {"LEADING": "ltrim", "TRAILING": "rtrim"}
_TYPES: dict[exp.DType, str] = {
    exp.DType.BIGINT: "int8",
    exp.DType.BLOB: "bytea",
    exp.DType.BOOLEAN: "bool",
    exp.DType.BPCHAR: "bpchar",
    exp.DType.CHAR: "bpchar",
    exp.DType.DECIMAL: "numeric",
    exp.DType.DOUBLE: "float8",
    exp.DType.FLOAT: "float4",
    exp.DType.INT: "int4",
    exp.DType.SMALLINT: "int2",
    exp.DType.TIMESTAMPNTZ: "timestamp",
    exp.DType.VARBINARY: "bytea",
}
"""PostgreSQL's own names of types that have another name in SQL."""


def name_outputs(nodes: Iterable[exp.Expr], sql: str) -> None:
    """Give an alias to every projection that is no column. `nodes` are those of a parsed statement,
    parents first; `sql` is its text."""
    lists = [node for node in nodes if isinstance(node, exp.Select | exp.Returning)]
    for found in reversed(lists):  # inner ones first: a subquery has the name of its column
        for node in list(found.expressions):
            if not isinstance(node, exp.Alias) and not _is_named(node):
                name_output(node, _figured(node, sql)[0] or UNNAMED)


def keep_names(tree: exp.Expr, names: Sequence[str]) -> None:
    """Give the output columns of a query that it does not name the names that a view has stored for
    them, by their places. `*` may stand for any number of columns."""
    query = tree
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    listed = query.expressions if isinstance(query, exp.Select) else []
    stars = [i for i, node in enumerate(listed) if node.is_star]
    if not names or (not stars and len(names) != len(listed)):
        return
    for i, node in enumerate(listed):
        if FIGURED not in node.meta or (stars and stars[0] < i < stars[-1]):
            continue
        place = i - len(listed) if stars and i > stars[-1] else i
        node.set("alias", identifier(names[place]))


def _is_named(node: exp.Expr) -> bool:
    """Is a projection a star, or a column with a name of its own?"""
    inner = node.unnest()
    if isinstance(inner, exp.Column):
        return not is_word(inner)
    return isinstance(inner, exp.Star | exp.Dot)


def name_output(node: exp.Expr, name: str) -> exp.Alias:
    """Put the projection `node` into an alias."""
    alias = exp.Alias(alias=identifier(name))
    alias.meta[FIGURED] = True
    node.replace(alias)
    alias.set("this", node)
    return alias


def _figured(node: exp.Expr, sql: str) -> _Figured:
    """The name of an expression, "" if it has none, and how certain it is."""
    if isinstance(node, _INNER):
        return _figured(node.this, sql)
    match node:
        case exp.Column() | exp.Dot():
            return node.name, _CERTAIN
        case exp.Cast():
            name, certainty = _figured(node.this, sql)
            return (name, certainty) if certainty == _CERTAIN else (_of_type(node), _WEAK)
        case exp.Case():
            default = node.args.get("default")
            name, certainty = ("", _NONE) if default is None else _figured(default, sql)
            return (name, certainty) if certainty == _CERTAIN else ("case", _WEAK)
        case exp.Subquery():
            return _of_query(node.this)
        case exp.Trim():
            return _TRIMMED.get(node.args.get("position") or "", "btrim"), _CERTAIN
    name = _WORDS.get(type(node)) or _of_call(node, sql)
    return (name, _CERTAIN) if name else ("", _NONE)


def _of_type(cast: exp.Cast) -> str:
    """The name of the type of a cast; for an array, of its elements."""
    to = cast.args["to"]
    while to.this is exp.DType.ARRAY and to.expressions:
        to = to.expressions[0]
    kind = to.this
    if kind is exp.DType.USERDEFINED:  # a domain or an enumeration, perhaps with its schema
        return parts_of_name(to)[-1]
    if not isinstance(kind, exp.DType):
        return str(to.name).lower()
    return _TYPES.get(kind, kind.value.lower())


def _of_query(node: exp.Expr) -> _Figured:
    """The name of the first column of a subquery, whose own columns have names already."""
    while isinstance(node, exp.SetOperation | exp.Subquery):
        node = node.this
    if isinstance(node, exp.Values):
        return f"{VALUE}1", _CERTAIN
    name = node.expressions[0].alias_or_name if isinstance(node, exp.Select) else ""
    return (name, _CERTAIN) if name not in ("", "*") else ("", _NONE)


def _of_call(node: exp.Expr, sql: str) -> str:
    """The name of a function as it is called; "" if the node is an operator."""
    if node.meta.get(EXACT):
        return "extract"
    if isinstance(node, exp.Binary | exp.Connector) or not isinstance(node, exp.Func):
        return ""
    if "start" in node.meta and not isinstance(node, exp.Anonymous):
        return sql[node.meta["start"] : node.meta["end"] + 1].lower()
    return function_name(node)
