"""A dump as relations with rows, in the schema that it is imported into."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hornbeam_server.schema import spelling
from hornbeam_server.schema.comments import render_comments
from hornbeam_server.schema.ddl.comments import as_comment
from hornbeam_server.schema.ddl.drafts import Change, ColumnChange
from hornbeam_server.schema.ddl.load import Reading
from hornbeam_server.schema.ddl.row_order import Unit, in_order
from hornbeam_server.schema.ddl.rows import (
    Row,
    Section,
    Value,
    rows_of,
    section,
)
from hornbeam_server.schema.ddl.scan import Piece
from hornbeam_server.schema.ddl.sources import Source
from hornbeam_server.schema.graph import components
from hornbeam_server.schema.graph import parents as parents_of
from hornbeam_server.schema.model import DefaultKind, Relation, Schema
from hornbeam_server.schema.problems import Problems
from hornbeam_server.schema.types import ColumnType, Kind

_NUMBERING = {Source.MYSQL, Source.SQLITE}
"""The dialects in which NULL asks for the next number of an identity column."""


_CONVERTED = {Kind.BYTES, Kind.BOOLEAN}
"""The types whose values may be written otherwise than a load reads them."""


@dataclass(frozen=True, slots=True)
class Part:
    """The sections of one file with rows of one relation, or of relations that reference one
    another in a circle, from all files."""

    relations: tuple[Relation, ...]
    sections: tuple[Section, ...]

    @property
    def name(self) -> str:
        return ", ".join(relation.name for relation in self.relations)

    @property
    def file(self) -> str:
        return self.sections[0].piece.place.file

    def size(self) -> int:
        """The characters of the part in its file."""
        return sum(_end(each) - each.piece.start for each in self.sections)

    def units(self) -> Iterator[Unit]:
        """The rows in an order in which they can be inserted, with values as texts, or bytes for
        columns of bytes. Rows that reference one another are all in memory. Raises SchemaError."""
        names = {relation.name for relation in self.relations}
        if any(key.parent in names for r in self.relations for key in r.foreign_keys):
            yield from in_order(list(self._converted()), self.relations)
        else:
            yield from ((row,) for row in self._converted())

    def _converted(self) -> Iterator[Row]:
        types = {
            relation.name: {column.name: column.type for column in relation.columns}
            for relation in self.relations
        }
        numbers = {
            relation.name: _Numbers(
                relation, [each for each in self.sections if each.relation == relation.name]
            )
            for relation in self.relations
        }
        for written in self.sections:
            each = replace(written, columns=tuple(filter(None, written.columns)))
            of = types[each.relation]
            has_bytes = any(of[name].kind in _CONVERTED for name in each.columns)
            for row in numbers[each.relation].given(each, rows_of(written)):
                if has_bytes or bytes in map(type, row.values):
                    yield _row_as_types(row, of, each)
                else:
                    yield row


class _Numbers:
    """Gives a number to each row of MySQL or SQLite that has none in its identity column: the next
    one behind those of the rows before it. If no row of the relation has one, the load numbers
    them."""

    def __init__(self, relation: Relation, sections: Sequence[Section]) -> None:
        self._column = next(
            (c.name for c in relation.visible if c.default_kind is DefaultKind.IDENTITY), ""
        )
        self._given = any(self._column in each.columns for each in sections)
        self._last = 0

    def given(self, section_: Section, rows: Iterator[Row]) -> Iterator[Row]:
        """The rows, with numbers."""
        if section_.source not in _NUMBERING or not self._given:
            return rows
        return self._numbered(rows)

    def _numbered(self, rows: Iterator[Row]) -> Iterator[Row]:
        for row in rows:
            if self._column not in row.columns:
                columns, values = (*row.columns, self._column), [*row.values, None]
                row = replace(row, columns=columns, values=values)  # noqa: PLW2901
            at = row.columns.index(self._column)
            value = row.values[at]
            if value is None:
                self._last += 1
                values = [*row.values[:at], str(self._last), *row.values[at + 1 :]]
                yield replace(row, values=values)
                continue
            if isinstance(value, str) and value.isdecimal():
                self._last = max(self._last, int(value))
            yield row


def _row_as_types(row: Row, types: Mapping[str, ColumnType], each: Section) -> Row:
    """The row with bytes in columns of bytes, and only there. Raises SchemaError."""
    try:
        values = [
            _as_type(value, types[column], each)
            for column, value in zip(row.columns, row.values, strict=True)
        ]
    except ValueError as error:
        place = replace(each.piece.place, line=row.line, column=1)
        raise place.error(
            f"A row of {each.relation} cannot be read: {error}.", cure="Correct the value."
        ) from None
    return replace(row, values=values)


def without_values(text: str, rows: Sequence[Piece]) -> str:
    """The text of a file without the values of its rows, and with the same lines."""
    kept: list[str] = []
    at = 0
    for piece in rows:
        start, end = piece.rows or (piece.start + len(piece.words[0]), piece.end)
        kept += [text[at:start], "\n" * text.count("\n", start, end)]
        at = end
    return "".join([*kept, text[at:]])


def _end(section_: Section) -> int:
    return section_.piece.rows[1] if section_.piece.rows else section_.piece.end


def _as_type(value: Value, type_: ColumnType, each: Section) -> Value:
    """A value of a dump as a load reads it. Raises ValueError, SchemaError."""
    if value is None:
        return None
    if type_.kind is Kind.BOOLEAN and each.source is Source.SQLSERVER:
        return _bit(value)
    if type_.kind is Kind.BYTES:
        if isinstance(value, bytes):
            return value
        if each.source is Source.POSTGRES:
            return spelling.sql_bytes(value)
        return each.bytes_of(value)
    if isinstance(value, bytes):
        return value.decode() if type_.kind is Kind.TEXT else str(int.from_bytes(value))
    return value


def _bit(value: str | bytes) -> str | bytes:
    """A value for a BIT of SQL Server, where every number but 0 is 1."""
    number = isinstance(value, str) and re.fullmatch(r"[-+]?\d+", value)
    return str(int(int(value) != 0)) if number else value


def comments_text(readings: Sequence[Reading], whole: Schema) -> str:
    """COMMENT ON for the comments of files, whose schemas are merged into `whole`."""
    drafts = (draft for reading in readings for draft in reading.comments)
    return render_comments(map(as_comment, drafts), whole.spaces)


def merged(current: Schema, added: Schema) -> Schema:
    """The schema in force with the declarations of a file, which replace those of equal names."""
    relations = {relation.name: relation for relation in (*current.relations, *added.relations)}
    indexes = {index.name: index for index in (*current.indexes, *added.indexes)}
    views = {view.name: view for view in (*current.views, *added.views)}
    types = {each.full: each for each in (*current.enumerations, *added.enumerations)}
    domains = {each.name: each for each in (*current.domains, *added.domains)}
    sequences = {each.name: each for each in (*current.sequences, *added.sequences)}
    return Schema(
        tuple(relations.values()),
        tuple(indexes.values()),
        tuple(views.values()),
        tuple(sequences.values()),
        tuple(dict.fromkeys((*current.spaces, *added.spaces))),
        tuple(types.values()),
        tuple(domains.values()),
    )


def parts(
    readings: Sequence[Reading], schema: Schema, declared: Sequence[Reading] = ()
) -> list[Part]:
    """The rows of files, in the order in which they can be inserted into the relations of
    `schema`. `declared` are files whose declarations count, without their rows. Raises SchemaError
    with all problems."""
    problems = Problems()
    found: dict[str, list[Section]] = {}
    divided = {part: whole for each in (*declared, *readings) for part, whole in each.parts.items()}
    for reading in readings:
        for piece in reading.rows:
            with problems.collect():
                each = section(piece, reading.source)
                if each is not None:
                    name = divided.get(each.relation, each.relation)
                    each = replace(each, relation=name, encoding=reading.encoding)
                    changes = [c for c in reading.changes if c.relation == each.relation]
                    whole = _with_columns(each, readings, _relation(each, schema), changes)
                    found.setdefault(each.relation, []).append(whole)
    problems.require_none()
    above = {
        name: [parent for parent in parents if parent in found]
        for name, parents in parents_of(schema).items()
        if name in found
    }
    return [part for names in components(above) for part in _parts_of(names, found, schema)]


def _parts_of(
    names: Sequence[str], found: Mapping[str, Sequence[Section]], schema: Schema
) -> Iterator[Part]:
    """The parts of one relation, or of relations in a circle."""
    relations = tuple(map(schema.relation, names))
    sections = [each for name in names for each in found[name]]
    if len(names) > 1:
        yield Part(relations, tuple(sections))
        return
    for file in dict.fromkeys(each.piece.place.file for each in sections):
        yield Part(relations, tuple(each for each in sections if each.piece.place.file == file))


def _relation(each: Section, schema: Schema) -> Relation:
    if each.relation not in schema:
        raise each.piece.place.error(
            f"There are rows of {each.relation}, which is not a relation of this schema.",
            cure=f"Relations are: {', '.join(schema.names)}.",
            name=each.relation,
        )
    return schema.relation(each.relation)


def _with_columns(
    each: Section,
    readings: Sequence[Reading],
    relation: Relation,
    changes: Sequence[ColumnChange],
) -> Section:
    """The section with its columns: those that it names, or those of the table in the file, which
    an edited schema may have more of. `changes` are those of the relation in the file. A column
    that the file drops behind the rows is "", and its values are left out."""
    later = [change for change in changes if _is_behind(change, each)]
    for change in later:
        if change.change is Change.CONVERTED:
            raise change.place.error(
                f"{relation.name}.{change.column} has rows before it gets another type USING an"
                " expression, which is not computed for them.",
                cure="Leave USING out, and write the values of the new type.",
                name=change.column,
            )
    names = each.columns or _columns_before(
        later,
        next(
            (
                _written(reading.schema.relation(each.relation), each.source)
                for reading in readings
                if each.relation in reading.schema
            ),
            _written(relation, each.source),
        ),
    )
    dropped = {change.column for change in later if change.change is Change.DROPPED}
    kept = tuple("" if name in dropped else name for name in names)
    for name in filter(None, kept):
        if name not in relation.visible_names:
            raise each.piece.place.error(
                f"{relation.name} has no column {name}, which its rows have.",
                cure=f"Its columns are: {', '.join(relation.visible_names)}.",
                name=name,
            )
    return replace(each, columns=kept)


def _written(relation: Relation, source: Source) -> tuple[str, ...]:
    """The columns of rows that name none: SQLite gives no values to generated ones."""
    generated = {column.name for column in relation.generated} if source is Source.SQLITE else ()
    return tuple(name for name in relation.visible_names if name not in generated)


def _is_behind(change: ColumnChange, each: Section) -> bool:
    at, rows = change.place, each.piece.place
    return (at.line, at.column) > (rows.line, rows.column)


def _columns_before(later: Sequence[ColumnChange], names: Sequence[str]) -> tuple[str, ...]:
    """The columns of a table before changes, from those after them."""
    found = list(names)
    for change in reversed(later):
        if change.change is Change.DROPPED:
            found.insert(change.position, change.column)
        elif change.column in found:
            found.remove(change.column)
    return tuple(found)
