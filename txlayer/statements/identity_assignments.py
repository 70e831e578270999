"""The values that INSERT and UPDATE may give to identity columns and generated columns."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from hornbeam_server.query.parsing.parse import OVERRIDING
from hornbeam_server.schema.errors import SqlError, Unsupported
from hornbeam_server.schema.model import Column, DefaultKind, Relation
from hornbeam_server.schema.named_columns import generated_given


def is_default(value: exp.Expr) -> bool:
    """Whether the value is the keyword DEFAULT."""
    return isinstance(value, exp.Var) and value.name.upper() == "DEFAULT"


def ignored_identities(relation: Relation, ast: exp.Insert, names: Sequence[str]) -> frozenset[str]:
    """The identity columns whose given values are ignored (OVERRIDING USER VALUE). `names`: the
    columns of the INSERT. Raises SqlError for values of generated columns, and of GENERATED ALWAYS
    identity columns without OVERRIDING."""
    for column in relation.generated:
        if not _gives_default(ast.expression, names, column.name):
            raise generated_given(relation, column)
    overriding = ast.args.get(OVERRIDING)
    identities = [c for c in relation.visible if c.default_kind is DefaultKind.IDENTITY]
    if overriding == "user":
        if not isinstance(ast.expression, exp.Values):
            raise Unsupported(
                "OVERRIDING USER VALUE is for VALUES here.",
                cure="Leave the identity column out of INSERT … SELECT.",
            )
        return frozenset(column.name for column in identities)
    for column in identities if overriding is None else ():
        if _is_always(column) and not _gives_default(ast.expression, names, column.name):
            raise SqlError(
                f"Column {column.name} of {relation.name} is GENERATED ALWAYS: it takes no value"
                " but DEFAULT.",
                cure="Leave it out, or say INSERT INTO … OVERRIDING SYSTEM VALUE VALUES …",
            )
    return frozenset()


def require_writable(relation: Relation, column: Column) -> None:
    """Raises SqlError for the row identity."""
    if column.hidden:
        raise SqlError(
            f"Column {column.name} of {relation.name} is the hidden number of its rows: it is"
            " read, and never written.",
            cure="Leave it out.",
        )


def require_assignable(relation: Relation, column: Column) -> None:
    """Raises SqlError for SET with a value for a column that takes nothing but DEFAULT."""
    if column in relation.generated:
        raise generated_given(relation, column)
    if _is_always(column):
        raise SqlError(
            f"Column {column.name} of {relation.name} is GENERATED ALWAYS: SET takes nothing but"
            " DEFAULT.",
            cure="Insert the row again, with OVERRIDING SYSTEM VALUE, and delete this one.",
        )


def _is_always(column: Column) -> bool:
    return column.default is not None and column.default.identity.always


def _gives_default(source: exp.Expr | None, names: Sequence[str], column: str) -> bool:
    """Does an INSERT give `column` no value but DEFAULT? `source` are its VALUES or its SELECT, for
    the columns `names`."""
    if source is None or column not in names:
        return True
    if not isinstance(source, exp.Values):
        return False
    items = (_item(row, names.index(column)) for row in source.expressions)
    return all(item is None or is_default(item) for item in items)


def _item(row: exp.Expr, at: int) -> exp.Expr | None:
    values = row.expressions if isinstance(row, exp.Tuple) else [row]
    return values[at] if at < len(values) else None
