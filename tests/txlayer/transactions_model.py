"""A deliberately simple database: what a transaction of simple statements must do to base rows.

Rows are tuples in lists; foreign keys and UNIQUE are checked over the whole state at the end. The
model knows nothing of key encodings, locks, indexes or views.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hornbeam_server.schema.model import Action, ForeignKey, Relation, Schema
from hornbeam_server.schema.types import Row, Value
from hornbeam_server.txlayer.statements.requests import Statement

State = dict[str, list[Row]]


def visible(schema: Schema) -> Schema:
    """The schema without row identities, as the model and clients know it: relations that have one
    have the empty primary key."""
    relations = [
        replace(relation, columns=relation.visible, primary_key=relation.declared_key)
        for relation in schema.relations
    ]
    return replace(schema, relations=tuple(relations))


class Refused(Exception):
    """A constraint would be violated."""


@dataclass(frozen=True)
class Insert:
    relation: str
    row: Row

    def sql(self, schema: Schema) -> Statement:
        marks = ", ".join("?" * len(self.row))
        return Statement(f"INSERT INTO {self.relation} VALUES ({marks})", self.row)


@dataclass(frozen=True)
class Update:
    relation: str
    assign: tuple[tuple[str, Value], ...]
    where: tuple[tuple[str, Value], ...]

    def sql(self, schema: Schema) -> Statement:
        assigned = ", ".join(f"{column} = ?" for column, _ in self.assign)
        values = tuple(value for _, value in (*self.assign, *self.where))
        return Statement(f"UPDATE {self.relation} SET {assigned}{_where(self.where)}", values)


@dataclass(frozen=True)
class Delete:
    relation: str
    where: tuple[tuple[str, Value], ...]

    def sql(self, schema: Schema) -> Statement:
        values = tuple(value for _, value in self.where)
        return Statement(f"DELETE FROM {self.relation}{_where(self.where)}", values)


@dataclass(frozen=True)
class UpdateFrom:
    """UPDATE … FROM `source`: columns of `relation` take columns of the row of `source` that has
    the same values in the pairs of columns `on`."""

    relation: str
    source: str
    assign: tuple[tuple[str, str], ...]
    on: tuple[tuple[str, str], ...]

    def sql(self, schema: Schema) -> Statement:
        assigned = ", ".join(f"{column} = s.{other}" for column, other in self.assign)
        return Statement(
            f"UPDATE {self.relation} AS t SET {assigned} FROM {self.source} AS s"
            f" WHERE {_joined(self.on)}"
        )


@dataclass(frozen=True)
class UpdateByQuery:
    """UPDATE with a subquery as the value: `on` pairs columns of `relation` with the whole key of
    `source`."""

    relation: str
    source: str
    column: str
    value: str
    on: tuple[tuple[str, str], ...]

    def sql(self, schema: Schema) -> Statement:
        query = f"SELECT s.{self.value} FROM {self.source} AS s WHERE {_joined(self.on)}"
        return Statement(f"UPDATE {self.relation} AS t SET {self.column} = ({query})")


@dataclass(frozen=True)
class DeleteUsing:
    """DELETE … USING `source`: the rows that have the same values as one of `source`."""

    relation: str
    source: str
    on: tuple[tuple[str, str], ...]

    def sql(self, schema: Schema) -> Statement:
        return Statement(
            f"DELETE FROM {self.relation} AS t USING {self.source} AS s WHERE {_joined(self.on)}"
        )


@dataclass(frozen=True)
class Merge:
    """MERGE of `source`: a row that matches is deleted if its column `gone` is NULL, and otherwise
    takes columns of the source; without a match a row with columns of the source is inserted."""

    relation: str
    source: str
    on: tuple[tuple[str, str], ...]
    gone: str
    assign: tuple[tuple[str, str], ...]
    insert: tuple[tuple[str, str], ...]

    def sql(self, schema: Schema) -> Statement:
        assigned = ", ".join(f"{column} = s.{other}" for column, other in self.assign)
        values = ", ".join(f"s.{other}" for _, other in self.insert)
        return Statement(
            f"MERGE INTO {self.relation} AS t USING {self.source} AS s ON {_joined(self.on)}"
            f" WHEN MATCHED AND t.{self.gone} IS NULL THEN DELETE"
            f" WHEN MATCHED THEN UPDATE SET {assigned} WHEN NOT MATCHED THEN INSERT"
            f" ({', '.join(column for column, _ in self.insert)}) VALUES ({values})"
        )


Operation = Insert | Update | Delete | UpdateFrom | UpdateByQuery | DeleteUsing | Merge


def _joined(on: Sequence[tuple[str, str]]) -> str:
    return " AND ".join(f"t.{column} = s.{other}" for column, other in on) or "true"


def _where(conditions: Sequence[tuple[str, Value]]) -> str:
    said = " AND ".join(f"{column} = ?" for column, _ in conditions)
    return f" WHERE {said}" if said else ""


def apply(schema: Schema, before: State, operations: Sequence[Operation]) -> State:
    """The state after a transaction. Raises Refused."""
    state = {name: list(rows) for name, rows in before.items()}
    for operation in operations:
        relation = schema.relation(operation.relation)
        match operation:
            case Insert(row=row):
                _add(relation, state, [row])
            case Update(assign=assign, where=where):
                found = _matching(relation, state, where)
                pairs = [(row, _assigned(relation, row, dict(assign))) for row in found]
                _replace(schema, relation, state, pairs)
            case Delete(where=where):
                _delete(schema, relation, state, _matching(relation, state, where))
            case UpdateFrom() | UpdateByQuery():
                changed = _from_others(schema, state, operation)
                _remove(relation, state, [old for old, _ in changed])
                _add(relation, state, [new for _, new in changed])
            case DeleteUsing():
                rows = state[relation.name]
                gone = [row for row in rows if _others(schema, state, operation, row)]
                _delete(schema, relation, state, gone)
            case Merge():
                _merge(schema, state, operation)
    _check(schema, state)
    return state


def _others(
    schema: Schema, state: State, operation: UpdateFrom | UpdateByQuery | DeleteUsing, row: Row
) -> list[Row]:
    """The rows of the source that are joined to `row`."""
    target, source = schema.relation(operation.relation), schema.relation(operation.source)
    held = _values(target, row, [column for column, _ in operation.on])
    there = [other for _, other in operation.on]
    found = [other for other in state[source.name] if _values(source, other, there) == held]
    return [] if None in held else found


def _from_others(
    schema: Schema, state: State, operation: UpdateFrom | UpdateByQuery
) -> list[tuple[Row, Row]]:
    """The old and new rows of an UPDATE that takes values from other rows."""
    target, source = schema.relation(operation.relation), schema.relation(operation.source)
    pairs = (
        operation.assign
        if isinstance(operation, UpdateFrom)
        else ((operation.column, operation.value),)
    )
    columns, wanted = [column for column, _ in pairs], [other for _, other in pairs]
    changed = []
    for row in state[target.name]:
        found = [_values(source, other, wanted) for other in _others(schema, state, operation, row)]
        if isinstance(operation, UpdateByQuery) and not found:
            found = [(None,)]
        if found:
            values = min(found, key=lambda each: [(value is None, value) for value in each])
            assigned = dict(zip(columns, values, strict=True))
            changed.append((row, _assigned(target, row, assigned)))
    return changed


def _merge(schema: Schema, state: State, merge: Merge) -> None:
    target, source = schema.relation(merge.relation), schema.relation(merge.source)
    held, there = (list(names) for names in zip(*merge.on, strict=True))
    pairs, gone, new = [], [], []
    for other in state[source.name]:
        wanted = _values(source, other, there)
        rows = [row for row in state[target.name] if _values(target, row, held) == wanted]
        if not rows or None in wanted:
            given = dict(
                zip([c for c, _ in merge.insert], _given(source, other, merge.insert), strict=True)
            )
            new.append(_assigned(target, _defaults(target), given))
            continue
        assigned = dict(
            zip([c for c, _ in merge.assign], _given(source, other, merge.assign), strict=True)
        )
        for row in rows:
            if _values(target, row, [merge.gone]) == (None,):
                gone.append(row)
            else:
                pairs.append((row, _assigned(target, row, assigned)))
    written = [*gone, *(old for old, _ in pairs)]
    if len(set(written)) < len(written):
        raise Refused
    _replace(schema, target, state, pairs)
    keys = {_values(target, row, target.primary_key) for row in gone}
    gone = [r for r in state[target.name] if _values(target, r, target.primary_key) in keys]
    if len(gone) < len(keys):
        raise Refused
    _delete(schema, target, state, gone)
    _add(target, state, new)


def _given(source: Relation, row: Row, pairs: Sequence[tuple[str, str]]) -> Row:
    return _values(source, row, [other for _, other in pairs])


def _defaults(relation: Relation) -> Row:
    return tuple(None if c.default is None else c.default.value for c in relation.columns)


def _values(relation: Relation, row: Row, columns: Sequence[str]) -> Row:
    return tuple(row[relation.positions[column]] for column in columns)


def _assigned(relation: Relation, row: Row, values: dict[str, Value]) -> Row:
    return tuple(
        values.get(name, value) for name, value in zip(relation.column_names, row, strict=True)
    )


def _matching(relation: Relation, state: State, where: Sequence[tuple[str, Value]]) -> list[Row]:
    return [
        row
        for row in state[relation.name]
        if all(
            value is not None and _values(relation, row, [column]) == (value,)
            for column, value in where
        )
    ]


def _add(relation: Relation, state: State, rows: Sequence[Row]) -> None:
    for row in rows:
        if any(v is None and not c.nullable for c, v in zip(relation.columns, row, strict=True)):
            raise Refused
        key = _values(relation, row, relation.primary_key)
        if key and key in [
            _values(relation, r, relation.primary_key) for r in state[relation.name]
        ]:
            raise Refused
        state[relation.name].append(row)


def _remove(relation: Relation, state: State, rows: Sequence[Row]) -> None:
    state[relation.name] = [row for row in state[relation.name] if row not in rows]


def _delete(schema: Schema, relation: Relation, state: State, rows: Sequence[Row]) -> None:
    if not rows:
        return
    _remove(relation, state, rows)
    for child in schema.relations:
        for fk in child.foreign_keys:
            if fk.parent != relation.name or fk.on_delete is Action.RESTRICT:
                continue
            keys = [_values(relation, row, fk.parent_columns) for row in rows]
            gone = [key for key in keys if None not in key]  # NULL references nothing
            below = [r for r in state[child.name] if _values(child, r, fk.columns) in gone]
            if fk.on_delete is Action.CASCADE:
                _delete(schema, child, state, below)
            else:
                values = _set(child, fk, fk.on_delete)
                pairs = [(row, _assigned(child, row, values)) for row in below]
                _replace(schema, child, state, pairs)


def _replace(
    schema: Schema, relation: Relation, state: State, pairs: Sequence[tuple[Row, Row]]
) -> None:
    """Replace rows, and carry out ON UPDATE for the rows that reference them."""
    _remove(relation, state, [old for old, _ in pairs])
    _add(relation, state, [new for _, new in pairs])
    for child in schema.relations:
        for fk in child.foreign_keys:
            if fk.parent != relation.name or fk.on_update is Action.RESTRICT:
                continue
            keys = [[_values(relation, row, fk.parent_columns) for row in pair] for pair in pairs]
            moved = {old: new for old, new in keys if old != new and None not in old}
            below = [r for r in state[child.name] if _values(child, r, fk.columns) in moved]
            if not below:
                continue
            if fk.on_update is Action.CASCADE:
                found = [
                    dict(zip(fk.columns, moved[_values(child, r, fk.columns)], strict=True))
                    for r in below
                ]
            else:
                found = [_set(child, fk, fk.on_update)] * len(below)
            after = [
                _assigned(child, row, values) for row, values in zip(below, found, strict=True)
            ]
            _replace(schema, child, state, list(zip(below, after, strict=True)))


def _set(child: Relation, fk: ForeignKey, action: Action) -> dict[str, Value]:
    """The values of SET NULL and of SET DEFAULT, where defaults are literals."""
    if action is Action.SET_NULL:
        return dict.fromkeys(fk.columns)
    defaults = {name: child.column(name).default for name in fk.columns}
    return {name: None if each is None else each.value for name, each in defaults.items()}


def _check(schema: Schema, state: State) -> None:
    for relation in schema.relations:
        for fk in relation.foreign_keys:
            parent = schema.relation(fk.parent)
            there = {_values(parent, row, fk.parent_columns) for row in state[fk.parent]}
            held = {_values(relation, row, fk.columns) for row in state[relation.name]}
            if any(None not in key and key not in there for key in held):
                raise Refused
    for index in schema.indexes:
        if index.unique:
            relation = schema.relation(index.relation)
            columns = [part.column for part in index.columns]
            held = [_values(relation, row, columns) for row in state[relation.name]]
            whole = [values for values in held if None not in values]
            if len(set(whole)) < len(whole):
                raise Refused
