"""Renames of relations and columns: what a comparison of two schemas cannot see.

A rename changes names only. `renamed_schema` changes them in relations, keys and indexes; texts of
SQL are changed by a function that the caller gives, because names in them must be resolved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from hornbeam_server.schema.errors import InvalidRequest
from hornbeam_server.schema.model import (
    Column,
    DeclaredIndex,
    DeclaredView,
    DefaultKind,
    ForeignKey,
    KeyExpression,
    KeyPart,
    Relation,
    Schema,
)


@dataclass(frozen=True, slots=True)
class Rename:
    """Column `column` of `relation` gets the name `new`."""

    relation: str
    column: str
    new: str

    def __str__(self) -> str:
        return f"{self.relation}.{self.column}={self.new}"

    def require_possible(self, schema: Schema) -> None:
        """Raises InvalidRequest unless `schema` has the column, and no column of the new name."""
        if self.relation not in schema:
            raise InvalidRequest(
                f"{self} renames a column of {self.relation}, which is not a relation in force.",
                cure=f"Relations are: {', '.join(schema.names)}.",
            )
        relation = schema.relation(self.relation)
        if self.column not in relation.visible_names:
            raise InvalidRequest(
                f"{self}: {self.relation} has no column {self.column}.",
                cure=f"Its columns are: {', '.join(relation.visible_names)}.",
            )
        if self.new in relation.column_names:
            raise InvalidRequest(
                f"{self}: {self.relation} has a column {self.new} already.",
                cure="Choose another name.",
            )

    def name(self, relation: str, column: str) -> str:
        """The name of a column of a relation after the rename."""
        return self.new if (relation, column) == (self.relation, self.column) else column

    def names(self, relation: str, columns: Iterable[str]) -> tuple[str, ...]:
        return tuple(self.name(relation, column) for column in columns)

    def parts(self, relation: str, parts: Iterable[KeyPart]) -> tuple[KeyPart, ...]:
        return tuple(replace(part, column=self.name(relation, part.column)) for part in parts)

    def foreign_key(self, relation: str, key: ForeignKey) -> ForeignKey:
        return replace(
            key,
            columns=self.names(relation, key.columns),
            parent_columns=self.names(key.parent, key.parent_columns),
        )


Expression = Callable[[str, Relation], str]
"""An expression over a relation with the new names."""
Select = Callable[[DeclaredView], str]
"""The SELECT of a view with the new names."""


def renamed_schema(
    schema: Schema, rename: Rename, expression: Expression, select: Select
) -> Schema:
    """`schema` after a rename. Indexes and constraints keep their names."""
    return replace(
        schema,
        relations=tuple(_relation(r, rename, expression) for r in schema.relations),
        indexes=tuple(_index(index, schema, rename, expression) for index in schema.indexes),
        views=tuple(replace(view, sql=select(view)) for view in schema.views),
    )


def _relation(relation: Relation, rename: Rename, expression: Expression) -> Relation:
    keys = tuple(rename.foreign_key(relation.name, key) for key in relation.foreign_keys)
    if relation.name != rename.relation:
        return replace(relation, foreign_keys=keys)
    return replace(
        relation,
        columns=tuple(_column(column, relation, rename, expression) for column in relation.columns),
        primary_key=rename.names(relation.name, relation.primary_key),
        foreign_keys=keys,
        checks=tuple(
            replace(check, sql=expression(check.sql, relation)) for check in relation.checks
        ),
    )


def _column(column: Column, relation: Relation, rename: Rename, expression: Expression) -> Column:
    named = replace(column, name=rename.name(relation.name, column.name))
    default = column.default
    if default is None or default.kind is not DefaultKind.GENERATED:
        return named
    return replace(named, default=replace(default, sql=expression(default.sql, relation)))


def _index(
    index: DeclaredIndex, schema: Schema, rename: Rename, expression: Expression
) -> DeclaredIndex:
    index = replace(
        index,
        columns=rename.parts(index.relation, index.columns),
        include=rename.names(index.relation, index.include),
    )
    if index.relation != rename.relation or index.is_whole:
        return index
    relation = schema.relation(index.relation)
    texts = {each.column: expression(each.sql, relation) for each in index.expressions}
    return replace(
        index,
        where=expression(index.where, relation) if index.where else "",
        columns=renamed_expressions(index.columns, texts),
        expressions=tuple(
            KeyExpression(f"({sql})", sql)
            for sql in (texts[each.column] for each in index.expressions)
        ),
    )


def renamed_expressions(parts: Iterable[KeyPart], texts: Mapping[str, str]) -> tuple[KeyPart, ...]:
    """The parts of an index whose expressions, by their names, have other `texts`."""
    return tuple(
        replace(part, column=f"({texts[part.column]})") if part.column in texts else part
        for part in parts
    )
