"""Functions that ask for the server, the user, the database and the schema.

They are constants: SQL knows one database and one user. Which API key sends a statement has no
influence on its meaning, so that one plan serves all of them. The search path of a session is an
argument of the calls that ask for it (`query/binding/search_path.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from hornbeam_server import __version__
from hornbeam_server.schema.model import DATABASE, PUBLIC
from hornbeam_server.schema.namespaces import SYSTEM_CATALOG

POSTGRESQL = "15.18"
"""The version of PostgreSQL whose answers are the reference of this dialect."""
POSTGRESQL_NUMBER = "{}{:0>4}".format(*POSTGRESQL.split("."))
SESSION = {
    "version": f"Hornbeam {__version__} (SQL of PostgreSQL {POSTGRESQL})",
    "current_catalog": DATABASE,
    "current_database": DATABASE,
    "current_user": DATABASE,
    "session_user": DATABASE,
}
_KEYWORDS: dict[type[exp.Expr], str] = {
    exp.CurrentCatalog: DATABASE,
    exp.CurrentUser: DATABASE,
    exp.SessionUser: DATABASE,
}
_WORDS = {"current_role": DATABASE, "current_schema": PUBLIC, "user": DATABASE}
"""Functions without parentheses that the grammar reads as names of columns. A column that has such
a name comes first."""


def session_value(node: exp.Expr) -> exp.Expr | None:
    """The constant for a call such as version(), or a keyword such as CURRENT_USER; None for other
    nodes."""
    if isinstance(node, exp.Anonymous):
        if node.name.lower() in _OF_PATH:
            return _OF_PATH[node.name.lower()](node.expressions)
        value = None if node.expressions else SESSION.get(node.name.lower())
    else:
        value = _KEYWORDS.get(type(node))
    return None if value is None else _constant(value)


def is_word(node: exp.Column) -> bool:
    """Is this a word such as USER, which is written like the name of a column?"""
    return not node.table and not node.this.args.get("quoted") and node.name in _WORDS


def value_of_word(node: exp.Column) -> exp.Expr | None:
    """The constant for a word such as USER; None for other columns."""
    return _constant(_WORDS[node.name]) if is_word(node) else None


def _constant(value: str) -> exp.Expr:
    """`value` in a cast, since ORDER BY and GROUP BY refuse a literal."""
    return exp.cast(exp.Literal.string(value), exp.DType.TEXT)


def _current_schema(path: Sequence[exp.Expr]) -> exp.Expr | None:
    """The first schema of the search path, which are the arguments; `public` without any."""
    if len(path) > 1 or not all(isinstance(each, exp.Literal | exp.Null) for each in path):
        return None
    return exp.cast(path[0], exp.DType.TEXT) if path else _constant(PUBLIC)


def _current_schemas(arguments: Sequence[exp.Expr]) -> exp.Expr | None:
    """The schemas of the search path, which are the arguments behind the first. If that is true,
    the system catalog comes before them, unless they have it."""
    first, *path = arguments or [exp.null()]
    if not isinstance(first, exp.Boolean):
        return None
    listed = [each.name for each in path if isinstance(each, exp.Literal)]
    listed = listed if path else [PUBLIC]
    if first.this and SYSTEM_CATALOG not in listed:
        listed = [SYSTEM_CATALOG, *listed]
    array = exp.Array(expressions=[exp.Literal.string(each) for each in listed])
    return exp.cast(array, exp.DataType.build("TEXT[]", dialect="postgres"))


_OF_PATH: dict[str, Callable[[Sequence[exp.Expr]], exp.Expr | None]] = {
    "current_schema": _current_schema,
    "current_schemas": _current_schemas,
}
