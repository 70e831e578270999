"""Identities of columns as changes of a schema, for `node/alterations.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NoReturn, Protocol

from hornbeam_server.schema.ddl.alterations import ChangeIdentity, SetIdentity, SetOptions, Text
from hornbeam_server.schema.ddl.sequence_options import changed_identity
from hornbeam_server.schema.domains import with_own_default
from hornbeam_server.schema.errors import SchemaError
from hornbeam_server.schema.model import Column, DefaultKind, Schema, sequence_of_column


class Work(Protocol):
    """A statement that is carried out on `schema`."""

    schema: Schema

    def column(self, table: str, name: str) -> Column:
        """A column. Raises SchemaError."""

    def change(self, table: str, name: str, change: Callable[[Column], Column]) -> None:
        """Change a column. Raises SchemaError."""

    def declared(self, prefix: str, text: Text) -> Column:
        """The column that is declared by `prefix` and `text`."""

    def refused(self, text: Text, offset: int, what: str, cure: str) -> SchemaError:
        """The error for a part of the statement, at `offset` of `text`."""

    def refused_option(self, text: Text, what: str, offset: int, cure: str) -> NoReturn:
        """Raises the error of `refused`."""

    def error(self, message: str, cure: str, name: str = "") -> SchemaError: ...


def set_identity(work: Work, table: str, action: SetIdentity) -> None:
    """Carry ADD GENERATED … AS IDENTITY or DROP IDENTITY out. Raises SchemaError."""
    column = work.column(table, action.column)
    identified = column.default_kind is DefaultKind.IDENTITY
    if action.identity is None:
        if not identified and not action.guarded:
            raise work.error(f"{table}.{column.name} is no identity column.", "")
        if identified:
            work.change(table, column.name, undefaulted)
        return
    if column.nullable:
        raise work.error(f"{table}.{column.name} allows NULL.", "Write SET NOT NULL first.")
    if identified:
        raise work.error(f"{table}.{column.name} is an identity column already.", "")
    if column.default is not None:
        raise work.error(f"{table}.{column.name} has a default.", "Write DROP DEFAULT first.")
    default = work.declared(f"{column.type.ddl()} ", action.identity).default
    work.change(table, column.name, lambda c: with_own_default(c, default, has_default=True))


def change_identity(work: Work, table: str, action: ChangeIdentity) -> None:
    """Carry SET GENERATED … and SET of the options of an identity out. Raises SchemaError."""
    column = work.column(table, action.column)
    if column.default is None or column.default_kind is not DefaultKind.IDENTITY:
        raise work.error(f"{table}.{column.name} is no identity column.", "")
    refuse = partial(work.refused_option, action.options)
    identity = changed_identity(action.options.sql, column.default.identity, refuse)
    default = replace(column.default, identity=identity)
    work.change(table, column.name, lambda c: with_own_default(c, default, has_default=True))


def change_sequence(work: Work, name: str, action: SetOptions) -> None:
    """Carry ALTER SEQUENCE of the sequence of an identity column out. Raises SchemaError."""
    for relation in work.schema.relations:
        for column in relation.visible:
            if column.default_kind is not DefaultKind.IDENTITY:
                continue
            if sequence_of_column(relation.name, column.name) == name:
                change_identity(work, relation.name, ChangeIdentity(column.name, action.options))
                return


def undefaulted(column: Column) -> Column:
    """The column without its own default."""
    return with_own_default(column, None, has_default=False)
