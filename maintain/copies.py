"""Copy maintenance: a row of a relation as it becomes when values of its columns change.

A copy (`schema/copies.py`) has one row for each row of its relation, under the same key. So it is
maintained like an index with all columns. A row that does not fit the new declaration is refused:
it could not be in the relation once the copy has taken its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from hornbeam_server.maintain.changes import Mutation
from hornbeam_server.query.expressions.declared import (
    GeneratedColumn,
    RowCheck,
    compile_conversion,
    generated_columns,
    row_checks,
    with_generated,
)
from hornbeam_server.schema.catalog import RELATIONS, Catalog
from hornbeam_server.schema.copies import Copy, is_generated
from hornbeam_server.schema.errors import ConstraintViolation, NotNullViolation, SqlError
from hornbeam_server.schema.model import Column, Relation
from hornbeam_server.schema.sqltext import literal_sql, shown
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.storage.codec.rows import Codecs


@dataclass(frozen=True, slots=True)
class _Part:
    """The value of a column of the copy: that of the column at `place` in rows of the relation, or
    what `convert` makes of a row. `place` None: the column is appended, and has `constant`."""

    column: Column
    place: int | None
    convert: Callable[[Row], Value] | None = None
    constant: Value = None

    def value(self, row: Row) -> Value:
        """The value of the column for a row of the relation. Raises SqlError, and NotNullViolation
        for a NULL that the column does not allow."""
        found = self.constant if self.place is None else row[self.place]
        if self.convert is not None:
            found = self._converted(found, row)
        if found is None and not self.column.nullable and not is_generated(self.column):
            raise NotNullViolation(f"{self.column.name} must not be NULL.")
        return found

    def _converted(self, before: Value, row: Row) -> Value:
        assert self.convert is not None
        try:
            return self.column.type.coerce(self.convert(row))
        except SqlError as error:
            of = f"{self.column.name} = {literal_sql(before)}"
            error.message = f"{of} cannot become {self.column.type.ddl()}: {error.message}"
            raise


@dataclass(frozen=True, slots=True)
class Converter:
    """Makes rows of a copy from rows of `relation`."""

    relation: Relation
    parts: tuple[_Part, ...]
    generated: tuple[GeneratedColumn, ...]
    checks: tuple[RowCheck, ...]

    def __call__(self, row: Row) -> Row:
        """The row as it becomes. Raises SqlError and ConstraintViolation, with the key of the row,
        if it does not fit the relation as it becomes."""
        try:
            found = with_generated(self.generated, tuple([part.value(row) for part in self.parts]))
            for column in self.generated:
                if found[column.position] is None and not column.column.nullable:
                    raise NotNullViolation(f"{column.column.name} must not be NULL.")
            for check in self.checks:
                check.require(found)
        except (SqlError, ConstraintViolation) as error:
            relation = self.relation
            key = tuple(row[i] for i in relation.key_positions)
            error.message = (
                f"A row of {relation.name} {shown(relation.primary_key, key)} does not fit the"
                f" relation as it becomes: {error.message}"
            )
            error.cure = "Change or delete the row first, or convert its value by USING."
            values = [literal_sql(value) for value in key]
            error.details |= {"relation": relation.name, "key": values}
            raise
        return found


@dataclass(frozen=True, slots=True)
class CopyProgram:
    """Maintains one copy. `key` encodes the key of a row of its relation, which is that of the row
    in the copy, too."""

    name: str
    relation: str
    key: Callable[[Row], bytes]
    convert: Converter

    def rows(self, source: Iterable[Row]) -> list[Row]:
        """The rows of the copy. Raises the errors of `Converter`."""
        return [self.convert(row) for row in source]

    def mutations(self, old: Row | None, new: Row | None) -> Sequence[Mutation]:
        """The mutation of the copy when a row of its relation changes from `old` to `new`. The old
        row of the mutation is that of the relation: it may be one that cannot be converted. Raises
        the errors of `Converter`."""
        row = old if new is None else new
        assert row is not None
        after = None if new is None else self._written(new)
        return [Mutation(self.name, self.key(row), old, after)]

    def _written(self, row: Row) -> Row:
        try:
            return self.convert(row)
        except (SqlError, ConstraintViolation) as error:
            error.cure = (
                f"{self.relation} is being altered: write values that fit before and after, or wait"
                " until the change has ended (hornbeam status: builds)."
            )
            raise


def compile_copy(catalog: Catalog, codecs: Codecs, copy: Copy) -> CopyProgram:
    """Compile the maintenance of a copy. Raises the errors of `converter`."""
    relation = catalog.schema.relation(copy.relation)
    key = codecs(relation.name).key
    return CopyProgram(copy.name, relation.name, key, converter(relation, copy))


@lru_cache(RELATIONS)
def converter(relation: Relation, copy: Copy) -> Converter:
    """Compile the conversion of rows of `relation`. Raises SqlError and its subclasses for an
    expression that is invalid, or that only DuckDB evaluates."""
    target, expressions = copy.target, dict(copy.conversions)
    parts = []
    for column in target.columns:
        place = relation.positions.get(column.name)
        sql = expressions.get(column.name)
        convert = None if sql is None else compile_conversion(sql, column, relation)
        parts.append(_Part(column, place, convert, column.value_in_older_rows))
    return Converter(relation, tuple(parts), generated_columns(target), row_checks(target))
