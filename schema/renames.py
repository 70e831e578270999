"""Renames of relations, columns, sequences and schemas, which a comparison of two schemas cannot
see.

A rename changes names only. A relation that gets a name in another schema moves there, with its
indexes and the sequences that its columns own. `renamed_schema` changes names in relations, keys
and indexes; texts of SQL are changed by a function that the caller gives, because names in them
must be resolved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hornbeam_server.schema.comments import Comment, Commented, Key, moved_comments
from hornbeam_server.schema.counters import SEQUENCE
from hornbeam_server.schema.domains import domain_names, with_renamed_column
from hornbeam_server.schema.enumerations import Enumeration
from hornbeam_server.schema.errors import InvalidRequest
from hornbeam_server.schema.model import (
    PUBLIC,
    Check,
    Column,
    DeclaredIndex,
    DeclaredSequence,
    DeclaredView,
    DefaultKind,
    ForeignKey,
    KeyExpression,
    KeyPart,
    Relation,
    Schema,
    sequence_of_column,
)
from hornbeam_server.schema.namespaces import (
    SYSTEM_SCHEMAS,
    bare,
    beside,
    default_key_name,
    joined,
    key_name,
    parted,
    relations_by_key,
)
from hornbeam_server.schema.sequences import sequences_in, with_renamed_sequence


@dataclass(frozen=True, slots=True)
class Rename:
    """Column `column` of `relation` gets the name `new`; without `column`, the relation or declared
    view `relation` itself gets it; with `SEQUENCE` as relation, the sequence `column`; with
    `space`, the schema `relation` (`namespaces.py`); with `type`, the label `column` of the type
    `relation`, or the type or domain itself."""

    relation: str
    column: str
    new: str
    space: bool = False
    type: bool = False

    def __str__(self) -> str:
        return f"{'schema ' * self.space}{'type ' * self.type}{self.what}={self.new}"

    @property
    def what(self) -> str:
        """What gets the new name."""
        return ".".join(filter(None, (self.relation, self.column)))

    @property
    def kind(self) -> str:
        """The kind of what gets the new name, for display."""
        if self.relation == SEQUENCE:
            return "sequence"
        if self.space:
            return "schema"
        if self.type:
            return "label" if self.column else "type"
        return "column" if self.column else "relation or view"

    def require_possible(self, schema: Schema) -> None:
        """Raises InvalidRequest unless `schema` has what gets the new name, and nothing of the new
        name beside it."""
        if self.space:
            self._require_space(schema)
            return
        if self.type:
            self._require_type(schema)
            return
        if self.relation == SEQUENCE:
            self._require_sequence(schema)
            return
        if self.column:
            self._require_column(schema)
            return
        views = [view.name for view in schema.views]
        if self.relation not in schema and self.relation not in views:
            raise InvalidRequest(
                f"{self} renames {self.relation}, which is no relation or view in force.",
                cure=f"There are: {', '.join([*schema.names, *views])}.",
            )
        indexes = (index.name for index in schema.indexes)
        taken = {*schema.names, *views, *indexes, *relations_by_key(schema)}
        for new in (self.new, *self.moved_names(schema).values()):
            if new in taken:
                raise InvalidRequest(
                    f"{self}: there is a relation, view or index {new} already.",
                    cure="Choose another name, or give that one another name first.",
                )

    def _require_space(self, schema: Schema) -> None:
        if self.relation not in schema.spaces:
            raise InvalidRequest(
                f"{self} renames {self.relation}, which is no schema besides {PUBLIC}.",
                cure=f"Schemas are: {', '.join((PUBLIC, *schema.spaces))}.",
            )
        if self.new in {PUBLIC, *schema.spaces, *SYSTEM_SCHEMAS}:
            raise InvalidRequest(
                f"There is a schema {self.new} already.", cure="Choose another name."
            )

    def _require_type(self, schema: Schema) -> None:
        types = {each.full: each for each in schema.enumerations}
        known = (*types, *(() if self.column else domain_names(schema)))
        if self.relation not in known:
            raise InvalidRequest(
                f"{self}: {self.relation} is not a type in force.",
                cure=f"Types are: {', '.join(known) or 'none'}.",
            )
        if not self.column:
            if self.new in known:
                raise InvalidRequest(
                    f"There is a type {self.new} already.", cure="Choose another name."
                )
            return
        labels = types[self.relation].labels
        if self.column not in labels:
            raise InvalidRequest(
                f"{self.relation} has no label {self.column}.",
                cure=f"Its labels are: {', '.join(labels)}.",
            )
        if self.new in labels:
            raise InvalidRequest(
                f"{self.relation} has a label {self.new} already.", cure="Choose another label."
            )

    def changed_enumeration(self, enumeration: Enumeration, spaces: Collection[str]) -> Enumeration:
        """An enumeration after the rename, which is a type's."""
        if enumeration.full != self.relation:
            return enumeration
        if not self.column:
            space, name = parted(self.new, spaces)
            return replace(enumeration, space="" if space == PUBLIC else space, name=name)
        labels = (self.new if label == self.column else label for label in enumeration.labels)
        return replace(enumeration, labels=tuple(labels))

    def _require_column(self, schema: Schema) -> None:
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

    def stored(self, name: str) -> str:
        """The name of a relation or view after the rename."""
        if self.space:
            space, own = parted(name, (self.relation,))
            return name if space == PUBLIC else joined(self.new, own)
        return self.new if not self.column and name == self.relation else name

    def all_stored(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(map(self.stored, names))

    def _require_sequence(self, schema: Schema) -> None:
        names = [sequence.name for sequence in schema.sequences]
        if self.column not in names:
            raise InvalidRequest(
                f"{self.column} is not a sequence in force.",
                cure=f"Sequences are: {', '.join(names) or 'none'}.",
            )
        if self.new in names:
            raise InvalidRequest(
                f"There is a sequence {self.new} already.", cure="Choose another name."
            )

    def name(self, relation: str, column: str) -> str:
        """The name of a column of a relation after the rename."""
        renamed = self.column and (relation, column) == (self.relation, self.column)
        return self.new if renamed else column

    def steps(self, schema: Schema) -> Iterator[Rename]:
        """The renames that this one consists of: of all that a schema has; or of a relation, which
        takes the sequences of its columns to another schema."""
        if self.space:
            for name in (*schema.names, *(view.name for view in schema.views)):
                if (new := self.stored(name)) != name:
                    yield Rename(name, "", new)
            for sequence in schema.sequences:
                if (new := self.stored(sequence.name)) != sequence.name:
                    yield Rename(SEQUENCE, sequence.name, new)
            types = [enumeration.full for enumeration in schema.enumerations]
            for name in (*types, *domain_names(schema)):
                if (new := self.stored(name)) != name:
                    yield Rename(name, "", new, type=True)
            return
        yield self
        for sequence in schema.sequences if self.moves(schema) else ():
            if sequence.owner is not None and sequence.owner[0] == self.relation:
                new = beside(self.new, bare(sequence.name, schema.spaces), schema.spaces)
                yield Rename(SEQUENCE, sequence.name, new)

    def moves(self, schema: Schema) -> bool:
        """Does a relation or view get a name in another schema?"""
        if self.column or self.space or self.type:
            return False
        old, new = (parted(name, schema.spaces)[0] for name in (self.relation, self.new))
        return old != new

    def moved_indexes(self, schema: Schema) -> dict[str, str]:
        """The declared indexes of a relation or view that moves, with their new names."""
        indexes = (i.name for i in schema.indexes if i.relation == self.relation)
        return {
            name: beside(self.new, bare(name, schema.spaces), schema.spaces)
            for name in (indexes if self.moves(schema) else ())
        }

    def moved_names(self, schema: Schema) -> dict[str, str]:
        """The declared indexes and the primary key of a relation or view that moves, with their new
        names."""
        moved = self.moved_indexes(schema)
        if self.relation not in schema or not self.moves(schema):
            return moved
        name = key_name(schema.relation(self.relation), schema.spaces)
        old, new = (beside(each, name, schema.spaces) for each in (self.relation, self.new))
        return {**moved, old: new} if name else moved

    def names(self, relation: str, columns: Iterable[str]) -> tuple[str, ...]:
        return tuple(self.name(relation, column) for column in columns)

    def parts(self, relation: str, parts: Iterable[KeyPart]) -> tuple[KeyPart, ...]:
        return tuple(replace(part, column=self.name(relation, part.column)) for part in parts)

    def foreign_key(self, relation: str, key: ForeignKey) -> ForeignKey:
        return replace(
            key,
            parent=self.stored(key.parent),
            columns=self.names(relation, key.columns),
            parent_columns=self.names(key.parent, key.parent_columns),
        )


def renamed_counts(
    counts: Iterable[tuple[str, int]], renames: Iterable[Rename]
) -> tuple[tuple[str, int], ...]:
    """Counts of rows by the names after the renames."""
    for rename in renames:
        counts = [(rename.stored(name), count) for name, count in counts]
    return tuple(counts)


_TYPES = (Commented.TYPE, Commented.DOMAIN, Commented.DOMAIN_CONSTRAINT)


def renamed_comments(
    comments: Sequence[Comment], rename: Rename, schema: Schema
) -> tuple[Comment, ...]:
    """Comments of objects of `schema` by their keys after a rename."""
    other = rename.space or rename.type
    names = {} if other else {**renamed_sequences(schema, rename), **rename.moved_names(schema)}
    keys = (comment.on for comment in comments)
    return moved_comments(comments, ((key, _renamed_key(key, rename, names)) for key in keys))


def _renamed_key(key: Key, rename: Rename, names: Mapping[str, str]) -> Key:
    """`names` are the new names of sequences and indexes."""
    match key.kind:
        case Commented.SCHEMA:
            return replace(key, name=rename.new) if _is_same(key, rename.space, rename) else key
        case Commented.SEQUENCE | Commented.INDEX:
            return replace(key, name=names.get(key.name, key.name))
        case Commented.COLUMN if rename.column and not rename.type:
            return replace(key, member=rename.name(key.name, key.member))
        case kind if kind in _TYPES:
            whole = rename.type and not rename.column
            return replace(key, name=rename.new) if _is_same(key, whole, rename) else key
        case Commented.DATABASE:
            return key
        case _:
            whole = not (rename.space or rename.type or rename.column)
            return replace(key, name=rename.new) if _is_same(key, whole, rename) else key


def _is_same(key: Key, applies: bool, rename: Rename) -> bool:
    return applies and key.name == rename.relation


Expression = Callable[[str, Relation], str]
"""An expression over a relation with the new names."""
Select = Callable[[DeclaredView], str]
"""The SELECT of a view with the new names."""


def renamed_schema(
    schema: Schema, rename: Rename, expression: Expression, select: Select
) -> Schema:
    """`schema` after a rename, which is no schema's. Indexes and constraints keep their names; in
    another schema, indexes have them there."""
    names = renamed_sequences(schema, rename)
    relations = (_relation(each, rename, expression, schema.spaces) for each in schema.relations)
    return replace(
        schema,
        relations=tuple(
            replace(r, columns=tuple(_drawing(c, names) for c in r.columns)) for r in relations
        ),
        indexes=tuple(_index(index, schema, rename, expression) for index in schema.indexes),
        views=tuple(
            replace(view, name=rename.stored(view.name), sql=select(view)) for view in schema.views
        ),
        sequences=tuple(_sequence(sequence, rename) for sequence in schema.sequences),
    )


def _sequence(sequence: DeclaredSequence, rename: Rename) -> DeclaredSequence:
    owner = sequence.owner
    if owner is not None:
        owner = rename.stored(owner[0]), rename.name(*owner)
    return replace(sequence, name=rename.name(SEQUENCE, sequence.name), owner=owner)


def renamed_sequences(schema: Schema, rename: Rename) -> dict[str, str]:
    """The new names of sequences: an identity column's has the names of relation and column."""
    if rename.relation == SEQUENCE:
        return {rename.column: rename.new}
    if rename.relation not in schema:
        return {}
    relation = schema.relation(rename.relation)
    names = {
        sequence_of_column(relation.name, column.name): sequence_of_column(
            rename.stored(relation.name), rename.name(relation.name, column.name)
        )
        for column in relation.visible
        if column.default_kind is DefaultKind.IDENTITY
    }
    declared = {sequence.name for sequence in schema.sequences}
    return {old: new for old, new in names.items() if old != new and old not in declared}


def _drawing(column: Column, names: Mapping[str, str]) -> Column:
    """The column, whose default has the new names of sequences."""
    default = column.default
    if default is None or not names.keys() & set(sequences_in(default.sql)):
        return column
    sql = default.sql
    for old, new in names.items():
        sql = with_renamed_sequence(sql, old, new)
    return replace(column, default=replace(default, sql=sql))


def _relation(
    relation: Relation, rename: Rename, expression: Expression, spaces: Collection[str]
) -> Relation:
    keys = tuple(rename.foreign_key(relation.name, key) for key in relation.foreign_keys)
    if relation.name != rename.relation:
        return replace(relation, foreign_keys=keys)
    name, key = rename.stored(relation.name), key_name(relation, spaces)
    return replace(
        relation,
        name=name,
        key_name="" if key == default_key_name(name, spaces) else key,
        columns=tuple(_column(column, relation, rename, expression) for column in relation.columns),
        primary_key=rename.names(relation.name, relation.primary_key),
        foreign_keys=keys,
        checks=tuple(_check(check, relation, rename, expression) for check in relation.checks),
    )


def _check(check: Check, relation: Relation, rename: Rename, expression: Expression) -> Check:
    if check.origin is not None:
        check = with_renamed_column(check, rename.name(relation.name, check.origin.column))
    return replace(check, sql=expression(check.sql, relation))


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
        name=rename.moved_indexes(schema).get(index.name, index.name),
        relation=rename.stored(index.relation),
        columns=rename.parts(index.relation, index.columns),
        include=rename.names(index.relation, index.include),
    )
    if index.is_whole or index.relation != rename.stored(rename.relation):
        return index
    relation = schema.relation(rename.relation)
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
