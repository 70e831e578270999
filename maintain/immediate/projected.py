"""Immediate views without aggregates: filtered and projected joins.

Each row of the fact gives at most one row of the view, under the key of the fact. So the view needs
no cells: a transaction that changes what a row of the fact contributes excludes all others that do
(`lock_joined`), and writes the row of the view like any other row, with tombstones and old values.
Reads, recovery, indexes and own writes are those of ordinary rows.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import lru_cache

from hornbeam_server.maintain.deltas.algebra import Aggregate, Union, walk
from hornbeam_server.maintain.deltas.program import Translated, translated, unlike
from hornbeam_server.maintain.deltas.relations import Field
from hornbeam_server.maintain.deltas.rows.maps import RowMap
from hornbeam_server.maintain.immediate.definition import (
    MAX_KEPT,
    Definition,
    define,
    define_stored,
)
from hornbeam_server.maintain.immediate.program import (
    StarProgram,
    compile_immediate,
    row_map,
    walk_of,
)
from hornbeam_server.maintain.immediate.stars import Star, star_of
from hornbeam_server.maintain.paths import BaseRows
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.model import Column, DeclaredView, KeyPart
from hornbeam_server.schema.turns import chunks, turn
from hornbeam_server.schema.types import Row
from hornbeam_server.schema.views import ImmediateView, ProjectedView, TransactionalView
from hornbeam_server.storage.codec.rows import Codecs
from hornbeam_server.storage.snapshot import RowReader


@dataclass(frozen=True)
class ProjectedDefinition:
    """The parts of the SELECT of a view without aggregates. `columns` are expressions over the
    fields of the star, as SQL, those of hidden columns included."""

    view: ProjectedView
    sql: str
    star: Star
    columns: tuple[tuple[str, Field], ...]
    where: tuple[str, ...]

    @property
    def checked_sql(self) -> str:
        """The SELECT whose rows verification compares with the rows of the view."""
        return self.sql


@dataclass(frozen=True, slots=True, eq=False)
class ProjectedProgram(StarProgram):
    """Maintains the rows of one view without aggregates. `map` projects a joined row."""

    effect = "write its row in the view"

    map: RowMap

    async def pairs(self, base: BaseRows) -> list[tuple[Row | None, Row | None]]:
        """The rows of the view before and after, for each row of the fact that is affected."""
        joined = await self.joined(base)
        found: list[tuple[Row | None, Row | None]] = []
        for keys in chunks(list(joined.before.keys() | joined.after.keys())):
            found += [
                (self._row(joined.before.get(key)), self._row(joined.after.get(key)))
                for key in keys
            ]
            await turn(keys)
        return found

    def _row(self, row: Row | None) -> Row | None:
        return None if row is None else self.map.row(row)

    async def all_rows(
        self, codecs: Codecs, reader: RowReader, scanned: Callable[[int], None] = lambda _: None
    ) -> AsyncGenerator[list[Row], None]:
        """Batches of all rows of the view, from the relations. `scanned` is called with the rows of
        the fact that were read so far. Raises the reader's errors."""
        count = 0
        key_values = codecs(self.fact).key_values
        async with aclosing(reader.scan(self.fact)) as batches:
            async for batch in batches:
                for rows in chunks(batch):
                    yield self.map.rows(await self.joined_to(rows, key_values, reader))
                    await turn(rows)
                count += len(batch)
                scanned(count)


AnyDefinition = Definition | ProjectedDefinition


def define_any(declared: DeclaredView, catalog: Catalog) -> AnyDefinition:
    """The definition of a declared view that transactions maintain. Raises the binder's errors, and
    Unsupported with the reason and a cure."""
    found = translated(declared, catalog)
    if any(isinstance(node, Aggregate | Union) for node in walk(found.result)):
        return define(declared, catalog, found)
    return _define_projected(declared, found, catalog)


def define_any_stored(view: TransactionalView, catalog: Catalog) -> AnyDefinition:
    """The definition of a stored view of either kind (`define_stored`)."""
    if isinstance(view, ImmediateView):
        return define_stored(view, catalog)
    return _defined(view, Catalog(0, catalog.schema, catalog.forest))


@lru_cache(MAX_KEPT)
def _defined(view: ProjectedView, catalog: Catalog) -> AnyDefinition:
    declared = view.declared
    for double in (False, True):
        found = translated(declared, catalog, double_quotients=double)
        definition = _define_projected(declared, found, catalog)
        if definition.view.columns == view.columns:
            return definition
    return define_any(declared, catalog)


def _define_projected(
    declared: DeclaredView, found: Translated, catalog: Catalog
) -> ProjectedDefinition:
    result, described = found.result, found.described
    star = star_of(result.input, catalog)
    fact = star.scans[0]
    fields = dict(zip(fact.columns, fact.fields, strict=True))
    keys = {c: fields[c] for c in catalog.schema.relation(fact.relation).primary_key}
    names = {
        result.passes[field.name]: column.name
        for field, column in zip(result.fields, described, strict=False)
        if field.name in result.passes
    }
    hidden: list[Field] = []
    for column, field in keys.items():
        if field.name not in names:
            taken = [*(f.name for f in described), *names.values()]
            names[field.name] = unlike(taken, f"_{column}")
            hidden.append(field)
    key = tuple(KeyPart(names[field.name]) for field in keys.values())
    view = ProjectedView(
        declared,
        star.relations,
        tuple(Column(f.name, f.type, KeyPart(f.name) not in key) for f in described),
        tuple(Column(names[field.name], field.type, nullable=False) for field in hidden),
        key,
    )
    columns = (
        *zip(result.expressions, described, strict=False),
        *((quoted(f.name), replace(f, name=names[f.name])) for f in hidden),
    )
    where = (*star.filters, *([result.where] if result.where else ()))
    return ProjectedDefinition(view, found.sql, star, columns, where)


def compile_transactional(view: TransactionalView, catalog: Catalog) -> StarProgram:
    """The program of a stored view of either kind. Raises the errors of `define_any`."""
    if isinstance(view, ProjectedView):
        return compile_projected(view, catalog)
    return compile_immediate(view, catalog)


def compile_projected(view: ProjectedView, catalog: Catalog) -> ProjectedProgram:
    """The program of a stored view. Raises the errors of `define_any`."""
    definition = define_any_stored(view, catalog)
    assert isinstance(definition, ProjectedDefinition), "the SELECT has no aggregates"
    return projected_program(definition, catalog)


def projected_program(definition: ProjectedDefinition, catalog: Catalog) -> ProjectedProgram:
    """The program of a defined view. Raises Unsupported for an expression whose value only DuckDB
    knows."""
    star = definition.star
    parts = walk_of(definition.view.name, star, catalog)
    return ProjectedProgram(*parts, row_map(star, definition.columns, definition.where, catalog))
