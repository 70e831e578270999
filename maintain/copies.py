"""Copy maintenance: a row of a relation as it becomes when values of its columns change.

A copy (`schema/copies.py`) has one row for each row of its relation, under the same key, or under
another one, which no two rows of the relation share (`Copy.key_index`). So it is maintained like an
index with all columns. A row that does not fit the new declaration is refused:
it could not be in the relation once the copy has taken its place.

A column that numbers the rows takes another number whenever the row is written to the copy: by the
node that fills the copy, and by each transaction. The copy is not read before it is the relation,
so only the last number of a row counts, and no two rows have the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from hornbeam_server.maintain.changes import Change, Mutation
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
from hornbeam_server.schema.rows import has_null, projection
from hornbeam_server.schema.sqltext import literal_sql, shown
from hornbeam_server.schema.turns import chunks, turn
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.storage.codec.rows import Codecs

Drawn = Mapping[str, Value]
"""The values of the columns of a copy that take numbers, for one row."""
Draw = Callable[[Copy], Awaitable[Drawn]]
"""Takes the numbers for one row. Raises LimitExceeded when a counter has no more."""
_NOTHING: Drawn = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Part:
    """The value of a column of the copy: that of the column at `place` in rows of the relation, or
    what `convert` makes of a row. `place` None: the column is appended, and has `constant`, or the
    value that is drawn for the row."""

    column: Column
    place: int | None
    convert: Callable[[Row], Value] | None = None
    constant: Value = None

    def value(self, row: Row, drawn: Drawn) -> Value:
        """The value of the column for a row of the relation. Raises SqlError, and NotNullViolation
        for a NULL that the column does not allow."""
        if self.place is None:
            found = drawn.get(self.column.name, self.constant)
        else:
            found = row[self.place]
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

    def __call__(self, row: Row, drawn: Drawn) -> Row:
        """The row as it becomes, with the values `drawn` for it. Raises SqlError and
        ConstraintViolation, with the key of the row, if it does not fit the relation as it
        becomes."""
        try:
            values = tuple([part.value(row, drawn) for part in self.parts])
            found = with_generated(self.generated, values)
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
            error.details |= {"relation": relation.name, "key": [literal_sql(k) for k in key]}
            raise
        return found


@dataclass(frozen=True, slots=True)
class CopyProgram:
    """Maintains one copy. `key` encodes the key in the copy of a row of its relation; None for a
    row without it, which cannot be in the copy."""

    copy: Copy
    key: Callable[[Row], bytes | None]
    convert: Converter

    async def rows(self, source: Iterable[Row], draw: Draw) -> list[Row]:
        """The rows of the copy. Raises the errors of `Converter` and of `draw`."""
        return [self.convert(row, await self._drawn(draw)) for row in source]

    async def mutations(self, changes: Iterable[Change], draw: Draw) -> list[Mutation]:
        """The mutations of the copy when rows of its relation change, one for each key: a row may
        take the key of another one that leaves it. The old row of a mutation is that of the
        relation: it may be one that cannot be converted. Raises the errors of `Converter` and of
        `draw`."""
        name, found = self.copy.name, dict[bytes, Mutation]()
        for some in chunks(list(changes)):
            for _, old, new in some:
                left = None if old is None else self.key(old)
                if left is not None:
                    found.setdefault(left, Mutation(name, left, old, None))
                if new is None:
                    continue
                row, key = self._written(new, await self._drawn(draw)), self.key(new)
                assert key is not None, "a row without its key does not fit"
                found[key] = Mutation(name, key, old, row)
            await turn(some)
        return list(found.values())

    async def _drawn(self, draw: Draw) -> Drawn:
        return await draw(self.copy) if self.copy.draws else _NOTHING

    def _written(self, row: Row, drawn: Drawn) -> Row:
        try:
            return self.convert(row, drawn)
        except (SqlError, ConstraintViolation) as error:
            error.cure = (
                f"{self.copy.relation} is being altered: write values that fit before and after, or"
                " wait until the change has ended (hornbeam status: builds)."
            )
            raise


def compile_copy(catalog: Catalog, codecs: Codecs, copy: Copy) -> CopyProgram:
    """Compile the maintenance of a copy. Raises the errors of `converter`."""
    relation, codec = catalog.schema.relation(copy.relation), codecs(copy.name)
    key_values = projection([relation.positions[name] for name in copy.target.primary_key])

    def key(row: Row) -> bytes | None:
        values = key_values(row)
        return None if has_null(values) else codec.key_of(values)

    return CopyProgram(copy, key, converter(relation, copy))


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
