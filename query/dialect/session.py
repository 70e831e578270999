"""Functions that ask for the server, the user, the database and the schema.

They are constants: SQL knows one database with one schema and one user. Which API key sends a
statement has no influence on its meaning, so that one plan serves all of them.
"""

from __future__ import annotations

from sqlglot import exp

from hornbeam_server import __version__
from hornbeam_server.schema.model import DATABASE, PUBLIC

POSTGRESQL = "15.18"
"""The version of PostgreSQL whose answers are the reference of this dialect."""
SESSION = {
    "version": f"Hornbeam {__version__} (SQL of PostgreSQL {POSTGRESQL})",
    "current_catalog": DATABASE,
    "current_database": DATABASE,
    "current_schema": PUBLIC,
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
